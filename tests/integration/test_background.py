"""The work behind the calls: vectors, better summaries, and what happens when it goes wrong."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory import (
    EmbedderFailed,
    EpisodicMemory,
    MemoryConfig,
    MemoryScope,
    SessionConfig,
    StoreCorrupt,
)
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.adapters.summarizers.openai import OpenAISummarizer
from octopus_memory.engine import background
from octopus_memory.ports.store import SUMMARY_ORDINAL, WorkKind
from octopus_memory.testing import FailingEmbedder, FakeOpenAIServer, FakeSummarizer, FixedClock
from patience import eventually

QUESTION = "How many leave days do I have left? Please be formal with me."
TALK = [("user", QUESTION), ("assistant", "You have 12 days remaining.")]
EXTRACTIVE = "extractive-v1"


@pytest.fixture
def url(database_url: str) -> str:
    return database_url


def open_memory(url: str, **options: Any) -> EpisodicMemory:
    return EpisodicMemory.open(url, **({"embedder": "hashing", "background": False} | options))


def waiting(memory: EpisodicMemory, kind: WorkKind = WorkKind.EMBED) -> int:
    return memory.stats().backlog[kind].waiting


# Embedding


@pytest.mark.both_databases
def test_the_thread_embeds_soon_after_a_write(url: str):
    with open_memory(url, background=True) as memory:
        scope = memory.scope(user="u")
        [turn] = scope.add("s", ("user", QUESTION))
        assert turn.embedding_ref is None
        assert eventually(lambda: waiting(memory) == 0)
        assert scope.session("s").turns[0].embedding_ref == "hashing-256/1"
        scope.close_session("s")
        assert eventually(lambda: waiting(memory) == 0)
        assert memory.stats().vectors == {"hashing-256": 2}


def test_until_then_a_turn_is_found_by_its_words(url: str):
    with open_memory(url) as memory:
        scope = memory.scope(user="u")
        scope.store(TALK, session_id="s")
        assert memory.stats().vectors == {}
        assert [snippet.session_id for snippet in scope.recall("leave days")] == ["s"]
        assert QUESTION in [hit.text for hit in scope.recall_turns("leave days")]
        assert [snippet.session_id for snippet in scope.recent()] == ["s"]


def test_what_is_too_short_or_not_said_is_not_embedded(url: str):
    with open_memory(url) as memory:
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
def test_work_left_by_another_process_is_done_after_the_next_start(url: str):
    with open_memory(url) as memory:
        memory.scope(user="u").store(TALK)
        assert waiting(memory) == 3
    # Nothing is called but reads: the start alone must be enough.
    with open_memory(url, background=True) as memory:
        assert eventually(lambda: waiting(memory) == 0)
        assert memory.stats().vectors == {"hashing-256": 3}


def test_the_lease_of_a_dead_process_ends_at_once(url: str):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    clock = FixedClock()
    with open_memory(url, clock=clock) as memory:
        memory.scope(user="u").store(TALK)
        claimed = claim(memory, owner=f"{socket.gethostname()}/{dead.pid}/x", now=clock)
        assert claimed == 3
        assert memory.run_pending().embedded == 3


@pytest.mark.both_databases
@pytest.mark.parametrize("owner", ["another-machine/1/x", "{host}/{pid}/x"])
def test_the_lease_of_a_living_one_is_respected_until_it_ends(url: str, owner: str):
    clock = FixedClock()
    with open_memory(url, clock=clock) as memory:
        memory.scope(user="u").store(TALK)
        claim(memory, owner=owner.format(host=socket.gethostname(), pid=os.getpid()), now=clock)
        assert memory.run_pending().embedded == 0
        assert memory.flush(timeout=0.05) is False
        clock.advance(seconds=61)
        assert memory.run_pending().embedded == 3


def claim(memory: EpisodicMemory, *, owner: str, now: FixedClock) -> int:
    until = now.now() + timedelta(seconds=60)
    store = memory.parts.store
    claimed = store.claim(WorkKind.EMBED, owner=owner, limit=100, now=now.now(), until=until)
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
def test_two_workers_share_the_work(url: str):
    """Neither does what the other has begun, and together they leave nothing."""
    both = threading.Barrier(2)
    workers = [Meeting(both), Meeting(both)]
    with open_memory(url) as memory:
        for user in "abcdef":
            said = [("user", f"Number {n} of {user}") for n in range(50)]
            memory.scope(user=user).add("s", said)
        first, second = (open_memory(url, embedder=worker) for worker in workers)
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


def test_a_failing_embedder_is_left_alone_for_longer_each_time(url: str):
    embedder, clock = FailingEmbedder(HashingEmbedder(), failures=1_000), FixedClock()
    with open_memory(url, embedder=embedder, clock=clock) as memory:
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


def test_the_thread_outlives_a_failing_embedder(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(background, "_BETWEEN_ROUNDS", 0.05)
    embedder = FailingEmbedder(HashingEmbedder(), failures=1)
    with open_memory(url, embedder=embedder, background=True) as memory:
        memory.scope(user="u").store(TALK)
        assert eventually(lambda: waiting(memory) == 0)
    assert "EmbedderFailed" in caplog.text
    assert "leave days" not in caplog.text


class Broken(HashingEmbedder):
    """Fails as no embedder should, with an error that is not ours."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if any("poison" in text for text in texts):
            raise RuntimeError("boom")
        return super().embed(texts)


