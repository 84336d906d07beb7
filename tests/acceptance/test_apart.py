"""Scopes whose names look alike: no call in one shows, changes or counts anything of another."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from octopus_memory import (
    Episode,
    EpisodeNotFound,
    EpisodicMemory,
    MemoryConfig,
    MemoryScope,
    SessionConfig,
    SessionNotFound,
)
from octopus_memory.adapters.stores import schema
from octopus_memory.testing import FixedClock
from postgres_installation import Installation

ALIKE = [
    "ana",
    "Ana",
    "ANA",
    "an\u00e1",
    "ana\u0301",
    "\u0430na",  # Cyrillic
    "ana ",
    " ana",
    "ana\t",
    "ana\n",
    "ana\u200b",
    "ana\ufeff",
    "ana\x00",
    "ana\x00b",
    "\x00ana",
    "an%",
    "an_",
    "%",
    "_",
    "an?",
    "an*",
    "an[a]",
    "an'a",
    "an''a",
    'an"a',
    "an`a",
    "ana;--",
    "an\\a",
    "an\\\\a",
    "an/a",
    "1",
    "01",
    "1.0",
    "1e0",
    "None",
    "NULL",
    "null",
    "stra\u00dfe",
    "strasse",
    "STRASSE",
    "\ufb01x",
    "fix",
    "i",
    "I",
    "\u0131",
    "\u0130",
    "\u00c5",
    "\u212b",
    "A\u030a",
    "\U0001f600",
    "\U0001f600\ufe0f",
]
LONG_NAMES = ["x" * 254, "x" * 255, "x" * 255 + "y", "x" * 255 + "Y"]
LONG_TENANTS = ["x" * 99, "x" * 99 + "y", "x" * 99 + "Y"]
# Joined without a mark between them, these are all the same.
JOINED = [("a", "b", "cd"), ("a", "bc", "d"), ("ab", "c", "d"), ("b", "a", "cd"), ("a", "cd", "b")]
WHO = [
    *JOINED,
    *(("acme", "hr", user) for user in ALIKE + LONG_NAMES),
    *(("acme", agent, "u") for agent in ALIKE[::5] + LONG_NAMES),
    *((tenant, "hr", "u") for tenant in ALIKE[1::5] + LONG_TENANTS),
]
# PostgreSQL's text holds no NUL: it is escaped there.
FEW = ["ana", "Ana", "ana ", "ana\x00", "ana\x00b", "ana\x1a0", "an%"]
WHO_ON = {
    "sqlite": WHO,
    "postgresql": [
        *JOINED[:2],
        *(("acme", "hr", user) for user in FEW + LONG_NAMES[2:]),
        *(("acme", agent, "u") for agent in FEW[3:5]),
        *((tenant, "hr", "u") for tenant in FEW[2:4] + LONG_TENANTS[1:]),
    ],
}
QUESTION = "What is the password of my safe?"
Who = tuple[str, str, str]
# Every other table says of each row whose it is.
SHARED_TABLES = {
    "octopus_agents",
    "octopus_audit",
    "octopus_erasures",
    "octopus_holds",
    "octopus_jobs",
    "octopus_keys",
    "octopus_meta",
    "octopus_models",
    "octopus_schema",
    "sqlite_sequence",
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the scopes are; `admin_url` sees the rows of them all."""

    url: str
    admin_url: str
    who: list[Who]


@dataclass(frozen=True, kw_only=True)
class Owned:
    """One scope and what was put into it."""

    scope: MemoryScope
    mark: str
    session_id: str
    closed: Episode
    open: Episode


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
    return Owned(scope=scope, mark=mark, session_id=session_id, closed=closed, open=opened.episode)


@pytest.fixture(scope="module", params=WHO_ON)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    who = WHO_ON[request.param]
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('apart') / 'memory.db'}"
        yield Place(url=url, admin_url=url, who=who)
        return
    postgres: Installation = request.getfixturevalue("postgres")
    with postgres.database() as database:
        admin_url = database.admin_url.replace("://", "+psycopg://", 1)
        yield Place(url=database.url, admin_url=admin_url, who=who)


