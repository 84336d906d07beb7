"""Local embeddings with all-MiniLM-L6-v2, which is shipped with the package as an int8 graph."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import EmbedderFailed, InvalidSetting
from ...domain.search.languages import Reading
from . import gloss

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_NAME = "all-minilm-l6-v2-int8"
_DIMENSION = 384
_MAX_TOKENS = 256

# No prose has more than sixteen characters per token: text beyond that would be truncated anyway,
# so do not tokenize it.
_MAX_CHARS = 16 * _MAX_TOKENS

_ERRORS_ONLY = 3
_BATCH_NICENESS = 10


class MiniLMEmbedder:
    """Embeds texts as unit vectors of 384 components, on the CPU. Thread-safe.

    The model reads the first 256 tokens of a text, about 200 English words. It is loaded on the
    first call of `embed`. `threads` texts are embedded in parallel; the default is two, or one on a
    single CPU. On Linux, batches run at low priority, so that they do not slow down a query.

    :raises InvalidSetting: for `threads` below one
    """

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise InvalidSetting("threads", "must be at least 1, or left out")
        self._threads = threads or min(2, os.cpu_count() or 1)
        self._loading = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def model(self) -> str:
        """Name of the vector space, with all that changes vectors: quantization and word lists."""
        return f"{_NAME}-gloss{gloss.VERSION}"

    @property
    def dimension(self) -> int:
        """Dimension of the vectors, known without loading the model."""
        return _DIMENSION

    def reads(self, language: str) -> Reading:
        """Return "fluent" for English, and "glossed" for the languages of the word lists."""
        if language == "english":
            return Reading.FLUENT
        return Reading.GLOSSED if language in gloss.LANGUAGES else Reading.NONE

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order.

        :raises EmbedderFailed: if the model's files are missing or damaged, or memory runs out
        """
        rows = np.empty((len(texts), _DIMENSION), dtype=np.float32)
        if not texts:
            return rows
        model = self._model()
        if len(texts) == 1 or self._threads == 1:
            for i, text in enumerate(texts):
                rows[i] = model.vector(text)
        else:
            workers = min(self._threads, len(texts))
            with ThreadPoolExecutor(workers, initializer=_step_back) as pool:
                for i, row in enumerate(pool.map(model.vector, texts)):
                    rows[i] = row
        return rows

    def _model(self) -> _Model:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = _load(Path(__file__).with_name(_NAME))
        return self._loaded


class _Model(NamedTuple):
    tokenizer: Tokenizer
    session: InferenceSession

    def vector(self, text: str) -> NDArray[np.float32]:
        # One text per run: a batch is not faster, and shares int8 scales, so that a text's
        # vector would depend on the other texts.
        ids = self.tokenizer.encode(gloss.in_english(_readable(text))).ids
        try:
            (row,) = self.session.run(None, {"input_ids": np.array(ids, dtype=np.int64)})
        # onnxruntime has no common base class of errors.
        except Exception as error:
            raise EmbedderFailed(
                f"{_NAME}: onnxruntime could not run the model ({type(error).__name__}): free "
                "some memory and try again"
            ) from error
        vector: NDArray[np.float32] = row
        return vector


def _step_back() -> None:
    # Only Linux has priorities per thread; elsewhere the id would be that of a process.
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BATCH_NICENESS)


def _load(directory: Path) -> _Model:
    try:
        return _Model(_tokenizer(directory), _session(directory))
    # Neither library has a common base class of errors.
    except Exception as error:
        raise EmbedderFailed(
            f"{_NAME}: the model cannot be loaded ({type(error).__name__}): install octopus-memory "
            "again, with its dependencies"
        ) from error


def _tokenizer(directory: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer


def _session(directory: Path) -> InferenceSession:
    # Turns off onnxruntime's telemetry, which it decides on when it is imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread per text has a third more throughput than several threads on one text.
    options.intra_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    return onnxruntime.InferenceSession(
        directory / "model.onnx", options, providers=["CPUExecutionProvider"]
    )


def _readable(text: str) -> str:
    """The beginning of the text, with lone surrogates replaced, because tokenizers need UTF-8."""
    return text.lstrip()[:_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
