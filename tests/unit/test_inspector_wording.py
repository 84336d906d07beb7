"""The inspector says every reason in words."""

from __future__ import annotations

import re
from inspect import getsource

import pytest

pytest.importorskip("jinja2", reason="the extra server is not installed")
from octopus_memory.domain.block.passages import LeftOutReason
from octopus_memory.domain.context import QuestionKind
from octopus_memory.domain.facts import FactKind
from octopus_memory.domain.ledger import Injected, InjectedKind
from octopus_memory.domain.search import scoring
from octopus_memory.faces.inspector import wording
from octopus_memory.faces.inspector.rendering import shorter


@pytest.mark.parametrize("reason", LeftOutReason)
def test_every_reason_for_leaving_out_has_words(reason: LeftOutReason):
    words = wording.why(Injected(kind=InjectedKind.PASSAGE, rank=1, reason=reason.value))
    assert words == f"{wording.LEFT_OUT[reason].capitalize()}."


@pytest.mark.parametrize("kind", FactKind)
def test_a_fact_of_every_kind_is_explained(kind: FactKind):
    words = wording.why(Injected(kind=InjectedKind.FACT, rank=1, reason=kind.value))
    is_always = "always shown" in words
    assert is_always is (kind.value in ("name", "language", "instruction", "constraint"))
    assert words.endswith(".")


@pytest.mark.parametrize("kind", QuestionKind)
def test_every_kind_of_question_has_words(kind: QuestionKind):
    assert wording.QUESTIONS[kind]


def test_every_signal_has_words():
    told = set(re.findall(r'QuerySignal\(\s*"(\w+)"', getsource(scoring)))
    assert {"side", "order"} <= told
    computed = {"meaning", "words", "around", "episode", "form"}
    assert told | computed | {"question"} == wording.SIGNALS.keys()
    for signal in told | computed:
        words = wording.why(Injected(kind=InjectedKind.PASSAGE, rank=1, reason=signal))
        assert words.startswith("It "), signal


def test_a_generated_session_id_is_shortened_in_a_line():
    assert shorter("01a1f082-5d09-7963-87d3-d3b612334601") == "01a1f082…4601"
    assert shorter("monday") == "monday"
    assert shorter("x" * 41) == "x" * 40 + "…"


def test_signals_become_a_sentence():
    item = Injected(kind=InjectedKind.PASSAGE, rank=1, reason="meaning, words, date")
    assert wording.why(item) == (
        "It is close in meaning, shares words with the message and was said at the time asked "
        "about."
    )
    assert wording.why(Injected(kind=InjectedKind.PASSAGE, rank=1)).startswith("Little")
    recent = Injected(kind=InjectedKind.SUMMARY, rank=1, reason="recent")
    assert wording.why(recent) == "It is one of the last conversations."
