"""Store suite: archiving, deleting and purging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from ...domain.audit import AuditDraft
from ...domain.episode import Scope
from ...domain.errors import EpisodeChanged, EpisodeDeleted, EpisodeNotFound
from ...domain.ids import new_id
from ...domain.retention import Stage
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, Append, EpisodeQuery, IndexEntry, Placeholder, Target
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_key,
    make_lexical,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .base import (
    ANA,
    BEN,
    FAR,
    Reopen,
    StoreTests,
    after,
    at_once,
    claim_all,
    cold_turns,
    find,
    marked_turns,
    raised,
    snapshot,
    texts,
)

LATER = after(days=90)


def tell(
    store: EpisodeStore, *said: str, scope: Scope = ANA, session_id: str = "session", **more: Any
) -> Append:
    """Store an episode that ended an hour after `START`, or as `more` says."""
    more.setdefault("closing", make_closing(summary=make_summary("They met.", "a fact")))
    write = make_append(scope, *(said or ("a", "b")), session_id=session_id, **more)
    store.append(write)
    return write


def make_entry(tenant: str = ANA.tenant, *, action: str = "test") -> AuditDraft:
    return AuditDraft(tenant=tenant, at=START, actor="suite", action=action)


def index_entries(store: EpisodeStore, write: Append) -> list[IndexEntry]:
    """Index entries of every stored turn and of the summary."""
    scope, episode_id = write.scope, write.episode_id
    kept = cold_turns(store, scope, episode_id) or marked_turns(store, scope, episode_id)
    turns = [
        IndexEntry(ordinal=t.ordinal, lexical=make_lexical(t.text), embed=t.text != "short")
        for t in kept
    ]
    summary = IndexEntry(ordinal=SUMMARY_ORDINAL, lexical=make_lexical("They met. a fact"))
    return [*turns, summary]


def aged(
    store: EpisodeStore, stage: Stage, *, before: datetime = FAR, limit: int = 100, **more: Any
) -> list[Any]:
    """The ids, and since when."""
    found = store.aged(stage, before=before, limit=limit, **more)
    assert {one.stage for one in found} <= {stage}
    return [(one.episode.id, one.since) for one in found]


class AgedTests(StoreTests):
    def test_ended_episodes_of_every_tenant_by_their_end(self, store: EpisodeStore) -> None:
        late = tell(store, closing=make_closing(at=after(days=3)))
        other = make_scope("zoe", tenant="other", agent="another")
        early = tell(store, scope=other, closing=make_closing(at=after(days=1)))
        store.append(make_append(BEN, "still open"))
        found = store.aged(Stage.ACTIVE, before=FAR, limit=9)
        assert [one.episode for one in found] == [find(store, early), find(store, late)]
        assert [one.since for one in found] == [after(days=1), after(days=3)]
        assert found[0].episode.scope == other

    def test_the_time_itself_is_included(self, store: EpisodeStore) -> None:
        write = tell(store)
        ended = after(hours=1)
        assert aged(store, Stage.ACTIVE, before=ended) == [(write.episode_id, ended)]
        assert aged(store, Stage.ACTIVE, before=ended - timedelta(microseconds=1)) == []

    def test_pages_leave_nothing_out(self, store: EpisodeStore) -> None:
        ends = [after(days=day) for day in (1, 2, 2, 2, 3)]
        for number, end in enumerate(ends):
            tell(store, session_id=str(number), closing=make_closing(at=end))
        whole = aged(store, Stage.ACTIVE)
        assert [since for _, since in whole] == ends
        paged, place = [], None
        while page := aged(store, Stage.ACTIVE, limit=2, after=place):
            paged += page
            place = (page[-1][1], page[-1][0])
        assert paged == whole
        [first, *_] = whole
        assert aged(store, Stage.ACTIVE, after=(first[1], first[0])) == whole[1:]

    def test_an_episode_is_in_one_stage(self, store: EpisodeStore) -> None:
        write = tell(store)
        place, ended = write.episode_id, after(hours=1)
        stages = {
            Stage.ACTIVE: ended,
            Stage.ARCHIVED: ended,
            Stage.DELETED: LATER,
        }
        for stage, since in stages.items():
            if stage is Stage.ARCHIVED:
                store.archive(ANA, place, cold=True, at=after(days=40))
            if stage is Stage.DELETED:
                store.delete(ANA, place, at=LATER)
            for each in Stage:
                expected = [(place, since)] if each is stage else []
                assert aged(store, each) == expected, (stage, each)
        store.restore(ANA, place, index_entries(store, write), at=after(days=95))
        assert aged(store, Stage.ACTIVE) == [(place, after(days=95))]
        assert aged(store, Stage.ARCHIVED) == aged(store, Stage.DELETED) == []

    def test_an_episode_that_goes_on_does_not_age(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.append(make_next(write, "c", at=after(days=1), target=Target.RESUME))
        assert aged(store, Stage.ACTIVE) == []
        closing = make_closing(at=after(days=2))
        store.close_episode(ANA, write.episode_id, closing, expect_messages=3)
        assert aged(store, Stage.ACTIVE) == [(write.episode_id, after(days=2))]


class ColdArchiveTests(StoreTests):
    def test_the_turns_are_kept_apart(self, store: EpisodeStore) -> None:
        call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "x"}]}
        turn = make_turn("with pii", has_pii=True, tokens=11)
        write = make_append(ANA, turn, make_turn(call), closing=make_closing())
        store.append(write)
        kept, other = store.turns(ANA, write.episode_id), tell(store, session_id="other")
        assert cold_turns(store, ANA, write.episode_id) == []
        archived = store.archive(ANA, write.episode_id, cold=True, at=LATER)
        assert (archived.is_archived, archived.is_cold, archived.archived_at) == (True, True, LATER)
        assert store.turns(ANA, write.episode_id) == []
        assert cold_turns(store, ANA, write.episode_id) == kept
        assert marked_turns(store, ANA, write.episode_id) == []
        assert cold_turns(store, ANA, other.episode_id) == []
        assert texts(store, other) == ["a", "b"]
        rows = store.recall_rows(ANA, after=0)[1]
        assert [row.ordinal for row in rows if row.episode_id == write.episode_id] == [-1]

    def test_the_other_way_keeps_none(self, store: EpisodeStore) -> None:
        write = tell(store)
        assert not store.archive(ANA, write.episode_id).is_cold
        assert cold_turns(store, ANA, write.episode_id) == []

    def test_nobody_else_reads_them(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.archive(ANA, write.episode_id, cold=True)
        for scope in (BEN, make_scope("ana", agent="x"), make_scope("ana", tenant="x")):
            assert cold_turns(store, scope, write.episode_id) == []

    def test_an_episode_that_was_restored_meanwhile_is_left(self, store: EpisodeStore) -> None:
        write = tell(store)
        ended = after(hours=1)
        with pytest.raises(EpisodeChanged):
            store.archive(ANA, write.episode_id, since=ended + timedelta(microseconds=1))
        assert texts(store, write) == ["a", "b"]
        assert store.archive(ANA, write.episode_id, since=ended).is_archived

    def test_a_deleted_one_is_not_found(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        with pytest.raises(EpisodeNotFound):
            store.archive(ANA, write.episode_id)


_UNSEEN: dict[str, Callable[[EpisodeStore, Append], object]] = {
    "episodes": lambda store, write: store.episodes(ANA, [write.episode_id]),
    "session": lambda store, write: store.session(ANA, write.session_id),
    "replay": lambda store, write: store.replay(ANA, write.session_id),
    "episode_ids": lambda store, write: store.episode_ids(ANA, write.session_id),
    "list": lambda store, write: [
        episode
        for episode in store.list_episodes(EpisodeQuery(of=ANA, limit=99))[0]
        if episode.id == write.episode_id
    ],
    "turns": lambda store, write: store.turns(ANA, write.episode_id),
    "turns_at": lambda store, write: store.turns_at(ANA, [(write.episode_id, 0)]),
    "episodes_and_turns": lambda store, write: [
        *store.episodes_and_turns(ANA, [write.episode_id], [])[0],
        *store.episodes_and_turns(ANA, [], [(write.episode_id, 0)])[1],
    ],
    "placeholders": lambda store, write: store.placeholders(ANA, write.episode_id),
    "rows": lambda store, write: [
        row for row in store.recall_rows(ANA, after=0)[1] if row.episode_id == write.episode_id
    ],
    "work": lambda store, write: [
        work for work in claim_all(store) if work.episode_id == write.episode_id
    ],
}
"""Reads that return nothing of a deleted episode."""


class DeleteTests(StoreTests):
    def test_it_is_gone_from_every_read_at_once(self, store: EpisodeStore) -> None:
        number = Placeholder(kind="EMAIL", digest=b"d", number=1)
        write = tell(store, placeholders=[number])
        other = tell(store, session_id="other")
        for name, read in _UNSEEN.items():
            assert read(store, write), name
        before = store.recall_state(ANA)
        store.delete(ANA, write.episode_id, at=LATER)
        for name, read in _UNSEEN.items():
            assert not read(store, write), name
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=1))[1] == 1
        state = store.recall_state(ANA)
        assert before is not None
        assert state is not None
        assert (state.version > before.version, state.epoch > before.epoch) == (True, True)
        assert texts(store, other) == ["a", "b"]

    def test_it_waits_to_be_purged_or_restored(self, store: EpisodeStore) -> None:
        first = tell(store, "one", closing=make_closing(at=after(days=1)))
        second = tell(store, "two", session_id="2", closing=make_closing(at=after(days=2)))
        kept = {w.episode_id: store.turns(ANA, w.episode_id) for w in (first, second)}
        episodes = [find(store, second), find(store, first)]
        assert store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0] == []
        assert marked_turns(store, ANA, first.episode_id) == []
        for write in (first, second):
            store.delete(ANA, write.episode_id, at=LATER)
            assert marked_turns(store, ANA, write.episode_id) == kept[write.episode_id]
        assert store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0] == episodes
        for scope in (BEN, make_scope("ana", agent="x"), make_scope("ana", tenant="x")):
            assert store.list_episodes(EpisodeQuery(of=scope, deleted=True))[0] == []
            assert marked_turns(store, scope, first.episode_id) == []

    def test_deleting_twice_changes_nothing(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        before = snapshot(store, ANA)
        store.delete(ANA, write.episode_id, at=after(days=99), since=START)
        assert snapshot(store, ANA) == before
        assert aged(store, Stage.DELETED) == [(write.episode_id, LATER)]

    def test_what_is_open_unknown_or_changed_stays(self, store: EpisodeStore) -> None:
        opened = make_append(ANA, "a", session_id="open")
        store.append(opened)
        closed = tell(store)
        before = snapshot(store, ANA)
        for scope, episode_id in (
            (ANA, opened.episode_id),
            (ANA, new_id()),
            (BEN, closed.episode_id),
        ):
            with pytest.raises(EpisodeNotFound):
                store.delete(scope, episode_id, at=LATER)
        with pytest.raises(EpisodeChanged):
            store.delete(ANA, closed.episode_id, at=LATER, since=START)
        assert snapshot(store, ANA) == before
        store.delete(ANA, closed.episode_id, at=LATER, since=after(hours=1))
        assert len(store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0]) == 1

    def test_its_session_is_free_again_and_its_key_is_not(self, store: EpisodeStore) -> None:
        write = tell(store, idempotency=make_key("key"), metadata={"channel": "web"})
        stored = store.turns(ANA, write.episode_id)
        assert store.repeated(ANA, make_key("key")) == stored
        assert store.repeated(ANA, make_key("another")) is None
        assert store.repeated(BEN, make_key("key")) is None
        store.delete(ANA, write.episode_id, at=LATER)
        again = make_append(ANA, "c", idempotency=make_key("key"), at=LATER)
        with pytest.raises(EpisodeDeleted) as caught:
            store.append(again)
        assert caught.value.episode_id == write.episode_id
        with pytest.raises(EpisodeDeleted):
            store.repeated(ANA, make_key("key"))
        assert store.episode_ids(ANA, "session") == {}
        store.append(replace(again, idempotency=make_key("new")))
        assert list(store.episode_ids(ANA, "session")) == [again.episode_id]
        assert texts(store, again) == ["c"]

    def test_it_takes_neither_turns_nor_a_summary(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        before = snapshot(store, ANA)
        for target in (Target.OPEN, Target.RESUME):
            with pytest.raises(EpisodeNotFound):
                store.append(make_next(write, "c", target=target))
        store.put_summary(ANA, write.episode_id, make_summary("Too late."))
        assert snapshot(store, ANA) == before


class PurgeTests(StoreTests):
    def test_nothing_is_left(self, store: EpisodeStore) -> None:
        number = Placeholder(kind="EMAIL", digest=b"d", number=1)
        write = tell(store, placeholders=[number], idempotency=make_key())
        other = tell(store, session_id="other", scope=BEN)
        before = snapshot(store, BEN)
        store.delete(ANA, write.episode_id, at=LATER)
        removed = store.purge(ANA, write.episode_id)
        assert {place: count for place, count in removed.items() if count} == {
            "idempotency keys": 1,
            "turns": 2,
            "placeholders": 1,
            "episodes": 1,
            "sessions": 1,
            "scopes": 1,
        }
        assert store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0] == []
        assert marked_turns(store, ANA, write.episode_id) == []
        assert store.recall_state(ANA) is None
        stats = store.stats()
        assert (stats.scopes, stats.sessions, stats.episodes, stats.turns) == (1, 1, 1, 2)
        assert snapshot(store, BEN)[f"of {BEN}"] == before[f"of {BEN}"]
        assert texts(store, other) == ["a", "b"]
        with pytest.raises(EpisodeNotFound):
            store.restore(ANA, write.episode_id, [], at=LATER)

    def test_archived_turns_go_too(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.archive(ANA, write.episode_id, cold=True)
        store.delete(ANA, write.episode_id, at=LATER)
        assert store.purge(ANA, write.episode_id)["archived turns"] == 2
        assert cold_turns(store, ANA, write.episode_id) == []

    def test_what_its_session_and_scope_still_have_stays(self, store: EpisodeStore) -> None:
        write = tell(store)
        sibling, other = tell(store, at=after(days=1)), tell(store, session_id="other")
        before = store.session(ANA, "session")
        store.delete(ANA, write.episode_id, at=LATER)
        removed = store.purge(ANA, write.episode_id)
        assert (removed["sessions"], removed.get("scopes", 0)) == (0, 0)
        assert store.session(ANA, "session") == before
        assert texts(store, sibling) == texts(store, other) == ["a", "b"]
        store.delete(ANA, sibling.episode_id, at=LATER)
        assert store.purge(ANA, sibling.episode_id)["sessions"] == 1
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=9))[1] == 1

    def test_only_what_is_deleted_since_then(self, store: EpisodeStore) -> None:
        write = tell(store)
        assert store.purge(ANA, write.episode_id) == {}
        assert texts(store, write) == ["a", "b"]
        store.delete(ANA, write.episode_id, at=LATER)
        before = snapshot(store, ANA)
        assert store.purge(ANA, write.episode_id, since=after(days=89)) == {}
        assert store.purge(BEN, write.episode_id) == {}
        assert store.purge(ANA, new_id()) == {}
        assert snapshot(store, ANA) == before
        assert store.purge(ANA, write.episode_id, since=LATER)["episodes"] == 1
        assert store.purge(ANA, write.episode_id, since=LATER) == {}

    def test_a_scope_that_comes_back_has_another_number(self, store: EpisodeStore) -> None:
        write = tell(store)
        before = store.recall_state(ANA)
        store.delete(ANA, write.episode_id, at=LATER)
        store.purge(ANA, write.episode_id)
        tell(store)
        state = store.recall_state(ANA)
        assert before is not None
        assert state is not None
        assert state.scope_id != before.scope_id

    def test_every_stage_outlives_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        cold, deleted = tell(store, session_id="1"), tell(store, session_id="2")
        store.archive(ANA, cold.episode_id, cold=True)
        store.delete(ANA, deleted.episode_id, at=LATER)
        again = reopened()
        assert [turn.text for turn in cold_turns(again, ANA, cold.episode_id)] == ["a", "b"]
        assert [turn.text for turn in marked_turns(again, ANA, deleted.episode_id)] == ["a", "b"]
        assert aged(again, Stage.DELETED) == [(deleted.episode_id, LATER)]

    def test_of_many_who_move_an_episode_one_does(self, store: EpisodeStore) -> None:
        write = tell(store)

        def move(thread: int) -> int:
            store.archive(ANA, write.episode_id, cold=thread % 2 == 0)
            store.delete(ANA, write.episode_id, at=LATER)
            return store.purge(ANA, write.episode_id).get("episodes", 0)

        outcomes = at_once(move)
        assert set(raised(outcomes)) <= {EpisodeNotFound}
        assert sum(done for done in outcomes if isinstance(done, int)) == 1
        assert store.stats().episodes == 0
