"""Measure what the ledger adds to `context()` with the built-in embedder, writing included."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from .data import Data

_SESSIONS = 10
_ROUNDS = 5
_CALLS = 30


def ledger_cost(folder: Path, data: Data) -> tuple[float, float]:
    """CPU-milliseconds of a context without the ledger, and how many more with it.

    The two take turns, because what else the machine does changes from second to second.
    """
    from octopus_memory import ContextConfig, EpisodicMemory

    taken: dict[str, list[float]] = {"off": [], "ids": []}
    folder.mkdir(parents=True, exist_ok=True)
    with EpisodicMemory.open(folder / "memory.db", background=True) as memory:
        scope = memory.scope(user="measured")
        for _, (_, session, turns) in zip(range(_SESSIONS), data.mixed(), strict=False):
            scope.store([(turn.role, turn.text) for turn in turns], session_id=session)
        memory.flush()
        for attempt in range(_ROUNDS + 1):
            for mode, rounds in taken.items():
                memory.configure("default", ContextConfig(ledger=mode))  # type: ignore[arg-type]
                began = time.process_time()
                for call in range(_CALLS):
                    asked = data.query(0, attempt * _CALLS + call).text
                    scope.context(f"{asked} {mode}", session_id="now")
                memory.runtime.ledger.flush()
                rounds.append((time.process_time() - began) / _CALLS * 1_000)
    # The first round warms caches up.
    without, with_it = (statistics.median(rounds[1:]) for rounds in taken.values())
    return without, with_it - without
