"""Another model than the one that made the vectors: everything anew, and nothing mixed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory import (
    EmbedderFailed,
    EpisodicMemory,
    MemoryScope,
)
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from tests.support.leave_dialogue import QUESTION, TALK
from tests.support.pending_work import open_memory, waiting
from tests.support.polling import wait_until


class Other(HashingEmbedder):
    """As long as the first one's vectors, and the opposite of them."""

    @property
    def model(self) -> str:
        return "other-256"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return -super().embed(texts)


def cosines(memory: EpisodicMemory, scope: MemoryScope) -> NDArray[np.float32]:
    embedder = memory.runtime.embedder
    view = memory.runtime.index.view(scope.scope, embedder.model)
    return view.cosine(embedder.embed([QUESTION])[0])


@pytest.mark.both_databases
def test_another_model_embeds_everything_anew(database_url: str):
    with open_memory(database_url) as memory:
        scope = memory.scope(user="u")
        scope.store(TALK, session_id="s")
        scope.add("open", ("user", "Something else, which is not closed."))
        memory.flush()
        assert cosines(memory, scope).max() > 0.5
    with open_memory(database_url, embedder=Other()) as memory:
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
    with open_memory(database_url, embedder=Other()) as memory:
        assert waiting(memory) == 0


def test_a_new_model_on_an_empty_database_logs_no_warning(
    database_url: str, caplog: pytest.LogCaptureFixture
):
    for embedder in (HashingEmbedder(), Other()):
        with open_memory(database_url, embedder=embedder) as memory:
            memory.flush()
            assert memory.runtime.store.state().model == embedder.model
    assert "anew" not in caplog.text


def test_during_reembedding_only_new_vectors_are_compared(database_url: str):
    with open_memory(database_url) as memory:
        scope = memory.scope(user="u")
        scope.add("s", [("user", f"{QUESTION} {n}") for n in range(100)])
        memory.flush()
    with open_memory(database_url, embedder=Other()) as memory:
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


def test_the_background_thread_reembeds_by_itself(database_url: str):
    with open_memory(database_url) as memory:
        memory.scope(user="u").store(TALK)
        memory.flush()
    with open_memory(database_url, embedder=HashingEmbedder(64), background=True) as memory:
        assert wait_until(lambda: memory.stats().vectors == {"hashing-64": 3})


@pytest.mark.both_databases
def test_two_memories_with_two_models_do_not_mix(database_url: str):
    with open_memory(database_url) as old:
        old.scope(user="u").store(TALK, session_id="s")
        old.flush()
        with open_memory(database_url, embedder=Other()) as new:
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
