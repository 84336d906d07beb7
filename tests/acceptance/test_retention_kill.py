"""Retention killed at any moment, run twice at once, and beside writers."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    ArchiveMode,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    MemoryConfig,
    RetentionCounts,
)
from octopus_memory.ports.values import SUMMARY_ORDINAL
from octopus_memory.testing.store.base import cold_turns, marked_turns
from tests.support import child_process, retention_child_actions
from tests.support.retention_child_actions import NOW, TALK, open_memory

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
    ),
]
AGENTS = ("plain", "cold", "old", "marked", "idle", "young")


def tell(memory: EpisodicMemory, agent: str, *, days: float, user: str = "u") -> None:
    ended = NOW - timedelta(days=days)
    scope = memory.scope(agent=agent, user=user)
    scope.store(TALK, session_id=agent, at=ended, ended_at=ended)


@pytest.fixture(scope="module")
def due(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with an episode for each thing that a run does, and one that it leaves."""
    path = tmp_path_factory.mktemp("retention") / "due.db"
    cold = EpisodicRetentionPolicy(archive_mode=ArchiveMode.COLD)
    with open_memory(f"sqlite:///{path}") as memory:
        memory.configure("cold", MemoryConfig(retention=cold))
        for agent, days in (("plain", 100), ("cold", 100), ("old", 400), ("young", 1)):
            tell(memory, agent, days=days)
        tell(memory, "marked", days=30)
        scope = memory.scope(agent="marked", user="u")
        [episode] = scope.episodes()
        memory.runtime.store.delete(scope.scope, episode.id, at=NOW - timedelta(days=8))
        # Idle by the clock, for an hour.
        clock: Any = memory.runtime.clock
        clock.set(NOW - timedelta(hours=1))
        memory.scope(agent="idle", user="u").add("idle", TALK)
        clock.set(NOW)
        memory.flush()
    return path


def state(memory: EpisodicMemory, agent: str) -> str:
    """The stage of the agent's one episode, which must be whole in it."""
    scope, store = memory.scope(agent=agent, user="u"), memory.runtime.store
    rows = [row.ordinal for row in store.recall_rows(scope.scope, after=0)[1]]
    for episode in scope.deleted():
        assert rows == []
        assert len(marked_turns(store, scope.scope, episode.id)) == 2
        return "deleted"
    if not scope.episodes():
        assert store.recall_state(scope.scope) is None
        return "gone"
    [episode] = scope.episodes()
    turns, cold = scope.get(episode.id).turns, cold_turns(store, scope.scope, episode.id)
    assert episode.message_count == 2
    assert (episode.summary is None) == episode.is_open
    if episode.is_archived:
        assert (len(turns), rows, len(cold)) == (0, [SUMMARY_ORDINAL], 2 * episode.is_cold)
        return "archived"
    assert (len(turns), len(cold)) == (2, 0)
    assert rows == ([0, 1] if episode.is_open else [0, 1, SUMMARY_ORDINAL])
    return "open" if episode.is_open else "active"


BEFORE = ("active", "active", "active", "deleted", "open", "active")
AFTER = ("archived", "archived", "deleted", "gone", "active", "active")


def check_all(memory: EpisodicMemory, expected: tuple[str, ...]) -> None:
    assert tuple(state(memory, agent) for agent in AGENTS) == expected
    stats = memory.stats()
    assert stats.turns == sum(0 if where in ("archived", "gone") else 2 for where in expected)
    assert memory.flush()
    rows = sum(
        len(memory.runtime.store.recall_rows(memory.scope(agent=a, user="u").scope, after=0)[1])
        for a in AGENTS
    )
    assert sum(memory.stats().vectors.values()) == rows


