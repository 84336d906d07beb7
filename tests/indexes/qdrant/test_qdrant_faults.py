"""Qdrant unreachable in every way, fed by several processes, and never keeping erased rows."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, IndexUnavailable, MemoryScope
from octopus_memory.adapters.indexes.qdrant.mirror import QdrantMirror
from octopus_memory.engine.core import leases
from octopus_memory.engine.work import mirror
from octopus_memory.ports.index import MirrorRow
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import FixedClock
from tests.support.qdrant_memory import Open, is_true, later, tell, waiting
from tests.support.qdrant_server import QdrantServer

pytestmark = pytest.mark.qdrant


@pytest.mark.parametrize(
    ("fault", "qdrant_seconds"),
    [(fault, "30") for fault in (503, 500, 429, 401, "drop")] + [("hang", "1")],
)
def test_out_of_reach_it_delays_and_loses_nothing(
    fault: int | str,
    memory: EpisodicMemory,
    scope: MemoryScope,
    server: QdrantServer,
    clock: FixedClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tell(scope, "sunday", "The ladder stands in the shed.")
    memory.run_pending()
    server.fault = fault
    tell(scope)
    done = memory.run_pending()
    assert (done.embedded, done.indexed) == (3, 0)
    assert waiting(memory) == 3
    found = scope.recall("Where is the key of the greenhouse?", mode="semantic", min_score=0)
    assert found[0].session_id == "monday"
    assert "greenhouse" not in caplog.text
    server.fault = None
    later(clock)
    assert memory.run_pending().indexed == 3
    assert waiting(memory) == 0
    assert is_true(memory)


def test_a_server_that_is_not_there(
    open_memory: Open, server: QdrantServer, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OCTOPUS_QDRANT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        away = open_memory()
        tell(away.scope(user="ana"))
        away.run_pending()
        assert away.scope(user="ana").recall("greenhouse key")
        with pytest.raises(IndexUnavailable):
            mirror.verify(away.runtime, leases.new_worker_id())
        away.close()
    monkeypatch.setenv("OCTOPUS_QDRANT_URL", server.url)
    back = open_memory()
    later(clock)
    assert back.run_pending().indexed == 3
    assert is_true(back)


@pytest.mark.parametrize("qdrant_seconds", ["1"])
def test_recall_does_not_wait_for_it_every_time(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    server.fault = "hang"
    assert scope.recall("the key of the greenhouse")
    asked = len(server.requests)
    assert scope.recall("what stands in the shed")
    assert len(server.requests) == asked


def test_removals_reach_qdrant(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope, "kept", "The ladder stands in the shed.")
    tell(scope)
    memory.run_pending()
    [gone, _] = scope.episodes().items
    memory.runtime.store.archive(scope.scope, gone.id)
    memory.run_pending()
    left = [p.payload["ordinal"] for p in server.points() if p.payload["episode"] == str(gone.id)]
    assert left == [-1]
    scope.erase_episode(gone.id)
    memory.run_pending()
    assert str(gone.id) not in str(server.points())
    assert len(server.points()) == 3
    assert is_true(memory)


@pytest.mark.parametrize("fault", [503, "drop"])
def test_an_erasure_reaches_it_when_it_is_back(
    fault: int | str,
    memory: EpisodicMemory,
    scope: MemoryScope,
    server: QdrantServer,
    clock: FixedClock,
) -> None:
    other = memory.scope(tenant="acme", agent="hr", user="user-18")
    for each in (scope, other):
        tell(each)
    memory.run_pending()
    state = memory.runtime.store.recall_state(scope.scope)
    server.fault = fault
    receipt = scope.erase()
    assert receipt.pending
    assert not receipt.is_complete
    assert memory.runtime.index.count_mirrored([state.scope_id]) is None
    memory.run_pending()
    server.fault = None
    assert memory.runtime.index.count_mirrored([state.scope_id]) == 3
    later(clock)
    memory.run_pending()
    assert memory.runtime.index.count_mirrored([state.scope_id]) == 0
    assert len(server.points()) == 3
    assert memory.tenant("acme").receipt(receipt.id).is_complete


def test_rows_erased_while_they_are_given_do_not_stay(
    memory: EpisodicMemory,
    scope: MemoryScope,
    server: QdrantServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The erasure runs between reading the rows and sending them."""
    tell(scope)
    memory.flush()
    upsert = QdrantMirror.upsert

    def erase_first(mirror: QdrantMirror, model: str, rows: Sequence[MirrorRow]) -> None:
        monkeypatch.setattr(QdrantMirror, "upsert", upsert)
        scope.erase()
        upsert(mirror, model, rows)

    monkeypatch.setattr(QdrantMirror, "upsert", erase_first)
    memory.run_pending()
    memory.run_pending()
    assert server.points() == []
    assert waiting(memory) == 0


def test_a_scope_that_begins_again_meanwhile_is_another(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.flush()
    runtime = memory.runtime
    now = runtime.clock.now()
    claimed = runtime.store.claim(
        WorkKind.INDEX, worker_id="slow", limit=9, now=now, until=now + timedelta(minutes=1)
    )
    scope.erase()
    tell(scope, said="Quite another thing to say.")
    memory.flush()
    assert mirror._rows(runtime, claimed) == []


def test_one_process_feeds_at_a_time(memory: EpisodicMemory, scope: MemoryScope) -> None:
    tell(scope)
    memory.flush()
    with memory.runtime.store.lead("index", worker_id="somebody"):
        assert mirror.feed(memory.runtime, "me") == mirror.FeedReport()
    assert mirror.feed(memory.runtime, "me").given == 3


def test_killed_between_giving_and_finishing_it_is_given_again(
    memory: EpisodicMemory,
    scope: MemoryScope,
    server: QdrantServer,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tell(scope)
    memory.flush()
    with monkeypatch.context() as patch:
        patch.setattr(memory.runtime.store, "finish", _killed)
        with pytest.raises(KeyboardInterrupt):
            mirror.feed(memory.runtime, "killed")
    assert len(server.points()) == waiting(memory) == 3
    later(clock)
    assert memory.run_pending().indexed == 3
    assert len(server.points()) == 3
    assert waiting(memory) == 0


def _killed(_: Any) -> None:
    raise KeyboardInterrupt


def test_a_failure_ends_the_run(
    memory: EpisodicMemory,
    scope: MemoryScope,
    server: QdrantServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise every batch of a long queue would wait for its own timeout."""
    monkeypatch.setattr(mirror, "_BATCH", 1)
    memory.run_pending()
    tell(scope)
    memory.flush()
    server.fault = 503
    server.requests.clear()
    monkeypatch.setattr(QdrantMirror, "prepare", lambda *_: False)
    assert mirror.feed(memory.runtime, "me").failed
    assert len(server.requests) == 1


def test_feeding_stops_when_it_is_told_to(memory: EpisodicMemory, scope: MemoryScope) -> None:
    tell(scope)
    memory.flush()
    assert mirror.feed(memory.runtime, "me", stop=lambda: True).given == 0
    assert waiting(memory) == 3


def test_a_server_that_is_gone_for_good_can_be_left(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    server.fault = "drop"
    with pytest.raises(IndexUnavailable):
        mirror.detach(memory.runtime)
    assert memory.runtime.store.state().mirror is not None
    assert mirror.detach(memory.runtime, abandon=True) == []
    assert memory.runtime.store.state().mirror is None
