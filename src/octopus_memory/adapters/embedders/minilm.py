"""Embeddings without a network: all-MiniLM-L6-v2, shipped with the package as an int8 graph."""

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

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_NAME = "all-minilm-l6-v2-int8"
_DIMENSION = 384
_MAX_TOKENS = 256

# Sixteen characters a token is more than any prose has: what lies beyond would be cut anyway, and
# is not worth splitting into words first.
_MAX_CHARS = 16 * _MAX_TOKENS

_ERRORS_ONLY = 3
_BATCH_NICENESS = 10


class MiniLMEmbedder:
    """Texts to unit vectors of 384 numbers, on this machine's processor. Thread-safe.

    The model sees the first 256 tokens of a text, about 200 words of English. It is loaded at the
    first call of `embed`. `threads` texts are embedded at once; left out, two, or one where there
    is only one processor. On Linux a batch gives way to whatever else wants a processor, so that
    a query beside it, which is a single text, is not slowed down.

    :raises InvalidSetting: for `threads` below one
    """

    language = "english"
    """The only one it knows: for a question in another, recall goes more by words."""

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise InvalidSetting("threads", "must be at least 1, or left out")
        self._threads = threads or min(2, os.cpu_count() or 1)
        self._loading = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def model(self) -> str:
        """Names the graph, not only the weights: their int8 form has a space of its own."""
        return _NAME

    @property
    def dimension(self) -> int:
        """Known without loading the model."""
        return _DIMENSION

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit row a text, in order.

        :raises EmbedderFailed: when the model's files are missing or broken, or memory runs out
        """
        rows = np.empty((len(texts), _DIMENSION), dtype=np.float32)
        if not texts:
            return rows
        model = self._model()
        if len(texts) == 1 or self._threads == 1:
            for place, text in enumerate(texts):
                rows[place] = model.vector(text)
        else:
            workers = min(self._threads, len(texts))
            with ThreadPoolExecutor(workers, initializer=_step_back) as pool:
                for place, row in enumerate(pool.map(model.vector, texts)):
                    rows[place] = row
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
        # One text a run: a batch is no faster here, and int8 scales shared with other texts
        # would make the vector depend on them.
        ids = self.tokenizer.encode(_readable(text)).ids
        try:
            (row,) = self.session.run(None, {"input_ids": np.array(ids, dtype=np.int64)})
        # The runtime's errors have no root of their own.
        except Exception as error:
            raise EmbedderFailed(
                f"{_NAME}: onnxruntime could not run the model ({type(error).__name__}): free "
                "some memory and try again"
            ) from error
        vector: NDArray[np.float32] = row
        return vector


def _step_back() -> None:
    # Linux alone has priorities for threads; elsewhere the number would be another process's.
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BATCH_NICENESS)


def _load(directory: Path) -> _Model:
    try:
        return _Model(_tokenizer(directory), _session(directory))
    # Neither library's errors have a root of their own.
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
    # The runtime would keep a device id and send events to its maker; it looks when imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # A thread a text does a third more than as many threads on one text after the other.
    options.intra_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    return onnxruntime.InferenceSession(
        directory / "model.onnx", options, providers=["CPUExecutionProvider"]
    )


def _readable(text: str) -> str:
    """The text's start, with half surrogate pairs replaced: the tokenizer takes UTF-8."""
    return text.lstrip()[:_MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
