"""Store suite: recall rows, their versions and their vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ...domain.ids import new_id
from ...domain.search.features import ASSISTANT, SUMMARY, SYSTEM, TOOL, USER
from ...ports.recall_rows import RecallRow, RecallState, WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, Append, Target
from ...testing.store.base import release
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .base import ANA, BEN, FAR, Reopen, StoreTests, after, claim_all, place

_TOOL_TURN = {"role": "tool", "tool_call_id": "c1", "function_name": "f", "result": 1}


def _rows(store: EpisodeStore) -> list[RecallRow]:
    return store.recall_rows(ANA, after=0)[1]


def _state(store: EpisodeStore) -> RecallState:
    state = store.recall_state(ANA)
    assert state is not None
    return state


def _alive(store: EpisodeStore, *, up_to: int) -> list[int]:
    _, block = store.recall_block(ANA, after=up_to, alive=True)
    assert block.alive is not None
    found: list[int] = block.alive.tolist()
    return found


def _same_but_for_vectors(known: Mapping[int, RecallRow], now: Sequence[RecallRow]) -> bool:
    """True if every known row that still exists changed in nothing but its vector."""
    return all(
        dataclasses.replace(row, model=None, vector=None)
        == dataclasses.replace(known[row.seq], model=None, vector=None)
        for row in now
        if row.seq in known
    )


def _embed(store: EpisodeStore, model: str, vector: bytes = b"\x01\x7f\x80") -> None:
    """Give this vector to every row of the scope that waits for one."""
    mine = [work for work in claim_all(store) if work.scope == ANA]
    store.put_vectors(model, [(work, vector) for work in mine])


class RecallRowTests(StoreTests):
    def test_a_row_for_each_turn_and_summary(self, store: EpisodeStore) -> None:
        turns = [
            make_turn({"role": "user", "content": "Hi, at 7?", "name": "Ana"}),
            make_turn("Yes.", role="assistant", embed=False, at=after(microseconds=1)),
            make_turn("Be kind.", role="system"),
            make_turn(_TOOL_TURN),
        ]
        closing = make_closing(after(hours=1), make_summary("They met."))
        write = make_append(ANA, *turns, closing=closing)
        store.append(write)
        rows = _rows(store)
        assert [row.ordinal for row in rows] == [0, 1, 2, 3, SUMMARY_ORDINAL]
        assert [row.role for row in rows] == [USER, ASSISTANT, SYSTEM, TOOL, SUMMARY]
        assert [row.lexical for row in rows[:4]] == [turn.lexical for turn in turns]
        assert {row.episode_id for row in rows} == {write.episode_id}
        assert [row.model for row in rows] == [None, "", None, None, None]
        assert {row.vector for row in rows} == {None}
        assert rows[0].at == (START - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        assert rows[1].at - rows[0].at == 1

    def test_rows_are_read_by_their_seqs(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a", "b", "c"))
        store.append(make_append(BEN, "d"))
        state, [first, _, last] = store.recall_rows(ANA)
        found = store.recall_rows(ANA, seqs=[last.seq, last.seq + 9, first.seq, last.seq])
        assert found == (state, [first, last])
        assert store.recall_rows(ANA, after=last.seq, seqs=[first.seq]) == (state, [first])
        assert store.recall_rows(ANA, seqs=[]) == (state, [])
        assert store.recall_rows(make_scope("nobody"), seqs=[first.seq])[1] == []

    def test_rows_go_by_a_seq_that_only_grows(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", closing=make_closing())
        other = make_append(ANA, "c", session_id="other")
        store.append(write)
        store.append(other)
        seqs = [row.seq for row in _rows(store)]
        assert seqs == sorted(set(seqs))
        assert seqs[0] > 0
        store.put_summary(ANA, write.episode_id, make_summary("Better."))
        assert _rows(store)[-1].seq > seqs[-1]
        newest = _rows(store)[-1].seq
        store.archive(ANA, write.episode_id)
        store.append(make_next(other, "d"))
        assert _rows(store)[-1].seq > newest

    def test_only_rows_after_a_seq_are_read(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", "c")
        store.append(write)
        rows = _rows(store)
        for known in range(4):
            last = rows[known - 1].seq if known else 0
            state, fresh = store.recall_rows(ANA, after=last)
            assert (state, fresh) == (_state(store), rows[known:])

    def test_which_of_the_rows_are_still_there(self, store: EpisodeStore) -> None:
        ended = make_append(ANA, "a", "b", closing=make_closing())
        store.append(ended)
        other = make_append(ANA, "c", "d", session_id="other")
        store.append(other)
        store.append(make_append(BEN, *"abcdefg"))
        known = [row.seq for row in _rows(store)]
        assert _alive(store, up_to=known[-1]) == known
        assert _alive(store, up_to=known[2]) == known[:3]
        assert _alive(store, up_to=0) == []
        assert store.recall_block(ANA, after=known[2])[1].alive is None
        store.archive(ANA, ended.episode_id)
        store.append(make_next(other, "e"))
        assert _alive(store, up_to=known[-1]) == known[2:]
        state, block = store.recall_block(ANA, after=known[-1], alive=True)
        assert (state, len(block)) == (_state(store), 1)
        _, nothing = store.recall_block(make_scope("nobody"), after=99, alive=True)
        assert nothing.alive is not None
        assert nothing.alive.tolist() == []


_Change = Callable[[EpisodeStore, Append, Append], object]
_CHANGES: dict[str, tuple[_Change, bool]] = {
    "append": (lambda store, open_, _: store.append(make_next(open_, "x")), False),
    "new episode": (
        lambda store, *_: store.append(make_append(ANA, "x", session_id="new")),
        False,
    ),
    "close": (
        lambda store, open_, _: store.close_episode(
            ANA, open_.episode_id, make_closing(), expect_messages=1
        ),
        False,
    ),
    "vectors": (lambda store, *_: _embed(store, "m"), False),
    "summary": (
        lambda store, _, closed: store.put_summary(ANA, closed.episode_id, make_summary("x")),
        True,
    ),
    "archive": (lambda store, _, closed: store.archive(ANA, closed.episode_id), True),
    "resume": (
        lambda store, _, closed: store.append(make_next(closed, "x", target=Target.RESUME)),
        True,
    ),
    "delete": (lambda store, _, closed: store.delete(ANA, closed.episode_id, at=FAR), True),
}


class RecallStateTests(StoreTests):
    def test_which_writes_bump_what(self, store: EpisodeStore) -> None:
        store.append(make_append(BEN, "c"))
        bens = store.recall_state(BEN)
        for change, (do, new_epoch) in _CHANGES.items():
            opened = make_append(ANA, "a", session_id=f"{change}: open")
            closed = make_append(ANA, "b", session_id=change, closing=make_closing())
            for write in (opened, closed):
                store.append(write)
            before, known = _state(store), {row.seq: row for row in _rows(store)}
            do(store, opened, closed)
            now = _state(store)
            assert now.version > before.version, change
            assert (now.epoch > before.epoch) is new_epoch, change
            rows = _rows(store)
            assert (known.keys() <= {row.seq for row in rows}) is not new_epoch, change
            assert _same_but_for_vectors(known, rows), change
        assert store.recall_state(BEN) == bens

    def test_reads_and_work_bump_nothing(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        before = _state(store)
        claim_all(store)
        store.session(ANA, "session")
        assert _state(store) == before
        assert store.recall_rows(ANA, after=0)[0] == before


class VectorTests(StoreTests):
    def test_a_vector_is_kept_and_its_work_done(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", make_turn("c", embed=False), closing=make_closing())
        store.append(write)
        everything = bytes(range(256))
        done = {work.ordinal: work for work in claim_all(store)}
        store.put_vectors(
            "model/1", [(done[0], everything), (done[SUMMARY_ORDINAL], b"\x80\x00\x7f")]
        )
        found = {row.ordinal: (row.model, row.vector) for row in _rows(store)}
        assert found == {
            0: ("model/1", everything),
            1: (None, None),
            2: ("", None),
            SUMMARY_ORDINAL: ("model/1", b"\x80\x00\x7f"),
        }
        assert store.backlog()[WorkKind.EMBED].waiting == 1
        assert store.stats().vectors == {"model/1": 2}

    def test_a_turn_refers_to_its_vector_once_it_is_there(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        store.append(write)
        first, _ = claim_all(store)
        store.put_vectors("m", [(first, b"\x01")])
        refs = [turn.embedding_ref for turn in store.turns(ANA, write.episode_id)]
        assert refs[0]
        assert refs[1] is None

    def test_doing_it_twice_changes_nothing(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a", "b"))
        done = [(work, bytes([work.ordinal])) for work in claim_all(store)]
        store.put_vectors("m", done)
        rows, backlog = _rows(store), store.backlog()
        store.put_vectors("m", done)
        store.put_vectors("m", [])
        assert (_rows(store), store.backlog()) == (rows, backlog)
        assert store.stats().vectors == {"m": 2}

    def test_rows_that_are_gone_are_passed_over(self, store: EpisodeStore) -> None:
        gone = make_append(ANA, "a", closing=make_closing())
        kept = make_append(ANA, "b", session_id="kept")
        for write in (gone, kept, make_append(BEN, "c")):
            store.append(write)
        claimed = claim_all(store)
        store.archive(ANA, gone.episode_id)
        store.put_summary(ANA, gone.episode_id, make_summary("Another."))
        nobody = claimed[0]._replace(scope=dataclasses.replace(ANA, user="nobody"))
        store.put_vectors("m", [(work, b"\x05") for work in (nobody, *claimed)])
        assert [row.vector for row in _rows(store)] == [b"\x05", None]
        assert [row.vector for row in store.recall_rows(BEN, after=0)[1]] == [b"\x05"]
        left = claim_all(store)
        assert [place(work) for work in left] == [(ANA, gone.episode_id, SUMMARY_ORDINAL)]

    def test_a_batch_may_hold_many_rows_of_many_scopes(self, store: EpisodeStore) -> None:
        for scope in (ANA, BEN):
            store.append(make_append(scope, *(str(number) for number in range(450))))
        done = [(work, work.ordinal.to_bytes(2)) for work in claim_all(store)]
        store.put_vectors("m", done)
        for scope in (ANA, BEN):
            rows = store.recall_rows(scope, after=0)[1]
            assert [row.vector for row in rows] == [n.to_bytes(2) for n in range(450)]
        assert store.backlog()[WorkKind.EMBED].waiting == 0


class ModelTests(StoreTests):
    def test_a_change_of_model_queues_what_has_a_vector(self, store: EpisodeStore) -> None:
        assert store.use_model("old") == 0
        write = make_append(ANA, "a", "b", make_turn("c", embed=False), closing=make_closing())
        store.append(write)
        _embed(store, "old", b"\x01")
        store.append(make_append(BEN, "waiting already"))
        assert store.use_model("old") == 0
        assert store.backlog()[WorkKind.EMBED].waiting == 1
        assert store.use_model("new") == 3
        assert store.use_model("new") == 0
        assert store.backlog()[WorkKind.EMBED].waiting == 4
        assert [row.model for row in _rows(store)] == ["old", "old", "", "old"]
        queued = [work for work in claim_all(store) if work.scope == ANA]
        assert {work.ordinal for work in queued} == {0, 1, SUMMARY_ORDINAL}
        assert {work.seq for work in queued} == {row.seq for row in _rows(store) if row.model}

    def test_a_new_vector_takes_the_place_of_the_old(self, store: EpisodeStore) -> None:
        store.use_model("old")
        write = make_append(ANA, "a", "b")
        store.append(write)
        _embed(store, "old", b"\x01")
        store.use_model("new")
        first = min(claim_all(store), key=lambda work: work.seq)
        store.put_vectors("new", [(first, b"\x02\x02")])
        found = [(row.model, row.vector) for row in _rows(store)]
        assert found == [("new", b"\x02\x02"), ("old", b"\x01")]
        assert store.stats().vectors == {"new": 1, "old": 1}
        old, new = [turn.embedding_ref for turn in store.turns(ANA, write.episode_id)]
        assert old != new

    def test_what_is_queued_is_not_queued_again(self, store: EpisodeStore) -> None:
        store.use_model("one")
        store.append(make_append(ANA, "a", "b"))
        _embed(store, "one")
        assert store.use_model("two") == 2
        assert store.use_model("three") == 0
        assert store.backlog()[WorkKind.EMBED].waiting == 2

    def test_no_row_is_left_with_a_former_model(self, store: EpisodeStore) -> None:
        store.use_model("old")
        store.append(make_append(ANA, "a", "b"))
        late = claim_all(store)
        store.use_model("new")
        # A worker that began before the change finishes after it.
        store.put_vectors("old", [(work, b"\x01") for work in late])
        release(store, "suite")
        _embed(store, "new", b"\x02")
        assert {row.model for row in _rows(store)} == {"new"}
        store.put_vectors("old", [(work, b"\x01") for work in late])
        assert {(row.model, row.vector) for row in _rows(store)} == {("new", b"\x02")}

    def test_the_model_in_use_outlives_the_object(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        store.use_model("one")
        store.append(make_append(ANA, "a"))
        _embed(store, "one")
        again = reopened()
        assert again.use_model("one") == 0
        assert again.use_model("two") == 1

    def test_an_archived_turn_is_not_queued(self, store: EpisodeStore) -> None:
        store.use_model("one")
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        _embed(store, "one")
        store.archive(ANA, write.episode_id)
        assert store.use_model("two") == 1

    def test_unknown_work_of_a_known_scope_is_passed_over(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        [work] = claim_all(store)
        unknown = work._replace(id=work.id + 99, seq=work.seq + 99, episode_id=new_id())
        store.put_vectors("m", [(unknown, b"\x01")])
        assert [row.vector for row in _rows(store)] == [None]
        assert store.backlog()[WorkKind.EMBED].waiting == 1
