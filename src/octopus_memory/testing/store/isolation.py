"""Store suite: isolation of scopes, and what belongs to a tenant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

import pytest

from ...domain.episode import Scope, Turn
from ...domain.errors import EpisodeNotFound, IdempotencyConflict, SessionNotFound
from ...domain.identity import AccessRole, ApiKey, secret_hash
from ...domain.ids import new_id
from ...domain.replay import SessionReplay
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import Append, EpisodeQuery, Target, TenantScopes
from ..fakes import START, make_append, make_closing, make_key, make_next, make_scope, make_summary
from .base import (
    ANA,
    FAR,
    StoreTests,
    after,
    claim_all,
    find,
    release,
    session_episodes,
    snapshot,
    texts,
    worker_ids,
)
from .retention import make_entry

LOOK_ALIKES = (
    *("ana", "Ana", "ANA"),
    *("an\u00e1", "ana\u0301", "\uff41\uff4e\uff41", "\u0430na", "ana\u200b"),
    *("stra\u00dfe", "strasse", "\u0130", "i\u0307", "\u0131"),
    *("an%", "an_", "%", "an*", "[a]na", "'ana'", '"ana"', "ana'--", "ana\\", "ana\\0"),
    *("ana\0", "ana\0\0", "\0ana", "ana ", "ana  ", " ana", "ana\n", " "),
    *("1", "01", "\U0001f419", "\U0001f469\u200d\U0001f467", "\U0001f469\U0001f467"),
    *("x" * 100, "x" * 99, "x" * 99 + "X", "x" * 99 + " "),
)
"""Different names that a database might compare as equal."""

_MOST_ALIKE = (
    *("ana", "Ana", "an\u00e1", "ana\u0301", "an%", "an_", "'ana'", "ana\\", "ana\0", "ana "),
    *("\U0001f419", "x" * 100, "x" * 99 + "X"),
)
_LONG = ("x" * 256, "x" * 255, "x" * 255 + "X", "\U0001f419" * 256)


def crowd() -> list[Scope]:
    """Scopes that differ slightly in one name."""
    scopes = [make_scope(name) for name in (*LOOK_ALIKES, *_LONG)]
    scopes += [make_scope(tenant=name) for name in _MOST_ALIKE]
    scopes += [make_scope(agent=name) for name in (*_MOST_ALIKE, *_LONG)]
    scopes += [
        Scope(tenant=tenant, agent=agent, user=user)
        for tenant, agent, user in (("a", "b", "cd"), ("a", "bc", "d"), ("ab", "c", "d"))
    ]
    scopes += [make_scope("helper", agent="ana"), make_scope("acme", agent="helper", tenant="ana")]
    return list(dict.fromkeys(scopes))


def _fill(store: EpisodeStore, scopes: list[Scope], **more: Any) -> dict[Scope, Append]:
    """The same content in every scope, except for the text."""
    writes = {
        scope: make_append(scope, f"secret {number}", **more) for number, scope in enumerate(scopes)
    }
    for write in writes.values():
        store.append(write)
    return writes


_READS: dict[str, Callable[[EpisodeStore, Scope, list[Append]], Any]] = {
    "session": lambda store, scope, _: store.session(scope, "session"),
    "replay": lambda store, scope, _: store.replay(scope, "session"),
    "episode_ids": lambda store, scope, _: list(store.episode_ids(scope, "session")),
    "episodes": lambda store, scope, all_: store.episodes(scope, [w.episode_id for w in all_]),
    "list_episodes": lambda store, scope, _: store.list_episodes(EpisodeQuery(of=scope, limit=9)),
    "turns": lambda store, scope, all_: [store.turns(scope, w.episode_id) for w in all_],
    "turns_at": lambda store, scope, all_: store.turns_at(scope, [(w.episode_id, 0) for w in all_]),
    "episodes_and_turns": lambda store, scope, all_: store.episodes_and_turns(
        scope, [w.episode_id for w in all_], [(w.episode_id, 0) for w in all_]
    ),
    "recall_rows": lambda store, scope, _: store.recall_rows(scope, after=0)[1],
}


_Write: TypeAlias = Callable[[EpisodeStore, Scope, Append, Append], object]
_WRITES: list[tuple[_Write, type[Exception] | None]] = [
    (
        lambda store, scope, opened, _: store.append(make_next(opened, "x", scope=scope)),
        EpisodeNotFound,
    ),
    (
        lambda store, scope, _, closed: store.append(
            make_next(closed, "x", scope=scope, target=Target.RESUME)
        ),
        EpisodeNotFound,
    ),
    (
        lambda store, scope, opened, _: store.close_episode(
            scope, opened.episode_id, make_closing(), expect_messages=1
        ),
        EpisodeNotFound,
    ),
    (
        lambda store, scope, _, closed: store.archive(scope, closed.episode_id),
        EpisodeNotFound,
    ),
    (
        lambda store, scope, _, closed: store.put_summary(
            scope, closed.episode_id, make_summary("x")
        ),
        None,
    ),
    (
        lambda store, scope, opened, _: store.touch(
            scope, opened.session_id, seen_at=after(days=9), now=after(days=9)
        ),
        SessionNotFound,
    ),
]
"""Writes with ids of another scope's open and closed episodes, and the error of each."""


