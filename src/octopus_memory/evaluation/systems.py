"""The interface of a system under measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

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
