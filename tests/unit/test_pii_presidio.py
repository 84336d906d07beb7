"""PresidioRedactor, with a fake analyzer, and with the library if it is installed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from octopus_memory.adapters.redactors.presidio import KINDS, PresidioRedactor
from octopus_memory.domain.errors import InvalidSetting, MissingExtra
from octopus_memory.domain.text.pii import PiiKind, redact


@dataclass
class Result:
    entity_type: str
    start: int
    end: int


class StandIn:
    """Fake of Presidio's analyzer: unsorted, overlapping results of the requested entities."""

    def __init__(self, words: dict[str, str]) -> None:
        self.words = words
        self.thresholds: list[float] = []

    def get_supported_entities(self, language: str) -> list[str]:
        if language != "en":
            raise ValueError("No matching recognizers were found to serve the request.")
        return [*self.words.values(), "URL"]

    def analyze(self, text: str, language: str, entities: list[str], **more: Any) -> list[Result]:
        self.thresholds.append(more["score_threshold"])
        return [
            Result(entity, text.index(word), text.index(word) + len(word))
            for word, entity in reversed(self.words.items())
            if entity in entities and word in text
        ]


def redacted(words: dict[str, str], text: str, *names: str) -> str:
    redactor = PresidioRedactor(StandIn(words))  # type: ignore[arg-type]
    return redact(text, redactor.find(text, names=names))


def test_every_kind_has_an_entity():
    assert set(KINDS.values()) == set(PiiKind)


def test_entities_become_kinds_in_order():
    words = {"Tully": "PERSON", "a@b.example": "EMAIL_ADDRESS", "Reno": "LOCATION"}
    assert redacted(words, "Tully: a@b.example, Reno") == "[PERSON_NAME]: [EMAIL], Reno"


def test_overlapping_results_become_one():
    words = {"Tully Quell": "PERSON", "Quell 078-05-1120": "US_SSN"}
    assert redacted(words, "Tully Quell 078-05-1120!") == "[US_SSN]!"


def test_known_names_are_found_beside_the_models():
    assert redacted({"x": "PERSON"}, "tully's", "Tully") == "[PERSON_NAME]'s"


@pytest.mark.parametrize("text", ["[PERSON_NAME]", "[EMAIL_1]", "\x1e"])
def test_placeholders_and_separators_are_cut_out_of_what_the_model_found(text: str):
    whole = f"a {text} b {text}"
    left = redacted({whole: "PERSON"}, f"{whole} c")
    assert left == f"[PERSON_NAME]{text}[PERSON_NAME]{text} c"
    assert redacted({text: "PERSON"}, text) == text


def test_the_threshold_is_handed_on_and_checked():
    analyzer = StandIn({"x": "PERSON"})
    PresidioRedactor(analyzer, threshold=0.7).find("x")  # type: ignore[arg-type]
    assert analyzer.thresholds == [0.7]
    with pytest.raises(InvalidSetting, match="threshold"):
        PresidioRedactor(analyzer, threshold=2)  # type: ignore[arg-type]


def test_a_language_or_an_analyzer_that_is_of_no_use_is_refused():
    with pytest.raises(InvalidSetting, match="language"):
        PresidioRedactor(StandIn({"x": "PERSON"}), language="tlh")  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="analyzer"):
        PresidioRedactor(StandIn({"x": "NRP"}))  # type: ignore[arg-type]


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(MissingExtra, match=r"octopus-memory\[presidio\]"):
        PresidioRedactor()


@pytest.mark.filterwarnings("default")  # what the library and spaCy warn of is not ours to mend
def test_a_model_that_is_not_installed_is_named_and_not_fetched():
    pytest.importorskip("presidio_analyzer", reason="needs the extra presidio")
    with pytest.raises(InvalidSetting, match="spacy download xx_no_such_model"):
        PresidioRedactor(model="xx_no_such_model")


@pytest.mark.filterwarnings("default")  # the same
def test_a_model_in_a_folder_is_loaded(tmp_path: Path):
    pytest.importorskip("presidio_analyzer", reason="needs the extra presidio")
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    redactor = PresidioRedactor(model=str(tmp_path / "blank"))
    text = "mail a@example.com or pay with 4242424242424242"
    assert redact(text, redactor.find(text)) == "mail [EMAIL] or pay with [CREDIT_CARD]"


@pytest.mark.filterwarnings("default")  # the same
def test_the_real_analyzer_with_its_own_patterns_and_no_model():
    presidio = pytest.importorskip("presidio_analyzer", reason="needs the extra presidio")
    import spacy
    from presidio_analyzer.nlp_engine import SpacyNlpEngine

    class Blank(SpacyNlpEngine):
        def __init__(self) -> None:
            super().__init__()
            self.nlp = {"en": spacy.blank("en")}

        def is_loaded(self) -> bool:
            return True

    registry = presidio.RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    registry.add_recognizer(
        presidio.PatternRecognizer(
            supported_entity="DATE_OF_BIRTH",
            patterns=[presidio.Pattern("born", r"(?<=born )\d{4}-\d\d-\d\d", 0.9)],
        )
    )
    engine = presidio.AnalyzerEngine(
        nlp_engine=Blank(), registry=registry, supported_languages=["en"]
    )
    text = (
        "Tully, born 1990-01-02, a@example.com, 4242424242424242, GB82WEST12345698765432, 192.0.2.7"
    )
    redactor = PresidioRedactor(engine)
    left = redact(text, redactor.find(text, names=["Tully"]))
    assert (
        left == "[PERSON_NAME], born [DATE_OF_BIRTH], [EMAIL], [CREDIT_CARD], [IBAN], [IP_ADDRESS]"
    )
    assert redactor.find(left) == []
