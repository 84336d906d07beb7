"""Summaries: an episode closes whatever the model does, and is improved later."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from octopus_memory import (
    MemoryConfig,
    SessionConfig,
)
from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.adapters.summarizers.openai import OpenAISummarizer
from octopus_memory.domain.episode import Summary, Turn
from octopus_memory.engine import worker
from octopus_memory.engine.work import pending
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.ports.values import SUMMARY_ORDINAL
from octopus_memory.testing import FakeOpenAIServer, FakeSummarizer, FixedClock
from tests.support.leave_dialogue import TALK
from tests.support.pending_work import open_memory, waiting
from tests.support.polling import wait_until

EXTRACTIVE = "extractive-v3"


class Held(FakeSummarizer):
    """Each answer waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Semaphore(0)

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        made = super().summarize(turns, timeout=timeout)
        assert self.go.acquire(timeout=30)
        return made


def test_a_slow_model_keeps_neither_new_messages_nor_the_end_waiting(database_url: str):
    """Between two of its answers what was said meanwhile is embedded, and a memory can close."""
    failing = FakeSummarizer()
    failing.fail(times=5)
    with open_memory(database_url, summarizer=failing) as memory:
        for number in range(5):
            memory.scope(user="u").store(TALK, session_id=str(number))
    model = Held()
    memory = open_memory(database_url, summarizer=model, background=True)
    memory.wake()
    assert wait_until(lambda: len(model.asked) == 1)
    memory.scope(user="u").add("new", ("user", "The ferry to Naxos leaves at eight."))
    assert waiting(memory) > 0
    model.go.release()
    assert wait_until(lambda: waiting(memory) == 0)
    thread = memory._worker
    assert thread is not None
    closing = threading.Thread(target=memory.close)
    closing.start()
    assert wait_until(thread._stop.is_set)
    model.go.release(5)
    closing.join(30)
    assert not closing.is_alive()
    assert len(model.asked) == 2


