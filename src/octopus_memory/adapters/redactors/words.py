"""The words that names are told from, and the given names that are told without help."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

PARTICLES = frozenset(
    {"de", "del", "della", "da", "das", "do", "dos", "di", "du", "la", "le", "van", "von", "der"}
    | {"den", "zu", "bin", "ibn", "al", "el", "ter", "af", "av"}
)
_RARE = "?"
TITLES = frozenset(
    {"mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "doctor", "sir", "madam", "jr"}
    | {"herr", "frau", "señor", "señora", "sr", "sra", "mme", "monsieur", "madame"}
)


@cache
def given_names() -> frozenset[str]:
    """Given names of many countries, but few that are a word, a place or a brand as often."""
    return frozenset(name for name in _words("given_names") if not name.endswith(_RARE))


@cache
def rare_names() -> frozenset[str]:
    """Given names of one country or language, which may be a word in another."""
    names = _words("given_names")
    return frozenset(name.removesuffix(_RARE) for name in names if name.endswith(_RARE))


def never_names() -> frozenset[str]:
    """Words that follow "I'm", "Hi" or "my friend" with a capital and are no one's name."""
    return _words("never_names")


def also_words() -> frozenset[str]:
    """Names that are words as well: they need more than a capital to be taken for a name."""
    return _words("also_words")


@cache
def _words(name: str) -> frozenset[str]:
    """All in small letters, without accents."""
    text = files(__package__).joinpath("data", f"{name}.txt").read_text(encoding="utf-8")
    return frozenset(text.split())