def content(path: Path) -> dict[str, list[Any]]:
    """Every row of every table, but for a runner's own name and the ids of facts that it finds."""
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        names = [n for (n,) in conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {name: sorted(conn.execute(f"SELECT * FROM {name}"), key=repr) for name in names}
    finally:
        conn.close()
    rows["octopus_jobs"] = [
        (name, bool(owner), *rest) for name, owner, *rest in rows["octopus_jobs"]
    ]
    rows["octopus_facts"] = [(scope_id, *rest) for scope_id, _, *rest in rows["octopus_facts"]]
    return rows


def killed_at_each(ready: Path, folder: Path, action: str) -> list[Path]:
    """Every database that a kill may leave, in order; the last one is of a run that was not."""
    do = retention_child_actions.be_killed_at_each
    with child_process.running(do, str(ready), str(folder), action) as (_, pipe):
        ends = child_process.read_to_end(pipe)
    paths = [Path(path) for path, _ in ends]
    assert [code for _, code in ends] == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    different: list[tuple[Path, Any]] = []
    for path in paths:
        found = content(path)
        if not different or found != different[-1][1]:
            different.append((path, found))
    # One statement after the other comes to no more than one transaction after the other.
    assert len(paths) > 3 * len(different)
    return [path for path, _ in different]


def test_a_run_that_is_killed_at_any_statement_is_finished_by_the_next(due: Path, tmp_path: Path):
    seen = []
    for path in killed_at_each(due, tmp_path, "run"):
        with open_memory(f"sqlite:///{path}") as memory:
            found = tuple(state(memory, agent) for agent in AGENTS)
            for place, was, becomes in zip(found, BEFORE, AFTER, strict=True):
                assert place in (was, becomes)
            seen.append(found)
            report = memory.run_retention(compact=False)
            assert (report.elsewhere, report.complete, report.counts.failed) == (False, True, 0)
            check_all(memory, AFTER)
            assert memory.run_retention(compact=False).counts == RetentionCounts()
    assert (seen[0], seen[-1]) == (BEFORE, AFTER)
    # Each of the five was moved in a transaction of its own.
    assert len(set(seen)) == 6


def test_a_restoring_that_is_killed_at_any_statement(due: Path, tmp_path: Path):
    ready = Path(shutil.copy(due, tmp_path / "ready.db"))
    with open_memory(f"sqlite:///{ready}") as memory:
        memory.run_retention(compact=False)
        memory.flush()
    seen = []
    for path in killed_at_each(ready, tmp_path, "restore"):
        with open_memory(f"sqlite:///{path}") as memory:
            seen.append(state(memory, "cold"))
            retention_child_actions.act(memory, "restore")
            check_all(memory, ("archived", "active", *AFTER[2:]))
    assert seen == ["archived", "active"]


def many_due(path: Path, count: int) -> str:
    url = f"sqlite:///{path}"
    with open_memory(url) as memory:
        for number in range(count):
            tell(memory, "plain", days=100, user=str(number))
    return url


def test_two_jobs_at_once(tmp_path: Path):
    url = many_due(tmp_path / "memory.db", 12)
    barrier = child_process.CONTEXT.Barrier(3)
    with ExitStack() as stack:
        pipes = [
            stack.enter_context(
                child_process.running(retention_child_actions.run_at_once, url, barrier, 1)
            )[1]
            for _ in range(3)
        ]
        reports = [pipe.recv() for pipe in pipes]
    assert sorted(report.elsewhere for report in reports) == [False, True, True]
    assert sorted(report.counts.archived for report in reports) == [0, 0, 12]
    with open_memory(url) as memory:
        assert memory.stats().turns == 0
        entries = [e for e in memory.runtime.store.audit("default") if e.action == "retention"]
        assert [entry.detail["archived"] for entry in entries] == [12]


def test_a_killed_runner_is_followed_at_once(tmp_path: Path):
    url = many_due(tmp_path / "memory.db", 3)
    with child_process.running(retention_child_actions.run_and_hang, url) as (process, pipe):
        assert pipe.recv() == 1
        with open_memory(url) as memory:
            assert memory.run_retention().elsewhere
        child_process.kill(process)
        # Not only when its lease ends, which the clock here never comes to.
        with open_memory(url) as memory:
            report = memory.run_retention()
            assert (report.elsewhere, report.counts.archived) == (False, 2)


def test_a_run_beside_writers(tmp_path: Path):
    threads, rounds = 3, 25
    url = many_due(tmp_path / "memory.db", 30)
    with (
        child_process.running(retention_child_actions.write_meanwhile, url, threads, rounds) as (
            _,
            pipe,
        ),
        open_memory(url) as memory,
    ):
        assert pipe.recv() == "begin"
        report = memory.run_retention()
        assert pipe.recv() == []
        assert report.counts == RetentionCounts(archived=30)
        assert memory.stats().turns == threads * rounds
        for number in range(threads):
            turns = memory.scope(agent="busy", user=f"w{number}").session("s").turns
            assert [turn.ordinal for turn in turns] == list(range(rounds))
        assert memory.flush()
