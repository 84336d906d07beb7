"""Store suite: a scope sees nothing of another, even if their names look alike."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeAlias
from uuid import UUID

import pytest

from ...domain.episode import Scope, Turn
from ...domain.errors import EpisodeNotFound, IdempotencyConflict, SessionNotFound
from ...domain.replay import SessionReplay
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import Append, EpisodeQuery, Target
from ...testing.store.base import release, worker_ids
from ..fakes import make_append, make_closing, make_key, make_next, make_scope, make_summary
from .base import ANA, FAR, StoreTests, after, claim_all, find, session_episodes, snapshot, texts

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