def test_the_thread_outlives_an_embedder_with_a_bug(url: str):
    with open_memory(url, embedder=Broken(), background=True) as memory:
        scope = memory.scope(user="u")
        scope.add("s", ("user", "this one is poison to it"))
        assert eventually(lambda: bool(memory.parts.store.owners()))
        scope.add("other", ("user", "this one is well taken"))
        assert eventually(lambda: memory.stats().vectors == {"hashing-256": 1})


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


def test_a_damaged_turn_does_not_keep_the_others_waiting(url: str, caplog: Any):
    with open_memory(url) as memory:
        scope = memory.scope(user="u")
        scope.add("s", [("user", f"{QUESTION} Of number {n}, I mean.") for n in range(5)])
        memory.scope(user="v").add("s", TALK[0])
        damage(url, 2)
        assert memory.run_pending().embedded == 6
        assert "1 texts cannot be read" in caplog.text
        assert waiting(memory) == 1
        assert memory.stats().vectors == {memory.parts.embedder.model: 5}
        failed = {}
        memory.parts.tally.watch(lambda kind, _, tries: failed.update({kind: tries}))
        assert failed[WorkKind.EMBED] == 1


def test_waiting_for_a_damaged_turn_says_so(url: str):
    with open_memory(url) as memory:
        memory.scope(user="u").add("s", [("user", QUESTION), ("assistant", QUESTION)])
        damage(url, 0)
        with pytest.raises(StoreCorrupt, match="1 texts cannot be read"):
            memory.flush()
        assert memory.stats().vectors == {memory.parts.embedder.model: 1}


@pytest.mark.both_databases
def test_closing_with_work_left_loses_nothing(url: str):
    embedder = Gated()
    memory = open_memory(url, embedder=embedder, background=True)
    memory.scope(user="u").add("s", [("user", f"{QUESTION} {n}") for n in range(150)])
    assert embedder.asked.wait(30)
    closing = threading.Thread(target=memory.close)
    closing.start()
    embedder.gate.set()
    closing.join()
    assert "octopus-background" not in [thread.name for thread in threading.enumerate()]
    with open_memory(url) as again:
        done = again.stats().vectors["hashing-256"]
        # What was under way was finished, and the rest was not begun.
        assert 0 < done < 150
        assert again.run_pending().embedded == 150 - done
        assert again.stats().vectors == {"hashing-256": 150}
        assert len(again.scope(user="u").session("s").turns) == 150


# Another model


