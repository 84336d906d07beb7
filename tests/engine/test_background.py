"""The work behind the calls: vectors, whose turn it is, and what happens when it goes wrong."""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory import (
    EmbedderFailed,
    EpisodicMemory,
    StoreCorrupt,
)
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.engine import worker as worker_module
from octopus_memory.engine.core import leases
from octopus_memory.engine.core.leases import new_worker_id
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import FailingEmbedder, FakeSummarizer, FixedClock
from octopus_memory.testing.store.base import worker_ids
from tests.support.leave_dialogue import QUESTION, TALK
from tests.support.pending_work import open_memory, waiting
from tests.support.polling import wait_until


@pytest.mark.both_databases
def test_the_thread_embeds_soon_after_a_write(database_url: str):
    with open_memory(database_url, background=True) as memory:
        scope = memory.scope(user="u")
        [turn] = scope.add("s", ("user", QUESTION))
        assert turn.embedding_ref is None
        assert wait_until(lambda: waiting(memory) == 0)
        assert scope.session("s").turns[0].embedding_ref == "hashing-256/1"
        scope.close_session("s")
        assert wait_until(lambda: waiting(memory) == 0)
        assert memory.stats().vectors == {"hashing-256": 2}


def test_before_it_is_embedded_a_turn_is_found_by_its_words(database_url: str):
    with open_memory(database_url) as memory:
        scope = memory.scope(user="u")
        scope.store(TALK, session_id="s")
        assert memory.stats().vectors == {}
        assert [snippet.session_id for snippet in scope.recall("leave days")] == ["s"]
        assert QUESTION in [hit.text for hit in scope.recall_turns("leave days")]
        assert [snippet.session_id for snippet in scope.recent()] == ["s"]


def test_system_turns_short_turns_and_tool_results_are_not_embedded(database_url: str):
    with open_memory(database_url) as memory:
        scope = memory.scope(user="u")
        with scope.episode() as ep:
            ep.add([("system", "You are Aria, a helpful assistant."), ("user", "ok")])
            ep.add_tool_call("f", {}, "a result that is long enough", tool_call_id="c")
            ep.add(TALK)
        report = memory.run_pending()
        assert report.embedded == 3  # two turns and the summary
        refs = [turn.embedding_ref for turn in scope.get(ep.id).turns]
        assert refs[:3] == [None, None, None]
        assert all(refs[3:])


@pytest.mark.both_databases
def test_work_left_by_another_process_is_done_after_the_next_start(database_url: str):
    with open_memory(database_url) as memory:
        memory.scope(user="u").store(TALK)
        assert waiting(memory) == 3
    # Nothing is called but reads: the start alone must be enough.
    with open_memory(database_url, background=True) as memory:
        assert wait_until(lambda: waiting(memory) == 0)
        assert memory.stats().vectors == {"hashing-256": 3}


@pytest.mark.process
def test_the_lease_of_a_dead_process_ends_at_once(database_url: str):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    clock = FixedClock()
    with open_memory(database_url, clock=clock) as memory:
        memory.scope(user="u").store(TALK)
        claimed = claim(
            memory, worker_id=new_worker_id().replace(str(os.getpid()), str(dead.pid)), now=clock
        )
        assert claimed == 3
        assert memory.run_pending().embedded == 3


@pytest.mark.both_databases
@pytest.mark.parametrize("where", ["here", "another machine", "another container"])
def test_the_lease_of_a_living_process_is_respected_until_it_expires(
    database_url: str, where: str, monkeypatch: pytest.MonkeyPatch
):
    """Containers may have one name, and each numbers its own processes."""
    clock, gone = FixedClock(), str(2**22 + 1)
    with monkeypatch.context() as there:
        if where == "another machine":
            there.setattr(platform, "node", lambda: "another-machine")
        if where == "another container":
            there.setattr(leases, "_PID_NAMESPACE", "/proc/self/ns/net")
        owner = new_worker_id()
    if where != "here":
        owner = owner.replace(f"/{os.getpid()}/", f"/{gone}/")
    with open_memory(database_url, clock=clock) as memory:
        memory.scope(user="u").store(TALK)
        claim(memory, worker_id=owner, now=clock)
        assert memory.run_pending().embedded == 0
        assert memory.flush(timeout=0.05) is False
        clock.advance(seconds=61)
        assert memory.run_pending().embedded == 3


def claim(memory: EpisodicMemory, *, worker_id: str, now: FixedClock) -> int:
    until = now.now() + timedelta(seconds=60)
    store = memory.runtime.store
    claimed = store.claim(
        WorkKind.EMBED, worker_id=worker_id, limit=100, now=now.now(), until=until
    )
    return len(claimed)


class Meeting(HashingEmbedder):
    """Keeps what it was asked for; its first work waits until the other has begun, too."""

    def __init__(self, both: threading.Barrier) -> None:
        super().__init__()
        self.both, self.asked = both, list[str]()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not self.asked:
            self.both.wait(30)
        self.asked += texts
        return super().embed(texts)


