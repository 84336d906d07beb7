"""Scopes whose names look alike: no call in one shows, changes or counts anything of another."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from octopus_memory import (
    EpisodicMemory,
    MemoryConfig,
    MemoryScope,
    SessionConfig,
)
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.testing import FixedClock
from tests.support.isolation_probes import PROBES, QUESTION, Owned, fill
from tests.support.lookalike_names import ALIKE, WHO_ON, Who
from tests.support.postgres_installation import Installation

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
    """Half of the scopes call, each with what belongs to a neighbor of the other half."""
    before = rows(engine)
    for number in range(half, len(owned) - 1, 2):
        own, other = owned[number], owned[number + 1]
        assert marks(PROBES[name](own.scope, other)) <= {own.mark}
    after = rows(engine)
    quiet = place.who[1 - half :: 2]
    if name == "deleted":
        # What a neighbor deletes and restores itself is found by new rows.
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
