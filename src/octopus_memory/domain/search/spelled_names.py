"""Names that a question spells otherwise than the conversation: "Mohammed" for "Muhamad".

Two names are taken for one if they have the same consonants in the same order, because people who
hear a name mostly guess its vowels and doubled letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .temporal import MONTHS, WEEKDAYS
from .terms import fold

_NAME = re.compile(r"[^\W\d_]{4,}")
_SAME_SOUND = str.maketrans({"c": "k", "q": "k", "z": "s", "y": "", "w": "", "h": ""})
_VOWELS = re.compile(r"[aeiou]")
_REPEATED = re.compile(r"(.)\1+")
_LEAST_CONSONANTS = 2
_NO_NAMES = frozenset((*MONTHS, *WEEKDAYS))


def respell(text: str, names: Iterable[str]) -> str:
    """The text with misspelt names of these people as they are spelled in the conversation.

    Only capitalized words are taken for names.
    """
    words = {word for name in names for word in _NAME.findall(name)}
    known = {word.casefold() for word in words}
    by_sound: dict[str, set[str]] = {}
    for word in words:
        by_sound.setdefault(_sound(word), set()).add(word)

    def spelled(found: re.Match[str]) -> str:
        said = found[0]
        if not said[0].isupper() or said.casefold() in known | _NO_NAMES:
            return said
        alike = by_sound.get(_sound(said), set())
        return next(iter(alike)) if len(alike) == 1 else said

    return _NAME.sub(spelled, text)


def _sound(name: str) -> str:
    """The first letter and the consonants; unique to the name if these are too few."""
    folded = fold(name.casefold()).replace("ph", "f")
    consonants = _REPEATED.sub(r"\1", _VOWELS.sub("", folded.translate(_SAME_SOUND)))
    return consonants if len(consonants) >= _LEAST_CONSONANTS else f"={folded}"
