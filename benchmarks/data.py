"""Generated conversations with given embeddings, the same on every machine.

Turns are numbered through the whole database, and a turn's text begins with its number, so that
a returned text can be checked. Sentences come from a chain over
hand-written dialogues with rarer made-up words between them, tuned so that a turn has as many
different words as real chat has and packs no better. Vectors are unit vectors around the subject
of their session, and a question's vector lies near that of the turn it asks about.
"""

from __future__ import annotations

import random
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]

DIMENSION = 384
SESSION = 20
"""Turns per session."""
TEXT_BYTES = 786
"""Average characters of a turn."""
_DIALOGUES = Path(__file__).with_name("topic_shift_text") / "dialogues.txt"
_SENTENCES, _SENTENCE_WORDS, _RARE_WORDS = 20_000, (6, 22), 12_000
_RARE, _ECHO = 0.06, 0.4
_SUBJECTS, _NOISE, _QUERY_NOISE = 200, 0.9, 0.5
_POOL = 1 << 20
_NUMBER = re.compile(r"#(\d+) ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    number: int
    role: str
    text: str
    vector: Vectors


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    user: int
    about: int
    """Number of the turn that the question asks about."""
    text: str
    vector: Vectors


class Data:
    """Users with given numbers of turns, numbered from 0 in order.

    Two databases of one `seed` share their words and subjects, whatever their sizes.
    """

    def __init__(self, turns_of: list[int], *, seed: int = 7) -> None:
        self.turns_of = turns_of
        self.first = list(accumulate(turns_of, initial=0))
        self.seed = seed
        pool = np.random.default_rng(seed)
        self._subjects = _unit(pool.standard_normal((_SUBJECTS, DIMENSION)))
        self._noise = pool.standard_normal(_POOL).astype(np.float32) / np.float32(DIMENSION**0.5)

    @property
    def users(self) -> int:
        return len(self.turns_of)

    @property
    def turns(self) -> int:
        return self.first[-1]

    def mixed(self) -> Iterator[tuple[int, str, list[Turn]]]:
        """Yield all sessions, with users mixed as in real use."""
        for place in range(-(-max(self.turns_of) // SESSION)):
            for user, count in enumerate(self.turns_of):
                if place * SESSION < count:
                    yield user, *self.session(user, place)

    def batches(self, size: int) -> Iterator[list[tuple[int, str, Turn]]]:
        """Yield the same in batches of at least `size` turns, with several users each."""
        batch: list[tuple[int, str, Turn]] = []
        for user, session, turns in self.mixed():
            batch += [(user, session, turn) for turn in turns]
            if len(batch) >= size:
                yield batch
                batch = []
        if batch:
            yield batch

    def session(self, user: int, place: int) -> tuple[str, list[Turn]]:
        """Return one session of a user: its name and its turns."""
        start = self.first[user] + place * SESSION
        end = min(start + SESSION, self.first[user + 1])
        return f"s{place}", self.block(start, end - start)

    def block(self, start: int, count: int) -> list[Turn]:
        """Return turns by number. Numbers after the last user's are new turns for any user."""
        numbers = np.arange(start, start + count)
        vectors = self.vectors(numbers)
        return [
            Turn(
                number=number,
                role="user" if number % 2 == 0 else "assistant",
                text=self.text(number),
                vector=vector,
            )
            for number, vector in zip(numbers.tolist(), vectors, strict=True)
        ]

    def text(self, number: int) -> str:
        draw = random.Random(self.seed * 1_000_003 + number)
        wanted = min(4 * TEXT_BYTES, draw.lognormvariate(6.447, 0.6))
        parts = [f"#{number}"]
        size = len(parts[0])
        while size < wanted:
            sentence = self._sentences[int(draw.random() * _SENTENCES)]
            if len(parts) > 1 and draw.random() < _ECHO:
                # People return to what they just said.
                sentence = f"{_phrase(draw, parts[-1])} {sentence}"
            parts.append(sentence)
            size += len(sentence) + 1
        return " ".join(parts)

    def vectors(self, numbers: NDArray[np.int64]) -> Vectors:
        """Return the vectors of turns by number."""
        subjects = self._subjects[_scatter(numbers // SESSION, 3) % _SUBJECTS]
        return _unit(subjects + _NOISE * self._noises(_scatter(numbers, 5)))

    def query(self, user: int, number: int) -> Query:
        """Return a question of the user. No two are alike."""
        draw = random.Random(self.seed * 7_000_003 + user * 100_003 + number)
        about = self.first[user] + int(draw.random() * self.turns_of[user])
        words = [word.strip(".,:;?!") for word in self.text(about).split()[1:]]
        asked = " ".join(draw.sample(words, min(6, len(words))))
        noise = self._noises(np.array([draw.randrange(_POOL)]))
        vector = _unit(self.vectors(np.array([about])) + _QUERY_NOISE * noise)[0]
        return Query(user=user, about=about, text=f"what about {asked} ({number})?", vector=vector)

    def exact(self, query: Query, k: int = 5) -> list[int]:
        """Return the numbers of the user's turns nearest to a question, best first."""
        start, end = self.first[query.user], self.first[query.user + 1]
        cosines = self.vectors(np.arange(start, end)) @ query.vector
        return [start + int(row) for row in np.argsort(-cosines, kind="stable")[:k]]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, by the number that a text begins with."""
        known = np.array([number_of(text) for text in texts])
        rows = _unit(self._noises(np.array([zlib.crc32(_encoded(text)) for text in texts])))
        rows[known >= 0] = self.vectors(known[known >= 0])
        return rows

    def _noises(self, seeds: NDArray[np.int64]) -> Vectors:
        """Return rows of about unit length, each a window of one long sequence of noise."""
        windows = np.lib.stride_tricks.sliding_window_view(self._noise, DIMENSION)
        rows: Vectors = windows[seeds % len(windows)]
        return rows

    @cached_property
    def _sentences(self) -> list[str]:
        return _sentences(self.seed)


def spread(total: int, users: int = 100) -> list[int]:
    """Distribute turns evenly over users."""
    return [total // users] * users


def number_of(text: str) -> int:
    """Return the number of the turn that a text belongs to; -1 for another text."""
    known = _NUMBER.match(text)
    return int(known[1]) if known else -1


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _scatter(numbers: NDArray[np.int64], salt: int) -> NDArray[np.int64]:
    mixed = (numbers + salt) * 0x9E3779B1 % (1 << 32)
    return (mixed ^ mixed >> 15) * 0x85EBCA6B % (1 << 31)


def _unit(rows: NDArray[np.floating]) -> Vectors:
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


@cache
def _sentences(seed: int) -> list[str]:
    draw = random.Random(seed)
    following: dict[str, list[str]] = defaultdict(list)
    for line in _DIALOGUES.read_text(encoding="utf-8").splitlines():
        words = line[3:].split() if line[:3] in {"U: ", "A: "} else []
        for word, after in pairwise(words):
            following[word].append(after)
    chain = {word: after for word, after in following.items() if len(set(after)) > 1}
    starts = [word for word in chain for _ in following[word]]
    rare = [_made_up(draw) for _ in range(_RARE_WORDS)]
    return [_sentence(draw, chain, starts, rare) for _ in range(_SENTENCES)]


def _sentence(
    draw: random.Random, chain: dict[str, list[str]], starts: list[str], rare: list[str]
) -> str:
    words = [draw.choice(starts)]
    for _ in range(draw.randint(*_SENTENCE_WORDS)):
        if draw.random() < _RARE:
            # Few words are common and most are rare, as in any language.
            words.append(rare[int(_RARE_WORDS * draw.random() ** 3)])
        else:
            words.append(draw.choice(chain.get(words[-1], starts)))
    return " ".join(words).rstrip(".,:;?!").capitalize() + "."


def _phrase(draw: random.Random, sentence: str) -> str:
    words = sentence.split()
    start = int(draw.random() * len(words))
    return " ".join(words[start : start + 6])


def _made_up(draw: random.Random) -> str:
    syllables = ("ba", "con", "der", "el", "fi", "gra", "hol", "in", "ka", "lo", "mar", "ne", "or")
    endings = ("ing", "tion", "er", "s", "ly", "al", "ment", "um")
    return "".join(draw.choices(syllables, k=draw.randint(1, 3))) + draw.choice(endings)
