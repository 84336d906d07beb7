"""The subjects: one module each, with one small interface.

A subject is imported in a virtual environment of its own and imports its libraries only when it is
created, so that its start contains nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ..data import Data, Query, Turn

NAMES = ("floor", "octopus", "langgraph", "agents", "lancedb", "chroma", "mem0")
"""Subjects in the order of measurement. The slowest are last, because time may run out."""


class Subject(ABC):
    """A memory in a folder. `can` lists the jobs that the subject supports."""

    name: ClassVar[str]
    package: ClassVar[str] = ""
    """The distribution whose version is reported; empty for the floor."""
    imports: ClassVar[str]
    """The import statement of its users."""
    can: ClassVar[frozenset[str]] = frozenset({"recall", "history", "erase"})
    notes: ClassVar[str] = ""
    """Its setup and durability."""

    def __init__(self, folder: Path, data: Data | None) -> None:
        self.folder = folder
        self.data = data

    @abstractmethod
    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        """Store turns of one session. They are acknowledged when it returns."""

    def settle(self) -> None:  # noqa: B027 - most have nothing to wait for
        """Wait until all added turns are found by their vectors."""

    def load(self, data: Data) -> None:
        """Fill with generated data. Its time is reported, but is no target."""
        for user, session, turns in data.mixed():
            self.add(user, session, turns)
        self.settle()

    def recall(self, query: Query, k: int = 5) -> list[str]:
        """Return the texts of the best turns of a user, best first."""
        raise NotImplementedError

    def nearest(self, query: Query, k: int = 5) -> list[str]:
        """Return the same by vectors alone, to compare with exact search."""
        return self.recall(query, k)

    def marks(self, turn: Turn) -> dict[str, bytes]:
        """Return the bytes that a turn leaves in the files: text and vector."""
        word = turn.text.rsplit(maxsplit=1)[-1]
        return {"text": word.encode(), "vector": turn.vector.astype("<f4").tobytes()[:64]}

    def last(self, user: int, session: str, count: int) -> list[str]:
        """Return the texts of the last turns of a session, oldest first."""
        raise NotImplementedError

    def session(self, user: int, session: str) -> list[str]:
        """Return the texts of a whole session, oldest first."""
        return self.last(user, session, 1_000_000)

    def erase(self, user: int) -> None:
        """Remove a user as the documentation of the subject says."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None: ...


def subject(name: str) -> type[Subject]:
    """Return the class of a subject by name."""
    found: type[Subject] = import_module(f"{__name__}.{name}").SUBJECT
    return found
