"""The books of a load test: what was acknowledged to each user, and what is wrong in an answer."""

from __future__ import annotations

import random
import string
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

SESSION_TURNS = 40
CITIES = ("Porto", "Graz", "Lyon", "Oslo", "Turin", "Bergen")


@dataclass
class User:
    """What one user was told to have stored, since the last erasure."""

    name: str
    life: int = 0
    """The number of erasures; every text names the one after which it was written."""
    sessions: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    """Session → text → id and ordinal that were acknowledged."""
    written: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _writers: int = 0
    _is_erasing: bool = False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Any number at once, but not during an erasure: what survives it would be a guess."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_erasing)
            self._writers += 1
        try:
            yield
        finally:
            with self._changed:
                self._writers -= 1
                self._changed.notify_all()

    @contextmanager
    def erasing(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_erasing)
            self._is_erasing = True
            self._changed.wait_for(lambda: not self._writers)
        try:
            yield
        finally:
            with self._changed:
                self._is_erasing = False
                self._changed.notify_all()

    def next_message(self) -> tuple[str, str]:
        """A session and a text that nobody else has."""
        with self._changed:
            session = f"life {self.life} part {self.written // SESSION_TURNS}"
            self.written += 1
            self.sessions.setdefault(session, {})
            code = "".join(random.choices(string.ascii_lowercase, k=12))
            return session, f"The parcel {code} of [{self.life}] went to {random.choice(CITIES)}."

    def acknowledge(self, session: str, text: str, turn: dict[str, Any]) -> None:
        with self._changed:
            self.sessions[session][text] = (turn["id"], turn["ordinal"])

    def begin_again(self) -> None:
        with self._changed:
            self.life, self.sessions = self.life + 1, {}

    def is_in(self, life: int) -> bool:
        """False if an erasure has begun since."""
        with self._changed:
            return self.life == life and not self._is_erasing

    def now(self) -> tuple[int, dict[str, dict[str, tuple[str, int]]]]:
        with self._changed:
            return self.life, {name: dict(turns) for name, turns in self.sessions.items()}


def lives_in(texts: list[str]) -> set[int]:
    """The lives that texts speak of."""
    return {int(text.split("[")[1].split("]")[0]) for text in texts if "[" in text}


def turns_of(session: Any) -> list[dict[str, Any]]:
    episodes = [] if session is None else session["episodes"]
    return [turn for episode in episodes for turn in episode["messages"] or ()]


def faults_of(life: int, known: dict[str, tuple[str, int]], turns: list[dict[str, Any]]) -> Counter:
    """Compare a session's turns with what was acknowledged before they were asked for."""
    texts = [turn["message"]["content"] for turn in turns]
    stored = {turn["message"]["content"]: (turn["id"], turn["ordinal"]) for turn in turns}
    return Counter(
        {
            "lost": sum(stored.get(text) != where for text, where in known.items()),
            "doubled": len(texts) - len(set(texts)),
            "out of order": int([turn["ordinal"] for turn in turns] != list(range(len(turns)))),
            "erased, but read": sum(each < life for each in lives_in(texts)),
        }
    )
