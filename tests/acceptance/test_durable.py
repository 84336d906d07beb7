"""A process can be killed at any moment: what was acknowledged is there, once, and in order."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from pathlib import Path

import children
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.ports.store import WorkKind

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
)

ADDS = 200


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def open_again(path: Path) -> EpisodicMemory:
    check_file(path)
    return EpisodicMemory.open(f"sqlite:///{path}", embedder="hashing", background=False)


def check_file(path: Path) -> None:
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        conn.close()


def check_all_embedded(memory: EpisodicMemory) -> None:
    assert memory.flush(timeout=60)
    stats = memory.stats()
    assert stats.backlog[WorkKind.EMBED].waiting == 0
    summaries = stats.episodes - stats.open_episodes
    assert stats.vectors == {"hashing-256": stats.turns + summaries}


@pytest.mark.parametrize("run", range(4))
def test_no_acknowledged_turn_is_lost(path: Path, run: int):
    moment = random.Random()
    acknowledged = []
    with children.child(children.add_one_by_one, f"sqlite:///{path}", ADDS) as (process, pipe):
        acknowledged += [pipe.recv() for _ in range(moment.randint(1, ADDS - 1))]
        time.sleep(moment.random() / 200)
        children.kill(process)
        acknowledged += children.rest(pipe)
    with open_again(path) as memory:
        [episode] = memory.scope(user="u").session("s").episodes
        stored = [turn.id for turn in episode.turns]
        # One more may have been stored whose acknowledgement did not get through.
        assert stored[: len(acknowledged)] == acknowledged
        assert len(stored) <= len(acknowledged) + 1
        assert [turn.ordinal for turn in episode.turns] == list(range(len(stored)))
        assert [turn.text for turn in episode.turns] == [
            f"what I said as number {place}" for place in range(len(stored))
        ]
        assert episode.episode.message_count == len(stored)
        assert episode.episode.input_tokens == sum(turn.tokens for turn in episode.turns)
        check_all_embedded(memory)
        assert all(turn.embedding_ref for turn in memory.scope(user="u").session("s").turns)
        [more] = memory.scope(user="u").add("s", ("user", "life goes on"))
        assert more.ordinal == len(stored)


@pytest.mark.parametrize("run", range(2))
def test_a_whole_episode_is_there_or_not_at_all(path: Path, run: int):
    size = 300
    with children.child(children.store_again_and_again, f"sqlite:///{path}", size) as (
        process,
        pipe,
    ):
        assert pipe.recv() == "begin"
        acknowledged = [pipe.recv()]
        time.sleep(random.random() / 4)
        children.kill(process)
        acknowledged += children.rest(pipe)
    with open_again(path) as memory:
        scope = memory.scope(user="u")
        stored = list(scope.episodes(page_size=1_000))
        assert {episode.id for episode in stored} >= set(acknowledged)
        assert len(stored) <= len(acknowledged) + 1
        for episode in stored:
            assert len(scope.get(episode.id).turns) == episode.message_count == size
            assert episode.ended_at
            assert episode.summary
        check_all_embedded(memory)


def test_killed_while_it_closes(path: Path):
    for run in range(5):
        path = path.with_name(f"{run}.db")
        with children.child(children.add_and_close, f"sqlite:///{path}") as (process, pipe):
            assert pipe.recv() == "closing"
            time.sleep(random.random() / 50)
            children.kill(process)
            acknowledged = children.rest(pipe) == ["closed"]
        with open_again(path) as memory:
            scope = memory.scope(user="u")
            [episode] = scope.episodes()
            assert len(scope.get(episode.id).turns) == 20
            assert (episode.summary is None) == episode.is_open
            assert not (acknowledged and episode.is_open)
            closed = scope.close_episode(episode.id)
            assert closed.summary
            check_all_embedded(memory)
            assert [found.episode_id for found in scope.recall("cats in Porto")] == [episode.id]


def test_killed_while_it_embeds(path: Path):
    url = f"sqlite:///{path}"
    with children.child(children.stay_in_the_embedder, url) as (process, pipe):
        assert pipe.recv() > 0
        with open_again(path) as memory:
            assert memory.stats().vectors == {}
            assert memory.flush(timeout=0.05) is False
        children.kill(process)
    with open_again(path) as memory:
        assert memory.scope(user="u").recall("what I said as number 7")
        check_all_embedded(memory)


def test_killed_while_it_makes_the_file(path: Path):
    for run in range(12):
        path = path.with_name(f"{run}.db")
        with children.child(children.open_and_add, f"sqlite:///{path}") as (process, pipe):
            assert pipe.recv() == "opening"
            time.sleep(run * random.random() / 200)
            children.kill(process)
            acknowledged = children.rest(pipe)
        with open_again(path) as memory:
            scope = memory.scope(user="u")
            turns = [turn.id for turn in scope.add("s", ("user", "and on it goes"))]
            stored = [turn.id for turn in scope.session("s").turns]
            assert stored[-1:] == turns
            assert len(stored) <= 2
            assert stored[:-1] == acknowledged or not acknowledged
            check_all_embedded(memory)
