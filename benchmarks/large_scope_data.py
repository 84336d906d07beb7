"""Generated scopes of any size: turns and questions with words and vectors of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.domain.episode import EndReason, Scope, Summary
from octopus_memory.domain.ids import new_id
from octopus_memory.domain.message import Message
from octopus_memory.domain.search.row_format import TermHasher, pack_vectors, term_key
from octopus_memory.domain.search.terms import turn_flags
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.ports.values import Append, Closing, Lexical, NewSummary, NewTurn, Target

DIMENSION = 384
MODEL = f"topics/{DIMENSION}"
_START = datetime(2024, 1, 1, tzinfo=UTC)
_TOPICS, _TOPIC_WORDS, _VOCABULARY = 2_000, 30, 20_000
_TURNS = 20
_NOISE = 1.1
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


class Topics:
    """Generates turns. Each topic has its direction and words; a turn has one topic, with noise."""

    def __init__(self, seed: int = 7) -> None:
        self._chance = np.random.default_rng(seed)
        self._centres = self._chance.standard_normal((_TOPICS, DIMENSION)).astype(np.float32)
        self._words = [self._word(number) for number in range(_VOCABULARY)]
        self._own = self._chance.integers(300, _VOCABULARY, (_TOPICS, _TOPIC_WORDS))

    def turns(self, count: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Return text and vector. Consecutive turns share a topic, as in a conversation."""
        for _ in range(0, count, _TURNS):
            yield from self._stretch(int(self._chance.integers(_TOPICS)), _TURNS)

    def questions(self, count: int) -> list[tuple[str, NDArray[np.float32]]]:
        topics = self._chance.integers(_TOPICS, size=count).tolist()
        return [next(self._stretch(topic, 1, own=4, common=2)) for topic in topics]

    def _stretch(
        self, topic: int, count: int, own: int = 6, common: int = 24
    ) -> Iterator[tuple[str, NDArray[np.float32]]]:
        blur = self._chance.standard_normal((count, DIMENSION)).astype(np.float32)
        found = self._centres[topic] + np.float32(_NOISE) * blur
        found /= np.linalg.norm(found, axis=1, keepdims=True)
        usual = np.minimum(self._chance.zipf(1.3, (count, common)), _VOCABULARY) - 1
        special = self._chance.choice(self._own[topic], (count, own))
        for row, numbers in zip(found, np.hstack([usual, special]).tolist(), strict=True):
            yield " ".join(self._words[number] for number in numbers), row

    def _word(self, number: int) -> str:
        word = ""
        while number or not word:
            number, syllable = divmod(number, len(_SYLLABLES))
            word += _SYLLABLES[syllable]
        return word + "k"


def questions(count: int) -> list[tuple[str, NDArray[np.float32]]]:
    """Return the same questions every time."""
    return Topics().questions(count)


class QuestionEmbedder:
    """Returns the vectors of the questions; for any other text, that of the first."""

    model = MODEL
    dimension = DIMENSION

    def __init__(self, questions: Sequence[tuple[str, NDArray[np.float32]]]) -> None:
        self._known = dict(questions)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        first = next(iter(self._known.values()))
        return np.stack([self._known.get(text, first) for text in texts])


def fill(store: EpisodeStore, scope: Scope, topics: Topics, count: int) -> None:
    """Store closed and embedded episodes of twenty turns."""
    hasher, analyzer = TermHasher(term_key(store.salt, scope)), SnowballAnalyzer()
    said: list[tuple[str, NDArray[np.float32]]] = []
    store.use_model(MODEL)
    for number, turn in enumerate(topics.turns(count), 1):
        said.append(turn)
        if number % _TURNS == 0:
            at = _START + timedelta(minutes=number)
            store.append(
                _episode(scope, [text for text, _ in said[-_TURNS:]], at, hasher, analyzer)
            )
        if len(said) == 2_000:
            _embed(store, said)
            said = []
    _embed(store, said)


def _embed(store: EpisodeStore, said: Sequence[tuple[str, NDArray[np.float32]]]) -> None:
    if not said:
        return
    now = datetime.now(UTC)
    claimed = store.claim(
        WorkKind.EMBED, worker_id="bench", limit=10_000, now=now, until=now + timedelta(hours=1)
    )
    packed = pack_vectors(np.stack([vector for _, vector in said]))
    turns = iter(packed)
    done, last = [], packed[0]
    for work in sorted(claimed, key=lambda work: work.seq):
        # The summary repeats the last turn.
        last = next(turns) if work.ordinal >= 0 else last
        done.append((work, last))
    store.put_vectors(MODEL, done)


def _episode(
    scope: Scope, said: Sequence[str], at: datetime, hasher: TermHasher, analyzer: SnowballAnalyzer
) -> Append:
    turns = [
        NewTurn(
            id=new_id(),
            message=Message({"role": "user" if place % 2 == 0 else "assistant", "content": text}),
            tokens=30,
            at=at + timedelta(seconds=place),
            lexical=lexical(text, hasher, analyzer),
            embed=True,
        )
        for place, text in enumerate(said)
    ]
    summary = NewSummary(
        summary=Summary(text=said[-1], key_facts=()),
        by="bench",
        lexical=lexical(said[-1], hasher, analyzer),
    )
    return Append(
        scope=scope,
        session_id=str(new_id()),
        episode_id=new_id(),
        target=Target.NEW,
        at=at,
        now=at,
        turns=turns,
        closing=Closing(
            ended_at=at + timedelta(seconds=30), reason=EndReason.USER_CLOSED, summary=summary
        ),
    )


def lexical(text: str, hasher: TermHasher, analyzer: SnowballAnalyzer) -> Lexical:
    return Lexical(
        terms=hasher.pack(Counter(analyzer.terms(text))), speaker=b"", flags=turn_flags(text)
    )
