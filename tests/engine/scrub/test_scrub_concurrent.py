"""Scrubbing beside others: holds, writers, a remote index, what is in the making."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory import (
    EpisodicMemory,
)
from octopus_memory.domain.episode import Summary, Turn
from octopus_memory.domain.errors import EpisodeChanged
from octopus_memory.domain.search.row_format import dimension_of, pack_vectors, unpack_vectors
from octopus_memory.testing import FakeSummarizer, FixedClock
from tests.support.qdrant_server import QdrantServer
from tests.support.scrub_dialogue import KETTLE, TALK, left, open_memory, shown, texts


def test_a_hold_keeps_its_session_as_it_is(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    first = scope.store([("user", "My name is Zyx Quuxley.")], session_id="s")
    held = scope.store([("user", "Zyx Quuxley wrote to ana.lopez@example.com.")], session_id="s")
    scope.store(TALK, session_id="free")
    tenant = memory.tenant()
    hold = tenant.hold(episode_id=held.id, reason="a case")
    for dry_run in (True, False):
        report = tenant.scrub(dry_run=dry_run)
        assert (report.held, report.changed_episodes) == (2, 1)
        assert not report.is_complete
    assert texts(scope, "s")[0] == "My name is Zyx Quuxley."
    assert scope.get(first.id).episode == first
    assert left(repr(scope.session("free"))) == []
    assert tenant.audit()[-1].outcome == "partly"
    tenant.lift(hold)
    assert tenant.scrub().is_complete
    assert "Zyx" not in shown(scope)
    scope.add("later", TALK[0])
    tenant.hold(user="u", reason="a case")
    assert tenant.scrub().held == 1
    assert "López" in shown(scope)


def test_a_hold_set_during_a_scrub_is_respected(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    scope = memory.scope(user="u")
    scope.store(TALK, session_id="s")
    rewrite = memory.runtime.store.rewrite

    def slow(*args: Any, **named: Any) -> None:
        memory.tenant().hold(user="u", reason="a case")
        rewrite(*args, **named)

    monkeypatch.setattr(memory.runtime.store, "rewrite", slow)
    report = memory.tenant().scrub()
    assert (report.held, report.failed, report.changed_episodes) == (1, 0, 0)
    assert "López" in shown(scope)


def test_a_session_written_during_a_scrub_is_read_again(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    scope = memory.scope(user="u")
    scope.add("s", TALK)
    rewrite = memory.runtime.store.rewrite
    said = iter(["I moved to 198.51.100.7 now.", "Again: ana.lopez@example.com"])

    def slow(*args: Any, **named: Any) -> None:
        for text in said:
            scope.add("s", ("user", text))
            break
        rewrite(*args, **named)

    monkeypatch.setattr(memory.runtime.store, "rewrite", slow)
    report = memory.tenant().scrub()
    assert (report.changed_episodes, report.failed, report.turns) == (1, 0, 7)
    assert left(shown(scope)) == []
    assert texts(scope, "s")[-2:] == ["I moved to [IP_ADDRESS] now.", "Again: [EMAIL]"]


def test_a_failure_stops_the_scrub_of_its_session_alone(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """And the earlier episodes keep the names that the later one needs."""
    scope = memory.scope(user="u")
    scope.store([("user", "My name is Zyx Quuxley.")], session_id="busy")
    scope.add("busy", ("user", "Zyx Quuxley once more."))
    scope.store(TALK, session_id="free")
    store = memory.runtime.store
    rewrite = store.rewrite

    def busy(was: Any, **named: Any) -> None:
        if was.episode.session_id == "busy":
            raise EpisodeChanged("busy")
        rewrite(was, **named)

    with monkeypatch.context() as patched:
        patched.setattr(store, "rewrite", busy)
        report = memory.tenant().scrub()
    assert (report.failed, report.changed_episodes, report.is_complete) == (1, 1, False)
    assert memory.tenant().audit()[-1].outcome == "partly"
    # A session's name is the caller's, and may be somebody's number.
    assert [record.getMessage() for record in caplog.records] == [
        "scrub skipped a session: EpisodeChanged"
    ]
    assert texts(scope, "busy") == ["My name is Zyx Quuxley.", "Zyx Quuxley once more."]
    assert memory.tenant().scrub().is_complete
    assert "Zyx" not in shown(scope)


def test_a_remote_copy_drops_the_old_vectors(
    path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    with QdrantServer() as server:
        monkeypatch.setenv("OCTOPUS_INDEX", "qdrant")
        monkeypatch.setenv("OCTOPUS_QDRANT_URL", server.url)
        with open_memory(path, clock) as memory:
            scope, store = memory.scope(user="u"), memory.runtime.store
            scope.store(TALK, session_id="s")
            scope.store([("user", KETTLE)], session_id="untouched")
            memory.run_pending()
            memory.tenant().scrub()
            memory.run_pending()
            state, rows = store.recall_rows(scope.scope, after=0)
            mirror, model = memory.runtime.index.mirror, memory.runtime.embedder.model
            assert mirror is not None
            seqs = [row.seq for row in rows]
            assert mirror.seqs(model, state.scope_id) == set(seqs)
            held = mirror.vectors(model, state.scope_id, seqs)
            for row in rows:
                assert row.vector is not None
                kept = unpack_vectors([row.vector], dimension_of(row.vector))[0]
                assert float(kept @ held[row.seq]) > 0.999
            assert scope.recall("kettle leaks", limit=1)[0].turns[0].text == KETTLE


class Slow:
    """An embedder whose batch is in the making while something else happens."""

    model, dimension = "slow", 8

    def __init__(self) -> None:
        self.meanwhile: Any = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        made = np.array([[len(t), *(ord(c) for c in f"{t:<7}"[:7])] for t in texts], np.float32)
        made = made.reshape(len(texts), 8)
        return made / np.linalg.norm(made, axis=1, keepdims=True)


def test_a_vector_computed_from_the_old_text_is_discarded(path: Path, clock: FixedClock):
    slow = Slow()
    url = f"sqlite:///{path}"
    with EpisodicMemory.open(url, embedder=slow, clock=clock, background=False) as memory:
        scope = memory.scope(user="u")
        scope.add("s", ("user", "My card is 4111 1111 1111 1111, as I said."))
        slow.meanwhile = lambda: memory.tenant().scrub()
        memory.flush()
        [row] = memory.runtime.store.recall_rows(scope.scope, after=0)[1]
        expected = slow.embed(["My card is [CREDIT_CARD], as I said."])
        assert row.vector == pack_vectors(expected)[0]


class Echo(FakeSummarizer):
    """Sums up by saying everything again; does something else in between, once."""

    meanwhile: Callable[[], object] | None = None

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        super().summarize(turns, timeout=timeout)
        do, self.meanwhile = self.meanwhile, None
        if do is not None:
            do()
        return Summary(text=" ".join(turn.text for turn in turns))


def test_a_summary_made_from_the_old_text_is_discarded(path: Path, clock: FixedClock):
    echo = Echo()
    with open_memory(path, clock, summarizer=echo) as memory:
        scope = memory.scope(user="u")
        scope.add("s", TALK)
        echo.meanwhile = memory.tenant().scrub
        scope.close_session("s")
        assert left(shown(scope)) == []
        memory.run_pending()
        summary = scope.session("s").episodes[0].episode.summary
        assert summary == " ".join(texts(scope, "s"))


def test_a_models_summary_of_the_old_text_is_discarded(path: Path, clock: FixedClock):
    echo = Echo()
    with open_memory(path, clock, summarizer=echo) as memory, open_memory(path, clock) as other:
        scope = memory.scope(user="u")
        scope.add("s", [("system", "The caller's number is 415-555-0134."), *TALK[3:]])
        echo.fail()
        scope.close_session("s")
        before = scope.session("s").episodes[0].episode.summary or ""
        assert left(before) == []
        # Whoever scrubs has nothing to change in the summary, and no model to ask for another.
        echo.meanwhile = other.tenant().scrub
        memory.run_pending()
        assert scope.session("s").episodes[0].episode.summary == before
        clock.advance(minutes=1)
        memory.run_pending()
        summary = scope.session("s").episodes[0].episode.summary
        assert summary == " ".join(texts(scope, "s"))
        assert left(shown(scope)) == []
