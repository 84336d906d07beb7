"""Qdrant behind a memory: fed, out of reach in every way, and never holding what was erased."""

from __future__ import annotations

import dataclasses
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from octopus_memory import EpisodicMemory, IndexUnavailable, InvalidSetting, MemoryScope
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.adapters.indexes.qdrant_points import QdrantCopy
from octopus_memory.engine import background, comparing, indexing
from octopus_memory.ports.index import CopiedRow
from octopus_memory.ports.store import WorkKind
from octopus_memory.testing import FixedClock
from qdrant_server import QdrantServer

Open = Callable[..., EpisodicMemory]
SAID = "The greenhouse key hangs behind the blue door."


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


@pytest.fixture
def qdrant_seconds() -> str:
    """How long an answer is waited for: only a test of a server that hangs wants it short."""
    return "30"


@pytest.fixture
def open_memory(
    tmp_path: Path,
    clock: FixedClock,
    server: QdrantServer,
    qdrant_seconds: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Open]:
    monkeypatch.setenv("OCTOPUS_INDEX", "qdrant")
    monkeypatch.setenv("OCTOPUS_QDRANT_URL", server.url)
    monkeypatch.setenv("OCTOPUS_QDRANT_TIMEOUT_SECONDS", qdrant_seconds)
    opened: list[EpisodicMemory] = []

    def open_(name: str = "memory", **named: Any) -> EpisodicMemory:
        named = {"embedder": "hashing", "clock": clock, "background": False} | named
        opened.append(EpisodicMemory.open(f"sqlite:///{tmp_path / name}.db", **named))
        return opened[-1]

    yield open_
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory: Open) -> EpisodicMemory:
    return open_memory()


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(tenant="acme", agent="hr", user="user-17")


class _Another(HashingEmbedder):
    """The same vectors under another name are another model's."""

    @property
    def model(self) -> str:
        return "hashing/another"


def tell(scope: MemoryScope, session: str = "monday", said: str = SAID) -> None:
    scope.add(session, [("user", said), ("assistant", "I will remember where it hangs.")])
    scope.close_session(session)


def waiting(memory: EpisodicMemory) -> int:
    backlog = memory.parts.store.backlog()
    return backlog[WorkKind.INDEX].waiting + backlog[WorkKind.UNINDEX].waiting


def later(clock: FixedClock) -> None:
    """Past the longest time that work waits to be tried again."""
    clock.advance(minutes=11)


def is_true(memory: EpisodicMemory) -> bool:
    return comparing.verify(memory.parts, background.new_owner()).is_true


