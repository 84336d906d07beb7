"""After an erasure and what the guide says, nothing of it is in the server's data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.postgres import compaction as postgres_compaction
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.domain.audit import AuditDraft
from octopus_memory.domain.episode import Scope
from octopus_memory.domain.erasure import Erasure, Subject
from octopus_memory.domain.ids import new_id
from octopus_memory.ports.values import Placeholder
from octopus_memory.testing import make_append, make_closing, make_key, make_scope, make_turn
from octopus_memory.testing.fakes import START
from octopus_memory.testing.store.base import claim_all
from tests.support.postgres_installation import Database, Installation, guide
from tests.support.postgres_server import LocalServer, Programs, connected

MODEL = "model"
ERASED = make_scope("erased-user-name", agent="the agent")
KEPT = make_scope("kept-user-name", agent="the agent")
_SHORTEST = 12
_PIECE = 48


@pytest.fixture(scope="module")
def server(postgres_programs: Programs) -> Iterator[LocalServer]:
    server = LocalServer(postgres_programs)
    yield server
    server.close()


@pytest.fixture
def database(server: LocalServer) -> Iterator[Database]:
    installation = Installation(server)
    with installation.new_database() as database:
        for block in guide("Erasure"):
            for statement in block.strip().split(";\n"):
                server.execute(installation.named(statement), database=database.name)
        yield database


def test_the_data_folder_keeps_nothing_of_what_was_erased(server: LocalServer, database: Database):
    store = PostgresStore(database.owner_url)
    store.use_model(MODEL)
    # What follows stands in one segment of the log, which the next checkpoint does not end.
    for statement in ("SELECT pg_switch_wal()", "CHECKPOINT"):
        server.execute(statement)
    for scope in (ERASED, KEPT):
        _fill(store, scope)
    for statement in ("ANALYZE", "CHECKPOINT"):
        server.execute(statement, database=database.name)
    erased, kept = _traces(database, ERASED), _traces(database, KEPT)
    assert len(erased) > 30
    _erase(store, ERASED)
    # A few may lie across two pages.
    assert len(_found(server.data / "pg_wal", erased)) > len(erased) * 0.7
    assert len(_found(server.data / "base", erased)) > len(erased) * 0.7
    assert store.compact()
    assert not store.state().owes_compaction
    assert _found(server.data, erased) == set()
    assert len(_found(server.data, kept)) > len(kept) * 0.7
    assert [scope for _, scope in store.scopes(tenant=ERASED.tenant)] == [KEPT]
    store.close()


def test_the_data_folder_keeps_nothing_of_what_was_forgotten(
    server: LocalServer, database: Database
):
    gone, stays = os.urandom(8).hex(), os.urandom(8).hex()
    with EpisodicMemory.open(database.owner_url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user=KEPT.user)
        scope.store([("user", f"I keep {stays}. I lost {gone}."), ("user", f"I want {gone}!")])
        scope.add_fact(f"Looks for {gone}.")
        memory.run_pending()
        before = _traces(database, KEPT)
        receipt = scope.forget(confirm=scope.forget(gone).token)
        assert receipt.is_complete
        lost = before - _traces(database, KEPT)
        assert len(lost) > 10
        assert _found(server.data, lost | {gone.encode()}) == set()
        assert [turn.text for turn in scope.session(scope.sessions().items[0].id).turns] == [
            f"I keep {stays}."
        ]


def _fill(store: PostgresStore, scope: Scope) -> None:
    """Something of one user in every table, short and long."""
    for number in range(2):
        long = os.urandom(4_000).hex()
        turns = [f"{scope.user} said {os.urandom(20).hex()}", make_turn(long)]
        turns.append(make_turn({"role": "user", "content": "Hello.", "name": scope.user}))
        write = make_append(
            scope,
            *turns,
            session_id=f"session {number} of {scope.user}",
            metadata={"channel": f"by {scope.user}"},
            idempotency=make_key(f"key {number} of {scope.user}", os.urandom(32)),
            closing=make_closing(summary=f"{scope.user} said {os.urandom(20).hex()}"),
            placeholders=[Placeholder(kind="EMAIL", number=1, digest=os.urandom(32))],
        )
        store.append(write)
        store.put_vectors(MODEL, [(work, os.urandom(392)) for work in claim_all(store)])
        if number == 0:
            store.archive(scope, write.episode_id, cold=True)


def _erase(store: PostgresStore, scope: Scope) -> None:
    subject = Subject(tenant=scope.tenant, user=scope.user)
    erasure = Erasure(id=new_id(), tenant=scope.tenant, at=START, subject="a hash")
    entry = AuditDraft(tenant=scope.tenant, at=START, actor="test", action="erase")
    done = store.erase(subject, erasure, entry)
    assert not any(store.left_of(done).values())


def _traces(database: Database, scope: Scope) -> set[bytes]:
    """What the rows of a scope hold, in pieces that stay whole wherever they are kept."""
    engine = sa.create_engine(database.admin_url.replace("://", "+psycopg://", 1))
    traces = {scope.user.encode()}
    with engine.connect() as conn:
        for table in schema.metadata.tables.values():
            if "scope_id" in table.c:
                own = sa.select(schema.scopes.c.id).where(schema.scopes.c.user == scope.user)
                for row in conn.execute(sa.select(table).where(table.c.scope_id.in_(own))):
                    traces |= {piece for value in row for piece in _pieces(value)}
    engine.dispose()
    return traces - {b"the agent"}


def _pieces(value: Any) -> Iterator[bytes]:
    told = value.encode() if isinstance(value, str) else value
    if isinstance(told, bytes) and len(told) >= _SHORTEST:
        yield told[:_PIECE]
        yield told[-_PIECE:]


def _found(folder: Path, traces: set[bytes]) -> set[bytes]:
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            found |= {trace for trace in traces - found if trace in content}
    return found


@pytest.mark.parametrize(
    "used",
    [
        pytest.param("SELECT * FROM octopus_turns", id="reads a table"),
        pytest.param("SELECT 1", id="could still read what was removed"),
    ],
)
def test_another_session_delays_compaction(
    database: Database, monkeypatch: pytest.MonkeyPatch, used: str
):
    monkeypatch.setattr(postgres_compaction, "_LOCK_WAIT", "100ms")
    store = PostgresStore(database.owner_url)
    _fill(store, ERASED)
    with connected(database.admin_url) as other, other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute(used.encode())
        _erase(store, ERASED)
        assert not store.compact()
        assert store.state().owes_compaction
    assert store.compact()
    store.close()


def test_only_the_owner_rewrites(database: Database, caplog: pytest.LogCaptureFixture):
    store = PostgresStore(database.url)
    _fill(store, ERASED)
    _erase(store, ERASED)
    assert not store.compact()
    assert store.state().owes_compaction
    assert "only the owner" in caplog.text
    with connected(database.owner_url) as conn:
        role = store._url.username
        conn.execute(f"GRANT MAINTAIN ON ALL TABLES IN SCHEMA public TO {role}".encode())
    assert store.compact()
    store.close()
