"""Detectors of payment cards, IBANs and US social security numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .folding import Span, lowered

_CARD = re.compile(
    r"(?<!\w)(?<!\w-)(?:"
    r"\d{4}(?P<s>[ .-])\d{4}(?P=s)\d{4}(?P=s)\d{4}(?:(?P=s)\d{3})?|"
    r"\d{4}(?P<t>[ .-])\d{6}(?P=t)\d{4,5}|"
    r"\d{12,19}"
    r")(?!\w)"
)
# Any grouping, if the whole run of digits has a card's length.
_CARD_LOOSE = re.compile(r"(?<!\w)(?<!\d[ .-])\d(?:[ -]?\d){12,18}(?!\w)(?![ -]\d)")
_CARD_CUE = re.compile(
    r"(?:card|visa|credit|debit)[^\w\x1e]{0,3}(?:\w{1,8}[^\w\x1e]{1,3}){0,2}$", re.IGNORECASE
)
_CARD_CUE_REACH = 40
_ISSUERS = re.compile(
    r"4\d{15}(?:\d{3})?|"
    r"(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|"
    r"3[47]\d{13}|"
    r"3(?:0[0-59]|[689]\d)\d{11,16}|"
    r"(?:6011|64[4-9]\d|65\d\d)\d{12,15}|"
    r"35(?:2[89]|[3-8]\d)\d{12,15}|"
    r"62\d{14,17}|"
    r"(?:5018|5019|5020|5038|5893|6304|6759|676[1-3])\d{8,15}"
)
# Old cards have 13 digits. They need a cue, because barcodes with 13 digits are far more common.
_OLD_CARD = re.compile(r"4\d{12}")

_IBAN = re.compile(r"(?<!\w)[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}")
_IBAN_END = re.compile(r"(?<=[A-Za-z0-9])(?![A-Za-z0-9])")

_SSN = re.compile(r"(?<![\w.-])(?!000|666)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?!\w)(?!-\d)")
_SSN_IN_CONTEXT = re.compile(
    r"(?:\bssn\b|\bss#|\bsocial(?:[ ]security)?\b(?![ ](?:media|network|event|club|post))|"
    r"\b(?:tax(?:payer)?[ ]id|itin)\b)"
    r"[^\d\n\x1e]{0,40}(?<!\w)(?P<n>\d{9}|\d{3}[ .-]\d{2}[ .-]\d{4})(?!\w)(?![-.]\d)",
)


def cards(text: str) -> Iterator[Span]:
    """Numbers with an issuer's prefix and length and a valid checksum, grouped or not."""
    for pattern in (_CARD, _CARD_LOOSE):
        for found in pattern.finditer(text):
            if _is_card(found):
                yield found.span()


def _is_card(found: re.Match[str]) -> bool:
    from stdnum import luhn

    digits = re.sub(r"\D", "", found.group())
    known = _ISSUERS.fullmatch(digits) or (_OLD_CARD.fullmatch(digits) and _named_card(found))
    return bool(known) and luhn.is_valid(digits)


def _named_card(found: re.Match[str]) -> bool:
    start = found.start()
    return bool(_CARD_CUE.search(found.string[max(0, start - _CARD_CUE_REACH) : start]))


def ibans(text: str) -> Iterator[Span]:
    """Numbers in a country's format with a valid checksum, without words that follow."""
    for found in _IBAN.finditer(text):
        for end in reversed([at.end() for at in _IBAN_END.finditer(text, *found.span())]):
            if not text[end : end + 1].isalnum() and _is_iban(text[found.start() : end]):
                yield found.start(), end
                break


def _is_iban(shown: str) -> bool:
    number = shown.replace(" ", "").replace("-", "").upper()
    # The cheap check first: a text full of lookalikes would otherwise take minutes.
    if len(number) < 15 or int("".join(str(int(c, 36)) for c in number[4:] + number[:4])) % 97 != 1:
        return False
    from stdnum import iban

    return iban.is_valid(number, check_country=False)


def social_security_numbers(text: str) -> Iterator[Span]:
    """Numbers with dashes; with spaces or without separators only after words that announce one.

    Numbers that are not issued, such as published samples and 9xx, count as well. Impossible ones
    do not: area 000 or 666, group 00, serial 0000.
    """
    yield from (found.span() for found in _SSN.finditer(text))
    yield from (found.span("n") for found in _SSN_IN_CONTEXT.finditer(lowered(text)))
