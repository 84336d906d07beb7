"""The operator's calls that the inspector makes: search, preview, erasure in steps, a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory import EpisodicMemory, EpisodicRetentionPolicy, InvalidInput, NotFound
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.domain.erasure import StepState
from octopus_memory.engine.read import trial_index
from octopus_memory.testing import FixedClock

NUTS = "I am allergic to peanuts, so no satay."
LOOKED_UP = {
    "role": "tool",
    "tool_call_id": "c",
    "function_name": "look_up",
    "arguments": {},
    "content": "42",
}


@pytest.fixture
def filled(memory: EpisodicMemory) -> EpisodicMemory:
    for agent, user in (("hr", "ana"), ("hr", "ben"), ("it", "ana")):
        scope = memory.scope(tenant="acme", agent=agent, user=user)
        scope.store([("user", NUTS if agent == "hr" else "The printer is broken.")], session_id="s")
    memory.scope(tenant="other", agent="hr", user="eve").store([("user", NUTS)])
    memory.run_pending()
    return memory


def test_a_search_goes_on_where_it_was(filled: EpisodicMemory):
    tenant = filled.tenant("acme")
    first = tenant.search("peanuts allergy", limit=2, actor="tom")
    assert first.searched == 2
    assert first.reached is not None
    rest = tenant.search("peanuts allergy", after=first.reached, limit=2, actor="tom")
    assert (rest.searched, rest.reached) == (1, None)
    found = {
        scope.user for search in (first, rest) for scope, hit in search.found if hit.text == NUTS
    }
    assert found == {"ana", "ben"}
    entries = [each for each in tenant.audit() if each.action == "search"]
    assert [(each.actor, each.detail["users"]) for each in entries] == [("tom", 2), ("tom", 1)]
    assert "peanut" not in repr(entries)


def test_a_search_of_one_user_names_no_other(filled: EpisodicMemory):
    found = filled.tenant("acme").search("peanuts", agents=["hr"], user="ben", min_score=0.0)
    assert {(scope.agent, scope.user) for scope, _ in found.found} == {("hr", "ben")}


def test_an_erasure_in_two_steps(filled: EpisodicMemory):
    tenant = filled.tenant("acme")
    begun = tenant.begin_erasing("ana", agent="hr", actor="tom")
    assert begun.verification is StepState.PENDING
    assert not tenant.search("peanuts", agents=["hr"], user="ana").searched
    receipt = tenant.finish_erasing(begun.receipt)
    assert receipt.is_complete
    assert receipt.id == begun.erasure.id
    assert tenant.erasing(receipt).is_over
    with pytest.raises(NotFound, match="no receipt"):
        filled.tenant("other").erasing(receipt.id)
    with pytest.raises(NotFound, match="no receipt"):
        filled.tenant("other").finish_erasing(receipt.id)


def test_a_preview_of_retention_changes_nothing(filled: EpisodicMemory, clock: FixedClock):
    clock.advance(days=10)
    tenant = filled.tenant("acme")
    policy = EpisodicRetentionPolicy(active_retention_days=5)
    assert tenant.preview_retention("hr", policy).archived == 2
    assert tenant.preview_retention("hr", replace(policy, active_retention_days=20)).archived == 0
    assert not any(each.is_archived for each in tenant.episodes().items)


def test_a_trial_is_entered_nowhere(filled: EpisodicMemory):
    scope = filled.scope(tenant="acme", agent="hr", user="ana")
    tried = filled.inspection(scope).try_context(
        "What can I not eat?", filled.config("hr", tenant="acme"), with_facts=False
    )
    assert not tried.context.facts
    assert [stage.name for stage in tried.stages] == ["searched", "ranked", "chosen", "laid out"]
    assert scope.injections("s") == []


class Counting(HashingEmbedder):
    """Another model than that of the memory, which counts the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__(dimension=64)
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        return super().embed(texts)


def test_a_trial_of_an_embedder_finds_what_a_memory_with_it_finds(
    filled: EpisodicMemory, clock: FixedClock
):
    scope = filled.scope(tenant="acme", agent="hr", user="ana")
    scope.store([("user", "My bicycle is blue."), LOOKED_UP, ("assistant", "Lovely.")])
    filled.flush()
    other, config = Counting(), filled.config("hr", tenant="acme")
    asked = "What can I not eat?"
    tried = filled.inspection(scope).try_context(asked, config, embedder=other).context
    with EpisodicMemory.open(
        "sqlite:///:memory:", embedder=Counting(), clock=clock, background=False
    ) as memory:
        memory.tenant("acme").import_user(list(filled.tenant("acme").export_user("ana")))
        memory.flush()
        mine = memory.scope(tenant="acme", agent="hr", user="ana").context(asked)
        assert tried.text == mine.text
        scores = [(each.text, each.score) for each in tried.passages]
        assert scores == [
            (each.text, pytest.approx(each.score, abs=0.005)) for each in mine.passages
        ]
    own = [
        (each.text, pytest.approx(each.score, abs=0.005)) for each in scope.context(asked).passages
    ]
    assert scores != own
    assert filled.database_state().model == filled.embedding_model != other.model


def test_a_trial_embeds_once_until_something_is_erased(filled: EpisodicMemory):
    scope = filled.scope(tenant="acme", agent="hr", user="ana")
    other, config = Counting(), filled.config("hr", tenant="acme")
    inspection = filled.inspection(scope)
    inspection.try_context("What can I not eat?", config, embedder=other)
    assert (first := other.texts) > 2
    inspection.try_context("What can I not eat?", config, embedder=other)
    assert other.texts == first + 1  # the question
    filled.tenant("acme").erase_user("ben")
    inspection.try_context("What can I not eat?", config, embedder=other)
    assert other.texts > first + 2


def test_a_trial_of_an_embedder_is_for_a_short_history(
    filled: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trial_index, "MOST_ROWS", 1)
    scope = filled.scope(tenant="acme", agent="hr", user="ana")
    config = filled.config("hr", tenant="acme")
    with pytest.raises(InvalidInput, match="embedder: must be the memory's own"):
        filled.inspection(scope).try_context("What?", config, embedder=Counting())
    assert filled.inspection(scope).try_context("What?", config).context.kind
