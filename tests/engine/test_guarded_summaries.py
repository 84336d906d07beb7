"""What a summarizer returns passes the guard, whoever wrote it and whenever it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, MemoryConfig, MemoryScope, PrivacyConfig
from octopus_memory.domain.episode import Summary, Turn
from octopus_memory.domain.facts import FactKind, FoundFact
from octopus_memory.testing import FakeSummarizer, FixedClock
from tests.support.pending_work import open_memory

pytestmark = pytest.mark.both_databases

MAIL = "ana.lopez@example.com"
SAID = [
    ("user", f"Hi, my name is Ana López, my mail is {MAIL} and I prefer formal letters."),
    ("assistant", "Noted. I shall write formal letters to you."),
]
CLEAN = [("user", "Which form do I need?"), ("assistant", "The blue one.")]
SECRETS = (MAIL, "Ana", "López")


def _redact(memory: EpisodicMemory, **more: Any) -> MemoryScope:
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="redact", **more)))
    return memory.scope(tenant="acme", agent="hr", user="user-17")


def _shown(scope: MemoryScope) -> str:
    [snippet] = scope.recent()
    assert snippet.summary
    facts = (f"{fact.slot}: {fact.text}" for fact in scope.facts(history=True))
    return "\n".join((snippet.summary, *snippet.key_facts, *facts))


FACT = FoundFact(kind=FactKind.WORK, text=f"Ana López writes from {MAIL}.", ordinal=0, slot=MAIL)


def _model() -> FakeSummarizer:
    text, key_fact = f"Ana López wrote from {MAIL}.", f"Her mail is {MAIL}"
    return FakeSummarizer(text, key_fact, facts=[FACT])


def test_a_models_summary_is_redacted_at_close(database_url: str):
    with open_memory(database_url, summarizer=_model()) as memory:
        scope = _redact(memory)
        scope.add("s", CLEAN)
        scope.close_session("s")
        assert _shown(scope).count("[EMAIL]") == 3
        assert not [secret for secret in SECRETS if secret in _shown(scope)]


def test_a_models_summary_of_a_stored_episode_is_redacted(database_url: str):
    with open_memory(database_url, summarizer=_model()) as memory:
        scope = _redact(memory)
        scope.store(CLEAN)
        assert not [secret for secret in SECRETS if secret in _shown(scope)]


def test_a_models_summary_that_the_worker_stores_is_redacted(database_url: str):
    model = _model()
    model.fail()
    with open_memory(database_url, summarizer=model) as memory:
        scope = _redact(memory)
        scope.store(CLEAN)
        assert memory.run_pending().summarized == 1
        assert _shown(scope).count("[EMAIL]") == 3
        assert not [secret for secret in SECRETS if secret in _shown(scope)]


class _Switching(FakeSummarizer):
    """While it answers, another process turns redaction on."""

    def __init__(self, url: str) -> None:
        super().__init__(f"Ana López wrote from {MAIL}.", f"Her mail is {MAIL}", facts=[FACT])
        self._url = url

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        made = super().summarize(turns, timeout=timeout)
        with open_memory(self._url) as other:
            _redact(other)
        return made


@pytest.mark.parametrize("in_background", [False, True])
def test_redaction_turned_on_while_the_model_answers_applies(
    database_url: str, in_background: bool
):
    model = _Switching(database_url)
    with open_memory(database_url, summarizer=model) as memory:
        if in_background:
            model.fail()
        scope = memory.scope(tenant="acme", agent="hr", user="user-17")
        scope.add("s", CLEAN)
        scope.close_session("s")
        memory.run_pending()
        assert not [secret for secret in SECRETS if secret in _shown(scope)]


def test_redaction_turned_on_within_an_episode_applies_to_its_summary(memory: EpisodicMemory):
    """What was said before is stored as it was said; its summary is written now."""
    scope = memory.scope(tenant="acme", agent="hr", user="user-17")
    scope.add("s", SAID)
    _redact(memory)
    scope.add("s", CLEAN)
    scope.close_session("s")
    assert not [secret for secret in SECRETS if secret in _shown(scope)]


def test_a_first_name_from_before_the_switch_is_known(database_url: str):
    model = FakeSummarizer("Ana prefers formal letters.", "Ana is formal")
    with open_memory(database_url, summarizer=model) as memory:
        memory.scope(tenant="acme", agent="hr", user="user-17").add("s", SAID)
    # A new process, which has heard of nobody.
    with open_memory(database_url, summarizer=model) as memory:
        scope = _redact(memory)
        scope.close_session("s")
        assert "Ana" not in _shown(scope)


def test_the_summary_of_an_episode_closed_by_the_worker_is_redacted(
    memory: EpisodicMemory, clock: FixedClock
):
    scope = memory.scope(tenant="acme", agent="hr", user="user-17")
    scope.add("s", SAID)
    _redact(memory)
    clock.advance(minutes=60)
    assert memory.run_pending().timed_out == 1
    assert not [secret for secret in SECRETS if secret in _shown(scope)]


def test_the_summary_that_retention_makes_is_redacted(memory: EpisodicMemory, clock: FixedClock):
    scope = memory.scope(tenant="acme", agent="hr", user="user-17")
    scope.store(SAID, summary="", key_facts=[])
    _redact(memory)
    memory.configure("hr", {"retention": {"archive_mode": "summary"}})
    clock.advance(days=91)
    assert memory.run_retention().counts.archived == 1
    assert not [secret for secret in SECRETS if secret in _shown(scope)]


@pytest.mark.parametrize("where", ["text", "fact"])
def test_numbers_that_stand_in_a_summary_first_stay_taken(database_url: str, where: str):
    """The episode goes on, and the next mail address is another one."""
    model = FakeSummarizer(f"They wrote from {MAIL}.")
    if where == "fact":
        model.answer("They wrote.", facts=[FACT])
    with open_memory(database_url, summarizer=model) as memory:
        scope = _redact(memory, numbered=True)
        memory.configure("hr", {"session": {"allow_resume": True}})
        scope.add("s", CLEAN)
        scope.close_session("s")
        assert "[EMAIL_1]" in _shown(scope)
        [turn] = scope.add("s", ("user", "Write to ben@example.com, too."))
        assert "[EMAIL_2]" in turn.text


def test_facts_that_are_equal_once_redacted_are_stored_once(database_url: str):
    other = replace(FACT, text="Ana López writes from ben@example.com.", slot="ben@example.com")
    model = FakeSummarizer("They wrote.", facts=[FACT, other])
    with open_memory(database_url, summarizer=model) as memory:
        scope = _redact(memory)
        scope.store(CLEAN)
        assert len(scope.facts(history=True)) == 1


def test_personal_data_at_the_cut_of_a_long_fact_is_redacted(database_url: str):
    """A mail address that is cut in two is none that the redactor would know."""
    found = replace(FACT, text="writes " * 41 + MAIL, slot="writes " * 8 + MAIL)
    model = FakeSummarizer("They wrote.", facts=[found])
    with open_memory(database_url, summarizer=model) as memory:
        scope = _redact(memory)
        scope.store(CLEAN)
        [fact] = scope.facts()
        assert "ana" not in fact.text + fact.slot