def test_every_row_with_a_vector_is_there(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    done = memory.run_pending()
    assert done.indexed == done.embedded == 3
    assert len(server.points()) == 3
    assert waiting(memory) == 0
    server.requests.clear()
    [found] = scope.recall("Where is the key of the greenhouse?")
    assert found.session_id == "monday"
    assert any(request.split("?")[0].endswith("/points/query") for request in server.requests)
    assert is_true(memory)


def test_nobody_is_named_there(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    for point in server.points():
        assert set(point.payload or {}) == {"tenant", "scope", "episode", "ordinal", "seq"}
        assert "user-17" not in str(point.payload)
        assert "'hr'" not in str(point.payload)


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
            comparing.verify(away.parts, background.new_owner())
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


def test_a_part_of_the_rows_is_there(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    """What it has not got is compared by the store's own vectors."""
    tell(scope)
    memory.run_pending()
    [name] = server.collections()
    gone = server.points()[0].id
    server.client.delete(name, models.PointIdsList(points=[gone]))
    view = memory.parts.index.view(scope.scope, memory.parts.embedder.model)
    cosines = view.cosine(memory.parts.query_vector(SAID))
    assert not np.isnan(cosines).any()


def test_a_dropped_collection_is_filled_again(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    [name] = server.collections()
    server.client.delete_collection(name)
    assert scope.recall("Where is the key of the greenhouse?")
    assert memory.run_pending().indexed == 3
    assert len(server.points()) == 3
    assert is_true(memory)


def test_a_place_of_another_size_is_made_anew(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    [name] = server.collections()
    server.client.delete_collection(name)
    server.client.create_collection(
        name, {"dense": models.VectorParams(size=3, distance=models.Distance.COSINE)}
    )
    assert memory.run_pending().indexed == 3
    assert is_true(memory)


def test_another_model_has_a_place_of_its_own(
    open_memory: Open, clock: FixedClock, server: QdrantServer
) -> None:
    first = open_memory()
    tell(first.scope(user="ana"))
    first.run_pending()
    [before] = server.collections()
    first.close()
    again = open_memory(embedder=_Another())
    assert again.run_pending().indexed == 3
    [after] = server.collections()
    assert after != before
    assert is_true(again)


def test_two_databases_never_meet(open_memory: Open, server: QdrantServer) -> None:
    memories = [open_memory("one"), open_memory("two")]
    for memory in memories:
        tell(memory.scope(user="ana"), said=f"{SAID} In house {memory!r}.")
        memory.run_pending()
    assert len(server.collections()) == 2
    assert all(is_true(memory) for memory in memories)
    memories[0].scope(user="ana").erase()
    memories[0].run_pending()
    assert is_true(memories[1])
    assert len(server.points()) == 3


def test_what_is_removed_goes_there_too(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope, "kept", "The ladder stands in the shed.")
    tell(scope)
    memory.run_pending()
    [gone, _] = scope.episodes().items
    memory.parts.store.archive(scope.scope, gone.id)
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
    state = memory.parts.store.recall_state(scope.scope)
    server.fault = fault
    receipt = scope.erase()
    assert receipt.pending
    assert not receipt.is_complete
    assert memory.parts.index.left_of([state.scope_id]) is None
    memory.run_pending()
    server.fault = None
    assert memory.parts.index.left_of([state.scope_id]) == 3
    later(clock)
    memory.run_pending()
    assert memory.parts.index.left_of([state.scope_id]) == 0
    assert len(server.points()) == 3
    assert memory.tenant("acme").receipt(receipt.id).is_complete


def test_rows_erased_while_they_are_given_do_not_stay(
    memory: EpisodicMemory,
    scope: MemoryScope,
    server: QdrantServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The erasure comes between reading the rows and giving them."""
    tell(scope)
    memory.flush()
    take_in = QdrantCopy.take_in

    def erase_first(copy: QdrantCopy, model: str, rows: Sequence[CopiedRow]) -> None:
        monkeypatch.setattr(QdrantCopy, "take_in", take_in)
        scope.erase()
        take_in(copy, model, rows)

    monkeypatch.setattr(QdrantCopy, "take_in", erase_first)
    memory.run_pending()
    memory.run_pending()
    assert server.points() == []
    assert waiting(memory) == 0


def test_a_scope_that_begins_again_meanwhile_is_another(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.flush()
    parts = memory.parts
    now = parts.clock.now()
    claimed = parts.store.claim(
        WorkKind.INDEX, owner="slow", limit=9, now=now, until=now + timedelta(minutes=1)
    )
    scope.erase()
    tell(scope, said="Quite another thing to say.")
    memory.flush()
    assert indexing._rows(parts, claimed) == []


def test_one_process_feeds_at_a_time(memory: EpisodicMemory, scope: MemoryScope) -> None:
    tell(scope)
    memory.flush()
    with memory.parts.store.lead("index", owner="somebody"):
        assert indexing.feed(memory.parts, "me") == indexing.FeedReport()
    assert indexing.feed(memory.parts, "me").given == 3


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
        patch.setattr(memory.parts.store, "finish", _killed)
        with pytest.raises(KeyboardInterrupt):
            indexing.feed(memory.parts, "killed")
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
    """Else every batch of a long queue would wait for its own time-out."""
    monkeypatch.setattr(indexing, "_BATCH", 1)
    memory.run_pending()
    tell(scope)
    memory.flush()
    server.fault = 503
    server.requests.clear()
    monkeypatch.setattr(QdrantCopy, "prepare", lambda *_: False)
    assert indexing.feed(memory.parts, "me").failed
    assert len(server.requests) == 1


def test_feeding_stops_when_it_is_told_to(memory: EpisodicMemory, scope: MemoryScope) -> None:
    tell(scope)
    memory.flush()
    assert indexing.feed(memory.parts, "me", stop=lambda: True).given == 0
    assert waiting(memory) == 3


def test_the_background_feeds_it(open_memory: Open, server: QdrantServer) -> None:
    memory = open_memory(background=True, clock=None)
    tell(memory.scope(user="ana"))
    deadline = time.monotonic() + 60
    while len(server.points()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    memory.close()
    assert len(server.points()) == 3


def test_without_the_library_the_extra_is_named() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CLIENT], capture_output=True, text=True, check=False
    )
    assert "octopus-memory[qdrant]" in said.stdout, said.stderr


_WITHOUT_CLIENT = """
import sys
sys.modules["qdrant_client"] = None
from octopus_memory import MissingExtra, EpisodicMemory
import os
os.environ["OCTOPUS_INDEX"] = "qdrant"
try:
    EpisodicMemory.open("sqlite:///:memory:", embedder="hashing")
except MissingExtra as error:
    print(error)
"""


def test_other_settings_leave_the_queue_alone(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_memory()
    tell(first.scope(user="ana"))
    first.flush()
    first.close()
    monkeypatch.setenv("OCTOPUS_INDEX", "exact")
    with caplog.at_level(logging.WARNING):
        plain = open_memory()
    assert "qdrant" in caplog.text
    plain.scope(user="ana").erase()
    assert plain.parts.store.backlog()[WorkKind.UNINDEX].waiting == 1
    with pytest.raises(InvalidSetting, match="qdrant"):
        indexing.detach(plain.parts)
    plain.close()
    monkeypatch.setenv("OCTOPUS_INDEX", "qdrant")
    again = open_memory()
    again.run_pending()
    assert is_true(again)


def test_leaving_it_removes_the_copy(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    assert indexing.detach(memory.parts)
    assert server.collections() == []
    assert memory.parts.store.mirror() is None
    tell(scope, "tuesday")
    memory.flush()
    assert waiting(memory) == 0


def test_a_server_that_is_gone_for_good_can_be_left(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    server.fault = "drop"
    with pytest.raises(IndexUnavailable):
        indexing.detach(memory.parts)
    assert memory.parts.store.mirror() is not None
    assert indexing.detach(memory.parts, abandon=True) == []
    assert memory.parts.store.mirror() is None


def test_a_big_scope_is_searched_by_the_probe(open_memory: Open, server: QdrantServer) -> None:
    memory = open_memory()
    memory.parts.index._taken_whole = 0
    scope = memory.scope(user="ana")
    for number in range(8):
        tell(scope, f"session {number}", f"Box {number} holds {'xylophones' * (number == 5)} felt.")
    memory.run_pending()
    server.requests.clear()
    found = scope.recall("Which box holds xylophones?", limit=3)
    assert found[0].session_id == "session 5"
    assert len(found) == 3
    assert any("/points/scroll" in request for request in server.requests)
    # What is not embedded yet is found as well, and so is everything while nobody answers.
    tell(scope, "newest", "The trombones are in the cellar.")
    assert scope.recall("Where are the trombones?")[0].session_id == "newest"
    server.fault = 503
    assert scope.recall("Which box holds xylophones?")[0].session_id == "session 5"


def test_no_probe_where_a_filter_could_leave_too_few(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    memory.parts.index._taken_whole = 0
    tell(scope)
    memory.run_pending()
    day = timedelta(days=1)
    for number, filters in enumerate(
        [{}, {"since": memory.parts.clock.now() - day}, {"include_archived": False}]
    ):
        server.requests.clear()
        assert scope.recall(f"the key, asked {number} times", **filters)
        assert any("/points/scroll" in request for request in server.requests) is not bool(filters)


class TestDrift:
    @pytest.fixture(autouse=True)
    def _filled(self, memory: EpisodicMemory, scope: MemoryScope) -> None:
        tell(scope)
        tell(memory.scope(user="ben"), said="The ladder stands in the shed.")
        memory.run_pending()

    def verify(self, memory: EpisodicMemory, **named: Any) -> comparing.IndexReport:
        return comparing.verify(memory.parts, background.new_owner(), **named)

    def assert_mended(self, memory: EpisodicMemory, server: QdrantServer) -> None:
        assert self.verify(memory, repair=True).repaired
        assert self.verify(memory).is_true
        assert len(server.points()) == 6

    def test_none(self, memory: EpisodicMemory) -> None:
        report = self.verify(memory)
        assert report.is_true
        assert (report.index, report.scopes, report.rows) == ("qdrant", 2, 6)
        assert not self.verify(memory, repair=True).repaired

    def test_a_row_is_missing(self, memory: EpisodicMemory, server: QdrantServer) -> None:
        [name] = server.collections()
        server.client.delete(name, models.PointIdsList(points=[server.points()[0].id]))
        report = self.verify(memory)
        assert (report.missing, report.extra, report.changed) == (1, 0, 0)
        [drift] = report.drifted
        assert drift.missing == 1
        self.assert_mended(memory, server)

    def test_a_row_is_too_many(self, memory: EpisodicMemory, server: QdrantServer) -> None:
        [name] = server.collections()
        first = server.points()[0]
        for scope_id in (first.payload["scope"], 4_321):
            server.client.upsert(name, [_moved(first, scope_id, 99)])
        report = self.verify(memory)
        assert (report.missing, report.extra, report.changed) == (0, 2, 0)
        assert {drift.scope_id for drift in report.drifted} == {first.payload["scope"], 4_321}
        self.assert_mended(memory, server)

    def test_a_vector_is_another(self, memory: EpisodicMemory, server: QdrantServer) -> None:
        [name] = server.collections()
        first = server.points()[0]
        wrong = dict(first.vector) | {"dense": [-value for value in first.vector["dense"]]}
        server.client.upsert(
            name, [models.PointStruct(id=first.id, vector=wrong, payload=first.payload)]
        )
        report = self.verify(memory)
        assert (report.missing, report.extra, report.changed) == (0, 0, 1)
        self.assert_mended(memory, server)

    def test_made_anew(self, memory: EpisodicMemory, server: QdrantServer) -> None:
        [name] = server.collections()
        server.client.upsert(name, [_moved(server.points()[0], 4_321, 99)])
        report = comparing.rebuild(memory.parts, background.new_owner())
        assert report.is_true
        assert report.rows == len(server.points()) == 6

    def test_what_waits_is_no_drift(
        self, memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
    ) -> None:
        tell(scope, "tuesday")
        memory.flush()
        with memory.parts.store.lead("index", owner="somebody"):
            report = self.verify(memory)
        assert report.is_true
        assert report.waiting == 3


def _moved(point: Any, scope_id: int, seq: int) -> models.PointStruct:
    from uuid import UUID

    return models.PointStruct(
        id=str(UUID(int=scope_id << 64 | seq)),
        vector=point.vector,
        payload=point.payload | {"scope": scope_id, "seq": seq},
    )


def test_the_exact_index_has_nothing_to_compare(tmp_path: Path, clock: FixedClock) -> None:
    url = f"sqlite:///{tmp_path / 'plain.db'}"
    with EpisodicMemory.open(url, embedder="hashing", clock=clock, background=False) as memory:
        tell(memory.scope(user="ana"))
        memory.run_pending()
        report = comparing.verify(memory.parts, "me")
        assert dataclasses.replace(report, model="") == comparing.IndexReport(
            index="exact", model=""
        )
        assert memory.parts.index.left_of([1]) == 0
        assert comparing.rebuild(memory.parts, "me").is_true
