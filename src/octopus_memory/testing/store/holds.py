"""Store suite: legal holds, and the lead of a job."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from ...domain.errors import EpisodeNotFound, LegalHold
from ...domain.ids import new_id
from ...domain.retention import Hold, Stage
from ...ports.store import EpisodeStore
from ...ports.values import Append
from ..fakes import START, make_append, make_scope
from .base import (
    ANA,
    BEN,
    Reopen,
    StoreTests,
    after,
    at_once,
    marked_turns,
    raised,
    snapshot,
    texts,
)
from .retention import LATER, aged, index_entries, make_entry, tell


def record_run(store: EpisodeStore, job: str, at: datetime) -> None:
    """Record that a run of the job is complete, as its leader."""
    with store.lead(job, worker_id="recorder") as lead:
        assert lead is not None
        lead.ran(at)


def make_hold(
    *,
    tenant: str = ANA.tenant,
    user: str | None = None,
    episode_id: UUID | None = None,
    reason: str = "case 17",
    placed_at: datetime = START,
) -> Hold:
    return Hold(
        id=new_id(),
        tenant=tenant,
        user=user,
        episode_id=episode_id,
        reason=reason,
        placed_at=placed_at,
        placed_by="suite",
    )


def _refused(store: EpisodeStore, write: Append) -> set[UUID]:
    """The holds that refuse each change of stage."""
    steps: list[Any] = [
        lambda: store.archive(write.scope, write.episode_id),
        lambda: store.archive(write.scope, write.episode_id, cold=True),
        lambda: store.delete(write.scope, write.episode_id, at=LATER),
    ]
    by = set()
    for step in steps:
        with pytest.raises(LegalHold) as caught:
            step()
        by.add(caught.value.hold_id)
    return by


class HoldTests(StoreTests):
    def test_a_hold_on_a_user_keeps_all_of_them(self, store: EpisodeStore) -> None:
        one = tell(store)
        another = tell(store, scope=make_scope("ana", agent="other agent"))
        hold = make_hold(user="ana")
        store.place_hold(hold)
        before = snapshot(store, ANA)
        for write in (one, another):
            assert _refused(store, write) == {hold.id}
            assert texts(store, write) == ["a", "b"]
        assert snapshot(store, ANA) == before

    def test_and_nobody_else(self, store: EpisodeStore) -> None:
        store.place_hold(make_hold(user="ana"))
        for scope in (BEN, make_scope("ana", tenant="other"), make_scope("Ana"), make_scope("an")):
            write = tell(store, scope=scope)
            assert store.archive(scope, write.episode_id).is_archived
            store.delete(scope, write.episode_id, at=LATER)
            assert store.purge(scope, write.episode_id)["episodes"] == 1

    def test_a_hold_on_an_episode_keeps_it_alone(self, store: EpisodeStore) -> None:
        held, free = tell(store), tell(store, session_id="free")
        hold = make_hold(episode_id=held.episode_id)
        store.place_hold(hold)
        assert _refused(store, held) == {hold.id}
        assert store.archive(ANA, free.episode_id).is_archived

    def test_what_is_deleted_is_not_purged(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        hold = make_hold(episode_id=write.episode_id)
        store.place_hold(hold)
        with pytest.raises(LegalHold):
            store.purge(ANA, write.episode_id)
        assert len(marked_turns(store, ANA, write.episode_id)) == 2
        store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        assert texts(store, write) == ["a", "b"]

    def test_a_lifted_hold_stops_nothing(self, store: EpisodeStore) -> None:
        write = tell(store)
        first, second = make_hold(user="ana"), make_hold(episode_id=write.episode_id)
        for hold in (first, second):
            store.place_hold(hold)
        assert store.lift_hold(ANA.tenant, first.id)
        assert _refused(store, write) == {second.id}
        assert store.lift_hold(ANA.tenant, second.id)
        assert store.archive(ANA, write.episode_id).is_archived

    def test_holds_are_told_apart_by_tenant(self, store: EpisodeStore) -> None:
        late, early = make_hold(user="ana", placed_at=after(days=1)), make_hold(user="ben")
        foreign = make_hold(tenant="other", user="ana")
        for hold in (late, early, foreign):
            store.place_hold(hold)
        assert store.holds(ANA.tenant) == [early, late]
        assert store.holds("other") == [foreign]
        assert store.holds("nobody") == []
        assert not store.lift_hold(ANA.tenant, foreign.id)
        assert not store.lift_hold(ANA.tenant, new_id())
        assert store.holds("other") == [foreign]

    def test_placing_it_again_changes_nothing(self, store: EpisodeStore) -> None:
        hold = make_hold(user="ana", reason="é草 " * 600)
        for _ in range(2):
            store.place_hold(hold, entry=make_entry())
        assert store.holds(ANA.tenant) == [hold]
        for _ in range(2):
            store.lift_hold(ANA.tenant, hold.id, entry=make_entry())
        assert len(store.audit(ANA.tenant)) == 2

    def test_an_episode_that_is_not_the_tenants_is_not_found(self, store: EpisodeStore) -> None:
        foreign = tell(store, scope=make_scope("ana", tenant="other"))
        for episode_id in (foreign.episode_id, new_id()):
            with pytest.raises(EpisodeNotFound):
                store.place_hold(make_hold(episode_id=episode_id), entry=make_entry())
        assert store.holds(ANA.tenant) == []
        assert store.audit(ANA.tenant) == []

    def test_what_is_held_is_told_apart_from_what_is_due(self, store: EpisodeStore) -> None:
        by_user = tell(store, scope=BEN)
        by_id, free = tell(store, session_id="held"), tell(store)
        foreign = tell(store, scope=make_scope("ben", tenant="other"))
        store.place_hold(make_hold(user="ben"))
        store.place_hold(make_hold(episode_id=by_id.episode_id))
        for stage, step in (
            (Stage.ACTIVE, None),
            (Stage.ARCHIVED, store.archive),
        ):
            if step is not None:
                for write in (free, foreign):
                    step(write.scope, write.episode_id)
            due = {episode for episode, _ in aged(store, stage)}
            assert due == {free.episode_id, foreign.episode_id}
        held = {episode for episode, _ in aged(store, Stage.ACTIVE, held=True)}
        assert held == {by_user.episode_id, by_id.episode_id}
        assert aged(store, Stage.ARCHIVED, held=True) == []

    def test_holds_outlive_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        hold = make_hold(user="ana")
        store.place_hold(hold)
        assert reopened().holds(ANA.tenant) == [hold]


class LeadTests(StoreTests):
    def test_one_leads_and_the_others_are_told(self, store: EpisodeStore) -> None:
        with store.lead("job", worker_id="first") as lead:
            assert lead is not None
            for owner in ("second", "first"):
                with store.lead("job", worker_id=owner) as other:
                    assert other is None
            with store.lead("another job", worker_id="second") as other:
                assert other is not None
            assert lead.renew()
        with store.lead("job", worker_id="second") as lead:
            assert lead is not None

    def test_a_failure_ends_it_too(self, store: EpisodeStore) -> None:
        with pytest.raises(RuntimeError), store.lead("job", worker_id="first"):
            raise RuntimeError
        with store.lead("job", worker_id="second") as lead:
            assert lead is not None

    def test_of_many_at_once_one_leads(self, store: EpisodeStore) -> None:
        leads: list[int] = []

        def run(thread: int) -> None:
            with store.lead("job", worker_id=f"w{thread}") as lead:
                if lead is not None:
                    leads.append(thread)
                    assert leads == [thread]
                    store.append(make_append(make_scope(str(thread)), "a"))
                    leads.remove(thread)

        assert raised(at_once(run)) == []
        assert 1 <= store.stats().scopes <= 8

    def test_when_it_last_ran(self, store: EpisodeStore) -> None:
        assert store.last_run("job") is None
        with store.lead("job", worker_id="first"):
            assert store.last_run("job") is None
        record_run(store, "job", START)
        record_run(store, "another job", after(days=2))
        assert store.last_run("job") == START
        record_run(store, "job", after(days=1))
        assert store.last_run("job") == after(days=1)
        with store.lead("job", worker_id="first"):
            pass
        assert store.last_run("job") == after(days=1)

    def test_that_outlives_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        record_run(store, "job", START)
        assert reopened().last_run("job") == START