@pytest.fixture(scope="module")
def memory(place: Place) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        place.url, embedder="hashing", clock=FixedClock(), background=False
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def owned(memory: EpisodicMemory, place: Place) -> list[Owned]:
    everything = [fill(memory, number, who) for number, who in enumerate(place.who)]
    memory.flush()
    return everything


@pytest.fixture(scope="module")
def engine(place: Place) -> Iterator[sa.Engine]:
    made = sa.create_engine(place.admin_url)
    yield made
    made.dispose()


def marks(*shown: object) -> set[str]:
    return set(re.findall(r"mark\d{3}", repr(shown)))


def rows(engine: sa.Engine) -> dict[Who, list[tuple[Any, ...]]]:
    """Every row of every scope, as it stands in the database."""
    names = schema.scopes.c
    with engine.connect() as conn:
        listed = conn.execute(sa.select(names.id, names.tenant, names.agent, names.user))
        scopes: dict[int, Who] = {number: (*who,) for number, *who in listed}
        found: dict[Who, list[tuple[Any, ...]]] = {who: [] for who in scopes.values()}
        for table in sorted(set(sa.inspect(conn).get_table_names()) - SHARED_TABLES):
            key = "id" if table == "octopus_scopes" else "scope_id"
            every = f"SELECT {key}, * FROM {table} ORDER BY 1, 2, 3, 4"
            for number, *row in conn.exec_driver_sql(every):
                found[scopes[number]].append((table, *row))
    return found


