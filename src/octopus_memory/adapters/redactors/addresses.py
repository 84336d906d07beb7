"""Detector of postal addresses of North America, the British Isles and western Europe."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .folding import Span, lowered

_WORD = r"[^\W\d_a-z][\w'.-]{0,24}"
_TYPES = (
    r"(?:Street|Avenue|Road|Boulevard|Lane|Drive|Court|Span|Square|Terrace|Way|Parkway|Highway|"
    r"Circle|Crescent|Close|Grove|Gardens|Row|Mews|Trail|Loop|Alley|Quay|Walk|Wharf|Plaza|Path|Rise|"
    r"(?:St|Ave|Rd|Blvd|Ln|Dr|Ct|Pl|Sq|Ter|Terr|Pkwy|Hwy|Cir|Cres|Gdns)\b\.?)(?!\w)"
)
_CITY = rf"{_WORD}(?:[ ]{_WORD}){{0,2}}"
_POSTCODE = r"[A-Z]{1,2}\d[A-Z\d]?[ ]?\d[A-Z]{2}\b"
_STATE = r"[A-Z]{2}\b(?:[ ]\d{5}(?:-\d{4})?(?!\w))?"
_CANADIAN = r"(?:[A-Z]{2}[ ])?[A-Z]\d[A-Z][ ]?\d[A-Z]\d\b"
_SEP = r"(?:,[ ]?\n?|[ ]?\n|[ ])"
_UNIT = (
    rf"{_SEP}(?:(?:Apt|Apartment|Suite|Ste|Unit|Flat|Floor|Fl|Room|Rm)\b\.?[ ]?#?|#)[ ]?\w{{1,5}}\b"
)
# A city must be followed by its state or code, or end the sentence.
_TAIL = (
    rf"(?:{_UNIT})?(?:,?(?:{_SEP}{_CITY})?,?{_SEP}(?:{_POSTCODE}|{_CANADIAN}|{_STATE}|\d{{5}}\b)|"
    rf"(?:,[ ]?\n?|[ ]?\n){_CITY}(?=[.,;!?)\n]|$))?"
)
_UNIT_FIRST = r"(?:(?:Flat|Apt|Apartment|Unit|Suite)[ ]\w{1,4},[ ])?"
_HOUSE = r"(?<![\w.,$€£#/:-])\d{1,5}(?:[A-Za-z]|[-/]\d{1,4}[A-Za-z]?)?,?[ ]"
_STREET = re.compile(
    rf"{_UNIT_FIRST}{_HOUSE}(?:[NSEW]\.?[ ]|[NS][EW][ ]|(?:North|South|East|West)[ ])?"
    rf"(?:(?:{_WORD}|\d{{1,3}}(?:st|nd|rd|th))[ ]){{1,4}}?{_TYPES}"
    rf"(?:[ ](?:[NSEW]|[NS][EW])\b)?{_TAIL}"
)
_BOX = re.compile(rf"\b[Pp]\.?[ ]?[Oo]\.?[ ][Bb]ox[ ]#?\d{{1,6}}\b{_TAIL}")

_CUE = (
    r"(?:live[sd]?[ ](?:at|in|on)|living[ ]at|reside[sd]?[ ]at|stay(?:ing)?[ ]at|address(?:[ ]is)?|"
    r"moved[ ]to|deliver(?:ed)?(?:[ ]it)?[ ]to|ship(?:ped)?(?:[ ]it)?[ ]to|send(?:[ ]it)?[ ]to|"
    r"mail(?:[ ]it)?[ ]to|located[ ]at)"
)
_LOWER_TYPES = (
    r"(?:street|avenue|road|boulevard|lane|drive|court|place|square|terrace|way|parkway|crescent|"
    r"close|st|ave|rd|blvd|ln|dr|ct)\b\.?"
)
_SAID = re.compile(
    rf"(?<!\w){_CUE}[ \t:=-]{{1,3}}(?P<a>\d{{1,5}}[a-z]?[ ]"
    rf"(?:[\w'.-]{{1,24}}[ ]){{1,4}}?{_LOWER_TYPES}"
    rf"(?:,?[ ](?:apt|apartment|suite|unit|flat|#)\.?[ ]?\w{{1,5}}\b)?"
    rf"(?:,[ ]?[\w' .-]{{2,40}}?[ ,]{{1,2}}"
    r"(?:[a-z]{2}[ ]\d{5}|\d{5}|[a-z]{1,2}\d\w?[ ]?\d[a-z]{2})\b)?)",
)

_LOCAL_CODE = (
    rf"(?:,?{_SEP}(?:[A-Z]{{1,2}}-)?\d{{4,5}}(?:[ ][A-Z]{{2}}\b)?[ ]{_CITY}|"
    rf",[ ]{_CITY}(?=[.,;!?)\n]|$))"
)
_GERMANIC = re.compile(
    rf"(?<!\w)(?:(?:{_WORD}[ ]){{0,2}}(?:{_WORD}(?:straße|strasse|str\.|weg|allee|gasse|straat|"
    rf"laan|gracht|plein|vägen|gatan)|(?:Straße|Strasse|Str\.|Weg|Allee|Platz|Gasse))[ ]\d{{1,4}}"
    rf"(?:[ ]?[a-z]\b)?(?!\w)(?:{_LOCAL_CODE})?|"
    rf"{_WORD}(?:platz|ring|damm|ufer|hof|berg|kade)[ ]\d{{1,4}}[a-z]?,?{_SEP}\d{{4,5}}[ ]{_CITY})"
)
_OF = r"(?:(?:de[ ]la|de[ ]l'|de[ ]los|de[ ]las|del|della|dei|delle|du|des|de|da|do|dos|d'|l')[ ]?)"
_FRENCH = re.compile(
    r"(?<![\w.,-])\d{1,4}(?:[ ]?(?:bis|ter|[A-Z]))?,?[ ]"
    r"(?:[Rr]ue|[Aa]venue|[Aa]v\.|[Bb]oulevard|[Bb]d|[Pp]lace|[Cc]hemin|[Aa]llée|[Ii]mpasse|[Qq]uai|"
    rf"[Rr]oute|[Cc]ours|[Ss]quare)[ ]{_OF}?{_WORD}(?:[ ]{_OF}?{_WORD}){{0,3}}(?:{_LOCAL_CODE})?"
)
_SOUTHERN = re.compile(
    r"(?<!\w)(?:Calle|C/|Avenida|Avda\.?|Av\.|Paseo|Plaza|Carrer|Via|Viale|Piazza|Corso|Rua|"
    rf"Travessa|Largo|Praça)[ ]?(?:[ ]?{_OF}?{_WORD}){{1,4}}?,?[ ](?:n[º°.][ ]?)?\d{{1,4}}"
    rf"(?:[ ]?[A-Za-z]\b)?(?!\w)(?:{_LOCAL_CODE})?"
)
_PATTERNS = (_STREET, _BOX, _GERMANIC, _FRENCH, _SOUTHERN)


def addresses(text: str) -> Iterator[Span]:
    """Spans of a house number with a street, and the unit, city and code that follow."""
    for pattern in _PATTERNS:
        yield from (found.span() for found in pattern.finditer(text))
    yield from (found.span("a") for found in _SAID.finditer(lowered(text)))
