"""When something outside is wrong: an error that says what to do, nothing half-written, and on."""

from __future__ import annotations

import inspect
import itertools
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import children
import pytest
import watched

import forked
from octopus_memory import (
    EmbedderFailed,
    EpisodicMemory,
    MemoryClosed,
    MemoryConfig,
    MemoryScope,
    OctopusError,
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.testing import FailingEmbedder, FixedClock

QUESTION = "How many leave days do I have left?"


def open_memory(path: Path | str, **options: Any) -> EpisodicMemory:
    url = f"sqlite:///{path}"
    return EpisodicMemory.open(url, **({"embedder": "hashing", "background": False} | options))


def contents(path: Path) -> list[Any]:
    """Every row of every table, as it stands in the file."""
    conn = sqlite3.connect(path)
    try:
        names = conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        tables = [name for (name,) in names]
        return [(table, conn.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]
    finally:
        conn.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with something in every table."""
    path = tmp_path_factory.mktemp("weather") / "filled.db"
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        for number in range(60):
            scope.store(
                [("user", f"{QUESTION} I asked {number} times."), ("assistant", "Twelve days.")],
                session_id=f"s{number}",
                metadata={"number": number},
                idempotency_key=f"k{number}",
            )
        scope.add("open", ("user", "This is still going on."))
        memory.configure("hr", MemoryConfig())
        memory.flush()
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled, tmp_path / "memory.db"))


def test_a_database_from_a_newer_version(path: Path):
    conn = sqlite3.connect(path)
    conn.execute("UPDATE octopus_schema SET version_num = '9999'")
    conn.commit()
    conn.close()
    before = contents(path)
    for url in (path, f"{path}?mode=ro"):
        with pytest.raises(SchemaTooNew, match=r"9999.*pip install --upgrade octopus-memory"):
            open_memory(url)
    assert contents(path) == before


def test_a_file_opened_only_to_read(path: Path):
    before = contents(path)
    with open_memory(f"{path}?mode=ro", background=True) as memory:
        scope = memory.scope(user="u")
        assert scope.recall(QUESTION)
        assert scope.context(QUESTION).text
        assert len(scope.session("s7").turns) == 2
        assert memory.stats().turns == 121
        [episode] = scope.session("open").episodes
        for call in (
            lambda: scope.add("open", ("user", "more")),
            lambda: scope.add("new", ("user", "more")),
            lambda: scope.store([("user", "more")]),
            scope.open_episode,
            lambda: scope.close_episode(episode.episode),
            lambda: scope.heartbeat("open"),
            lambda: memory.configure("hr", MemoryConfig()),
            memory.run_pending,
        ):
            with pytest.raises(StoreReadOnly, match=r"without \?mode=ro|open it without"):
                call()
        assert scope.recall(QUESTION)
    assert contents(path) == before


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that any user may reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_a_file_without_write_permission(filled: Path, public_folder: Path):
    path = Path(shutil.copy(filled, public_folder / "memory.db"))
    path.chmod(0o444)
    public_folder.chmod(0o555)
    before = path.read_bytes()
    with forked.child(children.use_it_as_nobody, f"sqlite:///{path}") as (_, pipe):
        [(name, message)] = forked.rest(pipe)
    assert name == "StoreReadOnly"
    assert "write permission" in message
    # In a folder that can be written, SQLite can still read it.
    public_folder.chmod(0o777)
    for url in (f"sqlite:///{path}", f"sqlite:///{path}?mode=ro"):
        with forked.child(children.use_it_as_nobody, url) as (_, pipe):
            found, (name, message) = forked.rest(pipe)
        assert len(found) == 5
        assert name == "StoreReadOnly"
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_a_folder_without_write_permission(public_folder: Path):
    public_folder.chmod(0o555)
    for place in ("memory.db", "further/memory.db"):
        with forked.child(children.use_it_as_nobody, f"sqlite:///{public_folder / place}") as (
            _,
            pipe,
        ):
            [(name, message)] = forked.rest(pipe)
        assert name == "StoreUnavailable"
        assert "folder" in message
    assert list(public_folder.iterdir()) == []


@pytest.mark.parametrize("words", ["hello", "hello, this is a letter to my aunt. " * 200])
def test_a_file_that_is_no_database(tmp_path: Path, words: str):
    path = tmp_path / "letter.db"
    path.write_text(words)
    for url in (path, f"{path}?mode=ro"):
        with pytest.raises(StoreCorrupt, match=r"letter\.db.*not an SQLite file; check the path"):
            open_memory(url)
    assert path.read_text() == words
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_where_the_file_should_be(tmp_path: Path):
    for url in (tmp_path, f"{tmp_path}?mode=ro"):
        with pytest.raises(StoreUnavailable, match="this is a folder; name a file in it"):
            open_memory(url)


def test_a_file_where_the_folder_should_be(path: Path):
    with pytest.raises(StoreUnavailable, match=r"cannot make the folder .*\(choose a folder"):
        open_memory(path / "memory.db")


def test_a_missing_file_opened_only_to_read(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="no such file"):
        open_memory(f"{tmp_path / 'memory.db'}?mode=ro")
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_another_programs(tmp_path: Path):
    path = tmp_path / "memory.db"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE octopus_turns (a, b)")
    conn.commit()
    conn.close()
    before = contents(path)
    with pytest.raises(StoreCorrupt, match="octopus_turns already exists"):
        open_memory(path)
    assert contents(path) == before


CHANGES: dict[str, Callable[[MemoryScope], object]] = {
    "add": lambda scope: scope.add("open", [("user", "more"), ("user", "and more")]),
    "add to a new session": lambda scope: scope.add("new", ("user", "more"), idempotency_key="k"),
    "close": lambda scope: scope.close_session("open"),
    "open": lambda scope: scope.open_episode("new", metadata={"channel": "web"}),
    "store": lambda scope: scope.store([("user", "more"), ("user", "and more")], session_id="new"),
}


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> watched.Hooks:
    hooks = watched.Hooks()
    monkeypatch.setattr(sqlite3, "connect", watched.connect(hooks))
    return hooks


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_call_that_is_interrupted_leaves_no_half(path: Path, hooks: watched.Hooks, name: str):
    """By Ctrl-C, for example, before any of its statements or before its commit."""
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        before = contents(path)
        for statement in itertools.count(1):
            hooks.statement = interrupt_at(statement)
            try:
                CHANGES[name](scope)
                break
            except KeyboardInterrupt:
                assert contents(path) == before
        hooks.statement = None
        assert statement > 4
        assert contents(path) != before
        assert memory.flush()


def interrupt_at(statement: int) -> Callable[[], None]:
    count = itertools.count(1)

    def interrupt() -> None:
        if next(count) == statement:
            raise KeyboardInterrupt

    return interrupt


def test_a_full_disk(path: Path, hooks: watched.Hooks):
    pages = path.stat().st_size // 4096
    noise = random.Random(3)
    words = [("user", noise.randbytes(3_000).hex()) for _ in range(40)]
    long_fact = noise.randbytes(200_000).hex()
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        [going_on] = scope.session("open").episodes
        hooks.pragma = f"PRAGMA max_page_count={pages}"
        before = contents(path)
        for call in (
            lambda: scope.add("open", words),
            lambda: scope.add("new", words, idempotency_key="k"),
            lambda: scope.store(words, session_id="whole", idempotency_key="k"),
            lambda: scope.open_episode("new", metadata={"long": "x" * 400_000}),
            lambda: scope.close_episode(going_on.episode, key_facts=[long_fact]),
        ):
            with pytest.raises(StoreFull, match="nothing was stored; free some space"):
                call()
            assert contents(path) == before
        assert scope.recall(QUESTION)
        hooks.pragma = "PRAGMA max_page_count=1000000"
        assert len(scope.add("new", words, idempotency_key="k")) == 40
        assert scope.close_episode(going_on.episode).summary
        assert memory.flush()


@pytest.mark.skipif(sys.platform == "win32", reason="it has no limit on the size of files")
def test_a_file_that_may_not_grow(path: Path):
    room = path.stat().st_size + 50_000
    with forked.child(children.fill_the_disk, f"sqlite:///{path}", room) as (_, pipe):
        (name, message), (stored, there), (then, there_then) = forked.rest(pipe)
    assert issubclass(getattr(sys.modules["octopus_memory"], name), StoreError)
    assert "nothing was stored" in message
    assert stored == there
    assert then == there_then
    with open_memory(path) as memory:
        turns = memory.scope(user="u").session("s").turns
        assert [turn.ordinal for turn in turns] == list(range(then))
        assert turns[-1].text == "after"


def use(path: Path) -> None:
    """Reads and writes all over the file."""
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        for episode in scope.episodes(page_size=100):
            scope.session(episode.session_id).messages()
        scope.recall(QUESTION, limit=100)
        scope.add("open", ("user", "One more thing about it."))
        scope.close_session("open")
        memory.config("hr")
        memory.run_pending()
        memory.stats()


def error_of(path: Path) -> OctopusError | None:
    try:
        use(path)
    except OctopusError as error:
        return error
    return None


@pytest.mark.parametrize("share", [0.001, 0.01, 0.5, 0.95])
def test_a_file_that_is_cut_short(path: Path, share: float):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(StoreCorrupt, match=r"memory\.db.*(backup|check the path)"):
        use(path)
    path.write_bytes(whole)
    use(path)


def test_a_file_with_a_damaged_page(path: Path):
    whole = path.read_bytes()
    seen = set()
    for start in range(0, len(whole), 4096 * 5):
        path.write_bytes(whole[:start] + b"\xa5" * 4096 + whole[start + 4096 :])
        error = error_of(path)
        assert isinstance(error, StoreCorrupt | None)
        if error is not None:
            seen.add(start)
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
    assert {0, 4096 * 5} <= seen


def test_bytes_that_changed_by_themselves(path: Path):
    """Whatever is read, it is right, or an error of ours: never another's, and never a crash."""
    whole, chance = path.read_bytes(), random.Random(20)
    for _ in range(25):
        damaged = bytearray(whole)
        for place in chance.sample(range(len(whole)), 20):
            damaged[place] = chance.randrange(256)
        path.write_bytes(damaged)
        assert "leave days" not in str(error_of(path))
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a writer cannot be killed there")
def test_a_writer_that_holds_the_lock_for_too_long(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("octopus_memory.adapters.stores.sqlite.waiting.BUSY_SECONDS", 0.1)
    with open_memory(path) as memory, open_memory(path) as other:
        scope = memory.scope(user="u")
        before = contents(path)
        with forked.child(children.hold_the_write_lock, str(path)) as (process, pipe):
            assert pipe.recv() == "holding"
            for call in (
                lambda: scope.add("open", ("user", "more")),
                lambda: scope.store([("user", "more")]),
                lambda: scope.close_session("open"),
                memory.run_pending,
            ):
                with pytest.raises(StoreBusy, match="another process is writing; try again"):
                    call()
            assert scope.recall(QUESTION)
            assert other.scope(user="u").session("s1").turns
            assert contents(path) == before
            forked.kill(process)
        assert scope.add("open", ("user", "more"))[0].ordinal == 1
        assert memory.flush()


def test_an_embedder_that_is_down(tmp_path: Path):
    embedder, clock = FailingEmbedder(HashingEmbedder()), FixedClock()
    with open_memory(tmp_path / "memory.db", embedder=embedder, clock=clock) as memory:
        scope = memory.scope(user="u")
        embedder.fail(times=1_000)
        with scope.episode(session_id="s") as ep:
            ep.add("user", QUESTION)
            ep.add("assistant", "You have twelve days.")
        assert [found.episode_id for found in scope.recall("leave days")] == [ep.id]
        assert QUESTION in [hit.text for hit in scope.recall_turns("leave days")]
        assert scope.context("How many leave days?").messages
        for call in (
            lambda: scope.recall("leave days", mode="semantic"),
            memory.flush,
            lambda: clock.advance(seconds=5) and memory.run_pending(),
        ):
            with pytest.raises(EmbedderFailed):
                call()
        assert memory.stats().vectors == {}
        embedder.fail(times=0)
        clock.advance(minutes=15)
        assert memory.flush()
        assert memory.stats().vectors == {"hashing-256": 3}
        assert scope.recall("leave days", mode="semantic", min_score=0.0)


SCOPE_CALLS: dict[str, Callable[[MemoryScope], object]] = {
    "add": lambda scope: scope.add("s", ("user", "x")),
    "close_episode": lambda scope: scope.close_episode("s"),
    "close_session": lambda scope: scope.close_session("s"),
    "context": lambda scope: scope.context("x"),
    "delete": lambda scope: scope.delete(uuid4()),
    "deleted": lambda scope: scope.deleted(),
    "episode": lambda scope: scope.episode(),
    "episodes": lambda scope: scope.episodes(),
    "erase": lambda scope: scope.erase(),
    "erase_episode": lambda scope: scope.erase_episode(uuid4()),
    "get": lambda scope: scope.get("s"),
    "heartbeat": lambda scope: scope.heartbeat("s"),
    "open_episode": lambda scope: scope.open_episode(),
    "recall": lambda scope: scope.recall("x"),
    "recall_turns": lambda scope: scope.recall_turns("x"),
    "recent": lambda scope: scope.recent(),
    "restore": lambda scope: scope.restore(uuid4()),
    "session": lambda scope: scope.session("s"),
    "store": lambda scope: scope.store([("user", "x")]),
}
MEMORY_CALLS: dict[str, Callable[[EpisodicMemory], object]] = {
    "compact": lambda memory: memory.compact(),
    "config": lambda memory: memory.config("hr"),
    "configure": lambda memory: memory.configure("hr", MemoryConfig()),
    "flush": lambda memory: memory.flush(),
    "next_retention": lambda memory: memory.next_retention(),
    "run_pending": lambda memory: memory.run_pending(),
    "run_retention": lambda memory: memory.run_retention(),
    "stats": lambda memory: memory.stats(),
}
HARMLESS = {
    "attend",
    "close",
    "connect",
    "open",
    "scope",
    "tenant",
    "wake",
    "wake_for_others",
}
"""What may be called on a closed memory."""


def public_calls(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


@pytest.mark.parametrize("background", [True, False])
def test_a_memory_that_is_closed(path: Path, background: bool):
    assert set(SCOPE_CALLS) == public_calls(MemoryScope)
    assert set(MEMORY_CALLS) | HARMLESS == public_calls(EpisodicMemory)
    memory = open_memory(path, background=background)
    scope = memory.scope(user="u")
    hand = scope.episode()
    memory.close()
    memory.close()
    before = contents(path)
    calls = [lambda call=call: call(scope) for call in SCOPE_CALLS.values()]
    calls += [lambda call=call: call(memory) for call in MEMORY_CALLS.values()]
    calls += [lambda: hand.add("user", "x"), hand.close, lambda: hand.episode]
    for call in calls:
        with pytest.raises(MemoryClosed, match=r"open a new one with EpisodicMemory\.open\(\)"):
            call()
    assert contents(path) == before
    assert list(path.parent.iterdir()) == [path]


def test_an_error_in_a_block_is_not_hidden_by_the_end_of_the_memory(path: Path):
    def go_wrong() -> None:
        with open_memory(path) as memory:
            scope = memory.scope(user="u")
            with scope.episode(session_id="broken") as ep:
                ep.add("user", "this will go wrong")
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_wrong()
    with open_memory(path) as memory:
        [episode] = memory.scope(user="u").session("broken").episodes
        assert episode.episode.end_reason == "error_closed"
