"""Every public call of a scope, made with ids and names of another scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from octopus_memory import (
    Episode,
    EpisodeNotFound,
    EpisodicMemory,
    Fact,
    FactNotFound,
    MemoryScope,
    NotFound,
    SessionNotFound,
)
from tests.support.lookalike_names import Who

QUESTION = "What is the password of my safe?"


@dataclass(frozen=True, kw_only=True)
class Owned:
    """A scope and its content."""

    scope: MemoryScope
    mark: str
    session_id: str
    closed: Episode
    open: Episode
    fact: Fact


def fill(memory: EpisodicMemory, number: int, who: Who) -> Owned:
    tenant, agent, user = who
    scope = memory.scope(tenant=tenant, agent=agent, user=user)
    mark = f"mark{number:03d}"
    closed = scope.store(
        [("user", f"The password of my safe is {mark}."), ("assistant", "Noted.")],
        session_id="everybody's",
        metadata={"mark": mark},
        idempotency_key="everybody's",
    )
    session_id = f"session {number}"
    scope.add(session_id, ("user", f"My safe still has {mark} for a password."))
    [opened] = scope.session(session_id).episodes
    return Owned(
        scope=scope,
        mark=mark,
        session_id=session_id,
        closed=closed,
        open=opened.episode,
        fact=scope.add_fact(f"Has {mark} for a password", "home"),
    )


def refused(error: type[Exception], call: Callable[..., object], *args: Any, **named: Any) -> None:
    with pytest.raises(error):
        call(*args, **named)


def ids(other: Owned) -> list[Any]:
    """Return every way to name the other scope's episodes."""
    return [given for e in (other.open, other.closed) for given in (e, e.id, str(e.id))]


# One probe per public call: it runs in scope `a` with ids of `other`, and returns what it read.


def episode(a: MemoryScope, other: Owned) -> object:
    with a.episode(other.session_id) as own:
        own.add("user", "I am somebody else.")
        shown = [own.episode, own.context(QUESTION), own.id != other.open.id]
    return [*shown, a.session(other.session_id)]


def open_episode(a: MemoryScope, other: Owned) -> object:
    opened = a.open_episode(other.session_id)
    assert opened.message_count == 0
    return opened, a.close_episode(opened)


def add(a: MemoryScope, other: Owned) -> object:
    for own in (other.open, other.open.id, other.closed, other.closed.id):
        refused(EpisodeNotFound, a.add, own, ("user", "not mine"))
    # As text, an id that is unknown here can only be the name of a session.
    turns = a.add(str(other.open.id), ("user", "mine"))
    turns += a.add(other.session_id, ("user", "mine"), idempotency_key="everybody's next")
    for turn in turns:
        assert turn.ordinal == 0
        a.close_episode(turn.episode_id)
    return turns


def close_episode(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, a.close_episode, given)
        refused(EpisodeNotFound, a.close_episode, given, "timeout", "a forged summary")
    return None


def close_session(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, a.close_session, f"{other.session_id} ")
    a.add(other.session_id, ("user", "my own of that name"))
    return a.close_session(other.session_id)


def store(a: MemoryScope, other: Owned) -> object:
    return a.store(
        [("user", "my own words")],
        session_id=other.session_id,
        metadata={"channel": "mine"},
        idempotency_key="everybody's last",
    )


def heartbeat(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, a.heartbeat, f"{other.session_id} ")
    own = a.open_episode(other.session_id)
    shown = a.heartbeat(other.session_id, at=own.started_at + timedelta(minutes=1))
    a.close_episode(own)
    return shown


def recall(a: MemoryScope, other: Owned) -> object:
    return [
        a.recall(QUESTION, limit=1_000, min_score=0.0),
        a.recall(other.closed.summary or "", mode="semantic", limit=1_000, min_score=0.0),
        a.recall(QUESTION, limit=1_000, leave_out_session=other.session_id),
    ]


def recall_turns(a: MemoryScope, other: Owned) -> object:
    return [
        a.recall_turns(QUESTION, limit=1_000, min_score=0.0),
        a.recall_turns(QUESTION, mode="semantic", limit=1_000, leave_out_session=other.session_id),
    ]


def recent(a: MemoryScope, other: Owned) -> object:
    return [a.recent(limit=1_000), a.recent(limit=1_000, leave_out_session=other.session_id)]


def session(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, a.session, f"{other.session_id} ")
    return a.session("everybody's"), a.session("everybody's").messages()


def episodes(a: MemoryScope, other: Owned) -> object:
    page = a.episodes(page_size=1_000)
    assert page.total_count == len(page) < 30
    return page


