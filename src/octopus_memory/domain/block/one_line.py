"""Sentences of a text, and the first part of a summary for one line of the context block."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..episode import SAYS

# No break before a German month, because its day is written "3. Mai".
_BREAK = re.compile(
    r"(?<=[.!?…])([\"'”’»)\]]*)\s+(?!Januar|Februar|März|April|Mai|Jun|Jul|Aug|Sept|Okt|Nov|Dez)"
    r"|(?<=[。！？])([”」』）]*)"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(.¿¡])(?:[^\W\d_]|Drs?|Dra|Mrs?|Ms|Mme|Mlle|Hrn?|Fr|Sra?|Srta|Prof|St|N[or]|Nr|Tel|\w+str"
    r"|vs|ca|bzw|inkl|zzgl|evtl|approx|incl|etc)\.$"
)
_CLAUSE_ENDS = ("; ", ": ", ", ", " – ", "；", "，", "、")


def split_sentences(line: str) -> Iterator[str]:
    """The sentences of one line of text; abbreviations and German dates end none."""
    held = ""
    for piece in _BREAK.sub(r"\1\2\n", " ".join(line.split())).split("\n"):
        held = f"{held} {piece}" if held else piece
        if held and not _ABBREVIATION.search(held[-12:]):
            yield held
            held = ""
    if held:
        yield held


def one_line(summary: str, limit: int = 160) -> str:
    """As many whole sentences from the start of a summary as fit into `limit` characters.

    A first sentence that is longer is cut after a clause, else after a word.
    """
    text = " ".join(summary.split())
    if len(text) <= limit:
        return text
    end = 0
    for sentence in split_sentences(text):
        longer = text.index(sentence, end) + len(sentence)
        if longer > limit:
            break
        end = longer
    return text[:end] or _cut(text, limit)


def _cut(text: str, limit: int) -> str:
    """The start of a long sentence with an ellipsis, cut after a clause or a word."""
    head = text[: max(limit - 1, 0)]
    said = head.find(SAYS) + len(SAYS) if SAYS in head else 0
    for ends in (_CLAUSE_ENDS, (" ",)):
        place = max(head.rfind(end) for end in ends)
        if place > max(said, limit // 2):
            head = head[:place]
            break
    return head.rstrip(" ,;:–—-，、；") + "…"
