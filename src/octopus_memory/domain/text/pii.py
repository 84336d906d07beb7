"""Personal data in text: spans, and the placeholders that replace them."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class PiiKind(StrEnum):
    """Kind of personal data; the value is the word in the placeholder."""

    PERSON_NAME = "PERSON_NAME"
    EMAIL = "EMAIL"
    PHONE_NUMBER = "PHONE_NUMBER"
    US_SSN = "US_SSN"
    CREDIT_CARD = "CREDIT_CARD"
    DATE_OF_BIRTH = "DATE_OF_BIRTH"
    ADDRESS = "ADDRESS"
    IBAN = "IBAN"
    IP_ADDRESS = "IP_ADDRESS"


@dataclass(frozen=True, slots=True)
class PiiSpan:
    """A span of personal data: `text[start:end]`."""

    start: int
    end: int
    kind: PiiKind


NumberOf: TypeAlias = Callable[[PiiKind, str], int | None]
"""Maps a kind and a normalized value to the placeholder's number; None for no number."""

PLACEHOLDER = re.compile(rf"\[(?:{'|'.join(PiiKind)})(?:_[1-9][0-9]{{0,8}})?\]")

# For overlapping spans: a checksum or a fixed format wins over a guess.
_CERTAINTY = {
    kind: rank
    for rank, kind in enumerate(
        (
            PiiKind.PERSON_NAME,
            PiiKind.ADDRESS,
            PiiKind.DATE_OF_BIRTH,
            PiiKind.PHONE_NUMBER,
            PiiKind.IP_ADDRESS,
            PiiKind.US_SSN,
            PiiKind.CREDIT_CARD,
            PiiKind.IBAN,
            PiiKind.EMAIL,
        )
    )
}

# Phone numbers are compared by their last digits, because the prefix depends on the caller.
_PHONE_TAIL = 9
_EXTENSION = re.compile(r"[ ,;]*(?:extension|ext|x)\b.*", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"^(?:(?:mrs?|ms|miss|mx|dr|prof|professor|sir|herr|frau)\b\.?[ ]*)+")
_POSSESSIVE = re.compile(r"['’]s?$")


def placeholder(kind: PiiKind, number: int | None = None) -> str:
    """`[EMAIL]`, or `[EMAIL_1]` with a number."""
    return f"[{kind}]" if number is None else f"[{kind}_{number}]"


def is_placeholder(text: str) -> bool:
    return PLACEHOLDER.fullmatch(text) is not None


def merge_spans(spans: Iterable[PiiSpan]) -> list[PiiSpan]:
    """Sort spans and merge those that overlap.

    A merged span has the kind of the longest, or of the most certain among equally long ones.
    """
    settled: list[PiiSpan] = []
    best: list[PiiSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if settled and span.start < settled[-1].end:
            best[-1] = max(best[-1], span, key=_strength)
            end = max(settled[-1].end, span.end)
            settled[-1] = PiiSpan(settled[-1].start, end, best[-1].kind)
        else:
            settled.append(span)
            best.append(span)
    return settled


def _strength(span: PiiSpan) -> tuple[int, int]:
    return span.end - span.start, _CERTAINTY[span.kind]


def redact(text: str, spans: Sequence[PiiSpan], number_of: NumberOf | None = None) -> str:
    """Replace each span by a placeholder; `spans` must be sorted and must not overlap."""
    parts: list[str] = []
    done = 0
    for span in spans:
        value = normalized(span.kind, text[span.start : span.end])
        number = number_of(span.kind, value) if number_of else None
        parts += (text[done : span.start], placeholder(span.kind, number))
        done = span.end
    parts.append(text[done:])
    return "".join(parts)


def normalized(kind: PiiKind, value: str) -> str:
    """The value in a canonical form: equal for `ANA@x.com` and `ana@X.com`."""
    shown = "".join(
        c for c in unicodedata.normalize("NFKC", value) if unicodedata.category(c) != "Cf"
    )
    plain = " ".join(shown.casefold().split())
    match kind:
        case PiiKind.PHONE_NUMBER:
            digits = _kept(_EXTENSION.sub("", plain), str.isdigit)
            return digits[-_PHONE_TAIL:]
        case PiiKind.US_SSN | PiiKind.CREDIT_CARD:
            return _kept(plain, str.isdigit)
        case PiiKind.IBAN | PiiKind.ADDRESS:
            return _kept(plain, str.isalnum)
        case PiiKind.IP_ADDRESS:
            return _same_address(plain)
        case PiiKind.PERSON_NAME:
            return _TITLE.sub("", _POSSESSIVE.sub("", _without_marks(plain)))
        case _:
            return plain


def _kept(text: str, test: Callable[[str], bool]) -> str:
    return "".join(char for char in text if test(char))


def _without_marks(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text)
    return "".join(char for char in parts if not unicodedata.combining(char))


def _same_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text
