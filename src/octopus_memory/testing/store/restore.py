"""Store suite: restoring deleted and cold episodes."""

from __future__ import annotations

import pytest

from ...domain.errors import EpisodeArchived, EpisodeChanged, EpisodeNotFound
from ...domain.ids import new_id
from ...domain.retention import Stage
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, EpisodeQuery, IndexEntry, Target
from ..fakes import make_append, make_closing, make_lexical, make_next
from .base import (
    ANA,
    BEN,
    StoreTests,
    after,
    claim_all,
    cold_turns,
    find,
    marked_turns,
    snapshot,
    texts,
)
from .retention import LATER, aged, index_entries, make_entry, tell


class RestoreTests(StoreTests):
    def test_a_deleted_episode_comes_back_whole(self, store: EpisodeStore) -> None:
        write = tell(store, "a", "short", metadata={"channel": "web"})
        store.put_vectors("m", [(work, b"\x01") for work in claim_all(store)])
        before, turns = find(store, write), store.turns(ANA, write.episode_id)
        state = store.session(ANA, "session")
        rows = store.recall_rows(ANA, after=0)[1]
        store.delete(ANA, write.episode_id, at=LATER)
        assert store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER) == before
        assert find(store, write) == before
        assert store.session(ANA, "session") == state
        back = store.turns(ANA, write.episode_id)
        assert [(t.id, t.ordinal, t.message, t.tokens, t.at) for t in back] == [
            (t.id, t.ordinal, t.message, t.tokens, t.at) for t in turns
        ]
        # They are embedded again, if they have a vector.
        assert [turn.embedding_ref for turn in back] == [None, None]
        found = store.recall_rows(ANA, after=0)[1]
        assert [(r.ordinal, r.role, r.at) for r in found] == [
            (r.ordinal, r.role, r.at) for r in rows
        ]
        assert [row.lexical.terms for row in found] == [row.lexical.terms for row in rows]
        assert [(row.model, row.vector) for row in found] == [
            (None, None),
            ("", None),
            (None, None),
        ]
        assert {row.seq for row in found}.isdisjoint(row.seq for row in rows)
        assert [work.ordinal for work in claim_all(store)] == [0, SUMMARY_ORDINAL]
        assert store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0] == []
        assert marked_turns(store, ANA, write.episode_id) == []

    def test_a_cold_one_too_deleted_or_not(self, store: EpisodeStore) -> None:
        for number, deleted in enumerate((False, True)):
            write = tell(store, session_id=str(number))
            before, turns = find(store, write), store.turns(ANA, write.episode_id)
            store.archive(ANA, write.episode_id, cold=True, at=LATER)
            if deleted:
                store.delete(ANA, write.episode_id, at=LATER)
                assert cold_turns(store, ANA, write.episode_id) == turns
            store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
            assert find(store, write) == before
            assert store.turns(ANA, write.episode_id) == turns
            assert cold_turns(store, ANA, write.episode_id) == []
            found = [row.ordinal for row in store.recall_rows(ANA, after=0)[1]]
            assert found == [0, 1, SUMMARY_ORDINAL] * (number + 1)
        # Once more, in the same way.
        assert store.archive(ANA, write.episode_id, cold=True).is_cold
        assert cold_turns(store, ANA, write.episode_id) == turns

    def test_a_summary_is_all_that_comes_back_of_a_summary(self, store: EpisodeStore) -> None:
        write = tell(store)
        archived = store.archive(ANA, write.episode_id, at=after(days=9))
        before = snapshot(store, ANA)
        with pytest.raises(EpisodeArchived) as caught:
            store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        assert caught.value.episode_id == write.episode_id
        assert snapshot(store, ANA) == before
        store.delete(ANA, write.episode_id, at=LATER)
        assert (
            store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER) == archived
        )
        assert aged(store, Stage.ARCHIVED) == [(write.episode_id, LATER)]
        [row] = store.recall_rows(ANA, after=0)[1]
        assert (row.ordinal, row.at) == (SUMMARY_ORDINAL, before[f"of {ANA}"]["rows"][0].at)

    def test_one_without_turns_or_a_summary(self, store: EpisodeStore) -> None:
        empty = make_append(ANA, closing=make_closing(summary=None))
        store.append(empty)
        before = find(store, empty)
        store.delete(ANA, empty.episode_id, at=LATER)
        assert store.restore(ANA, empty.episode_id, [], at=LATER) == before

    def test_what_is_not_what_it_was_taken_for_stays(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        whole = index_entries(store, write)
        extra = IndexEntry(ordinal=7, lexical=make_lexical("x"))
        for wrong in ([], whole[:-1], whole[1:], [*whole, extra]):
            with pytest.raises(EpisodeChanged):
                store.restore(ANA, write.episode_id, wrong, at=LATER)
            assert len(store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0]) == 1
            assert store.recall_rows(ANA, after=0)[1] == []

    def test_restoring_an_active_one_changes_nothing(self, store: EpisodeStore) -> None:
        closed, opened = tell(store), make_append(ANA, "a", session_id="open")
        store.append(opened)
        before = snapshot(store, ANA)
        for write in (closed, opened):
            assert store.restore(ANA, write.episode_id, [], at=LATER) == find(store, write)
        assert snapshot(store, ANA) == before
        assert aged(store, Stage.ACTIVE) == [(closed.episode_id, after(hours=1))]

    def test_what_is_unknown_here_is_not_found(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        for scope, episode_id in ((ANA, new_id()), (BEN, write.episode_id)):
            with pytest.raises(EpisodeNotFound):
                store.restore(scope, episode_id, [], at=LATER)
        assert len(store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0]) == 1

    def test_it_goes_on_like_any_other(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        [turn] = store.append(make_next(write, "c", at=after(days=91), target=Target.RESUME))
        assert turn.ordinal == 2
        assert texts(store, write) == ["a", "b", "c"]


class StageEntryTests(StoreTests):
    """An audit entry is recorded in the same transaction, if anything changed."""

    def test_once_for_each_change(self, store: EpisodeStore) -> None:
        write = tell(store)
        for _ in range(2):
            store.delete(ANA, write.episode_id, at=LATER, entry=make_entry())
        assert len(store.audit(ANA.tenant)) == 1
        found = index_entries(store, write)
        with pytest.raises(EpisodeChanged):
            store.restore(ANA, write.episode_id, [], at=LATER, entry=make_entry())
        for _ in range(2):
            store.restore(ANA, write.episode_id, found, at=LATER, entry=make_entry())
        assert [entry.action for entry in store.audit(ANA.tenant)] == ["test", "test"]
        with pytest.raises(EpisodeNotFound):
            store.delete(ANA, new_id(), at=LATER, entry=make_entry())
        assert len(store.audit(ANA.tenant)) == 2
        assert store.backlog()[WorkKind.EMBED].waiting == 3
