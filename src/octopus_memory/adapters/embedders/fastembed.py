"""Embeddings by models that FastEmbed knows, on this machine: multilingual ones among them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import EmbedderFailed, InvalidSetting, MissingExtra

if TYPE_CHECKING:
    from fastembed import TextEmbedding

MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
"""Some 50 languages in one space; it needs no prefix that tells questions from passages."""

_MAX_CHARS = 8_192
_TOKENIZER = "tokenizer.json"
_NEEDS_PREFIX = "e5"
_PREFIX = "query: "
"""What the makers of E5 put before both texts where neither is known to be the question."""


class FastEmbedEmbedder:
    """Texts to unit vectors with a model of FastEmbed's. Thread-safe.

    The model is loaded at the first call of `embed`. Without `folder` FastEmbed downloads it into
    its own cache. A `folder` that holds the model's files (`tokenizer.json` beside the graph) is
    read and nothing is downloaded; any other is the cache. `threads` is for each text.

    :raises InvalidSetting: for a model that FastEmbed does not know, a dimension that is not the
        model's, or `threads` below one
    :raises MissingExtra: without the extra `fastembed`
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        dimension: int | None = None,
        folder: str | Path | None = None,
        threads: int | None = None,
    ) -> None:
        model = model or MODEL
        if threads is not None and threads < 1:
            raise InvalidSetting("threads", "must be at least 1, or left out")
        library = _library()
        try:
            self._dimension: int = library.get_embedding_size(model)
        except ValueError as error:
            raise InvalidSetting(
                "model", f"must be one that FastEmbed knows, which {model!r} is not"
            ) from error
        if dimension not in (None, self._dimension):
            raise InvalidSetting("dimension", f"must be {self._dimension:,}, or left out")
        self._name = model
        self._prefix = _PREFIX if _NEEDS_PREFIX in model.lower().split("/")[-1].split("-") else ""
        self._options = _options(folder, threads)
        self._loading = threading.Lock()
        self._loaded: TextEmbedding | None = None

    @property
    def model(self) -> str:
        """Names the space: FastEmbed's graph of a model may differ from another library's."""
        return f"fastembed/{self._name}"

    @property
    def dimension(self) -> int:
        """Known without loading the model."""
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit row a text, in order. A text that is too long for the model is cut at its end.

        :raises EmbedderFailed: when the model cannot be loaded or run; trying again is safe
        """
        if not texts:
            return np.empty((0, self._dimension), np.float32)
        model = self._model()
        try:
            # One text a run: in a batch, the scales of int8 graphs are shared with other texts,
            # and a text's vector would depend on them.
            found = list(model.embed([self._prefix + _readable(text) for text in texts], 1))
        # Neither FastEmbed's nor the runtime's errors have a root of their own.
        except Exception as error:
            raise EmbedderFailed(
                f"{self.model}: the model could not be run ({type(error).__name__}). Free some "
                "memory and try again"
            ) from error
        return self._unit(np.asarray(found, np.float64), len(texts))

    def _unit(self, rows: NDArray[np.float64], count: int) -> NDArray[np.float32]:
        if rows.shape != (count, self._dimension):
            raise EmbedderFailed(
                f"{self.model}: the model gave vectors of another length than "
                f"{self._dimension:,}. Check that the folder holds this model"
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise EmbedderFailed(
                f"{self.model}: the model gave a vector without a direction (zeros, NaN or "
                "infinity). Check the model's files"
            )
        unit: NDArray[np.float32] = (rows / lengths).astype(np.float32)
        return unit

    def _model(self) -> TextEmbedding:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = self._load()
        return self._loaded

    def _load(self) -> TextEmbedding:
        try:
            return _library()(self._name, **self._options)
        # Downloads, files and the runtime each fail in ways of their own.
        except Exception as error:
            raise EmbedderFailed(
                f"{self.model}: the model could not be loaded ({type(error).__name__}). Let it be "
                "downloaded once, or set embedding_folder to a folder that holds its files"
            ) from error


def _library() -> type[TextEmbedding]:
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        raise MissingExtra("fastembed", "the embedder fastembed") from error
    library: type[TextEmbedding] = TextEmbedding
    return library


def _options(folder: str | Path | None, threads: int | None) -> dict[str, Any]:
    if folder is None:
        return {"threads": threads}
    is_model = (Path(folder) / _TOKENIZER).exists()
    return {"threads": threads, "specific_model_path" if is_model else "cache_dir": str(folder)}


def _readable(text: str) -> str:
    """The text's start, with half surrogate pairs replaced: the tokenizer takes UTF-8."""
    return text.lstrip()[:_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
