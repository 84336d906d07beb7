"""Many threads of several processes on one file: no error, nothing lost, nothing done twice."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.ports.recall_rows import WorkKind
from tests.support import child_actions, child_process

PROCESSES, THREADS, ROUNDS = 4, 2, 12


def check_order(scope: MemoryScope, session_id: str) -> list[tuple[str, str]]:
    """Ordinals without a gap, each thread's words in its order; the texts and ids, as stored."""
    replay = scope.session(session_id)
    for episode in replay.episodes:
        assert [turn.ordinal for turn in episode.turns] == list(range(len(episode.turns)))
        assert episode.episode.message_count == len(episode.turns)
    last: dict[str, int] = {}
    for turn in replay.turns:
        who, _, rest = turn.text.partition(" says word")
        number = int(rest.split()[0])
        assert number > last.get(who, -1)
        last[who] = number
    return [(turn.text, str(turn.id)) for turn in replay.turns]


@pytest.mark.process
def test_mixed_calls_on_one_file(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    barrier = child_process.CONTEXT.Barrier(PROCESSES)
    with ExitStack() as stack:
        pipes = [
            stack.enter_context(
                child_process.running(
                    child_actions.use_it_from_threads, url, f"p{n}", THREADS, ROUNDS, barrier
                )
            )[1]
            for n in range(PROCESSES)
        ]
        reports = [pipe.recv() for pipe in pipes]
    assert [error for errors, _, _ in reports for error in errors] == []
    acknowledged = [one for _, stored, _ in reports for one in stored]
    assert len(acknowledged) == PROCESSES * THREADS * ROUNDS * 2
    embedder = child_actions.Counting()
    with EpisodicMemory.open(url, embedder=embedder, background=False) as memory:
        names = [f"p{p}.{t}" for p, t in itertools.product(range(PROCESSES), range(THREADS))]
        stored = [("shared", *one) for one in check_order(memory.scope(user="everybody"), "shared")]
        for name in names:
            stored += [(name, *one) for one in check_order(memory.scope(user=name), name)]
        assert Counter(stored) == Counter(acknowledged)
        assert memory.flush(timeout=60)
        stats = memory.stats()
        rows = stats.turns + (stats.episodes - stats.open_episodes)
        assert stats.turns == len(acknowledged)
        assert stats.vectors == {embedder.model: rows}
        assert stats.backlog[WorkKind.EMBED].waiting == 0
        # Each turn was embedded by one process, once. A summary can be made anew, when somebody
        # adds while the episode closes.
        passages = [*embedder.passages, *(text for _, _, texts in reports for text in texts)]
        of_turns = [text for text in passages if not text.startswith("User — ")]
        assert len(of_turns) == stats.turns
        assert len(passages) >= rows


@pytest.mark.process
@pytest.mark.parametrize("count", [2, 6])
def test_processes_that_open_a_new_file_at_once(tmp_path: Path, count: int):
    for run in range(5):
        url = f"sqlite:///{tmp_path / f'{run}.db'}"
        barrier = child_process.CONTEXT.Barrier(count)
        with ExitStack() as stack:
            pipes = [
                stack.enter_context(
                    child_process.running(child_actions.open_and_add, url, barrier)
                )[1]
                for _ in range(count)
            ]
            said = [child_process.read_to_end(pipe) for pipe in pipes]
        with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
            turns = memory.scope(user="u").session("s").turns
            assert {turn.id for turn in turns} == {words[-1] for words in said}
            assert len(turns) == count
            assert len(memory.scope(user="u").episodes()) == 1


def test_threads_that_open_a_new_file_at_once(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"

    def open_and_add(number: int) -> None:
        with EpisodicMemory.open(url, embedder="hashing") as memory:
            memory.scope(user="u").add("s", ("user", f"what number {number} says"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_and_add, range(8)))
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        turns = memory.scope(user="u").session("s").turns
        assert sorted(turn.text for turn in turns) == [f"what number {n} says" for n in range(8)]
        assert memory.flush()


def test_one_memory_from_many_threads(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing") as memory:
        scope = memory.scope(user="u")

        def use(number: int) -> None:
            said = ("user", f"what number {number} says")
            scope.add("s", said, idempotency_key=f"k{number // 2}")
            assert scope.recall(f"number {number}")
            if number % 10 == 0:
                scope.close_session("s")

        with ThreadPoolExecutor(8) as pool:
            outcomes = [pool.submit(use, number) for number in range(64)]
        failed = [type(e).__name__ for o in outcomes if (e := o.exception())]
        # Two different messages under one key: the second of each pair is refused.
        assert failed == ["IdempotencyConflict"] * 32
        turns = scope.session("s").turns
        assert len({int(turn.text.split()[2]) // 2 for turn in turns}) == len(turns) == 32
        assert memory.flush(timeout=60)
