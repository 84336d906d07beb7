"""A scope with random writes, and what recall can read of it, for tests of the indexes."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from datetime import timedelta

import numpy as np

from octopus_memory.adapters.indexes.exact import EXACT_ROWS, ExactIndex
from octopus_memory.adapters.indexes.sketch import Segment
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.message import Json
from octopus_memory.domain.search import row_format
from octopus_memory.domain.search.bm25 import QueryTerms
from octopus_memory.ports.index import ScopeView
from octopus_memory.ports.values import Append, NewTurn, Target
from octopus_memory.testing import (
    make_append,
    make_closing,
    make_lexical,
    make_summary,
    make_turn,
)
from octopus_memory.testing.fakes import START, make_next
from octopus_memory.testing.index.base import MODEL, put, unit
from octopus_memory.testing.store.base import ANA, claim_all, release
from octopus_memory.testing.store.erasure import erase
from octopus_memory.testing.store.retention import index_entries

WORDS = [f"word{number}" for number in range(40)]


class RandomScope:
    """A scope in a store, changed by a random write at each step."""

    def __init__(self, seed: int, *, exact_rows: int = EXACT_ROWS) -> None:
        self.store = SqliteStore(":memory:")
        self.index = ExactIndex(self.store, exact_rows=exact_rows)
        self._chance = random.Random(seed)
        self._open: list[Append] = []
        self._closed: list[Append] = []
        self._deleted: list[Append] = []
        self._deeds: list[Callable[[], None]] = [
            *(self._start, self._start, self._add, self._add, self._add, self._add, self._add),
            *(self._close, self._close, self._resume, self._archive, self._resummarize),
            *(self._delete, self._restore, self._embed, self._embed, self._embed),
        ]

    def step(self) -> None:
        self._chance.choice(self._deeds)()

    def erase(self) -> None:
        """Erase a random episode, open or closed."""
        for writes in (self._open, self._closed):
            for write in self._one_of(writes):
                erase(self.store, ANA, episode_id=write.episode_id)
                writes.remove(write)
        self.index.clear_cache()

    def close(self) -> None:
        self.index.close()
        self.store.close()

    def _turns(self, count: int) -> list[dict[str, Json]]:
        return [
            {"role": role, "content": " ".join(self._chance.choices(WORDS, k=5))}
            | ({"name": self._chance.choice(["Ana", "Ben"])} if role == "user" else {})
            for role in self._chance.choices(["user", "assistant"], k=count)
        ]

    def _said(self, most: int) -> list[NewTurn]:
        at = START + timedelta(minutes=self._chance.randint(0, 500))
        return [make_turn(said, at=at) for said in self._turns(self._chance.randint(1, most))]

    def _start(self) -> None:
        said = self._said(4)
        write = make_append(ANA, *said, session_id=str(len(self._open) + self._chance.random()))
        write = dataclasses.replace(write, at=said[0].at, now=said[0].at)
        self.store.append(write)
        self._open.append(write)

    def _add(self) -> None:
        for write in self._one_of(self._open):
            self.store.append(make_next(write, *self._said(3)))

    def _close(self) -> None:
        for write in self._one_of(self._open):
            count = self.store.episodes(ANA, [write.episode_id])[write.episode_id].message_count
            closing = make_closing(START, " ".join(self._chance.choices(WORDS, k=8)))
            self.store.close_episode(ANA, write.episode_id, closing, expect_messages=count)
            self._open.remove(write)
            self._closed.append(write)

    def _resume(self) -> None:
        for write in self._one_of(self._closed):
            self.store.append(make_next(write, *self._said(2), target=Target.RESUME))
            self._closed.remove(write)
            self._open.append(write)

    def _archive(self) -> None:
        for write in self._one_of(self._closed):
            self.store.archive(ANA, write.episode_id)
            self._closed.remove(write)

    def _delete(self) -> None:
        for write in self._one_of(self._closed):
            self.store.delete(ANA, write.episode_id, at=START)
            self._closed.remove(write)
            self._deleted.append(write)

    def _restore(self) -> None:
        for write in self._one_of(self._deleted):
            self.store.restore(ANA, write.episode_id, index_entries(self.store, write), at=START)
            self._deleted.remove(write)
            self._closed.append(write)

    def _resummarize(self) -> None:
        for write in self._one_of(self._closed):
            self.store.put_summary(ANA, write.episode_id, make_summary("word1 word2 better"))

    def _embed(self) -> None:
        put(self.index, [work for work in claim_all(self.store) if self._chance.random() < 0.7])
        release(self.store, "suite")

    def _one_of(self, writes: list[Append]) -> list[Append]:
        return self._chance.sample(writes, min(1, len(writes)))


def visible_state(view: ScopeView) -> list[object]:
    """Return everything that recall reads of a view, in arrays that are compared exactly."""
    asked = [unit([number]) for number in range(3)]
    terms, _, _ = row_format.unpack_all([make_lexical(" ".join(WORDS[:6])).terms])
    scores = view.postings.score(QueryTerms.only(terms))
    names = [field.name for field in dataclasses.fields(view.rows)]
    speakers = [view.speakers[n] if n >= 0 else b"" for n in view.rows.speaker.tolist()]
    return [
        list(view.episode_ids),
        view.ordinals.tolist(),
        speakers,
        *(np.asarray(getattr(view.rows, name)).tolist() for name in names if name != "speaker"),
        *(np.nan_to_num(view.cosine(vector), nan=9.0).tolist() for vector in asked),
        scores.row.tolist(),
        scores.episode.tolist(),
        scores.full_match,
    ]


def segments_of(index: ExactIndex) -> list[Segment]:
    state = index._store.recall_state(ANA)
    assert state is not None
    sketch = index._sketch(ANA, state, MODEL)
    assert sketch is not None
    return list(sketch.segments)
