"""Writers that come at once share a commit, and nothing else."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from octopus_memory.adapters.stores.sql import lazy
from octopus_memory.adapters.stores.sql.lazy import load_compiler
from octopus_memory.adapters.stores.sql.transactions import Every
from octopus_memory.adapters.stores.sqlite import group_commit
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.errors import EpisodeNotFound, StoreBusy, StoreFull
from octopus_memory.ports.values import EpisodeQuery
from octopus_memory.testing import make_append, make_closing, make_next, make_scope

WRITERS = 12


class Counting(sqlite3.Connection):
    commits = 0
    before_commit: Callable[[], None] | None = None
    after_commit: Callable[[], None] | None = None

    def execute(self, sql: str, *given: object) -> sqlite3.Cursor:
        if sql == "COMMIT":
            Counting.commits += 1
            if Counting.before_commit is not None:
                Counting.before_commit()
        done = super().execute(sql, *given)
        if sql == "COMMIT" and Counting.after_commit is not None:
            Counting.after_commit()
        return done


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Counting})
    )
    Counting.before_commit = Counting.after_commit = None
    opened = SqliteStore(tmp_path / "memory.db")
    yield opened
    opened.close()


def _at_once(store: SqliteStore, writes: list[Callable[[], object]]) -> list[Future[object]]:
    """Every write queued before the first can run."""
    with ThreadPoolExecutor(len(writes)) as pool:
        with store._writing:
            futures = [pool.submit(write) for write in writes]
            while len(store._group_commit._queue) < len(writes):
                time.sleep(0.001)
        return futures


def test_writers_that_wait_share_one_commit(store: SqliteStore):
    # A write that needs SQLAlchemy, and finds it not imported, is repeated in another commit.
    load_compiler()
    opened = [make_append(make_scope(f"u{n}"), "first") for n in range(WRITERS)]
    for write in opened:
        store.append(write)
    Counting.commits = 0
    adds = [lambda w=w: store.append(make_next(w, "more")) for w in opened[:-1]]
    new = [lambda: store.append(make_append(make_scope("new"), "a", closing=make_closing()))]
    other = [lambda: store.put_config("acme", "hr", {})]
    for future in _at_once(store, adds + new + other):
        future.result()
    assert Counting.commits == 1
    assert [t.text for t in store.turns(opened[0].scope, opened[0].episode_id)] == ["first", "more"]
    assert len(store.list_episodes(EpisodeQuery(of=make_scope("new"), limit=5))[0]) == 1


def test_a_failing_write_fails_alone(store: SqliteStore):
    good = [make_append(make_scope(f"u{n}"), "a") for n in range(3)]
    stray = make_next(make_append(make_scope("x"), "a"), "b")
    first, bad, second, third = _at_once(
        store,
        [
            lambda: store.append(good[0]),
            lambda: store.append(stray),
            lambda: store.append(good[1]),
            lambda: store.append(good[2]),
        ],
    )
    assert isinstance(bad.exception(), EpisodeNotFound)
    for write, future in zip(good, (first, second, third), strict=True):
        assert len(future.result()) == 1
        assert len(store.turns(write.scope, write.episode_id)) == 1
    assert store.list_episodes(EpisodeQuery(of=stray.scope, limit=5)) == ([], 0)


def test_a_commit_that_fails_stores_nothing_of_anybody(store: SqliteStore):
    def full() -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    writes = [make_append(make_scope(f"u{n}"), "a") for n in range(3)]
    Counting.before_commit = full
    futures = _at_once(store, [lambda w=w: store.append(w) for w in writes])
    assert {type(future.exception()) for future in futures} == {StoreFull}
    Counting.before_commit = None
    for write in writes:
        assert store.list_episodes(EpisodeQuery(of=write.scope, limit=5)) == ([], 0)
        store.append(write)


def test_an_interrupted_thread_loses_no_other_threads_write(store: SqliteStore):
    writes = [make_append(make_scope(f"u{n}"), "a") for n in range(4)]

    def stop() -> None:
        Counting.before_commit = None
        raise KeyboardInterrupt

    Counting.before_commit = stop
    futures = _at_once(store, [lambda w=w: store.append(w) for w in writes])
    stopped = [isinstance(future.exception(), KeyboardInterrupt) for future in futures]
    assert stopped.count(True) == 1
    for write, was_stopped in zip(writes, stopped, strict=True):
        found, _ = store.list_episodes(EpisodeQuery(of=write.scope, limit=5))
        assert len(found) == (0 if was_stopped else 1)


def test_a_stop_that_comes_with_the_commit_stores_nothing_twice(store: SqliteStore):
    """A signal that comes while the disk is waited for is raised when the commit is done."""
    opened = [make_append(make_scope(f"u{n}"), "first") for n in range(4)]
    for write in opened:
        store.append(write)

    def stop() -> None:
        Counting.after_commit = None
        raise KeyboardInterrupt

    Counting.after_commit = stop
    futures = _at_once(store, [lambda w=w: store.append(make_next(w, "more")) for w in opened])
    stopped = [isinstance(future.exception(), KeyboardInterrupt) for future in futures]
    assert stopped.count(True) == 1
    for write in opened:
        turns = store.turns(write.scope, write.episode_id)
        assert [turn.text for turn in turns] == ["first", "more"]


def test_nobody_waits_for_a_call_that_does_not_come(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    """A thread can be stopped just before it calls the next."""
    monkeypatch.setattr(group_commit, "_PATIENCE", 0.01)
    store._group_commit._has_leader = True
    assert len(store.append(make_append(make_scope("u"), "a"))) == 1
    assert not store._group_commit._queue
    assert not store._group_commit._has_leader


def test_a_write_imports_sqlalchemy_without_the_lock(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lazy, "_loaded", {})
    attempts: list[None] = []
    locked: list[bool] = []

    def cold(conn: lazy.Connection) -> int:
        attempts.append(None)
        number: int = conn.execute(lazy.sa.select(lazy.sa.literal(7))).scalar_one()
        return number

    def is_locked() -> bool:
        is_free = store._writing.acquire(blocking=False)
        if is_free:
            store._writing.release()
        return not is_free

    def load() -> None:
        with ThreadPoolExecutor() as pool:
            locked.append(pool.submit(is_locked).result())
        lazy.load_compiler()

    monkeypatch.setattr(group_commit, "load_compiler", load)
    assert store._write(Every.TENANT, cold) == 7
    assert (len(attempts), locked) == (2, [False])


def test_an_interrupted_write_does_not_lose_a_database_in_memory():
    with closing(SqliteStore(":memory:")) as store:
        write = make_append(make_scope(), "first")
        store.append(write)

        def stop(conn: lazy.Connection) -> None:
            assert conn.execute(lazy.sa.delete(lazy.schema.turns)).rowcount == 1
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store._write(Every.TENANT, stop)
        store.append(make_next(write, "second"))
        assert len(store.turns(write.scope, write.episode_id)) == 2


def test_more_writers_than_a_transaction_takes(store: SqliteStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_commit, "_MAX_BATCH", 5)
    writes = [make_append(make_scope(f"u{n}"), "a") for n in range(WRITERS)]
    Counting.commits = 0
    for future in _at_once(store, [lambda w=w: store.append(w) for w in writes]):
        assert len(future.result()) == 1
    assert Counting.commits == 3


def test_another_process_is_waited_for(store: SqliteStore):
    with holding(store) as other, ThreadPoolExecutor() as pool:
        waiting = pool.submit(store.append, make_append(make_scope(), "a"))
        time.sleep(0.05)
        assert not waiting.done()
        other.execute("ROLLBACK")
        assert len(waiting.result(10)) == 1


def test_a_writer_gives_up_after_the_busy_timeout(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "BUSY_SECONDS", 0.05)
    with holding(store), pytest.raises(StoreBusy, match="another process is writing"):
        store.append(make_append(make_scope(), "a"))
    assert len(store.append(make_append(make_scope(), "a"))) == 1


def test_without_wal_writers_wait_for_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SQLite has none on some file systems."""
    monkeypatch.setattr("octopus_memory.adapters.stores.sqlite.store._use_wal", lambda _: None)
    path = tmp_path / "memory.db"
    with (
        closing(SqliteStore(path)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        ThreadPoolExecutor() as pool,
    ):
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM octopus_turns").fetchone()
        waiting_too = pool.submit(store.append, make_append(make_scope(), "a"))
        time.sleep(0.05)
        assert not waiting_too.done()
        other.execute("ROLLBACK")
        assert len(waiting_too.result(10)) == 1


@contextmanager
def holding(store: SqliteStore) -> Iterator[sqlite3.Connection]:
    """What another process does that writes, and takes its time."""
    with closing(sqlite3.connect(store._path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
