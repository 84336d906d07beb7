"""Octopus as a system of the benchmark, through its public calls only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from ..adapters.tokens import ApproximateCounter
from ..domain.policy import ArchiveMode, EpisodicRetentionPolicy, MemoryConfig
from ..engine.scope import MemoryScope
from ..wiring import EpisodicMemory
from .conversation import BenchTurn
from .systems import Hit, SharedEmbedder, by_session

_SESSIONS = 5
"""Number of sessions to ask for. The metrics look at the first five."""
_FOUND = 10
"""Number of turns that a recall tool answers with."""
_ARCHIVED_AFTER = timedelta(minutes=1)


class _SetClock:
    """A clock at the time of the conversation, so that "last week" has its original meaning."""

    def __init__(self) -> None:
        self.time = datetime(2000, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


class OctopusSystem:
    """A memory in a temporary file, created for each conversation, or in a `file` that is kept.

    With `archived` every session is archived before the first question: what is left to be found
    are summaries and key facts.
    """

    def __init__(
        self, embedder: SharedEmbedder, *, archived: bool = False, file: Path | None = None
    ) -> None:
        self.name = "octopus, archived" if archived else "octopus"
        self._embedder = embedder
        self._archived = archived
        self._file = file
        self._clock = _SetClock()
        self._folder: TemporaryDirectory[str] | None = None
        self._memory: EpisodicMemory | None = None
        self._turn_ids: dict[tuple[str, int], str] = {}

    def reset(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        self._turn_ids.clear()

    def add(self, turns: Sequence[BenchTurn]) -> None:
        memory = self.open()
        scope = self._scope()
        for session_id, said in by_session(turns).items():
            self._clock.time = max(turn.at for turn in said)
            scope.store(
                [turn.message for turn in said],
                session_id=session_id,
                at=[turn.at for turn in said],
                ended_at=self._clock.time,
            )
            for ordinal, turn in enumerate(said):
                self._turn_ids[session_id, ordinal] = turn.id
        self._clock.time = max(turn.at for turn in turns)
        memory.flush()
        if self._archived:
            memory.run_retention(now=self._clock.time + _ARCHIVED_AFTER, compact=False)

    def search(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:
        self._clock.time = asked_at
        scope = self._scope()
        turns = self.search_turns(query, asked_at, limit)
        sessions = [
            Hit(session_id=found.session_id, score=found.relevance or 0.0)
            for found in scope.recall(query, limit=min(limit, _SESSIONS), min_score=0)
        ]
        return turns + sessions

    def search_turns(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:
        """Return the turns that `recall_turns` finds, best first."""
        self._clock.time = asked_at
        return [
            Hit(
                session_id=found.session_id,
                turn_id=self._turn_ids[found.session_id, found.ordinal],
                score=found.score or 0.0,
            )
            for found in self._scope().recall_turns(query, limit=limit, min_score=0)
        ]

    def lookup(self, query: str, asked_at: datetime) -> str:
        """Return what a recall tool answers a model: the best turns with date and speaker."""
        self._clock.time = asked_at
        hits = self._scope().recall_turns(query, limit=_FOUND)
        return "\n".join(f"{hit.at:%Y-%m-%d} {hit.name or hit.role}: {hit.text}" for hit in hits)

    def forget(self, about: str, at: datetime) -> None:
        """Forget what this is about, as a user who confirms a preview that is clear."""
        self._clock.time = at
        preview = self._scope().forget(about)
        if preview.is_clear:
            self._scope().forget(confirm=preview.token)
            self.open().flush()

    def context(self, query: str, asked_at: datetime, budget_tokens: int) -> str:
        """Return the context block for this query."""
        self._clock.time = asked_at
        return self._scope().context(query, budget_tokens=budget_tokens).text

    def _scope(self) -> MemoryScope:
        return self.open().scope(user="bench")

    def _config(self) -> MemoryConfig:
        if not self._archived:
            return MemoryConfig()
        days = _ARCHIVED_AFTER / timedelta(days=1)
        return MemoryConfig(
            retention=EpisodicRetentionPolicy(
                active_retention_days=days,
                archive_mode=ArchiveMode.SUMMARY,
                delete_after_archival_period=False,
            )
        )

    def open(self) -> EpisodicMemory:
        """Return the memory, opened if it is not open yet."""
        if self._memory is None:
            self._memory = EpisodicMemory.open(
                self._file or self._temporary_file(),
                embedder=self._embedder,
                counter=ApproximateCounter(),
                config=self._config(),
                clock=self._clock,
                background=False,
            )
        return self._memory

    def _temporary_file(self) -> Path:
        self._folder = TemporaryDirectory(prefix="octopus-bench-")
        return Path(self._folder.name, "bench.db")