def _scopes_in(value: Any, of: dict[Any, Scope]) -> set[Scope]:
    """The scopes of every episode, turn, session or row in a result."""
    if isinstance(value, list | tuple | dict):
        parts = list(value.values()) if isinstance(value, dict) else value
        return {scope for part in parts for scope in _scopes_in(part, of)}
    if isinstance(value, Turn):
        return {of[value.episode_id], of[value.text]}
    if isinstance(value, SessionReplay):
        return _scopes_in([value.session, *(e.episode for e in value.episodes), *value.turns], of)
    if hasattr(value, "session"):
        return _scopes_in([value.session, value.episode], of)
    if hasattr(value, "scope"):
        return {value.scope, of[getattr(value, "id", value.scope)]}
    episode_id = value if isinstance(value, UUID) else getattr(value, "episode_id", None)
    return set() if episode_id is None else {of[episode_id]}


class IsolationTests(StoreTests):
    def test_a_read_sees_its_own_scope_only(self, store: EpisodeStore) -> None:
        scopes = crowd()
        writes = _fill(store, scopes)
        of: dict[Any, Scope] = {write.episode_id: scope for scope, write in writes.items()}
        of |= {write.turns[0].message.text: scope for scope, write in writes.items()}
        for number, scope in enumerate(scopes):
            # Its own ids, and those of its neighbors.
            asked = [writes[near] for near in scopes[max(0, number - 2) : number + 3]]
            for name, read in _READS.items():
                found = _scopes_in(read(store, scope, asked), of | {"session": scope})
                assert found == {scope}, f"{name} of {scope}"

    def test_every_scope_has_a_state_of_its_own(self, store: EpisodeStore) -> None:
        *scopes, last = crowd()
        writes = _fill(store, scopes)
        before = {scope: store.recall_state(scope) for scope in scopes}
        assert None not in before.values()
        assert store.recall_state(last) is None
        store.append(make_next(writes[scopes[0]], "more"))
        changed = [scope for scope in scopes if store.recall_state(scope) != before[scope]]
        assert changed == [scopes[0]]
        assert store.stats().scopes == len(scopes)
        assert store.stats().tenants == len({scope.tenant for scope in scopes})

    def test_a_write_reaches_its_own_scope_only(self, store: EpisodeStore) -> None:
        opened = make_append(ANA, "a", session_id="open")
        closed = make_append(ANA, "b", session_id="closed", closing=make_closing())
        others = [scope for scope in crowd() if scope != ANA]
        known = others[::9]
        for first in (opened, closed, *(make_append(scope, "c") for scope in known)):
            store.append(first)
        before = snapshot(store, ANA, *known)
        for scope in others:
            for write, refusal in _WRITES:
                with pytest.raises(refusal) if refusal else nullcontext():
                    write(store, scope, opened, closed)
        assert snapshot(store, ANA, *known) == before

    def test_each_scope_can_be_written_as_if_alone(self, store: EpisodeStore) -> None:
        scopes = crowd()[::3]
        writes = _fill(store, scopes, idempotency=make_key())
        for scope, write in writes.items():
            store.touch(scope, "session", seen_at=after(hours=1), now=after(hours=1))
            closing = make_closing(summary=f"of {write.turns[0].message.text}")
            store.close_episode(scope, write.episode_id, closing, expect_messages=1)
        for scope, write in writes.items():
            said = write.turns[0].message.text
            assert find(store, write).summary == f"of {said}"
            assert texts(store, write) == [said]
            assert [turn.text for turn in store.append(write)] == [said]
            store.put_summary(scope, write.episode_id, make_summary(f"better {said}"))
        [first, *others] = writes.values()
        store.archive(first.scope, first.episode_id)
        for write in others:
            said = write.turns[0].message.text
            assert (texts(store, write), find(store, write).summary) == ([said], f"better {said}")

    def test_work_and_open_episodes_name_their_scope_exactly(self, store: EpisodeStore) -> None:
        writes = _fill(store, crowd())
        claimed = claim_all(store, WorkKind.EMBED)
        assert {work.scope: work.episode_id for work in claimed} == {
            scope: write.episode_id for scope, write in writes.items()
        }
        store.put_vectors("m", [(work, work.episode_id.bytes) for work in claimed])
        for scope, write in writes.items():
            [row] = store.recall_rows(scope, after=0)[1]
            assert row.vector == write.episode_id.bytes
        opened = store.open_episodes(touched_before=FAR, opened_before=FAR, limit=1_000)
        assert {found.episode.scope: found.episode.id for found in opened} == {
            scope: write.episode_id for scope, write in writes.items()
        }


