"""A memory with Qdrant: filling it, searching it, and dropping it."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import timedelta

import numpy as np
import pytest
from qdrant_client import models

from octopus_memory import EpisodicMemory, InvalidSetting, MemoryScope
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.engine.work import mirror
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import FixedClock
from tests.support.polling import wait_until
from tests.support.qdrant_memory import SAID, Open, is_true, tell, waiting
from tests.support.qdrant_server import QdrantServer

pytestmark = pytest.mark.qdrant


class _Another(HashingEmbedder):
    """An embedder with equal vectors and another name, hence another model."""

    @property
    def model(self) -> str:
        return "hashing/another"


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


def test_qdrant_holds_no_names(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    points = server.points()
    assert len(points) == 3
    for point in points:
        assert set(point.payload or {}) == {"tenant", "scope", "episode", "ordinal", "seq"}
        assert "user-17" not in str(point.payload)
        assert "'hr'" not in str(point.payload)


def test_what_is_forgotten_leaves_qdrant(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    scope.store([("user", f"I like tea. {SAID}"), ("user", "I like the sea, too.")])
    memory.run_pending()
    before = {point.id for point in server.points()}
    receipt = scope.forget(confirm=scope.forget("the greenhouse key").token)
    assert receipt.is_complete
    memory.run_pending()
    assert waiting(memory) == 0
    assert is_true(memory)
    changed = {point.id for point in server.points()} - before
    assert changed
    assert all("greenhouse" not in hit.text for hit in scope.recall_turns("greenhouse key"))


def test_a_part_of_the_rows_is_there(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    """Rows that Qdrant lacks are compared by the store's own vectors."""
    tell(scope)
    memory.run_pending()
    [name] = server.collections()
    gone = server.points()[0].id
    server.client.delete(name, models.PointIdsList(points=[gone]))
    view = memory.runtime.index.view(scope.scope, memory.runtime.embedder.model)
    cosines = view.cosine(memory.runtime.query_vector(SAID))
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


def test_a_collection_of_another_dimension_is_rebuilt(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    tell(scope)
    memory.run_pending()
    [name] = server.collections()
    server.client.delete_collection(name)
    server.client.create_collection(
        name, {"dense": models.VectorParams(size=3, distance=models.Distance.COSINE)}
    )
    server.client.upsert(name, [models.PointStruct(id=1, vector={"dense": [1.0, 0.0, 0.0]})])
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


def test_the_background_feeds_it(open_memory: Open, server: QdrantServer) -> None:
    memory = open_memory(background=True, clock=None)
    tell(memory.scope(user="ana"))
    assert wait_until(lambda: len(server.points()) == 3)


@pytest.mark.process
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
    assert plain.runtime.store.backlog()[WorkKind.UNINDEX].waiting == 1
    with pytest.raises(InvalidSetting, match="qdrant"):
        mirror.detach(plain.runtime)
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
    assert mirror.detach(memory.runtime)
    assert server.collections() == []
    assert memory.runtime.store.state().mirror is None
    tell(scope, "tuesday")
    memory.flush()
    assert waiting(memory) == 0


def test_a_big_scope_is_searched_by_the_probe(open_memory: Open, server: QdrantServer) -> None:
    memory = open_memory()
    memory.runtime.index._whole_rows = 0
    scope = memory.scope(user="ana")
    for number in range(8):
        tell(scope, f"session {number}", f"Box {number} holds {'xylophones' * (number == 5)} felt.")
    memory.run_pending()
    server.requests.clear()
    found = scope.recall("Which box holds xylophones?", limit=3)
    assert found[0].session_id == "session 5"
    assert len(found) == 3
    assert any("/points/scroll" in request for request in server.requests)
    # Turns that are not embedded are found as well, and all turns while Qdrant is down.
    tell(scope, "newest", "The trombones are in the cellar.")
    assert scope.recall("Where are the trombones?")[0].session_id == "newest"
    server.fault = 503
    assert scope.recall("Which box holds xylophones?")[0].session_id == "session 5"


def test_no_probe_where_a_filter_could_leave_too_few(
    memory: EpisodicMemory, scope: MemoryScope, server: QdrantServer
) -> None:
    memory.runtime.index._whole_rows = 0
    tell(scope)
    memory.run_pending()
    day = timedelta(days=1)
    for number, filters in enumerate(
        [{}, {"since": memory.runtime.clock.now() - day}, {"include_archived": False}]
    ):
        server.requests.clear()
        assert scope.recall(f"the key, asked {number} times", **filters)
        assert any("/points/scroll" in request for request in server.requests) is not bool(filters)