def get(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, a.get, given)
    return None


def delete(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, a.delete, given)
    return None


def deleted(a: MemoryScope, other: Owned) -> object:
    other.scope.delete(other.closed)
    shown = a.deleted()
    refused(EpisodeNotFound, a.restore, other.closed.id)
    other.scope.restore(other.closed)
    return shown


def restore(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, a.restore, given)
    return None


def erase_episode(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, a.erase_episode, given, physical=False)
    return None


def erase(a: MemoryScope, other: Owned) -> object:
    receipt = a.erase(physical=False)
    assert receipt.removed["scopes"] == 1
    assert not any(receipt.left.values())
    assert a.episodes().total_count == 0
    return receipt, a.recall(QUESTION), a.recent()


def context(a: MemoryScope, other: Owned) -> object:
    return [
        a.context(QUESTION, budget_tokens=100_000),
        a.context(QUESTION, budget_tokens=100_000, session_id=other.session_id),
    ]


def facts(a: MemoryScope, other: Owned) -> object:
    return [a.facts(), a.facts(history=True)]


def add_fact(a: MemoryScope, other: Owned) -> object:
    return a.add_fact("Lives somewhere else", "home")


def correct_fact(a: MemoryScope, other: Owned) -> object:
    for given in fact_ids(other):
        refused(FactNotFound, a.correct_fact, given, "forged")
    return None


def pin_fact(a: MemoryScope, other: Owned) -> object:
    for given in fact_ids(other):
        refused(FactNotFound, a.pin_fact, given)
    return None


def delete_fact(a: MemoryScope, other: Owned) -> object:
    for given in fact_ids(other):
        refused(FactNotFound, a.delete_fact, given)
    return None


def fact_ids(other: Owned) -> list[Any]:
    """Return every way to name the other scope's fact."""
    return [other.fact, other.fact.id, str(other.fact.id)]


def their_turns(other: Owned) -> list[Any]:
    return [turn.id for e in (other.open, other.closed) for turn in other.scope.get(e).turns]


def turn(a: MemoryScope, other: Owned) -> object:
    return [a.turn(turn_id) for turn_id in their_turns(other)]


def remove_turns(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, a.remove_turns, f"{other.session_id} ", last=1)
    a.add(other.session_id, [("user", "my own of that name"), ("user", "and more")])
    removed = [a.remove_turns(other.session_id, last=1), a.close_session(other.session_id)]
    return [*removed, a.remove_turns("everybody's", ids=their_turns(other))]


def forget(a: MemoryScope, other: Owned) -> object:
    assert not a.forget(other.mark).is_clear
    for given in fact_ids(other):
        refused(FactNotFound, a.forget, facts=[given])
    for turn_id in their_turns(other):
        refused(NotFound, a.forget, turns=[turn_id])
    refused(NotFound, a.forget, confirm="h7k2m9p4qx")
    return a.forget("the password of my safe")


def sessions(a: MemoryScope, other: Owned) -> object:
    # Other calls may have made a session of that name here, too.
    known = {each.id for each in a.sessions(page_size=1_000)}
    assert f"{other.session_id} " not in known
    return a.sessions(page_size=1_000)


def reset_session(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, a.reset_session, f"{other.session_id} ")
    a.add(other.session_id, ("user", "my own of that name"))
    made = [a.reset_session(other.session_id), a.reset_session("everybody's")]
    return [*made, a.close_session(other.session_id)]


def erase_session(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, a.erase_session, f"{other.session_id} ", physical=False)
    a.add(other.session_id, ("user", "my own of that name"))
    return a.erase_session(other.session_id, physical=False)


def injections(a: MemoryScope, other: Owned) -> object:
    return a.injections(other.session_id), a.injections("everybody's")


def uses(a: MemoryScope, other: Owned) -> object:
    return [a.uses(given) for given in ids(other)]


PROBES: dict[str, Callable[[MemoryScope, Owned], object]] = {
    probe.__name__: probe
    for probe in (
        add,
        add_fact,
        close_episode,
        close_session,
        context,
        correct_fact,
        delete,
        delete_fact,
        deleted,
        episode,
        episodes,
        erase_episode,
        erase_session,
        facts,
        forget,
        get,
        heartbeat,
        injections,
        open_episode,
        pin_fact,
        recall,
        recall_turns,
        recent,
        remove_turns,
        reset_session,
        restore,
        session,
        sessions,
        store,
        turn,
        uses,
        # Last, because it removes everything that the others need.
        erase,
    )
}