class LookAlikeTests(StoreTests):
    def test_sessions(self, store: EpisodeStore) -> None:
        names = (*LOOK_ALIKES, *_LONG)
        for name in names:
            store.append(make_append(ANA, f"said in {name}", session_id=name))
        for name in names:
            state = store.session(ANA, name)
            assert state is not None
            [episode] = session_episodes(store, ANA, name)
            assert (state.session.id, state.episode) == (name, episode)
            assert [turn.text for turn in store.turns(ANA, episode.id)] == [f"said in {name}"]
        _, left = store.list_episodes(EpisodeQuery(of=ANA, limit=0, leave_out_sessions=["ana"]))
        assert left == len(names) - 1
        assert store.stats().sessions == len(names)

    def test_idempotency_keys(self, store: EpisodeStore) -> None:
        names = (*LOOK_ALIKES, *_LONG)
        write = make_append(ANA)
        store.append(write)
        for name in names:
            store.append(make_next(write, name, idempotency=make_key(name)))
        assert texts(store, write) == list(names)
        for name in names:
            again = store.append(make_next(write, name, idempotency=make_key(name)))
            assert [turn.text for turn in again] == [name]
            with pytest.raises(IdempotencyConflict):
                store.append(make_next(write, name, idempotency=make_key(name, b"other")))

    def test_owners_and_models(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, *LOOK_ALIKES))
        for name in LOOK_ALIKES:
            [work] = store.claim(
                WorkKind.EMBED, worker_id=name, limit=1, now=after(days=1), until=after(days=2)
            )
            if work.ordinal % 2:
                store.put_vectors(name, [(work, name.encode())])
        held, embedded = LOOK_ALIKES[::2], LOOK_ALIKES[1::2]
        assert sorted(worker_ids(store)) == sorted(held)
        assert store.stats().vectors == dict.fromkeys(embedded, 1)
        for row in store.recall_rows(ANA, after=0)[1][1::2]:
            assert row.vector == (row.model or "").encode()
        for name in held:
            release(store, name)
            assert name not in worker_ids(store)

    def test_tenants_and_agents_of_settings(self, store: EpisodeStore) -> None:
        for name in LOOK_ALIKES:
            store.put_config(name, "helper", {"tenant": name})
            store.put_config(None, name, {"agent": name})
        for name in LOOK_ALIKES:
            assert store.config(name, "helper").own == {"tenant": name}
            assert store.config("somebody else", name).for_all == {"agent": name}


def make_api_key(key_id: str = "k1", *, tenant: str = "acme", role: str = "admin") -> ApiKey:
    return ApiKey(id=key_id, tenant=tenant, role=AccessRole(role), name="a key", created_at=START)


