"""Memories with Qdrant as their index, and a dialogue for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.engine.core import leases
from octopus_memory.engine.work import mirror
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import FixedClock
from tests.support.pending_work import open_memory
from tests.support.qdrant_server import QdrantServer

Open = Callable[..., EpisodicMemory]
SAID = "The greenhouse key hangs behind the blue door."


@contextmanager
def opening(
    folder: Path,
    clock: FixedClock,
    server: QdrantServer,
    monkeypatch: pytest.MonkeyPatch,
    seconds: str = "30",
) -> Iterator[Open]:
    """Opens memories in the folder; an answer of the server is waited for so many seconds."""
    monkeypatch.setenv("OCTOPUS_INDEX", "qdrant")
    monkeypatch.setenv("OCTOPUS_QDRANT_URL", server.url)
    monkeypatch.setenv("OCTOPUS_QDRANT_TIMEOUT_SECONDS", seconds)
    with ExitStack() as opened:

        def open_(name: str = "memory", **named: Any) -> EpisodicMemory:
            url = f"sqlite:///{folder / name}.db"
            return opened.enter_context(open_memory(url, **({"clock": clock} | named)))

        yield open_


def tell(scope: MemoryScope, session: str = "monday", said: str = SAID) -> None:
    scope.add(session, [("user", said), ("assistant", "I will remember where it hangs.")])
    scope.close_session(session)


def waiting(memory: EpisodicMemory) -> int:
    backlog = memory.runtime.store.backlog()
    return backlog[WorkKind.INDEX].waiting + backlog[WorkKind.UNINDEX].waiting


def later(clock: FixedClock) -> None:
    """Return a time after the longest retry delay."""
    clock.advance(minutes=11)


def is_true(memory: EpisodicMemory) -> bool:
    return mirror.verify(memory.runtime, leases.new_worker_id()).is_true
