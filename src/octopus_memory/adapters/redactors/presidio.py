"""Redactor that finds personal data with Microsoft Presidio and its language model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.errors import InvalidSetting, MissingExtra
from ...domain.text.pii import PLACEHOLDER, PiiKind, PiiSpan, merge_spans
from .folding import MASK
from .names import KnownNames

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine

KINDS = {
    "PERSON": PiiKind.PERSON_NAME,
    "EMAIL_ADDRESS": PiiKind.EMAIL,
    "PHONE_NUMBER": PiiKind.PHONE_NUMBER,
    "US_SSN": PiiKind.US_SSN,
    "US_ITIN": PiiKind.US_SSN,
    "CREDIT_CARD": PiiKind.CREDIT_CARD,
    "DATE_OF_BIRTH": PiiKind.DATE_OF_BIRTH,
    "ADDRESS": PiiKind.ADDRESS,
    "STREET_ADDRESS": PiiKind.ADDRESS,
    "IBAN_CODE": PiiKind.IBAN,
    "IP_ADDRESS": PiiKind.IP_ADDRESS,
}
"""Presidio's entities by Octopus's kinds; its other entities are not used.

Presidio has no recognizer for dates of birth and addresses, because `LOCATION` and `DATE_TIME` are
any place and any time. A custom recognizer with one of these names is used.
"""

_BARRIER = re.compile(f"{PLACEHOLDER.pattern}|{MASK}")


class PresidioRedactor:
    """Runs a Presidio analyzer, and adds the known names.

    Without `analyzer`, it makes one with Presidio's recognizers and the spaCy `model`, an installed
    package or a folder. Nothing is downloaded.

    :raises InvalidSetting: for a threshold that is not between 0 and 1, or an unavailable language
        or model
    :raises MissingExtra: without the extra `presidio`
    """

    def __init__(
        self,
        analyzer: AnalyzerEngine | None = None,
        *,
        language: str = "en",
        model: str = "en_core_web_lg",
        threshold: float = 0.4,
    ) -> None:
        if not 0 <= threshold <= 1:
            raise InvalidSetting("threshold", "must be between 0 and 1")
        self._analyzer = analyzer if analyzer is not None else _with_model(language, model)
        self._language = language
        self._threshold = threshold
        try:
            known = self._analyzer.get_supported_entities(language)
        except ValueError as error:
            raise InvalidSetting("language", f"the analyzer has none for {language!r}") from error
        self._entities = sorted(KINDS.keys() & set(known))
        if not self._entities:
            raise InvalidSetting("analyzer", f"recognizes nothing personal in {language!r}")

    def find(self, text: str, *, names: Sequence[str] = ()) -> list[PiiSpan]:
        results = self._analyzer.analyze(
            text=text,
            language=self._language,
            entities=self._entities,
            score_threshold=self._threshold,
        )
        found = [PiiSpan(each.start, each.end, KINDS[each.entity_type]) for each in results]
        found += [PiiSpan(*span, PiiKind.PERSON_NAME) for span in KnownNames(names).find(text)]
        return list(_outside(text, merge_spans(found)))


def _outside(text: str, spans: Iterable[PiiSpan]) -> Iterator[PiiSpan]:
    """Parts of the sorted spans that are neither placeholders nor separators."""
    barriers = [found.span() for found in _BARRIER.finditer(text)]
    at = 0
    for span in spans:
        start = span.start
        while at < len(barriers) and barriers[at][0] < span.end:
            first, last = barriers[at]
            yield from _filled(text, start, first, span.kind)
            start = max(start, last)
            if last > span.end:
                break
            at += 1
        yield from _filled(text, start, span.end, span.kind)


def _filled(text: str, start: int, end: int, kind: PiiKind) -> Iterator[PiiSpan]:
    if start < end and any(char.isalnum() for char in text[start:end]):
        yield PiiSpan(start, end, kind)


def _with_model(language: str, model: str) -> AnalyzerEngine:
    try:
        import spacy
        from presidio_analyzer import AnalyzerEngine
        from presidio_analyzer.nlp_engine import NlpEngineProvider
    except ImportError as error:
        raise MissingExtra("presidio", "the Presidio redactor") from error
    # Presidio would install a missing model on its own.
    if not (spacy.util.is_package(model) or Path(model).is_dir()):
        raise InvalidSetting(
            "model",
            f"{model!r} is not installed: run python -m spacy download {model}, "
            "give a folder that holds one, or an analyzer",
        )
    setup = {
        "nlp_engine_name": "spacy",
        "models": [{"lang_code": language, "model_name": model}],
    }
    engine = NlpEngineProvider(nlp_configuration=setup).create_engine()
    return AnalyzerEngine(nlp_engine=engine, supported_languages=[language])