class Other(HashingEmbedder):
    """As long as the first one's vectors, and the opposite of them."""

    @property
    def model(self) -> str:
        return "other-256"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return -super().embed(texts)


def cosines(memory: EpisodicMemory, scope: MemoryScope) -> NDArray[np.float32]:
    embedder = memory.parts.embedder
    view = memory.parts.index.view(scope.scope, embedder.model)
    return view.cosine(embedder.embed([QUESTION])[0])


@pytest.mark.both_databases
def test_another_model_embeds_everything_anew(url: str):
    with open_memory(url) as memory:
        scope = memory.scope(user="u")
        scope.store(TALK, session_id="s")
        scope.add("open", ("user", "Something else, which is not closed."))
        memory.flush()
        assert cosines(memory, scope).max() > 0.5
    with open_memory(url, embedder=Other()) as memory:
        scope = memory.scope(user="u")
        # Not one is compared before it is embedded anew, though it is as long.
        assert np.isnan(cosines(memory, scope)).all()
        assert scope.recall("leave days")[0].session_id == "s"
        assert scope.recall("leave days", mode="semantic") == []
        # Who only looks has nothing embedded anew.
        assert waiting(memory) == 0
        assert memory.run_pending().embedded == 4
        assert memory.stats().vectors == {"other-256": 4}
        assert cosines(memory, scope).max() > 0.5
        assert cosines(memory, scope).min() > -0.5
        refs = [turn.embedding_ref or "" for turn in scope.session("s").turns]
        assert [ref.partition("/")[0] for ref in refs] == ["other-256"] * 2
    with open_memory(url, embedder=Other()) as memory:
        assert waiting(memory) == 0


def test_half_way_through_only_the_new_ones_are_compared(url: str):
    with open_memory(url) as memory:
        scope = memory.scope(user="u")
        scope.add("s", [("user", f"{QUESTION} {n}") for n in range(100)])
        memory.flush()
    with open_memory(url, embedder=Other()) as memory:
        scope = memory.scope(user="u")
        memory.flush(timeout=0)
        found = cosines(memory, scope)
        done = memory.stats().vectors["other-256"]
        assert 0 < done < 100
        assert np.isfinite(found).sum() == done
        assert found[np.isfinite(found)].min() > 0
        assert len(scope.recall_turns(QUESTION, limit=100)) == 100
        assert memory.flush()
        assert np.isfinite(cosines(memory, scope)).all()


def test_the_thread_goes_over_to_another_model_by_itself(url: str):
    with open_memory(url) as memory:
        memory.scope(user="u").store(TALK)
        memory.flush()
    with open_memory(url, embedder=HashingEmbedder(64), background=True) as memory:
        assert eventually(lambda: memory.stats().vectors == {"hashing-64": 3})


@pytest.mark.both_databases
def test_two_memories_with_two_models_do_not_mix(url: str):
    with open_memory(url) as old:
        old.scope(user="u").store(TALK, session_id="s")
        old.flush()
        with open_memory(url, embedder=Other()) as new:
            assert np.isnan(cosines(new, new.scope(user="u"))).all()
            assert "other-256" not in new.stats().vectors
            assert new.run_pending().embedded == 3
            # What the old process could make is of no use any more.
            old.scope(user="u").add("s", ("user", "One thing more."))
            with pytest.raises(EmbedderFailed, match="open it again"):
                old.run_pending()
            assert old.scope(user="u").recall("leave days")
            # The old one may keep its own in memory, but takes in none of the new, its opposites.
            assert not (cosines(old, old.scope(user="u")) < 0).any()
            assert old.scope(user="u").recall("leave days")
            old.scope(user="u").add("s", ("user", "And one more thing, if I may."))
            assert new.flush(timeout=30)