def test_a_slow_model_does_not_delay_other_background_work(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(worker, "_BETWEEN_ROUNDS", 0.01)
    clock, model = FixedClock(), Held()
    failing = FakeSummarizer()
    failing.fail(times=3)
    with open_memory(database_url, summarizer=failing, clock=clock) as memory:
        for number in range(3):
            memory.scope(user="u").store(TALK, session_id=str(number))
        memory.scope(user="u").add("idle", TALK)
    clock.advance(minutes=31)
    whole = pending.close_idle
    rounds: list[int] = []

    def close_idle(*given: Any, **named: Any) -> int:
        rounds.append(len(model.asked))
        return whole(*given, **named)

    monkeypatch.setattr(pending, "close_idle", close_idle)
    with open_memory(database_url, summarizer=model, clock=clock, background=True) as memory:
        memory.wake()
        assert wait_until(lambda: len(model.asked) == 1)
        model.go.release()
        assert wait_until(lambda: len(model.asked) == 2)
        assert rounds == [0, 1]
        model.go.release(9)


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with FakeOpenAIServer() as running:
        yield running


FAULTS: dict[str, Callable[[FakeOpenAIServer], None]] = {
    "too slow": lambda server: server.delay(20),
    "too slow, in drips": lambda server: server.delay(20, drip=True),
    "429": lambda server: server.fail(status=429, headers={"retry-after": "30"}),
    "500": lambda server: server.fail(status=500),
    "401": lambda server: server.fail(status=401),
    "hung up": lambda server: server.drop(),
    "hung up midway": lambda server: server.drop(midway=True),
    "no JSON": lambda server: server.send(b"<html>Bad gateway</html>"),
    "no completion": lambda server: server.send({"hello": "world"}),
    "malformed answer": lambda server: server.answer('{"summary": "half a'),
    "another shape": lambda server: server.answer({"summary": ["a"], "key_facts": "b"}),
    "empty": lambda server: server.answer(""),
    "refusal": lambda server: server.refuse(),
    "cut off": lambda server: server.answer('{"summary": "x"', finish_reason="length"),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_an_episode_closes_though_the_model_fails_and_is_improved_later(
    database_url: str, server: FakeOpenAIServer, fault: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OCTOPUS_CLOSE_TIMEOUT_SECONDS", "0.3")
    model = OpenAISummarizer("gpt-4o-mini", base_url=server.base_url, api_key="key")
    with open_memory(database_url, summarizer=model) as memory:
        scope = memory.scope(user="u")
        FAULTS[fault](server)
        with scope.episode(session_id="s") as ep:
            ep.add(TALK)
        closed = scope.get(ep.id).episode
        assert not closed.is_open
        assert closed.summarized_by == EXTRACTIVE
        assert closed.summary
        assert scope.recall("leave days")[0].summary == closed.summary
        assert waiting(memory, WorkKind.SUMMARIZE) == 1

        server.clear()
        server.answer({"summary": "Asked about leave days.", "key_facts": ["Likes formal words."]})
        report = memory.run_pending()
        assert report.summarized == 1
        improved = scope.get(ep.id).episode
        assert improved.summary == "Asked about leave days."
        assert improved.key_facts == ("Likes formal words.",)
        assert improved.summarized_by == model.name
        assert (improved.ended_at, improved.end_reason) == (closed.ended_at, closed.end_reason)
        assert waiting(memory, WorkKind.SUMMARIZE) == waiting(memory) == 0
        _, rows = memory.runtime.store.recall_rows(scope.scope, after=0)
        assert [row.ordinal for row in rows] == [0, 1, SUMMARY_ORDINAL]
        assert scope.recall("leave days")[0].episode_id == ep.id


def test_a_model_that_answers_is_asked_once(database_url: str, server: FakeOpenAIServer):
    model = OpenAISummarizer("gpt-4o-mini", base_url=server.base_url, api_key="key")
    with open_memory(database_url, summarizer=model) as memory:
        server.answer({"summary": "Asked about leave days.", "key_facts": []})
        episode = memory.scope(user="u").store(TALK)
        assert (episode.summary, episode.summarized_by) == ("Asked about leave days.", model.name)
        assert memory.run_pending().summarized == 0
        assert len(server.requests) == 1


def test_nonsense_of_a_model_never_replaces_the_extract(
    database_url: str, server: FakeOpenAIServer, caplog: pytest.LogCaptureFixture
):
    model = OpenAISummarizer("gpt-4o-mini", base_url=server.base_url, api_key="key")
    invented = {"summary": "Sarah Miller sold 300 shares of Globex.", "key_facts": []}
    with open_memory(database_url, summarizer=model) as memory:
        server.answer(invented, times=6)
        scope = memory.scope(user="u")
        episode = scope.store(TALK)
        assert memory.run_pending().summarized == 0
        assert scope.get(episode.id).episode.summarized_by == EXTRACTIVE
        assert "what nobody said" in caplog.text
        server.fail(times=3, status=500, message="unknown response_format")
        scope.store(TALK)
    assert "It answered: unknown response_format" in caplog.text
    assert "leave days" not in caplog.text


def test_a_summary_given_by_the_caller_is_not_replaced(database_url: str):
    model = FakeSummarizer("by the model")
    model.fail(times=100)
    with open_memory(database_url, summarizer=model) as memory:
        scope = memory.scope(user="u")
        own = scope.store(TALK, summary="My own words.")
        facts = scope.store(TALK, key_facts=["Mine."])
        model.answer("by the model")
        assert memory.run_pending().summarized == 0
        assert scope.get(own.id).episode.summary == "My own words."
        assert scope.get(facts.id).episode.key_facts == ("Mine.",)


@pytest.mark.both_databases
def test_the_thread_improves_summaries(database_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "_BETWEEN_ROUNDS", 0.05)
    model = FakeSummarizer("by the model")
    model.fail(times=2)
    with open_memory(database_url, summarizer=model, background=True) as memory:
        scope = memory.scope(user="u")
        episode = scope.store(TALK)
        assert episode.summarized_by == EXTRACTIVE
        assert wait_until(lambda: scope.get(episode.id).episode.summary == "by the model")


def test_a_model_that_never_answers_is_given_up(database_url: str):
    model, clock = FakeSummarizer(), FixedClock()
    model.fail(times=1_000, error=RuntimeError("not even an error of ours"))
    with open_memory(database_url, summarizer=model, clock=clock) as memory:
        scope = memory.scope(user="u")
        episode = scope.store(TALK)
        for _ in range(20):
            memory.run_pending()
            clock.advance(minutes=20)
        assert waiting(memory, WorkKind.SUMMARIZE) == 0
        assert len(model.asked) < 12
        assert scope.get(episode.id).episode.summarized_by == EXTRACTIVE


def test_a_resumed_episode_is_summarized_when_it_closes_again(database_url: str):
    model = FakeSummarizer("by the model")
    model.fail(times=1)
    config = MemoryConfig(session=SessionConfig(allow_resume=True))
    with open_memory(database_url, summarizer=model, config=config) as memory:
        scope = memory.scope(user="u")
        episode = scope.store(TALK, session_id="s")
        scope.add("s", ("user", "One more thing."))
        assert memory.run_pending().summarized == 0
        assert scope.get(episode.id).episode.summary is None
        assert scope.close_episode(episode.id).summary == "by the model"


@pytest.mark.both_databases
def test_closing_succeeds_against_concurrent_adds(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Each summary is out of date before it is stored; yet it closes, with all that was said."""
    model = FakeSummarizer("by the model")
    with open_memory(database_url, summarizer=model) as memory:
        scope = memory.scope(user="u")
        scope.add("s", TALK)
        [episode] = scope.episodes()
        said = itertools.count(1)

        def interrupted(summarize: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **named: Any) -> Any:
                scope.add("s", ("user", f"By the way, my badge has number {next(said)}."))
                return summarize(*args, **named)

            return call

        with monkeypatch.context() as patch:
            patch.setattr(model, "summarize", interrupted(model.summarize))
            own = ExtractiveSummarizer.summarize
            patch.setattr(ExtractiveSummarizer, "summarize", interrupted(own))
            closed = scope.close_episode(episode.id)
        assert not closed.is_open
        assert closed.summarized_by == EXTRACTIVE
        assert len(model.asked) == 1  # however often it was interrupted
        turns = scope.get(episode.id).turns
        assert [turn.ordinal for turn in turns] == list(range(closed.message_count))
        assert len(scope.session("s").turns) == 1 + next(said)
        # The last summary was made of all of them, and the model still makes a better one.
        assert f"number {len(turns) - 2}" in " ".join([closed.summary or "", *closed.key_facts])
        assert memory.run_pending().summarized == 1
        assert scope.get(episode.id).episode.summary == "by the model"
        assert len(model.asked[-1]) == len(turns)
