"""Detector of dates of birth. A date counts only if words around it say that it is one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .folding import Span, lowered

_MONTHS = (
    r"(?:jan(?:uary|uar|vier|eiro)?|ene(?:ro)?|gennaio|feb(?:ruary|ruar|rero|braio)?|fév(?:rier)?|"
    r"fevereiro|mar(?:ch|s|zo|ço)?|märz|apr(?:il|ile)?|avril|abr(?:il)?|ma[iy]|mayo|maggio|maio|"
    r"june?|juni|juin|junio|giugno|junho|july?|juli|juillet|julio|luglio|julho|aug(?:ust)?|août|"
    r"agosto|ago|sep(?:t|tember|tembre|tiembre)?|settembre|setembro|o[ck]t(?:ober|obre|ubre)?|"
    r"ottobre|outubro|nov(?:ember|embre|iembre|embro)?|de[cz](?:ember|embre|embro)?|déc(?:embre)?|"
    r"dic(?:iembre|embre)?)\b\.?"
)
_YEAR = r"(?:18|19|20)\d\d"
_DAY = r"[0-3]?\d(?:st|nd|rd|th|er|º|\.)?"
_DATE = (
    rf"(?:{_YEAR}[-/.][01]?\d[-/.][0-3]?\d|"
    rf"[0-3]?\d[-/.][0-3]?\d[-/.](?:{_YEAR}|\d\d)|"
    rf"[0-3]?\d[ ][0-3]?\d[ ]{_YEAR}|"
    rf"{_DAY}[ -]?(?:of[ ]|de[ ])?{_MONTHS},?(?:[ -](?:de[ ]|of[ ])?{_YEAR}|[ ]'\d\d)?|"
    rf"{_MONTHS}[ ]{_DAY}(?:,?[ ]{_YEAR})?|"
    r"(?:19|20)\d{2}[01]\d[0-3]\d)"
)
_CUES = (
    r"born|d\.?o\.?b\.?|date[ ]of[ ]birth|birth[ -]?date|birth[ -]?day|b-day|bday|geboren|geb\.|"
    r"geburtsdatum|geburtstag|fecha[ ]de[ ]nacimiento|nacid[oa]|nací|cumpleaños|née?|"
    r"date[ ]de[ ]naissance|nat[oa]|data[ ]di[ ]nascita|nascid[oa]|data[ ]de[ ]nascimento"
)
_FILLERS = r"is|was|on|the|am|el|le|il|em|on[ ]file|as|ist|es|est|it's|that's"
_PLACE = r"in[ ][^\W\d_][\w'-]{1,20}(?:[ ][^\W\d_][\w'-]{1,20})?"
_BIRTH = re.compile(
    rf"(?<!\w)(?:{_CUES})(?!\w)(?:'s)?(?:[ \t:,(-]{{1,3}}(?:{_FILLERS}|{_PLACE})(?!\w)){{0,3}}"
    rf"[ \t:=,(-]{{0,4}}(?<![\w.])(?P<date>{_DATE})(?!\w)(?![-/.]\d)",
)


def birth_dates(text: str) -> Iterator[Span]:
    return (found.span("date") for found in _BIRTH.finditer(lowered(text)))