# Summaries


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
    url: str, server: FakeOpenAIServer, fault: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OCTOPUS_CLOSE_TIMEOUT_SECONDS", "0.3")
    model = OpenAISummarizer("gpt-4o-mini", base_url=server.base_url, api_key="key")
    with open_memory(url, summarizer=model) as memory:
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
        server.answer({"summary": "Asked about holidays.", "key_facts": ["Likes formal words."]})
        report = memory.run_pending()
        assert report.summarized == 1
        improved = scope.get(ep.id).episode
        assert improved.summary == "Asked about holidays."
        assert improved.key_facts == ("Likes formal words.",)
        assert improved.summarized_by == model.name
        assert (improved.ended_at, improved.end_reason) == (closed.ended_at, closed.end_reason)
        assert waiting(memory, WorkKind.SUMMARIZE) == waiting(memory) == 0
        _, rows = memory.parts.store.recall_rows(scope.scope, after=0)
        assert [row.ordinal for row in rows] == [0, 1, SUMMARY_ORDINAL]
        assert scope.recall("holidays")[0].episode_id == ep.id


def test_a_model_that_answers_is_asked_once(url: str, server: FakeOpenAIServer):
    model = OpenAISummarizer("gpt-4o-mini", base_url=server.base_url, api_key="key")
    with open_memory(url, summarizer=model) as memory:
        server.answer({"summary": "Asked about holidays.", "key_facts": []})
        episode = memory.scope(user="u").store(TALK)
        assert (episode.summary, episode.summarized_by) == ("Asked about holidays.", model.name)
        assert memory.run_pending().summarized == 0
        assert len(server.requests) == 1


def test_what_the_caller_gave_is_not_improved(url: str):
    model = FakeSummarizer("by the model")
    model.fail(times=100)
    with open_memory(url, summarizer=model) as memory:
        scope = memory.scope(user="u")
        own = scope.store(TALK, summary="My own words.")
        facts = scope.store(TALK, key_facts=["Mine."])
        model.answer("by the model")
        assert memory.run_pending().summarized == 0
        assert scope.get(own.id).episode.summary == "My own words."
        assert scope.get(facts.id).episode.key_facts == ("Mine.",)


@pytest.mark.both_databases
def test_the_thread_improves_summaries(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(background, "_BETWEEN_ROUNDS", 0.05)
    model = FakeSummarizer("by the model")
    model.fail(times=2)
    with open_memory(url, summarizer=model, background=True) as memory:
        scope = memory.scope(user="u")
        episode = scope.store(TALK)
        assert episode.summarized_by == EXTRACTIVE
        assert eventually(lambda: scope.get(episode.id).episode.summary == "by the model")


def test_a_model_that_never_answers_is_given_up(url: str):
    model, clock = FakeSummarizer(), FixedClock()
    model.fail(times=1_000, error=RuntimeError("not even an error of ours"))
    with open_memory(url, summarizer=model, clock=clock) as memory:
        scope = memory.scope(user="u")
        episode = scope.store(TALK)
        for _ in range(20):
            memory.run_pending()
            clock.advance(minutes=20)
        assert waiting(memory, WorkKind.SUMMARIZE) == 0
        assert len(model.asked) < 12
        assert scope.get(episode.id).episode.summarized_by == EXTRACTIVE


def test_an_episode_that_goes_on_before_it_is_improved(url: str):
    model = FakeSummarizer("by the model")
    model.fail(times=1)
    config = MemoryConfig(session=SessionConfig(allow_resume=True))
    with open_memory(url, summarizer=model, config=config) as memory:
        scope = memory.scope(user="u")
        episode = scope.store(TALK, session_id="s")
        scope.add("s", ("user", "One more thing."))
        assert memory.run_pending().summarized == 0
        assert scope.get(episode.id).episode.summary is None
        assert scope.close_episode(episode.id).summary == "by the model"


@pytest.mark.both_databases
def test_closing_wins_against_those_who_keep_adding(url: str, monkeypatch: pytest.MonkeyPatch):
    """Each summary is out of date before it is stored; yet it closes, with all that was said."""
    model = FakeSummarizer("by the model")
    with open_memory(url, summarizer=model) as memory:
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
