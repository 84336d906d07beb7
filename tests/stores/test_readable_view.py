"""The view that people with a SQL client look at."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.sql import views
from octopus_memory.adapters.stores.sql.types import to_sql_server
from octopus_memory.domain.ids import new_id
from tests.support.postgres_installation import Database

pytestmark = pytest.mark.both_databases
OLD = datetime(1969, 12, 31, 23, 59, 58, 750_000, tzinfo=UTC)
SAID = [("user", "How many leave days do I have left?"), ("assistant", "You have 12.")]


def _engine(url: str) -> sa.Engine:
    if url.startswith("sqlserver:"):
        from octopus_memory.adapters.stores.sqlserver.engine import Engines

        return Engines(url, pool_size=1, statement_seconds=30, connect_seconds=30).writing()
    return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def looked(url: str, *, reach: str = "all") -> list[dict[str, Any]]:
    """The rows of the view, as a person with a SQL client sees them."""
    engine = _engine(url)
    try:
        with engine.connect() as conn:
            if conn.dialect.name == "postgresql":
                conn.exec_driver_sql(f"SET LOCAL octopus.reach TO '{reach}'")
            found = conn.exec_driver_sql(f"SELECT * FROM {views.NAME} ORDER BY session_id")
            return [dict(row) for row in found.mappings()]
    finally:
        engine.dispose()


def moment(shown: Any) -> datetime:
    return datetime.fromisoformat(shown) if isinstance(shown, str) else shown


def test_an_episode_can_be_read(database_url: str, memory: EpisodicMemory):
    scope = memory.scope(tenant="acme", agent="hr", user="user-17")
    stored = scope.store(
        SAID, session_id="old", at=OLD, reason="agent_closed", input_tokens=7, output_tokens=9
    )
    scope.add("today", ("user", "And next year?"))
    old, today = looked(database_url)
    assert UUID(str(old.pop("episode_id"))) == stored.id
    assert moment(old.pop("started_at")) == OLD
    assert moment(old.pop("last_message_at")) == OLD
    assert moment(old.pop("ended_at")) == OLD
    assert old == {
        "tenant_id": "acme",
        "agent_id": "hr",
        "user_id": "user-17",
        "session_id": "old",
        "end_reason": "agent_closed",
        "message_count": 2,
        "total_input_tokens": 7,
        "total_output_tokens": 9,
        "stage": "active",
        "archived_at": None,
        "deleted_at": None,
        "is_held": False,
    }
    assert (today["ended_at"], today["end_reason"], today["stage"]) == (None, None, "active")


def test_stages_and_holds_can_be_seen(database_url: str, memory: EpisodicMemory):
    scope = memory.scope(tenant="acme", agent="hr", user="user-17")
    archived, deleted, held = (scope.store(SAID, session_id=name).id for name in "adh")
    memory.scope(tenant="acme", agent="hr", user="ben").store(SAID, session_id="other")
    memory.runtime.store.archive(scope.scope, archived)
    scope.delete(deleted)
    hold = memory.tenant("acme").hold(episode_id=held, reason="case 17")
    shown = {row["session_id"]: row for row in looked(database_url)}
    assert [shown[name]["stage"] for name in "adh"] == ["archived", "deleted", "active"]
    assert [bool(shown[name]["is_held"]) for name in ("a", "d", "h", "other")] == [
        *(False, False, True, False)
    ]
    assert moment(shown["d"]["deleted_at"]) - moment(shown["d"]["started_at"]) < timedelta(days=1)
    memory.tenant("acme").lift(hold)
    memory.tenant("acme").hold(user="user-17", reason="case 18")
    shown = {row["session_id"]: row for row in looked(database_url)}
    assert [bool(shown[name]["is_held"]) for name in ("a", "d", "h", "other")] == [
        *(True, True, True, False)
    ]


@pytest.mark.both_databases(as_owner=True)
def test_an_erased_user_is_gone_from_the_view(database_url: str, memory: EpisodicMemory):
    for user in ("ana", "ben"):
        memory.scope(user=user).store(SAID, session_id=f"{user}'s")
    memory.scope(user="ana").erase()
    assert [row["user_id"] for row in looked(database_url)] == ["ben"]


@pytest.mark.parametrize("as_owner", [False, True], ids=["the application", "the owner"])
def test_a_tenant_sees_no_other(postgres_database: Database, as_owner: bool):
    url = postgres_database.owner_url if as_owner else postgres_database.url
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        for tenant in ("acme", "umbrella"):
            memory.scope(tenant=tenant, user="ana").store(SAID, session_id=tenant)
    assert [row["tenant_id"] for row in looked(url)] == ["acme", "umbrella"]
    assert [row["tenant_id"] for row in looked(url, reach="tenant:acme")] == ["acme"]
    assert looked(url, reach="tenant:nobody") == []
    assert looked(url, reach="") == []


def test_the_view_is_read_only(database_url: str, memory: EpisodicMemory):
    memory.scope(user="ana").store(SAID, session_id="s")
    engine = _engine(database_url)
    for statement in (
        f"UPDATE {views.NAME} SET message_count = 0",
        f"DELETE FROM {views.NAME}",
        f"INSERT INTO {views.NAME} (session_id) VALUES ('x')",
    ):
        with pytest.raises(sa.exc.DBAPIError), engine.begin() as conn:
            conn.exec_driver_sql(statement)
    engine.dispose()
    assert len(looked(database_url)) == 1


@pytest.mark.sqlite_alone
def test_sql_server_shows_an_id_as_everybody_else_does():
    """No server is asked: the groups that the statement takes are taken here."""
    wanted = new_id()
    kept = to_sql_server(wanted).bytes_le
    statement = views.definition("mssql")
    groups = re.findall(r"SUBSTRING\(CAST\(e\.id AS binary\(16\)\), (\d+), (\d+)\)", statement)[:5]
    taken = b"".join(kept[int(at) - 1 : int(at) - 1 + int(n)] for at, n in groups)
    assert taken == wanted.bytes
    # What is shown as it is stored could be written through the view.
    shown = re.findall(r"^    (.+) AS (\w+),?$", statement, re.MULTILINE)
    assert len(shown) == 16
    assert not [name for column, name in shown if re.fullmatch(r"[es]\.\w+", column)]
