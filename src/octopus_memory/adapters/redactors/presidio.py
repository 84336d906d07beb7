"""Personal data found by Microsoft Presidio, with whatever language model it is set up with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.errors import InvalidSetting, MissingExtra
from ...domain.text.pii import PLACEHOLDER, PiiKind, PiiSpan, merge_spans
from .folding import MASK
from .known import KnownNames

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine, RecognizerResult

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
"""Presidio's names for what Octopus has placeholders for; its other entities are not asked for.

It has no recogniser of its own for dates of birth and addresses: `LOCATION` and `DATE_TIME` are any
place and any time. A recogniser that you add under one of these names is used.
"""

_BARRIER = re.compile(f"{PLACEHOLDER.pattern}|{MASK}")


class PresidioRedactor:
    """Asks an analyzer of Presidio's, and adds the names that are known.

    Without `analyzer` it makes one with Presidio's recognisers and the spaCy `model`, a package or
    a folder, which must be there: nothing is fetched.

    :raises InvalidSetting: for a threshold that is not between 0 and 1, or a language or model that
        is not there
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
            raise InvalidSetting("analyzer", f"recognises nothing personal in {language!r}")

    def find(self, text: str, *, names: Sequence[str] = ()) -> list[PiiSpan]:
        results = self._analyzer.analyze(
            text=text,
            language=self._language,
            entities=self._entities,
            score_threshold=self._threshold,
        )
        return list(_outside(text, merge_spans([*_spans(results), *_known(text, names)])))


def _spans(results: Iterable[RecognizerResult]) -> Iterable[PiiSpan]:
    return (PiiSpan(found.start, found.end, KINDS[found.entity_type]) for found in results)


def _known(text: str, names: Sequence[str]) -> Iterable[PiiSpan]:
    return (PiiSpan(*place, PiiKind.PERSON_NAME) for place in KnownNames(names).find(text))


def _outside(text: str, spans: Iterable[PiiSpan]) -> Iterator[PiiSpan]:
    """What of each span is no placeholder and no separator; the spans are in order."""
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
    # Presidio would install a missing model by itself.
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
