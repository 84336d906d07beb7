"""Store suite: erasing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ...domain.audit import AuditDraft
from ...domain.episode import Scope
from ...domain.erasure import Erasure, Subject
from ...domain.errors import EpisodeClosed, EpisodeNotFound, LegalHold
from ...domain.forget import Chosen
from ...domain.identity import AccessRole, ApiKey
from ...domain.ids import new_id
from ...domain.ledger import Injected, InjectedKind, Injection
from ...domain.retention import Hold
from ...ports.store import Capability, EpisodeStore
from ...ports.values import Append, EpisodeQuery, Placeholder
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_fact,
    make_key,
    make_next,
    make_scope,
    make_summary,
)
from .base import (
    ANA,
    BEN,
    StoreTests,
    after,
    at_once,
    claim_all,
    cold_turns,
    marked_turns,
    raised,
    session_episodes,
    snapshot,
    texts,
)

ANA_ELSEWHERE = make_scope("ana", agent="another")
NAMESAKES = [
    BEN,
    make_scope("ana", tenant="other"),
    make_scope("Ana"),
    make_scope("ana "),
    make_scope("helper", agent="ana"),
]
"""Scopes that an erasure of ANA must not touch."""


def fill(store: EpisodeStore, scope: Scope) -> Append:
    """Fill a scope with one of everything that it can hold; returns its open episode."""
    store.append(
        make_append(scope, "c", "d", session_id="cold", closing=make_closing(at=after(days=1)))
    )
    [cold] = session_episodes(store, scope, "cold")
    store.archive(scope, cold.id, cold=True)
    store.append(
        make_append(
            scope,
            "e",
            session_id="gone",
            closing=make_closing(
                at=after(days=1), summary=make_summary(improve=True, facts=[make_fact()])
            ),
        )
    )
    store.add_facts(scope, [make_fact("Prefers tea.")])
    [gone] = session_episodes(store, scope, "gone")
    store.delete(scope, gone.id, at=after(days=2))
    write = make_append(
        scope,
        "a",
        "b",
        session_id="open",
        metadata={"channel": "web"},
        idempotency=make_key(),
        placeholders=[Placeholder(kind="EMAIL", number=1, digest=b"d" * 32)],
    )
    store.append(write)
    shown = Injected(kind=InjectedKind.PASSAGE, rank=1, episode_id=cold.id, ordinal=0)
    used = Injection(id=new_id(), session_id="open", at=START, shown=(shown,))
    store.record_injections(scope.tenant, [(scope, used)])
    if Capability.FORGET in store.capabilities:
        chosen = Chosen(summaries={cold.id: ("5e",)})
        store.keep_preview(scope, "token", chosen, expires_at=after(hours=1), now=START)
    return write


def erase(store: EpisodeStore, scope: Scope, *, every_agent: bool = False, **more: Any) -> Erasure:
    agent = None if every_agent else scope.agent
    subject = Subject(tenant=scope.tenant, user=scope.user, agent=agent, **more)
    return store.erase(subject, begin(scope.tenant), entry(scope.tenant))


def begin(tenant: str = "acme") -> Erasure:
    return Erasure(id=new_id(), tenant=tenant, at=START, subject="5e" * 32, actor="tester")


def entry(tenant: str = "acme", action: str = "erase") -> AuditDraft:
    return AuditDraft(tenant=tenant, at=START, actor="tester", action=action)


def hold(scope: Scope, episode_id: UUID | None = None) -> Hold:
    return Hold(
        id=new_id(),
        tenant=scope.tenant,
        user=scope.user if episode_id is None else None,
        episode_id=episode_id,
        reason="a lawsuit",
        placed_at=START,
        placed_by="tester",
    )


class EraseTests(StoreTests):
    def test_nothing_is_left_of_a_scope(self, store: EpisodeStore) -> None:
        opened = fill(store, ANA)
        [work, *_] = claim_all(store)
        store.put_vectors("m", [(work, b"\x01\x02")])
        done = erase(store, ANA)
        assert done.removed == {
            "turns": 3,
            "archived turns": 2,
            "recall rows": 3,
            "waiting work": 2,
            "idempotency keys": 1,
            "message keys": 0,
            "placeholders": 1,
            "facts": 2,
            "ledger items": 1,
            "ledger entries": 1,
            "forget previews": int(Capability.FORGET in store.capabilities),
            "episodes": 3,
            "sessions": 3,
            "scopes": 1,
        }
        assert set(store.left_of(done).values()) == {0}
        assert set(store.left_of(done)) == set(done.removed)
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=9)) == ([], 0)
        assert store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0] == []
        assert store.turns(ANA, opened.episode_id) == []
        assert store.placeholders(ANA, opened.episode_id) == []
        assert store.recall_state(ANA) is None
        assert store.recall_rows(ANA, after=0)[1] == []
        assert store.session(ANA, "open") is None
        assert store.scopes(tenant="acme", user="ana") == []
        assert claim_all(store) == []
        assert store.stats().turns == 0

    def test_nobody_else_is_touched(self, store: EpisodeStore) -> None:
        for scope in (ANA, ANA_ELSEWHERE, *NAMESAKES):
            fill(store, scope)
        others = [ANA_ELSEWHERE, *NAMESAKES]
        before = snapshot(store, *others)
        erase(store, ANA)
        found = snapshot(store, *others)
        assert {k: v for k, v in found.items() if k.startswith("of ")} == {
            k: v for k, v in before.items() if k.startswith("of ")
        }
        assert store.stats().turns == 3 * len(others)
        assert [
            len(store.list_episodes(EpisodeQuery(of=scope, deleted=True))[0]) for scope in others
        ] == [1] * len(others)
        assert len(store.placeholders(BEN, found[f"of {BEN}"]["episodes"][0].id)) == 1

    def test_a_user_is_erased_with_every_agent(self, store: EpisodeStore) -> None:
        for scope in (ANA, ANA_ELSEWHERE, *NAMESAKES):
            fill(store, scope)
        done = erase(store, ANA, every_agent=True)
        assert done.removed["scopes"] == len(done.scope_ids) == 2
        assert done.removed["turns"] == 6
        assert store.scopes(tenant="acme", user="ana") == []
        assert len(store.scopes(tenant="acme")) == len(NAMESAKES) - 1
        assert set(store.left_of(done).values()) == {0}

    def test_keys_of_the_user_go_with_every_agent(self, store: EpisodeStore) -> None:
        for name, tenant, user in (("1", "acme", "ana"), ("2", "acme", "ben"), ("3", "x", "ana")):
            key = ApiKey(
                id=name,
                tenant=tenant,
                role=AccessRole.USER,
                name="a key",
                user=user,
                created_at=START,
            )
            store.put_key(key, b"hash")
        erase(store, ANA)
        assert store.find_key("1") is not None
        assert erase(store, ANA, every_agent=True).removed["api keys"] == 1
        assert [store.find_key(name) is None for name in "123"] == [True, False, False]

    def test_somebody_unknown(self, store: EpisodeStore) -> None:
        fill(store, ANA)
        before = snapshot(store, ANA)
        done = erase(store, BEN)
        assert done.scope_ids == ()
        assert set(done.removed.values()) == {0}
        assert set(store.left_of(done).values()) == {0}
        assert snapshot(store, ANA) == before

    def test_one_episode(self, store: EpisodeStore) -> None:
        opened = fill(store, ANA)
        other = make_append(ANA, "z", session_id="open", closing=make_closing())
        store.append(make_next(opened, closing=make_closing(), placeholders=()))
        store.append(other)
        before = store.turns(ANA, other.episode_id)
        rows = [r for r in store.recall_rows(ANA, after=0)[1] if r.episode_id == other.episode_id]
        done = erase(store, ANA, episode_id=opened.episode_id)
        assert done.episode_id == opened.episode_id
        wanted = {"turns": 2, "episodes": 1, "sessions": 0, "scopes": 0, "recall rows": 3}
        assert {place: done.removed[place] for place in wanted} == wanted
        assert (done.removed["placeholders"], done.removed["idempotency keys"]) == (1, 1)
        assert done.removed["waiting work"] == 3
        assert set(store.left_of(done).values()) == {0}
        assert store.turns(ANA, opened.episode_id) == []
        assert store.turns(ANA, other.episode_id) == before
        left = store.recall_rows(ANA, after=0)[1]
        assert [r for r in left if r.episode_id == other.episode_id] == rows
        assert opened.episode_id not in {r.episode_id for r in left}

    def test_the_last_episode_takes_its_session_and_scope_along(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        done = erase(store, ANA, episode_id=write.episode_id)
        assert (done.removed["sessions"], done.removed["scopes"]) == (1, 1)
        assert store.scopes(tenant="acme") == []

    @pytest.mark.parametrize("session", ["cold", "gone"])
    def test_an_archived_or_deleted_episode(self, store: EpisodeStore, session: str) -> None:
        fill(store, ANA)
        known = [
            *session_episodes(store, ANA, "cold"),
            *store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0],
        ]
        [episode] = [each for each in known if each.session_id == session]
        done = erase(store, ANA, episode_id=episode.id)
        assert done.removed["episodes"] == 1
        assert done.removed["turns"] + done.removed["archived turns"] > 0
        assert set(store.left_of(done).values()) == {0}
        assert cold_turns(store, ANA, episode.id) == marked_turns(store, ANA, episode.id) == []

    def test_an_episode_of_somebody_else_is_not_found(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        for scope in (ANA_ELSEWHERE, *NAMESAKES):
            with pytest.raises(EpisodeNotFound):
                erase(store, scope, episode_id=write.episode_id)
        with pytest.raises(EpisodeNotFound):
            erase(store, ANA, episode_id=new_id())
        assert texts(store, write) == ["a"]
        assert store.erasures(unfinished=True) == []
        assert store.audit("acme") == []

    def test_a_hold_stands_against_it(self, store: EpisodeStore) -> None:
        write = fill(store, ANA)
        for placed in (hold(ANA), hold(ANA, write.episode_id)):
            store.place_hold(placed)
            before = snapshot(store, ANA), store.state().removals
            for more in ({}, {"every_agent": True}, {"episode_id": write.episode_id}):
                with pytest.raises(LegalHold) as refused:
                    erase(store, ANA, **more)
                assert refused.value.hold_id == placed.id
            assert (snapshot(store, ANA), store.state().removals) == before
            assert store.erasures(unfinished=True) == []
            store.lift_hold("acme", placed.id)
        store.place_hold(hold(BEN))
        assert erase(store, ANA).removed["scopes"] == 1

    def test_what_comes_afterwards_is_a_new_scope(self, store: EpisodeStore) -> None:
        first = make_append(ANA, "a", "b")
        store.append(first)
        stale = claim_all(store)
        done = erase(store, ANA)
        with pytest.raises((EpisodeNotFound, EpisodeClosed)):
            store.append(make_next(first, "late"))
        again = make_append(ANA, "c", "d")
        store.append(again)
        # A worker that began before the erasure finishes after it.
        store.put_vectors("m", [(work, b"\x07") for work in stale])
        rows = store.recall_rows(ANA, after=0)[1]
        assert [(row.episode_id, row.vector) for row in rows] == [(again.episode_id, None)] * 2
        state = store.recall_state(ANA)
        assert state is not None
        assert state.scope_id not in done.scope_ids
        assert texts(store, again) == ["c", "d"]
        assert len(claim_all(store)) == 2
        assert set(store.left_of(done).values()) == {0}

    def test_left_of_finds_what_is_there(self, store: EpisodeStore) -> None:
        """A control, so that the zeros after an erasure mean something."""
        opened = fill(store, ANA)
        state = store.recall_state(ANA)
        assert state is not None
        unharmed = Erasure(
            id=new_id(), tenant="acme", at=START, subject="5e", scope_ids=(state.scope_id,)
        )
        assert store.left_of(unharmed) == {
            "turns": 3,
            "archived turns": 2,
            "recall rows": 3,
            "waiting work": 3,
            "idempotency keys": 1,
            "message keys": 0,
            "placeholders": 1,
            "facts": 2,
            "ledger items": 1,
            "ledger entries": 1,
            "forget previews": int(Capability.FORGET in store.capabilities),
            "episodes": 3,
            "sessions": 3,
            "scopes": 1,
        }
        one = Erasure(
            id=new_id(),
            tenant="acme",
            at=START,
            subject="5e",
            scope_ids=(state.scope_id,),
            episode_id=opened.episode_id,
        )
        assert store.left_of(one) == {
            "turns": 2,
            "archived turns": 0,
            "recall rows": 2,
            "waiting work": 2,
            "idempotency keys": 1,
            "placeholders": 1,
            "facts": 0,
            "ledger items": 0,
            "episodes": 1,
        }

    def test_many_erase_and_write_at_once(self, store: EpisodeStore) -> None:
        def act(number: int) -> object:
            if number % 2:
                return erase(store, ANA)
            write = make_append(ANA, f"text {number}", session_id=f"session {number}")
            store.append(write)
            return write

        outcomes = at_once(act)
        assert raised(outcomes) == []
        erasures = [each for each in outcomes if isinstance(each, Erasure)]
        writes = [each for each in outcomes if isinstance(each, Append)]
        gone = sum(each.removed["turns"] for each in erasures)
        left = [write for write in writes if texts(store, write)]
        assert gone + len(left) == len(writes)
        assert len({number for each in erasures for number in each.scope_ids}) == sum(
            each.removed["scopes"] for each in erasures
        )
        assert store.stats().turns == len(left)
        entries = store.audit("acme")
        assert [each.seq for each in entries] == list(range(1, len(erasures) + 1))
