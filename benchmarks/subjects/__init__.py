"""What is measured: one module a subject, behind one small interface.

A subject is imported in a virtual environment of its own and takes its libraries in only when it
is made, so that nothing but itself counts as its start.
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
"""In the order they are measured in: where time is short, the slowest are last."""


class Subject(ABC):
    """A memory in a folder. What a subject cannot do, it does not list in `can`."""

    name: ClassVar[str]
    package: ClassVar[str] = ""
    """The distribution whose version is told; empty for the floor."""
    imports: ClassVar[str]
    """The statement that its user begins with."""
    can: ClassVar[frozenset[str]] = frozenset({"recall", "history", "erase"})
    notes: ClassVar[str] = ""
    """How it was set up, and what its durability is."""

    def __init__(self, folder: Path, data: Data | None) -> None:
        self.folder = folder
        self.data = data

    @abstractmethod
    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        """Store turns of one session; acknowledged when it returns."""

    def settle(self) -> None:  # noqa: B027 - most need not wait for anything
        """Wait until everything that was added is found by its vector."""

    def load(self, data: Data) -> None:
        """Fill with generated data; what it takes is told, but nobody is measured by it."""
        for user, session, turns in data.mixed():
            self.add(user, session, turns)
        self.settle()

    def recall(self, query: Query, k: int = 5) -> list[str]:
        """The texts of a user's turns that fit best, best first."""
        raise NotImplementedError

    def nearest(self, query: Query, k: int = 5) -> list[str]:
        """The same by the vectors alone, to be compared with exact search."""
        return self.recall(query, k)

    def marks(self, turn: Turn) -> dict[str, bytes]:
        """What a turn leaves in the files, in the form they keep it: text, and vector."""
        word = turn.text.rsplit(maxsplit=1)[-1]
        return {"text": word.encode(), "vector": turn.vector.astype("<f4").tobytes()[:64]}

    def last(self, user: int, session: str, count: int) -> list[str]:
        """The texts of the last turns of a session, oldest first."""
        raise NotImplementedError

    def session(self, user: int, session: str) -> list[str]:
        """The texts of a whole session, oldest first."""
        return self.last(user, session, 1_000_000)

    def erase(self, user: int) -> None:
        """Remove a user, as the subject's own documentation says it is done."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None: ...


def subject(name: str) -> type[Subject]:
    """The class of a subject, by its name."""
    found: type[Subject] = import_module(f"{__name__}.{name}").SUBJECT
    return found