@pytest.mark.both_databases
def test_two_workers_share_the_work(database_url: str):
    """Neither does what the other has begun, and together they leave nothing."""
    both = threading.Barrier(2)
    workers = [Meeting(both), Meeting(both)]
    with open_memory(database_url) as memory:
        for user in "abcdef":
            said = [("user", f"Number {n} of {user}") for n in range(50)]
            memory.scope(user=user).add("s", said)
        first, second = (open_memory(database_url, embedder=worker) for worker in workers)
        with first, second:
            threads = [threading.Thread(target=each.run_pending) for each in (first, second)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        asked = [text for worker in workers for text in worker.asked]
        assert len(asked) == len(set(asked)) == 300
        assert waiting(memory) == 0
        assert memory.stats().vectors == {"hashing-256": 300}


def test_retries_of_a_failing_embedder_back_off(database_url: str):
    embedder, clock = FailingEmbedder(HashingEmbedder(), failures=1_000), FixedClock()
    with open_memory(database_url, embedder=embedder, clock=clock) as memory:
        memory.scope(user="u").store(TALK)
        for attempt in range(13):
            with pytest.raises(EmbedderFailed):
                memory.run_pending()
            clock.advance(seconds=min(2**attempt, 600) - 0.5)
            assert memory.run_pending().embedded == 0
            assert embedder.calls == attempt + 1
            clock.advance(seconds=0.5)
        embedder.fail(0)
        assert memory.run_pending().embedded == 3


@pytest.mark.slow
def test_the_thread_outlives_a_failing_embedder(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(worker_module, "_BETWEEN_ROUNDS", 0.05)
    embedder = FailingEmbedder(HashingEmbedder(), failures=1)
    with open_memory(database_url, embedder=embedder, background=True) as memory:
        memory.scope(user="u").store(TALK)
        assert wait_until(lambda: waiting(memory) == 0)
    assert "EmbedderFailed" in caplog.text
    assert "leave days" not in caplog.text


class Broken(HashingEmbedder):
    """Fails as no embedder should, with an error that is not ours."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("poison" in text for text in texts):
            raise RuntimeError("boom")
        return super().embed(texts)


@pytest.mark.slow
def test_the_thread_outlives_an_embedder_with_a_bug(database_url: str):
    with open_memory(database_url, embedder=Broken(), background=True) as memory:
        scope = memory.scope(user="u")
        scope.add("s", ("user", "this one is poison to it"))
        assert wait_until(lambda: bool(worker_ids(memory.runtime.store)))
        scope.add("other", ("user", "this one is well taken"))
        assert wait_until(lambda: memory.stats().vectors == {"hashing-256": 1})


class Gated(HashingEmbedder):
    """Waits at a gate, and says when somebody stands there."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.gate = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.set()
        assert self.gate.wait(30)
        return super().embed(texts)


def damage(url: str, ordinal: int) -> None:
    file = sqlite3.connect(url.removeprefix("sqlite:///"))
    with contextlib.closing(file), file:
        [[message]] = file.execute("SELECT message FROM octopus_turns WHERE ordinal = ?", [ordinal])
        change = "UPDATE octopus_turns SET message = ? WHERE ordinal = ?"
        file.execute(change, [message[:-8] + b"\xa5" * 8, ordinal])


def test_a_damaged_turn_does_not_keep_the_others_waiting(database_url: str, caplog: Any):
    with open_memory(database_url) as memory:
        scope = memory.scope(user="u")
        scope.add("s", [("user", f"{QUESTION} Of number {n}, I mean.") for n in range(5)])
        memory.scope(user="v").add("s", TALK[0])
        damage(database_url, 2)
        assert memory.run_pending().embedded == 6
        assert "1 texts are damaged" in caplog.text
        assert waiting(memory) == 1
        assert memory.stats().vectors == {memory.runtime.embedder.model: 5}
        assert memory.counts.work()[WorkKind.EMBED] == (5, 1)


def test_a_damaged_turn_does_not_keep_other_summaries_and_vectors_waiting(database_url: str):
    model = FakeSummarizer()
    model.fail(2)
    with open_memory(database_url, summarizer=model, clock=(clock := FixedClock())) as memory:
        memory.scope(user="u").store([TALK[0], ("user", QUESTION)])
        memory.scope(user="v").store([("user", QUESTION)])
        damage(database_url, 1)
        clock.advance(hours=1)
        done = memory.run_pending()
        assert (done.summarized, waiting(memory, WorkKind.SUMMARIZE)) == (1, 1)
        assert done.embedded


def test_flush_reports_a_damaged_turn(database_url: str):
    with open_memory(database_url) as memory:
        memory.scope(user="u").add("s", [("user", QUESTION), ("assistant", QUESTION)])
        damage(database_url, 0)
        with pytest.raises(StoreCorrupt, match="1 texts are damaged"):
            memory.flush()
        assert memory.stats().vectors == {memory.runtime.embedder.model: 1}


@pytest.mark.both_databases
def test_closing_with_work_left_loses_nothing(database_url: str):
    embedder = Gated()
    memory = open_memory(database_url, embedder=embedder, background=True)
    memory.scope(user="u").add("s", [("user", f"{QUESTION} {n}") for n in range(150)])
    assert embedder.asked.wait(30)
    closing = threading.Thread(target=memory.close)
    closing.start()
    embedder.gate.set()
    closing.join()
    assert "octopus-background" not in [thread.name for thread in threading.enumerate()]
    with open_memory(database_url) as again:
        done = again.stats().vectors["hashing-256"]
        # What was under way was finished, and the rest was not begun.
        assert 0 < done < 150
        assert again.run_pending().embedded == 150 - done
        assert again.stats().vectors == {"hashing-256": 150}
        assert len(again.scope(user="u").session("s").turns) == 150
