"""Word lists for detecting names."""

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
    """Given names of many countries, without most that are also common words, places or brands."""
    return frozenset(name for name in _words("given_names") if not name.endswith(_RARE))


@cache
def rare_names() -> frozenset[str]:
    """Given names of one country or language, which may be words in another."""
    names = _words("given_names")
    return frozenset(name.removesuffix(_RARE) for name in names if name.endswith(_RARE))


def never_names() -> frozenset[str]:
    """Words that may follow "I'm", "Hi" or "my friend" capitalized without being names."""
    return _words("never_names")


def also_words() -> frozenset[str]:
    """Names that are also words: a capital alone does not make them names."""
    return _words("also_words")


@cache
def _words(name: str) -> frozenset[str]:
    """Words of a file in lower case, without accents."""
    text = files(__package__).joinpath("data", f"{name}.txt").read_text(encoding="utf-8")
    return frozenset(text.split())
