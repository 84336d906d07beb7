"""Moving a whole database: everything, exactly, however often it is cut short."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from octopus_memory import (
    EpisodicMemory,
    InvalidInput,
    MemoryConfig,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from octopus_memory.adapters.stores.sql import move as move_module
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sql.statements import move as move_statements
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import FixedClock, make_append, make_closing, make_scope
from octopus_memory.testing.store.base import worker_ids
from octopus_memory.testing.store.holds import record_run
from octopus_memory.wiring import move
from tests.support.exported_user import fill
from tests.support.postgres_installation import Database

QUERIES = ("old words", "what is the weather like", "ended by timeout", "still here")


def open_(path: Path, clock: FixedClock) -> EpisodicMemory:
    return EpisodicMemory.open(path, embedder="hashing", clock=clock, background=False)


@pytest.fixture
def full(tmp_path: Path, clock: FixedClock) -> Path:
    """A database with rows in every table that the engine fills."""
    path = tmp_path / "full.db"
    with open_(path, clock) as memory:
        scope = fill(memory, clock)
        memory.flush()
        scope.store([("user", "odd names")], session_id="a \0 and a \x1a")
        scope.add("last", ("user", "waits for its vector"), idempotency_key="once")
        memory.configure("hr", MemoryConfig(), tenant="acme")
        tenant = memory.tenant("acme")
        tenant.hold(user="ana", reason="a lawsuit")
        memory.scope(tenant="acme", agent="hr", user="gone").store([("user", "to be erased")])
        tenant.erase_user("gone")
        store = memory.runtime.store
        store.claim(WorkKind.EMBED, worker_id="somebody", limit=1, now=clock.now(), until=_far())
        record_run(store, "retention", clock.now())
    return path


def _far() -> datetime:
    return datetime(2100, 1, 1, tzinfo=UTC)


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def contents(path: Path) -> dict[str, list[Any]]:
    """Every row of every table, as SQLite has it."""
    with closing(sqlite3.connect(path)) as conn:
        names = [
            row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        return {name: sorted(conn.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


def answers(path: Path, clock: FixedClock) -> list[Any]:
    with open_(path, clock) as memory:
        scopes = [memory.scope(tenant="acme", agent=a, user="ana") for a in ("hr", "sales")]
        return [scope.recall(query) for scope in scopes for query in QUERIES]


def test_a_move_copies_everything(full: Path, tmp_path: Path, clock: FixedClock):
    target = tmp_path / "target.db"
    expected = answers(full, clock)
    before = contents(full)
    file = sha256(full.read_bytes()).digest()
    seen: list[tuple[int, int]] = []
    report = move(url(full), url(target), lambda done, total: seen.append((done, total)))
    assert sha256(full.read_bytes()).digest() == file
    after = contents(target)
    for name in ("octopus_work", "octopus_jobs"):
        assert len(before.pop(name)) == len(after.pop(name)) > 0
    assert after == before
    assert answers(target, clock) == expected
    assert all(expected)
    assert not report.resumed
    rows = {table.name: table.rows for table in report.tables}
    assert rows["octopus_turns"] == len(before["octopus_turns"]) > 0
    assert rows["octopus_turns_archive"] == len(before["octopus_turns_archive"]) > 0
    assert report.copied == report.rows == sum(rows.values())
    assert seen == sorted(seen)
    assert seen[-1] == (3 * report.rows, 3 * report.rows)


def test_a_move_releases_leases_of_work(full: Path, tmp_path: Path, clock: FixedClock):
    with closing(SqliteStore(full, clock=clock)) as store:
        assert worker_ids(store) == ["somebody"]
    target = tmp_path / "target.db"
    move(url(full), url(target))
    with closing(SqliteStore(target, clock=clock)) as store:
        assert worker_ids(store) == []
        waiting = store.backlog()[WorkKind.EMBED].waiting
        taken = store.claim(WorkKind.EMBED, worker_id="me", limit=99, now=clock.now(), until=_far())
        [unfindable] = store.unindexed_turns(limit=99)
        assert len(taken) + unfindable.stop - unfindable.first == waiting
        assert taken
        assert store.last_run("retention") == clock.now()
        with store.lead("retention", worker_id="me") as lead:
            assert lead is not None


def test_a_number_is_never_given_twice(tmp_path: Path, clock: FixedClock):
    source, target = tmp_path / "source.db", tmp_path / "target.db"
    with open_(source, clock) as memory:
        for user in ("ana", "ben"):
            memory.scope(tenant="acme", user=user).store([("user", "hello")])
        last = memory.runtime.store.recall_state(memory.scope(tenant="acme", user="ben").scope)
        memory.tenant("acme").erase_user("ben", physical=False)
        assert last is not None
    move(url(source), url(target))
    with open_(target, clock) as memory:
        scope = memory.scope(tenant="acme", user="cleo")
        scope.store([("user", "hello")])
        state = memory.runtime.store.recall_state(scope.scope)
        assert state is not None
        assert state.scope_id > last.scope_id


def test_a_target_with_data_is_refused_and_left_alone(
    full: Path, tmp_path: Path, clock: FixedClock
):
    target = tmp_path / "target.db"
    with open_(target, clock) as memory:
        memory.scope(user="zoe").store([("user", "mine")])
    before = contents(target)
    with pytest.raises(InvalidInput, match=r"^to: is not empty \(octopus_\w+\)"):
        move(url(full), url(target))
    with pytest.raises(InvalidInput, match="^to: is not empty"):
        move(url(full), url(full))
    assert contents(target) == before


def test_a_source_that_is_not_there_is_not_made(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="the file does not exist"):
        move(url(tmp_path / "none.db"), url(tmp_path / "target.db"))
    assert not (tmp_path / "none.db").exists()


def test_a_source_that_changes_meanwhile_is_noticed(full: Path, tmp_path: Path, clock: FixedClock):
    target = tmp_path / "target.db"

    def meddle(done: int, total: int) -> None:
        if done == total // 3:
            with closing(SqliteStore(full, clock=clock)) as store:
                store.append(make_append(make_scope("late"), "one more"))

    with pytest.raises(StoreError, match="is not the same on both sides: something wrote"):
        move(url(full), url(target), meddle)
    with pytest.raises(StoreUnavailable, match="is not finished: run octopus migrate again"):
        open_(target, clock)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("octopus_turns", "tokens = tokens + 1 WHERE ordinal = 1"),
        ("octopus_recall", "flags = flags + 1 WHERE seq = 1"),
        ("octopus_meta", "value = zeroblob(32) WHERE name = 'salt'"),
    ],
)
def test_a_row_that_came_over_wrong_is_noticed(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, change: str
):
    target = tmp_path / "target.db"
    compare = move_module._compare

    def damage(*given: Any) -> Any:
        with closing(sqlite3.connect(target)) as conn:
            conn.execute(f"UPDATE {table} SET {change}")
            conn.commit()
        return compare(*given)

    monkeypatch.setattr(move_module, "_compare", damage)
    with pytest.raises(StoreError, match=f"^{table} is not the same"):
        move(url(full), url(target))


# Cut short


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_statements, "_ROWS", 7)


class Stopped(Exception):
    pass


def stop_after(steps: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        nonlocal steps
        steps -= 1
        if not steps:
            raise Stopped

    return progress


@pytest.mark.usefixtures("small_steps")
def test_a_move_goes_on_wherever_it_stopped(full: Path, tmp_path: Path, clock: FixedClock):
    target = tmp_path / "target.db"
    for _ in range(6):
        with pytest.raises(Stopped):
            move(url(full), url(target), stop_after(3))
        with pytest.raises(StoreUnavailable):
            open_(target, clock)
    report = move(url(full), url(target))
    assert report.resumed
    assert 0 < report.copied < report.rows
    assert answers(target, clock) == answers(full, clock)


KILLED = """
import os, signal, sys
from octopus_memory.adapters.stores.sql.statements import move as pages
from octopus_memory.wiring import move

