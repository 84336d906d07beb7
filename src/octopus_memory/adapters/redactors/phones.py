"""Detector of phone numbers, checked against the numbering plans of `phonenumbers`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .folding import Span, lowered

_INTERNATIONAL = re.compile(
    r"(?<![\w+])(?:\+|00(?=[1-9]))[ ]?\(?\d{1,3}\)?(?:[ .()/-]{0,3}\d){5,14}(?!\w)"
)
_NORTH_AMERICAN = re.compile(
    r"(?<![\w.,:/+-])(?<!\d[ ])(?:1[ .-]{0,2})?"
    r"(?:\([2-9]\d\d\)[ ]{0,2}|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}(?!\w)(?![-.]\d)"
)
_NATIONAL = re.compile(r"(?<![\w.,:/+-])(?<!\d[ ])\(?\d(?:[ .()/-]{0,2}\d){6,13}(?!\w)(?![-.]\d)")

_CUES = (
    r"phone|telephone|téléphone|telefono|teléfono|telefon|telefone|tel|ph|mobile|móvil|cell|"
    r"cellphone|cellular|handy|portable|fax|whatsapp|sms|call|dial|ring|text|reach|hotline|"
    r"landline|(?:my|his|her|their|our|your|work|home|new|old|office|contact)[ ]number|"
    r"(?:work|home|office)(?=:)|numéro|nummer|número"
)
_FILLERS = (
    r"me|us|him|her|them|it|at|on|is|was|to|the|my|her|his|number|no|nr|num|under|mobile|cell|phone|"
    r"back|now|please|or|us|it's|le|mon|ma|est|es|ist|al|el|unter|der|die|meine|mi|via|by|are|also|"
    r"work|home|office|directly"
)
_IN_CONTEXT = re.compile(
    rf"(?<!\w)(?:{_CUES})\b(?:[ \t:#=.,]{{1,3}}(?:{_FILLERS})\b){{0,5}}[ \t:#=.,-]{{0,4}}"
    r"(?<!\w)(?P<n>[+(]{0,2}\d(?:[ .()-]{0,2}\d){6,14})(?!\w)(?![-.,:/]\d)",
)
_DATE = re.compile(r"\d{1,2}([ .-])\d{1,2}\1(?:19|20)\d\d|(?:19|20)\d\d([ .-])\d{1,2}\2\d{1,2}")
_GROUP_END = re.compile(r"(?<=\d)[ ]")
_NORTH_AMERICA = 1
_MAX_CUTS = 4


def phone_numbers(text: str, region: str) -> Iterator[Span]:
    """Numbers with a country code, numbers of `region` as written there, and others after a cue."""
    for found in _INTERNATIONAL.finditer(text):
        end = _international_end(found.group())
        if end:
            yield found.start(), found.start() + end
    if _calling_code(region) == _NORTH_AMERICA:
        for found in _NORTH_AMERICAN.finditer(text):
            if _is_valid(found.group(), region):
                yield found.span()
    else:
        for found in _NATIONAL.finditer(text):
            if _is_written_so(found.group(), region):
                yield found.span()
    for found in _IN_CONTEXT.finditer(lowered(text)):
        if not _DATE.fullmatch(found["n"]):
            yield found.span("n")


def _international_end(shown: str) -> int:
    """End of the phone number, because the digits that follow may belong to something else."""
    ends = [len(shown), *(cut.start() for cut in reversed(list(_GROUP_END.finditer(shown))))]
    return next((end for end in ends[:_MAX_CUTS] if _is_possible(shown[:end])), 0)


@lru_cache(maxsize=8)
def _calling_code(region: str) -> int:
    import phonenumbers

    return phonenumbers.country_code_for_region(region)


def _is_possible(shown: str) -> bool:
    import phonenumbers

    # Most countries dial 00 for "+".
    dialled = shown if shown.startswith("+") else "+" + shown[2:]
    try:
        return phonenumbers.is_possible_number(phonenumbers.parse(dialled))
    except phonenumbers.NumberParseException:
        return False


def _is_valid(shown: str, region: str) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(shown, region))
    except phonenumbers.NumberParseException:
        return False


def _is_written_so(shown: str, region: str) -> bool:
    from phonenumbers import Leniency, PhoneNumberMatcher

    if shown.isdigit() or _DATE.fullmatch(shown):
        return False
    found = PhoneNumberMatcher(shown, region, leniency=Leniency.STRICT_GROUPING)
    return any(match.start == 0 and match.end == len(shown) for match in found)


def is_region(region: str) -> bool:
    return _calling_code(region) > 0
