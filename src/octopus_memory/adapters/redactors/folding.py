"""Normalized text for the patterns: plain digits and signs, no hidden characters, masked spans."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

from ...domain.text.pii import PLACEHOLDER

Span = tuple[int, int]
"""Start and end of a match."""

MASK = "\x1e"
"""Replaces each character of a placeholder or of a span already found; no pattern matches it."""

_MARKS = {
    "\u2019": "'",
    "\u02bc": "'",
    "\u2032": "'",
    "\u2212": "-",
    "\u2028": "\n",
    "\u2029": "\n",
}


class Folded:
    """The normalized text, and a map of its positions to the original.

    Full-width and other scripts' digits become ASCII, every dash "-" and every space " ".
    Zero-width characters and combining marks are removed.
    """

    def __init__(self, text: str) -> None:
        self.text, self._starts, self._shifts = _fold(text)
        self._size = len(text)
        self.text = masked(self.text, (found.span() for found in PLACEHOLDER.finditer(self.text)))

    def original(self, start: int, end: int) -> Span:
        """The original span of a folded one, with hidden characters inside and after it."""
        if end >= len(self.text):
            return self._original(start), self._size
        return self._original(start), self._original(end)

    def _original(self, at: int) -> int:
        return at + self._shifts[bisect_right(self._starts, at) - 1]


def masked(text: str, spans: Iterable[Span]) -> str:
    """`text` with `MASK` for each character of the spans, which must be sorted."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], MASK * (end - start))
        done = end
    return "".join((*parts, text[done:])) if parts else text


def lowered(text: str) -> str:
    """Lower-case text of the same length, because case-insensitive patterns are far slower."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(char if len(char.lower()) > 1 else char.lower() for char in text)


def _fold(text: str) -> tuple[str, list[int], list[int]]:
    """Folded text, and the start and the shift of each stretch that moved."""
    if text.isascii():
        return text, [0], [0]
    table = {ord(char): _plain(char) for char in set(text) if not char.isascii()}
    hidden = "".join(chr(code) for code, plain in table.items() if not plain)
    if not hidden:
        return text.translate(table), [0], [0]
    starts, shifts, removed = [0], [0], 0
    for found in re.finditer(f"[{re.escape(hidden)}]+", text):
        start = found.start() - removed
        removed += found.end() - found.start()
        if starts[-1] == start:
            shifts[-1] = removed
        else:
            starts.append(start)
            shifts.append(removed)
    return text.translate(table), starts, shifts


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    """The plain character for `char`, or nothing if it is invisible."""
    kind = unicodedata.category(char)
    if kind == "Cf" or unicodedata.combining(char) or "\ufe00" <= char <= "\ufe0f":
        return ""
    if kind == "Nd":
        return str(unicodedata.decimal(char))
    if kind in ("Zs", "Pd"):
        return " " if kind == "Zs" else "-"
    if char in _MARKS:
        return _MARKS[char]
    plain = unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 else char