def refused(error: type[Exception], *calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(error):
            call()


def ids(other: Owned) -> list[Any]:
    """Every way to name the other's episodes."""
    return [given for e in (other.open, other.closed) for given in (e, e.id, str(e.id))]


# One for each public call: made in scope `a` with what belongs to `other`, it returns what it saw.


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
        refused(EpisodeNotFound, lambda own=own: a.add(own, ("user", "not mine")))
    # As text, an id that is unknown here can only be the name of a session.
    turns = a.add(str(other.open.id), ("user", "mine"))
    turns += a.add(other.session_id, ("user", "mine"), idempotency_key="everybody's next")
    for turn in turns:
        assert turn.ordinal == 0
        a.close_episode(turn.episode_id)
    return turns


def close_episode(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(
            EpisodeNotFound,
            lambda given=given: a.close_episode(given),
            lambda given=given: a.close_episode(given, "timeout", "a forged summary"),
        )
    return None


def close_session(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, lambda: a.close_session(f"{other.session_id} "))
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
    refused(SessionNotFound, lambda: a.heartbeat(f"{other.session_id} "))
    own = a.open_episode(other.session_id)
    shown = a.heartbeat(other.session_id, at=own.started_at + timedelta(minutes=1))
    a.close_episode(own)
    return shown


def recall(a: MemoryScope, other: Owned) -> object:
    return [
        a.recall(QUESTION, limit=1_000, min_score=0.0),
        a.recall(other.closed.summary or "", mode="semantic", limit=1_000, min_score=0.0),
        a.recall(QUESTION, limit=1_000, session_id=other.session_id),
    ]


def recall_turns(a: MemoryScope, other: Owned) -> object:
    return [
        a.recall_turns(QUESTION, limit=1_000, min_score=0.0),
        a.recall_turns(QUESTION, mode="semantic", limit=1_000, session_id=other.session_id),
    ]


def recent(a: MemoryScope, other: Owned) -> object:
    return [a.recent(limit=1_000), a.recent(limit=1_000, session_id=other.session_id)]


def session(a: MemoryScope, other: Owned) -> object:
    refused(SessionNotFound, lambda: a.session(f"{other.session_id} "))
    return a.session("everybody's"), a.session("everybody's").messages()


def episodes(a: MemoryScope, other: Owned) -> object:
    page = a.episodes(page_size=1_000)
    assert page.total_count == len(page) < 30
    return page


def get(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, lambda given=given: a.get(given))
    return None


def delete(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, lambda given=given: a.delete(given))
    return None


def deleted(a: MemoryScope, other: Owned) -> object:
    other.scope.delete(other.closed)
    shown = a.deleted()
    refused(EpisodeNotFound, lambda: a.restore(other.closed.id))
    other.scope.restore(other.closed)
    return shown


def restore(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, lambda given=given: a.restore(given))
    return None


def erase_episode(a: MemoryScope, other: Owned) -> object:
    for given in ids(other):
        refused(EpisodeNotFound, lambda given=given: a.erase_episode(given, physical=False))
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


PROBES: dict[str, Callable[[MemoryScope, Owned], object]] = {
    probe.__name__: probe
    for probe in (
        add,
        close_episode,
        close_session,
        context,
        delete,
        deleted,
        episode,
        episodes,
        erase_episode,
        get,
        heartbeat,
        open_episode,
        recall,
        recall_turns,
        recent,
        restore,
        session,
        store,
        # The last, since it leaves nothing for the others.
        erase,
    )
}


def test_every_public_call_is_tried():
    public = {
        name for name, call in inspect.getmembers(MemoryScope, callable) if not name.startswith("_")
    }
    assert public == set(PROBES)


@pytest.mark.parametrize("who", WHO_ON.values(), ids=WHO_ON)
def test_the_names_are_all_different(who: list[Who]):
    assert len(set(who)) == len(who)


def test_each_scope_holds_its_own_and_no_more(owned: list[Owned]):
    for own in owned:
        assert len(own.scope.episodes()) == 2
        assert own.scope.session("everybody's").session.metadata == {"mark": own.mark}
        found = own.scope.recall(QUESTION, limit=100)
        assert {snippet.episode_id for snippet in found} == {own.closed.id, own.open.id}
        assert marks(found, own.scope.recent(), own.scope.session(own.session_id)) == {own.mark}
        context = own.scope.context(QUESTION, budget_tokens=100_000, session_id=own.session_id)
        assert marks(context.text) == marks(context.messages) == {own.mark}


def test_the_database_counts_them_all(
    memory: EpisodicMemory, owned: list[Owned], place: Place, engine: sa.Engine
):
    stats = memory.stats()
    assert stats.scopes == len(place.who)
    assert stats.tenants == len({tenant for tenant, _, _ in place.who})
    assert stats.sessions == stats.episodes == 2 * len(place.who)
    assert set(rows(engine)) == set(place.who)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", PROBES)
def test_no_call_reaches_into_another_scope(
    owned: list[Owned], place: Place, engine: sa.Engine, name: str, half: int
):
    """Half of the scopes call, each with what belongs to a neighbour of the other half."""
    before = rows(engine)
    for number in range(half, len(owned) - 1, 2):
        own, other = owned[number], owned[number + 1]
        assert marks(PROBES[name](own.scope, other)) <= {own.mark}
    after = rows(engine)
    quiet = place.who[1 - half :: 2]
    if name == "deleted":
        # What a neighbour deletes and restores itself is found by new rows.
        return
    assert {who: after.get(who) for who in quiet} == {who: before.get(who) for who in quiet}


def test_settings_are_each_agents_own(memory: EpisodicMemory):
    def minutes(number: int) -> MemoryConfig:
        return MemoryConfig(session=SessionConfig(idle_timeout_minutes=1_000 + number))

    for number, agent in enumerate(ALIKE):
        memory.configure(f"settings of {agent}", minutes(number))
        if agent != "ana":
            memory.configure("settings of a tenant", minutes(-number), tenant=agent)
    for number, agent in enumerate(ALIKE):
        assert memory.config(f"settings of {agent}") == minutes(number)
        expected = MemoryConfig() if agent == "ana" else minutes(-number)
        assert memory.config("settings of a tenant", tenant=agent) == expected
