"""Differences between Qdrant and the store: found, repaired, and rebuilt."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from qdrant_client import models

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.engine.core import leases
from octopus_memory.engine.work import mirror
from octopus_memory.testing import FixedClock
from tests.support.qdrant_memory import tell
from tests.support.qdrant_server import QdrantServer

pytestmark = pytest.mark.qdrant


class TestDrift:
    @pytest.fixture(autouse=True)
    def _filled(self, memory: EpisodicMemory, scope: MemoryScope) -> None:
        tell(scope)
        tell(memory.scope(user="ben"), said="The ladder stands in the shed.")
        memory.run_pending()

    def verify(self, memory: EpisodicMemory, **named: Any) -> mirror.IndexReport:
        return mirror.verify(memory.runtime, leases.new_worker_id(), **named)

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

    def test_a_rebuild_removes_drift(self, memory: EpisodicMemory, server: QdrantServer) -> None:
        [name] = server.collections()
        server.client.upsert(name, [_moved(server.points()[0], 4_321, 99)])
        report = mirror.rebuild(memory.runtime, leases.new_worker_id())
        assert report.is_true
        assert report.rows == len(server.points()) == 6

    def test_waiting_work_is_no_drift(
        self, memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
    ) -> None:
        tell(scope, "tuesday")
        memory.flush()
        with memory.runtime.store.lead("index", worker_id="somebody"):
            report = self.verify(memory)
        assert report.is_true
        assert report.waiting == 3


def _moved(point: Any, scope_id: int, seq: int) -> models.PointStruct:
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
        report = mirror.verify(memory.runtime, "me")
        assert dataclasses.replace(report, model="") == mirror.IndexReport(index="exact", model="")
        assert memory.runtime.index.count_mirrored([1]) == 0
        assert mirror.rebuild(memory.runtime, "me").is_true
