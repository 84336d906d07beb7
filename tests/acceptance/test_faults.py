"""When something outside is wrong: an error that says what to do, nothing half-written, and on."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octopus_memory import (
    EmbedderFailed,
    MemoryConfig,
    MemoryScope,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.testing import FailingEmbedder, FixedClock
from tests.support import child_actions, child_process, sqlite_hooks
from tests.support.filled_database import QUESTION, contents, open_memory


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


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_a_file_without_write_permission(filled: Path, public_folder: Path):
    path = Path(shutil.copy(filled, public_folder / "memory.db"))
    path.chmod(0o444)
    public_folder.chmod(0o555)
    before = path.read_bytes()
    with child_process.running(child_actions.use_it_as_nobody, f"sqlite:///{path}") as (_, pipe):
        [(name, message)] = child_process.read_to_end(pipe)
    assert name == "StoreReadOnly"
    assert "write permission" in message
    # In a folder that can be written, SQLite can still read it.
    public_folder.chmod(0o777)
    for url in (f"sqlite:///{path}", f"sqlite:///{path}?mode=ro"):
        with child_process.running(child_actions.use_it_as_nobody, url) as (_, pipe):
            found, (name, message) = child_process.read_to_end(pipe)
        assert len(found) == 5
        assert name == "StoreReadOnly"
    assert path.read_bytes() == before


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="permissions are another matter there")
def test_a_folder_without_write_permission(public_folder: Path):
    public_folder.chmod(0o555)
    for place in ("memory.db", "further/memory.db"):
        with child_process.running(
            child_actions.use_it_as_nobody, f"sqlite:///{public_folder / place}"
        ) as (
            _,
            pipe,
        ):
            [(name, message)] = child_process.read_to_end(pipe)
        assert name == "StoreUnavailable"
        assert "folder" in message
    assert list(public_folder.iterdir()) == []


def test_a_folder_where_the_file_should_be(tmp_path: Path):
    for url in (tmp_path, f"{tmp_path}?mode=ro"):
        with pytest.raises(StoreUnavailable, match="this is a directory; name a file in it"):
            open_memory(url)


def test_a_file_where_the_folder_should_be(path: Path):
    with pytest.raises(StoreUnavailable, match=r"cannot create the folder .*\(choose a folder"):
        open_memory(path / "memory.db")


def test_a_missing_file_opened_only_to_read(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match="the file does not exist"):
        open_memory(f"{tmp_path / 'memory.db'}?mode=ro")
    assert list(tmp_path.iterdir()) == []


CHANGES: dict[str, Callable[[MemoryScope], object]] = {
    "add": lambda scope: scope.add("open", [("user", "more"), ("user", "and more")]),
    "add to a new session": lambda scope: scope.add("new", ("user", "more"), idempotency_key="k"),
    "close": lambda scope: scope.close_session("open"),
    "open": lambda scope: scope.open_episode("new", metadata={"channel": "web"}),
    "store": lambda scope: scope.store([("user", "more"), ("user", "and more")], session_id="new"),
}


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> sqlite_hooks.Hooks:
    hooks = sqlite_hooks.Hooks()
    monkeypatch.setattr(sqlite3, "connect", sqlite_hooks.connect(hooks))
    return hooks


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_call_that_is_interrupted_leaves_no_half(
    path: Path, hooks: sqlite_hooks.Hooks, name: str
):
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


def test_a_full_disk(path: Path, hooks: sqlite_hooks.Hooks):
    pages = path.stat().st_size // 4096
    noise = random.Random(3)
    words = [("user", noise.randbytes(3_000).hex()) for _ in range(40)]
    long_facts = [noise.randbytes(1_000).hex() for _ in range(100)]
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
            lambda: scope.close_episode(going_on.episode, key_facts=long_facts),
        ):
            with pytest.raises(StoreFull, match="nothing was changed; free some space"):
                call()
            assert contents(path) == before
        assert scope.recall(QUESTION)
        hooks.pragma = "PRAGMA max_page_count=1000000"
        assert len(scope.add("new", words, idempotency_key="k")) == 40
        assert scope.close_episode(going_on.episode).summary
        assert memory.flush()


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="it has no limit on the size of files")
def test_a_file_that_may_not_grow(path: Path):
    room = path.stat().st_size + 50_000
    with child_process.running(child_actions.fill_the_disk, f"sqlite:///{path}", room) as (_, pipe):
        (name, message), (stored, there), (then, there_then) = child_process.read_to_end(pipe)
    assert issubclass(getattr(sys.modules["octopus_memory"], name), StoreError)
    assert "nothing was changed" in message
    assert stored == there
    assert then == there_then
    with open_memory(path) as memory:
        turns = memory.scope(user="u").session("s").turns
        assert [turn.ordinal for turn in turns] == list(range(then))
        assert turns[-1].text == "after"


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="a writer cannot be killed there")
def test_a_writer_that_holds_the_lock_for_too_long(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("octopus_memory.adapters.stores.sqlite.group_commit.BUSY_SECONDS", 0.1)
    with open_memory(path) as memory, open_memory(path) as other:
        scope = memory.scope(user="u")
        before = contents(path)
        with child_process.running(child_actions.hold_the_write_lock, str(path)) as (process, pipe):
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
            child_process.kill(process)
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