class TenantReadTests(StoreTests):
    def test_an_episode_is_located_in_its_own_tenant_only(self, store: EpisodeStore) -> None:
        scope = make_scope("ana")
        write = make_append(scope, "a")
        store.append(write)
        ids = [write.episode_id, new_id()]
        assert store.locate(ids, tenant=scope.tenant) == {write.episode_id: scope}
        assert store.locate(ids, tenant="other") == {}
        assert store.locate(ids) == {write.episode_id: scope}
        assert store.locate(ids[1:]) == store.locate([]) == {}

    def test_a_page_goes_over_scopes_newest_first(self, store: EpisodeStore) -> None:
        writes = []
        for hour, user in enumerate(("ana", "ben", "cy")):
            closing = make_closing(at=after(hours=hour))
            writes.append(make_append(make_scope(user), "a", closing=closing))
            store.append(writes[-1])
        store.append(make_append(make_scope("ana", tenant="other"), "a"))
        ana, ben, cy = (find(store, write) for write in writes)
        tenant = ana.scope.tenant
        assert store.list_episodes(EpisodeQuery(of=TenantScopes(tenant), limit=10)) == (
            [cy, ben, ana],
            3,
        )
        assert store.list_episodes(EpisodeQuery(of=TenantScopes(tenant), offset=1, limit=1)) == (
            [ben],
            3,
        )
        assert store.list_episodes(EpisodeQuery(of=TenantScopes(tenant, user="ben"), limit=9)) == (
            [ben],
            1,
        )
        assert store.list_episodes(EpisodeQuery(of=TenantScopes("nobody"), limit=9)) == ([], 0)

    def test_agents_keep_apart(self, store: EpisodeStore) -> None:
        one, two = make_scope("ana"), make_scope("ana", agent="second")
        for scope in (one, two):
            store.append(make_append(scope, "a"))
        page, total = store.list_episodes(
            EpisodeQuery(of=TenantScopes(one.tenant, agents=["second"]), limit=9)
        )
        assert ([episode.scope for episode in page], total) == ([two], 1)
        assert store.list_episodes(
            EpisodeQuery(of=TenantScopes(one.tenant, agents=[]), limit=9)
        ) == ([], 0)

    def test_archived_and_deleted_episodes(self, store: EpisodeStore) -> None:
        scope = make_scope("ana")
        kept, gone = (make_append(scope, "a", closing=make_closing()) for _ in range(2))
        for write in (kept, gone):
            store.append(write)
        store.archive(scope, kept.episode_id, at=START)
        store.delete(scope, gone.episode_id, at=START)
        this = {gone.episode_id: scope}
        assert store.locate([gone.episode_id], tenant=scope.tenant, deleted=False) == {}
        assert store.locate([gone.episode_id], tenant=scope.tenant) == this
        assert store.locate([gone.episode_id], tenant="other") == {}
        page, total = store.list_episodes(EpisodeQuery(of=TenantScopes(scope.tenant), limit=9))
        assert ([episode.id for episode in page], total) == ([kept.episode_id], 1)
        without = store.list_episodes(
            EpisodeQuery(of=TenantScopes(scope.tenant), include_archived=False, limit=9)
        )
        assert without == ([], 0)
        hidden, total = store.list_episodes(
            EpisodeQuery(of=TenantScopes(scope.tenant), deleted=True)
        )
        assert ([episode.id for episode in hidden], total) == ([gone.episode_id], 1)


class KeyTests(StoreTests):
    def test_a_key_is_kept_without_its_secret(self, store: EpisodeStore) -> None:
        key = ApiKey(
            id="k1",
            tenant="acme",
            role=AccessRole.USER,
            name="Ana's phone",
            agents=("hr", "Ünï\0"),
            user="ana",
            created_at=START,
            expires_at=after(days=1),
        )
        store.put_key(key, secret_hash("s"))
        assert store.find_key("k1") == (key, secret_hash("s"))
        assert store.find_key("K1") is None
        assert store.find_key("k") is None
        assert store.find_key("k1\0") is None

    def test_keys_are_listed_by_tenant(self, store: EpisodeStore) -> None:
        for key_id, tenant in (("a", "acme"), ("b", "other"), ("c", "acme")):
            store.put_key(make_api_key(key_id, tenant=tenant), b"h")
        assert [key.id for key in store.list_keys("acme")] == ["a", "c"]
        assert sorted(key.id for key in store.list_keys()) == ["a", "b", "c"]
        assert store.list_keys("nobody") == []

    def test_an_end_is_never_put_off(self, store: EpisodeStore) -> None:
        store.put_key(make_api_key(), b"h")
        assert store.update_key("k1", expires_at=after(days=1))
        assert store.update_key("k1", revoked_at=after(hours=1), expires_at=after(days=9))
        assert store.update_key("k1", expires_at=after(days=9))
        [key] = store.list_keys()
        assert (key.expires_at, key.revoked_at) == (after(days=1), after(hours=1))
        assert not store.update_key("k2", revoked_at=START, expires_at=START)

    def test_what_is_done_with_a_key_is_recorded_with_it(self, store: EpisodeStore) -> None:
        store.put_key(make_api_key(), b"h", entry=make_entry(action="make_key"))
        end = make_entry(action="revoke_key")
        assert store.update_key("k1", revoked_at=START, expires_at=START, entry=end)
        assert not store.update_key("k2", revoked_at=START, expires_at=START, entry=end)
        assert [entry.action for entry in store.audit("acme")] == ["make_key", "revoke_key"]

    def test_the_last_use_is_noted(self, store: EpisodeStore) -> None:
        store.put_key(make_api_key(), b"h")
        moment = START + timedelta(microseconds=1)
        store.update_key("k1", used_at=moment)
        assert [key.last_used_at for key in store.list_keys()] == [moment]
