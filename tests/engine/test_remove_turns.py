"""Turns are removed one at a time and by many at once, and none is lost or removed twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.testing import FakeSummarizer


@pytest.mark.both_databases
def test_concurrent_pops_each_get_another_turn(scope: MemoryScope):
    scope.add("s", [("user", f"number {n}") for n in range(12)])
    ready = threading.Barrier(4)

    def pop(_: int) -> list[str]:
        ready.wait()
        return [scope.remove_turns("s", last=1)[0].text for _ in range(2)]

    with ThreadPoolExecutor(4) as pool:
        popped = [text for some in pool.map(pop, range(4)) for text in some]
    assert sorted(popped) == sorted(f"number {n}" for n in range(4, 12))
    assert [turn.text for turn in scope.session("s").turns] == [f"number {n}" for n in range(4)]


@pytest.mark.both_databases
def test_concurrent_adds_lose_nothing(scope: MemoryScope):
    scope.add("s", [("user", f"old {n}") for n in range(6)])
    old = {turn.id for turn in scope.session("s").turns}

    def add(number: int) -> None:
        scope.add("s", ("user", f"new {number}"))

    with ThreadPoolExecutor(3) as pool:
        added = [pool.submit(add, number) for number in range(10)]
        for turn_id in old:
            assert len(scope.remove_turns("s", ids=[turn_id])) == 1
        for each in added:
            each.result()
    turns = scope.session("s").turns
    assert sorted(turn.text for turn in turns) == sorted(f"new {n}" for n in range(10))
    assert [turn.ordinal for turn in turns] == list(range(10))


def test_the_model_is_asked_for_a_summary_of_what_is_left(database_url: str):
    model = FakeSummarizer("They spoke of the moon.")
    with EpisodicMemory.open(
        database_url, embedder="hashing", summarizer=model, background=False
    ) as memory:
        scope = memory.scope(user="ana")
        scope.store([("user", "The moon is far."), ("user", "The sun is hot.")], session_id="s")
        model.answer("They spoke of the sun.")
        [gone] = scope.remove_turns("s", ids=[scope.session("s").turns[0].id])
        assert gone.text == "The moon is far."
        assert "moon" not in str(scope.session("s").episodes[0].episode.summary)
        memory.run_pending()
        assert [turn.text for turn in model.asked[-1]] == ["The sun is hot."]
        assert scope.session("s").episodes[0].episode.summary == "They spoke of the sun."


def test_the_audit_log_has_who_removed_how_many(scope: MemoryScope, memory: EpisodicMemory):
    scope.add("s", [("user", "a secret"), ("user", "another")])
    scope.remove_turns("s", last=2, actor="clerk")
    entry = memory.tenant("acme").audit()[-1]
    assert (entry.action, entry.actor, entry.detail) == ("remove_turns", "clerk", {"turns": 2})
