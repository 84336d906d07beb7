"""Redactor that finds personal data by format, checksum and context, without a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ...domain.errors import InvalidSetting
from ...domain.text.pii import PiiKind, PiiSpan, merge_spans
from . import addresses, contact, dates, names, numbers, phones
from .folding import Folded, Span, masked
from .known import KnownNames

Detector = Callable[[str], Iterable[Span]]

# Repeat the search, because masking a span can expose another next to it.
_ROUNDS = 8
_DIGIT = re.compile(r"\d")


class PatternRedactor:
    """Finds personal data in milliseconds, in time linear in the text's length.

    Phone numbers without a country code are read as those of `region` ("US", "GB", "DE"…).
    In a text with all spans replaced by placeholders, nothing more is found.

    :raises InvalidSetting: for a region without a numbering plan
    """

    def __init__(self, region: str = "US") -> None:
        if not phones.is_region(region):
            raise InvalidSetting("region", f"{region!r} is unknown: give two letters, such as 'GB'")
        self._region = region

    def find(self, text: str, *, names: Sequence[str] = ()) -> list[PiiSpan]:
        folded = Folded(text)
        rest, known = folded.text, KnownNames(names)
        found: list[PiiSpan] = []
        for _ in range(_ROUNDS):
            new, rest = self._round(rest, known)
            if not new:
                break
            found += new
        return merge_spans(PiiSpan(*folded.original(s.start, s.end), s.kind) for s in found)

    def _round(self, text: str, known: KnownNames) -> tuple[list[PiiSpan], str]:
        """Run each detector on the text that the ones before it have masked."""
        found: list[PiiSpan] = []
        for kind, detect in self._detectors(text):
            new = merge_spans(PiiSpan(*span, kind) for span in detect(text))
            text = masked(text, ((span.start, span.end) for span in new))
            found += new
        for detect in (names.announced_names, names.common_names, known.find):
            new = merge_spans(PiiSpan(*span, PiiKind.PERSON_NAME) for span in detect(text))
            for span in new:
                known.learn(text[span.start : span.end])
            text = masked(text, ((span.start, span.end) for span in new))
            found += new
        return found, text

    def _detectors(self, text: str) -> Iterator[tuple[PiiKind, Detector]]:
        yield PiiKind.EMAIL, contact.emails
        if not _DIGIT.search(text):
            return
        yield PiiKind.IBAN, numbers.ibans
        yield PiiKind.CREDIT_CARD, numbers.cards
        yield PiiKind.IP_ADDRESS, contact.ip_addresses
        yield PiiKind.US_SSN, numbers.social_security_numbers
        yield PiiKind.DATE_OF_BIRTH, dates.birth_dates
        yield PiiKind.PHONE_NUMBER, lambda rest: phones.phone_numbers(rest, self._region)
        yield PiiKind.ADDRESS, addresses.addresses
