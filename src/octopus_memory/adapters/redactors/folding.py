"""A text as the patterns read it: plain digits and signs, nothing hidden, what is done masked."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

from ...domain.text.pii import PLACEHOLDER

MASK = "\x1e"
"""Stands for each character of a placeholder or of a span already found; no pattern takes it."""

_MARKS = {
    "\u2019": "'",
    "\u02bc": "'",
    "\u2032": "'",
    "\u2212": "-",
    "\u2028": "\n",
    "\u2029": "\n",
}


class Folded:
    """The folded text, and the way back to places in the original.

    Full-width and other scripts' digits become ASCII, every dash "-" and every space " ".
    Zero-width characters and combining marks are left out.
    """

    def __init__(self, text: str) -> None:
        self.text, self._starts, self._shifts = _fold(text)
        self._size = len(text)
        self.text = masked(self.text, (found.span() for found in PLACEHOLDER.finditer(self.text)))

    def original(self, start: int, end: int) -> tuple[int, int]:
        """A span of the folded text in the original, with what is hidden inside and after it."""
        if end >= len(self.text):
            return self._place(start), self._size
        return self._place(start), self._place(end)

    def _place(self, at: int) -> int:
        return at + self._shifts[bisect_right(self._starts, at) - 1]


def masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """`text`, as long as before, with `MASK` in place of each span; they are in order."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], MASK * (end - start))
        done = end
    return "".join((*parts, text[done:])) if parts else text


def lowered(text: str) -> str:
    """In small letters, as long as before: patterns that mind no case are far faster on it."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(char if len(char.lower()) > 1 else char.lower() for char in text)


def _fold(text: str) -> tuple[str, list[int], list[int]]:
    """The text, where each stretch that moved begins in it, and by how much it moved."""
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
    """One character that a reader takes it for, or none where nothing is to be seen."""
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
