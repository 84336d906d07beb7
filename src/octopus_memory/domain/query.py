"""What a question asks for: which words, which meaning, who, when, and in what order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .temporal import DateWindow, Order, date_window, order_cue
from .terms import bare, words

QUERY_CAP = 2_000
"""How much of a question is read."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?")
_SPACES = re.compile(r"\s+")
_SPACE_BEFORE = re.compile(r"\s+([,.;:?!])")
_ASKS_ASSISTANT = re.compile(
    r"\byour?\s+(?:just\s+|previously\s+|had\s+|have\s+|last\s+)?"
    r"(?:said|told|mention\w*|recommend\w*|suggest\w*|gave|given|provid\w*|list\w*|wrote|written"
    r"|explain\w*|advis\w*|advice|answer\w*|propos\w*|describ\w*|shared?|created?|made)\b"
    r"|\bdid you\b|\byou(?:'ve| have) (?:said|told|given)\b",
    re.IGNORECASE,
)


class _Analyzer(Protocol):
    def terms(self, text: str, cap: int | None = None) -> list[str]: ...


class _Hasher(Protocol):
    def number(self, term: str) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryPlan:
    embed_text: str
    """The question without the participants' names, which are in every turn's surroundings."""
    terms: NDArray[np.uint32]
    speaker: int | None = None
    """The one participant the question names."""
    window: DateWindow | None = None
    order: Order = Order.NONE
    asks_assistant: bool = False
    """Whether it asks for something the assistant said."""


def plan_query(
    text: str,
    *,
    asked_at: datetime,
    analyzer: _Analyzer,
    hasher: _Hasher,
    speakers: Sequence[Sequence[int]] = (),
) -> QueryPlan:
    """`speakers` are the hashed words of the participants' names, by their numbers in the rows."""
    text = text[:QUERY_CAP]
    bare_text, named = _without_names(text, analyzer, hasher, speakers)
    terms = dict.fromkeys(analyzer.terms(bare_text, cap=QUERY_CAP))
    return QueryPlan(
        embed_text=bare_text,
        terms=np.array([hasher.number(term) for term in terms], dtype=np.uint32),
        speaker=named.pop() if len(named) == 1 else None,
        window=date_window(text, asked_at),
        order=order_cue(text),
        asks_assistant=bool(_ASKS_ASSISTANT.search(text)),
    )


def _without_names(
    text: str, analyzer: _Analyzer, hasher: _Hasher, speakers: Sequence[Sequence[int]]
) -> tuple[str, set[int]]:
    by_word: dict[int, set[int]] = {}
    for number, name in enumerate(speakers):
        for word in name:
            by_word.setdefault(word, set()).add(number)
    if not by_word:
        return text, set()
    named: set[int] = set()
    kept, end = [], 0
    for found in _WORD.finditer(text):
        who = by_word.get(hasher.number(_name_word(found[0])))
        if who and _may_be_name(found[0], analyzer):
            named |= who
            kept.append(text[end : found.start()])
            end = found.end()
    kept.append(text[end:])
    rest = _SPACE_BEFORE.sub(r"\1", _SPACES.sub(" ", "".join(kept))).strip()
    return (rest, named) if any(map(str.isalnum, rest)) else (text, named)


def _name_word(said: str) -> str:
    found = words(said)
    return bare(found[0]) if found else ""


def _may_be_name(said: str, analyzer: _Analyzer) -> bool:
    """Will and May are names only with a capital letter."""
    return said[0].isupper() or bool(analyzer.terms(said))
