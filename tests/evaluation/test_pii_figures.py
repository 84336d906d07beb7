"""The figures that the guide publishes are those that the benchmark prints."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from octopus_memory.adapters.redactors.patterns import PatternRedactor
from octopus_memory.domain.text.pii import PiiKind, PiiSpan
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pii_bench", ROOT / "benchmarks" / "pii.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_guides_table_is_what_the_test_half_gives(bench: ModuleType):
    page = (ROOT / "docs" / "howto" / "personal-data.md").read_text(encoding="utf-8")
    lines = "\n".join(bench.table(PatternRedactor(), bench.read("test"))).splitlines()
    assert [line for line in lines if line not in page.splitlines()] == []


def test_the_halves_have_nothing_in_common(bench: ModuleType):
    dev, test = ({sentence.text for sentence in bench.read(half)} for half in ("dev", "test"))
    assert dev.isdisjoint(test)


def test_marks_become_spans(bench: ModuleType):
    sentence = bench.parse("call ⟦PHONE_NUMBER:415-555-0134⟧ now", "written")
    assert sentence.text == "call 415-555-0134 now"
    assert sentence.spans == (PiiSpan(5, 17, PiiKind.PHONE_NUMBER),)


def test_missed_wrong_and_half_right_are_counted(bench: ModuleType):
    sentence = bench.parse("⟦PERSON_NAME:Ana López⟧ and ⟦PERSON_NAME:Bo⟧", "written")
    found = [PiiSpan(0, 3, PiiKind.PERSON_NAME), PiiSpan(10, 13, PiiKind.PERSON_NAME)]
    exact = bench.count(sentence, found, bench.exact)[PiiKind.PERSON_NAME]
    assert (exact.precision, exact.recall) == (0.0, 0.0)
    overlap = bench.count(sentence, found, bench.overlaps)[PiiKind.PERSON_NAME]
    assert (overlap.precision, overlap.recall, overlap.f1) == (0.5, 0.5, 0.5)
