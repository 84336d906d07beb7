"""Personal data in a text: where it is, and the placeholder that takes its place."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class PiiKind(StrEnum):
    """What a piece of personal data is; the value is the placeholder's word."""

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
    """`text[start:end]` is personal data of that kind."""

    start: int
    end: int
    kind: PiiKind


NumberOf: TypeAlias = Callable[[PiiKind, str], int | None]
"""A kind and a normalised value to the number its placeholder bears; None for no number."""

PLACEHOLDER = re.compile(rf"\[(?:{'|'.join(PiiKind)})(?:_[1-9][0-9]{{0,8}})?\]")

# Where two kinds claim the same characters: a checksum or a fixed form before a guess.
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

# A phone number is told by its last digits: those before depend on where one calls from.
_PHONE_TAIL = 9
_EXTENSION = re.compile(r"[ ,;]*(?:extension|ext|x)\b.*", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"^(?:(?:mrs?|ms|miss|mx|dr|prof|professor|sir|herr|frau)\b\.?[ ]*)+")
_POSSESSIVE = re.compile(r"['’]s?$")


def placeholder(kind: PiiKind, number: int | None = None) -> str:
    """`[EMAIL]`, or `[EMAIL_1]` with a number."""
    return f"[{kind}]" if number is None else f"[{kind}_{number}]"


def is_placeholder(text: str) -> bool:
    return PLACEHOLDER.fullmatch(text) is not None


def settle(spans: Iterable[PiiSpan]) -> list[PiiSpan]:
    """In order and without overlap; nothing that any of them covers is uncovered.

    Spans that overlap become one. It is of the longest's kind; among equals, the most certain's.
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
    """`text` with a placeholder for each span; `spans` are in order and do not overlap."""
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
    """The same for every way to write one value: `ANA@x.com` and `ana@X.com`, for example."""
    shown = "".join(c for c in unicodedata.normalize("NFKC", value) if not _hidden(c))
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


def _hidden(char: str) -> bool:
    return unicodedata.category(char) == "Cf"


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
