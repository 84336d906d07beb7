"""Local embeddings with FastEmbed, which supports many models, some of them multilingual."""

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
"""A model for some 50 languages that needs no prefix for questions and passages."""

_MAX_CHARS = 8_192
_TOKENIZER = "tokenizer.json"
_NEEDS_PREFIX = "e5"
_PREFIX = "query: "
"""Prefix of E5 models for symmetric tasks, used for both questions and passages."""


class FastEmbedEmbedder:
    """Embeds texts with a FastEmbed model. Thread-safe.

    The model is loaded on the first call of `embed`. Without `folder`, FastEmbed downloads it into
    its own cache. If `folder` holds the model's files (`tokenizer.json` beside the graph), nothing
    is downloaded; otherwise `folder` is the cache. `threads` is the number of threads per text.

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
                "model", f"must be a FastEmbed model, which {model!r} is not"
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
        """Name of the vector space, with FastEmbed's name, because its graph may differ."""
        return f"fastembed/{self._name}"

    @property
    def dimension(self) -> int:
        """Dimension of the vectors, known without loading the model."""
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order. Texts that are too long are truncated.

        :raises EmbedderFailed: if the model cannot be loaded or run; retrying is safe
        """
        if not texts:
            return np.empty((0, self._dimension), np.float32)
        model = self._model()
        try:
            # One text per run: in a batch, int8 graphs share their scales, so that a text's
            # vector would depend on the other texts.
            found = list(model.embed([self._prefix + _readable(text) for text in texts], 1))
        # Neither FastEmbed nor onnxruntime has a common base class of errors.
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
        # Downloads, files and onnxruntime raise unrelated classes of errors.
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
    """The beginning of the text, with lone surrogates replaced, because tokenizers need UTF-8."""
    return text.lstrip()[:_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