pages._ROWS = 7
source, target, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])

def progress(done, total):
    global steps
    steps -= 1
    if not steps:
        os.kill(os.getpid(), signal.SIGKILL)

move(source, target, progress)
"""


@pytest.mark.process
@pytest.mark.parametrize("steps", [2, 25])
def test_a_killed_move_is_finished_by_the_next(
    full: Path, tmp_path: Path, clock: FixedClock, steps: int
):
    target = tmp_path / "target.db"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, url(full), url(target), str(steps)],
        check=False,
        capture_output=True,
        env=os.environ,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    report = move(url(full), url(target))
    assert report.resumed
    after, before = contents(target), contents(full)
    assert after["octopus_turns"] == before["octopus_turns"]
    assert answers(target, clock) == answers(full, clock)


@pytest.mark.usefixtures("small_steps")
def test_another_database_cannot_go_on_in_its_place(full: Path, tmp_path: Path, clock: FixedClock):
    target, other = tmp_path / "target.db", tmp_path / "other.db"
    with open_(other, clock) as memory:
        memory.scope(user="zoe").store([("user", "mine")])
    with pytest.raises(Stopped):
        move(url(full), url(target), stop_after(5))
    with pytest.raises(InvalidInput, match="^to: holds a part of another database"):
        move(url(other), url(target))
    with pytest.raises(InvalidInput, match="^from: is the target of a move that is not finished"):
        move(url(target), url(tmp_path / "third.db"))
    assert move(url(full), url(target)).resumed


@pytest.mark.usefixtures("small_steps")
def test_two_at_once_do_not_mix(full: Path, tmp_path: Path):
    target = tmp_path / "target.db"
    finished = []

    def the_other_one(done: int, total: int) -> None:
        if not finished:
            finished.append(move(url(full), url(target)))

    with pytest.raises(StoreBusy, match="another process is moving data"):
        move(url(full), url(target), the_other_one)
    assert finished[0].rows == sum(
        len(rows)
        for name, rows in contents(full).items()
        if name in {table.name for table in finished[0].tables}
    )


# From one product to another


@pytest.mark.usefixtures("small_steps")
def test_a_move_to_postgresql_and_back_copies_everything(
    full: Path, tmp_path: Path, clock: FixedClock, postgres_database: Database
):
    from octopus_memory.adapters.stores.postgres.store import PostgresStore

    owner, back = postgres_database.owner_url, tmp_path / "back.db"
    with pytest.raises(Stopped):
        move(url(full), owner, stop_after(9))
    with pytest.raises(StoreUnavailable, match="is not finished"):
        EpisodicMemory.open(postgres_database.url, embedder="hashing", background=False)
    there = move(url(full), owner)
    assert there.resumed
    with closing(PostgresStore(postgres_database.url, clock=clock)) as store:
        # As the application's role: the numbers of new rows are above those that came over.
        store.append(make_append(make_scope("new"), "a new scope", closing=make_closing()))
        with closing(SqliteStore(full)) as source:
            assert store.salt == source.salt
    rows = {table.name: table.rows for table in there.tables}
    again = {table.name: table.rows for table in move(owner, url(back)).tables}
    assert again["octopus_turns"] == rows["octopus_turns"] + 1
    assert again["octopus_scopes"] == rows["octopus_scopes"] + 1
    assert answers(back, clock) == answers(full, clock)
    before, after = contents(full), contents(back)
    for name in ("octopus_audit", "octopus_turns_archive", "octopus_conversations"):
        assert set(before[name]) <= set(after[name])
        assert before[name]


def test_each_statement_can_be_said_to_every_product():
    from sqlalchemy.dialects import mssql, postgresql, sqlite

    for dialect in (sqlite.dialect(), postgresql.dialect(), mssql.dialect()):
        for table in move_statements.tables():
            keys = list(table.primary_key.columns)
            where = move_statements._above(keys, has_tuples=dialect.name != "mssql")
            text = str(sa.select(table).where(where).order_by(*keys).compile(dialect=dialect))
            assert "WHERE" in text
    numbered = {table.name for table, _ in move_statements.numbered_tables()}
    assert numbered == {
        "octopus_models",
        "octopus_scopes",
        "octopus_turns",
        "octopus_turns_archive",
        "octopus_work",
    }
    assert schema.meta not in move_statements.tables()
