"""What the harness asks of a system that recalls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from .conversation import BenchTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something found: a turn of a session, or without `turn_id` a whole session."""

    session_id: str
    turn_id: str | None = None
    score: float = 0.0


class RecallSystem(Protocol):
    """Three methods, called in this order for each conversation: reset, add, search and search…"""

    @property
    def name(self) -> str:
        """As it stands in the report."""

    def reset(self) -> None:
        """Forget everything. Called before each conversation, and once at the end."""

    def add(self, turns: Sequence[BenchTurn]) -> None:
        """Take in one conversation; when it returns, everything can be found."""

    def search(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:
        """At most `limit` turns, best first, and beside them at most `limit` whole sessions.

        A system that returns no whole sessions has them ranked by their best turns. One that never
        returns a turn is measured on sessions alone.
        """


def ranked_turns(hits: Iterable[Hit]) -> list[str]:
    """The turns' ids, each once, best first."""
    return list(dict.fromkeys(hit.turn_id for hit in hits if hit.turn_id is not None))


def ranked_sessions(hits: Sequence[Hit]) -> list[str]:
    """The sessions' ids, each once, best first: as returned, else by their best turns."""
    whole = [hit.session_id for hit in hits if hit.turn_id is None]
    return list(dict.fromkeys(whole or (hit.session_id for hit in hits)))


def by_session(turns: Iterable[BenchTurn]) -> dict[str, list[BenchTurn]]:
    """Each session's turns, in the order they were said."""
    sessions: dict[str, list[BenchTurn]] = {}
    for turn in turns:
        sessions.setdefault(turn.session_id, []).append(turn)
    return sessions
