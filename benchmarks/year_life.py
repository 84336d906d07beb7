"""The users of the simulated year: who talks on which day, and what they say."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TURNS_A_SESSION = 20
DAYS_BETWEEN_VISITS = 3
VISITORS_STAY = 56
"""Two of three users come for eight weeks only; the third comes all the time."""
_SYLLABLES = [a + b for a in "bdfgklmnprstv" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]


class SeededEmbedder:
    """Embeds at nearly no cost, so that the model does not count."""

    model = "seeded-384"
    dimension = 384

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.stack(
            [
                np.random.default_rng(zlib.crc32(text.encode())).standard_normal(
                    self.dimension, np.float32
                )
                for text in texts
            ]
        )
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass(frozen=True)
class Who:
    tenant: str
    agent: str
    user: str


class Life:
    """Generates users and texts, always the same for the same seed."""

    def __init__(self, *, turns_a_day: int, words: int) -> None:
        self.sessions_a_day = max(1, turns_a_day // TURNS_A_SESSION)
        self._slots = self.sessions_a_day * DAYS_BETWEEN_VISITS
        self.agents = max(1, min(100, self.sessions_a_day // 5))
        self.tenants = max(1, min(10, self.agents // 2))
        self._words = words
        rng = random.Random(7)
        vocabulary = ["".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4))) for _ in range(4_000)]
        # Few words make up most of the text.
        self._vocabulary = vocabulary
        self._weights = np.cumsum([1 / (place + 3) for place in range(len(vocabulary))]).tolist()

    def visits(self, day: int) -> Iterator[Who]:
        """Return the users of a day, each with one session."""
        for slot in range(day % DAYS_BETWEEN_VISITS, self._slots, DAYS_BETWEEN_VISITS):
            yield self._who(slot, day)

    def regulars(self, day: int, count: int) -> list[Who]:
        """Return some permanent users who came on this day."""
        found = [who for who in self.visits(day) if who.user.startswith("regular")]
        return found[:count] or list(self.visits(day))[:count]

    def gone(self, day: int) -> Who:
        """Return a user who left four weeks ago."""
        then = day - 28
        visitors = [who for who in self.visits(then) if who.user.startswith("visitor")]
        return (visitors or list(self.visits(then)))[day % max(1, len(visitors))]

    def _who(self, slot: int, day: int) -> Who:
        agent = slot % self.agents
        if (slot // DAYS_BETWEEN_VISITS) % 3 == 0:
            user = f"regular-{slot}"
        else:
            user = f"visitor-{slot}-{(day + slot) // VISITORS_STAY}"
        return Who(f"tenant-{agent % self.tenants}", f"agent-{agent}", user)

    def talk(self, seed: str) -> list[tuple[str, str]]:
        """Return one session: short questions, longer answers."""
        rng = random.Random(seed)
        return [
            ("user", self._text(rng, self._words // 2))
            if place % 2 == 0
            else ("assistant", self._text(rng, self._words * 3 // 2))
            for place in range(TURNS_A_SESSION)
        ]

    def query(self, seed: str) -> str:
        return self._text(random.Random(seed), 6)

    def _text(self, rng: random.Random, words: int) -> str:
        said = rng.choices(self._vocabulary, cum_weights=self._weights, k=max(3, words))
        return " ".join(said).capitalize() + "."
