"""What every system under measurement has: its interface, and the embedder that a run shares.

Turns are embedded once, questions each time. Systems then differ by what they do with the vectors,
and the time of a query includes its encoding.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..ports.models import Embedder
from .conversation import BenchTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A result: a turn of a session, or without `turn_id` a whole session."""

    session_id: str
    turn_id: str | None = None
    score: float = 0.0


class RecallSystem(Protocol):
    """A system under measurement. Calls per conversation: `reset`, `add`, then many `search`."""

    @property
    def name(self) -> str:
        """Return the name for the report."""

    def reset(self) -> None:
        """Drop everything. Called before each conversation, and once at the end."""

    def add(self, turns: Sequence[BenchTurn]) -> None:
        """Store one conversation. Everything can be found when it returns."""

    def search(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:
        """Return at most `limit` turns, best first, and at most `limit` whole sessions.

        A system that returns no whole sessions has them ranked by their best turns. One that never
        returns a turn is measured on sessions alone.
        """


def ranked_turns(hits: Iterable[Hit]) -> list[str]:
    """Return the ids of turns without repetition, best first."""
    return list(dict.fromkeys(hit.turn_id for hit in hits if hit.turn_id is not None))


def ranked_sessions(hits: Sequence[Hit]) -> list[str]:
    """Return the ids of sessions without repetition, as returned, else by their best turns."""
    whole = [hit.session_id for hit in hits if hit.turn_id is None]
    return list(dict.fromkeys(whole or (hit.session_id for hit in hits)))


def by_session(turns: Iterable[BenchTurn]) -> dict[str, list[BenchTurn]]:
    """Return the turns of each session in order."""
    sessions: dict[str, list[BenchTurn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session_id, []).append(turn)
    return sessions


_KEY_BYTES = 32


class SharedEmbedder:
    """Caches vectors in memory, and with `folder` in a file for the next run.

    It is used from one thread.
    """

    def __init__(self, inner: Embedder, folder: Path | None = None) -> None:
        self._inner = inner
        self._asking = False
        self._known: dict[bytes, NDArray[np.float32]] = {}
        self._file: Path | None = None
        self.seconds = 0.0
        """Seconds that the encoding of questions took so far."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]+", "-", inner.model)
            self._file = folder / f"{name}-{inner.dimension}.vectors"
            self._known.update(_stored(self._file, inner.dimension))

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    @property
    def calibration(self) -> Any:
        """Return the calibration of the inner embedder; None if it has none."""
        return getattr(self._inner, "calibration", None)

    @property
    def reads(self) -> Any:
        """Return how well the inner embedder reads a language, as a function; None if all alike."""
        return getattr(self._inner, "reads", None)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Bypass the cache in the block, so that every question pays for its encoding."""
        self._asking = True
        try:
            yield
        finally:
            self._asking = False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._asking:
            started = time.perf_counter()
            vectors = self._inner.embed(texts)
            self.seconds += time.perf_counter() - started
            return vectors
        keys = [sha256(text.encode("utf-8", "replace")).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._remember(list(new), self._inner.embed(list(new.values())))
        if not keys:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([self._known[key] for key in keys])

    def _remember(self, keys: list[bytes], vectors: NDArray[np.float32]) -> None:
        self._known.update(zip(keys, vectors, strict=True))
        if self._file is not None:
            with self._file.open("ab") as file:
                file.writelines(
                    key + vector.astype("<f4").tobytes()
                    for key, vector in zip(keys, vectors, strict=True)
                )


def _stored(file: Path, dimension: int) -> Iterator[tuple[bytes, NDArray[np.float32]]]:
    if not file.exists():
        return
    record = np.dtype([("key", f"V{_KEY_BYTES}"), ("vector", "<f4", (dimension,))])
    raw = file.read_bytes()
    whole = len(raw) // record.itemsize * record.itemsize
    if whole < len(raw):
        # A run was killed while it wrote. Records after an incomplete one would be misread.
        with file.open("r+b") as torn:
            torn.truncate(whole)
    for entry in np.frombuffer(raw[:whole], dtype=record):
        yield bytes(entry["key"]), entry["vector"]
