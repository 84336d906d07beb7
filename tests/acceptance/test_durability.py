"""A process can be killed at any moment: what was acknowledged is there, once, and in order."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from functools import partial
from pathlib import Path

import pytest

from octopus_memory import Episode, EpisodicMemory, InvalidInput
from octopus_memory.ports.recall_rows import WorkKind
from tests.support import child_actions, child_process

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
)

ADDS = 200


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def open_again(where: Path | str) -> EpisodicMemory:
    """`where` is a file or a URL."""
    url = where if isinstance(where, str) else f"sqlite:///{where}"
    if url.startswith("sqlite"):
        check_file(Path(url.removeprefix("sqlite:///")))
    return EpisodicMemory.open(url, embedder="hashing", background=False)


def check_file(path: Path) -> None:
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        conn.close()


def check_all_embedded(memory: EpisodicMemory) -> None:
    assert memory.flush(timeout=30)
    stats = memory.stats()
    assert stats.backlog[WorkKind.EMBED].waiting == 0
    summaries = stats.episodes - stats.open_episodes
    assert sum(stats.vectors.values()) == stats.turns + summaries


@pytest.mark.process
@pytest.mark.parametrize(
    ("database_url", "run"),
    [("sqlite", run) for run in range(4)]
    + [(product, run) for product in ("postgresql", "sqlserver") for run in range(2)],
    indirect=["database_url"],
)
def test_no_acknowledged_turn_is_lost(database_url: str, run: int):
    moment = random.Random()
    acknowledged = []
    with child_process.running(child_actions.add_one_by_one, database_url, ADDS) as (process, pipe):
        acknowledged += [pipe.recv() for _ in range(moment.randint(1, ADDS - 1))]
        time.sleep(moment.random() / 200)
        child_process.kill(process)
        acknowledged += child_process.read_to_end(pipe)
    with open_again(database_url) as memory:
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


@pytest.mark.process
@pytest.mark.both_databases
@pytest.mark.parametrize("run", range(2))
def test_a_whole_episode_is_there_or_not_at_all(database_url: str, run: int):
    size = 300
    with child_process.running(child_actions.store_again_and_again, database_url, size) as (
        process,
        pipe,
    ):
        assert pipe.recv() == "begin"
        acknowledged = [pipe.recv()]
        time.sleep(random.random() / 4)
        child_process.kill(process)
        acknowledged += child_process.read_to_end(pipe)
    with open_again(database_url) as memory:
        scope = memory.scope(user="u")
        stored = list(scope.episodes(page_size=1_000))
        assert {episode.id for episode in stored} >= set(acknowledged)
        assert len(stored) <= len(acknowledged) + 1
        for episode in stored:
            assert len(scope.get(episode.id).turns) == episode.message_count == size
            assert episode.ended_at
            assert episode.summary
        check_all_embedded(memory)


def check_whole(memory: EpisodicMemory) -> list[Episode]:
    """Every episode as one that was never disturbed; returns them."""
    scope = memory.scope(user="u")
    episodes = list(scope.episodes(page_size=1_000))
    for episode in episodes:
        turns = scope.get(episode.id).turns
        assert [turn.ordinal for turn in turns] == list(range(episode.message_count))
        assert episode.input_tokens == sum(turn.tokens for turn in turns)
        assert (episode.summary is None) == episode.is_open
        if episode.is_open:
            assert scope.session(episode.session_id).session.status == "active"
    check_all_embedded(memory)
    _, rows = memory.runtime.store.recall_rows(scope.scope, after=0)
    ended = [episode for episode in episodes if not episode.is_open]
    assert len(rows) == sum(e.message_count for e in episodes) + len(ended)
    return episodes


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one session that is going on."""
    path = tmp_path_factory.mktemp("durable") / "talked.db"
    with open_again(path) as memory:
        memory.scope(user="u").add("s", child_actions.TALK)
    return path


@pytest.mark.process
@pytest.mark.parametrize("action", child_actions.ACTIONS)
def test_killed_at_every_statement(talked: Path, tmp_path: Path, action: str):
    # Making the file takes many statements, all alike: a few of them will do.
    ready, step = (None, 7) if action == "open" else (str(talked), 1)
    do = partial(child_actions.act, action)
    with child_process.running(child_actions.be_killed_at_each, do, ready, str(tmp_path), step) as (
        _,
        pipe,
    ):
        ends = child_process.read_to_end(pipe)
    assert [code for _, code in ends] == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    assert len(ends) > 4
    for path, code in ends:
        done = code == 0
        with open_again(path) as memory:
            sizes = sorted(episode.message_count for episode in check_whole(memory))
            scope = memory.scope(user="u")
            match action:
                case "add":
                    assert sizes == [6] if done else sizes in ([3], [6])
                    scope.add("s", child_actions.TALK, idempotency_key="k")
                    assert len(scope.session("s").turns) == 6
                case "close" | "embed":
                    assert sizes == [3]
                    assert scope.close_session("s").status == "ended"
                case "store":
                    assert sizes == [3, 3] if done else sizes in ([3], [3, 3])
                case _:
                    assert sizes == [1] if done else sizes in ([], [1])
            scope.add("s", ("user", "and on it goes"))
            check_whole(memory)


def test_a_retry_finds_what_was_stored_though_its_session_went_on(path: Path):
    """The answer got lost, the client asks again, and meanwhile the user came back."""
    said = [("user", "what I said"), ("assistant", "and what I heard")]
    with open_again(path) as memory:
        scope = memory.scope(user="u")
        stored = scope.store(said, session_id="s", idempotency_key="k")
        scope.add("s", ("user", "I am back"))
        assert scope.store(said, session_id="s", idempotency_key="k") == stored
        assert [len(e.turns) for e in scope.session("s").episodes] == [2, 1]
        with pytest.raises(InvalidInput, match="open episode"):
            scope.store(said, session_id="s", idempotency_key="another")


@pytest.mark.process
@pytest.mark.both_databases
def test_killed_while_it_embeds(database_url: str):
    with child_process.running(child_actions.stay_in_the_embedder, database_url) as (process, pipe):
        assert pipe.recv() > 0
        with open_again(database_url) as memory:
            assert memory.stats().vectors == {}
            assert memory.flush(timeout=0.05) is False
        child_process.kill(process)
    with open_again(database_url) as memory:
        assert memory.scope(user="u").recall("what I said as number 7")
        check_all_embedded(memory)
