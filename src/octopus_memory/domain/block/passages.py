"""Passages: what the context block quotes, chosen by what they are worth for their tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from ..episode import SAYS, EpisodeSnippet, Explained, SignalShare, TurnHit

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
    return text[:end] or _cut_sentence(text, limit)


def _cut_sentence(text: str, limit: int) -> str:
    """The start of a long sentence with an ellipsis, cut after a clause or a word."""
    head = text[: max(limit - 1, 0)]
    said = head.find(SAYS) + len(SAYS) if SAYS in head else 0
    for ends in (_CLAUSE_ENDS, (" ",)):
        place = max(head.rfind(end) for end in ends)
        if place > max(said, limit // 2):
            head = head[:place]
            break
    return head.rstrip(" ,;:–—-，、；") + "…"


SHORT_ANSWER = 40
"""A turn of fewer characters may mean nothing without the question before it."""
WHOLE_TURN = 600
"""A turn of at most so many characters, or of half the budget, is quoted whole."""
EXCERPT = 360
"""Characters that are quoted of a longer one, where it is not the very turn that was asked for; in
a large block up to a sixteenth of it."""
_BEST_SHARE = 0.35
"""The part of the budget that the best turn may take; the second half as much, and so on."""

Weigh = Callable[[str], float]
"""Scores a sentence by how much of the question it answers; 0 for nothing."""

SUMMARY_SPEAKER = "summary"
"""Speaker of a passage that is made of a summary or key facts."""
_GAP = " … "
_SHORTEST_PART = 40
_QUESTION_LENGTH = 120
"""Characters at the end of a turn in which the question of a short answer is looked for."""
# The chance that a turn of a rank is what was asked for falls like 1 / (rank + 2). A fixed cost
# beside a quotation's tokens keeps long answers from falling behind everything that is short.
_HEAD_START = 2
_FRAME_TOKENS = 300


class LeftOutReason(StrEnum):
    """The reason that something found is not in the block."""

    BUDGET = "budget"
    """There was no room for it."""
    RELEVANCE = "relevance"
    """The question has little to do with what is stored, so little is spent on it."""
    SHARE = "share"
    """Facts, summaries and last sessions have a bounded share of the budget."""
    SESSION = "session"
    """It belongs to the session that the caller named, whose messages the model has."""
    HISTORY = "history"
    """The caller's history, or the message itself, holds the same words."""
    SUBJECT = "subject"
    """The question is not about this fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Explained):
    """Words of one turn, or of an archived episode's summary, as the block quotes them."""

    text: str
    """With an ellipsis where sentences are left out."""
    speaker: str
    """A name or a role; "summary" for what stands in an episode's summary or key facts."""
    turn_ids: tuple[UUID, ...]
    """The turn, after the turn whose question it answers; none for a summary."""
    episode_id: UUID
    session_id: str
    at: datetime
    score: float
    """The relevance of the turn, 0 to 1."""
    tokens: int
    asked: str = ""
    """The question that a short answer belongs to."""
    asked_by: str = ""
    ordinal: int = -1
    """The turn's ordinal in its episode; -1 for a summary."""
    is_archived: bool = False
    signals: tuple[SignalShare, ...] = ()
    """Parts of the relevance, the strongest first."""

    @property
    def why(self) -> str:
        """The strongest signals, in words."""
        return "; ".join(f"{share.signal}: {share.words}" for share in self.signals[:3])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something that was found for the question and is not in the block."""

    what: str
    """"passage", "summary", "fact", or "episode" for a whole one."""
    reason: LeftOutReason
    episode_id: UUID | None = None
    turn_id: UUID | None = None
    fact_id: UUID | None = None
    score: float | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A turn that may be quoted, or a summary that stands for turns which cannot."""

    rank: int
    score: float
    source: TurnHit | EpisodeSnippet
    before: TurnHit | None = None
    """The turn before a short one, which may hold its question."""

    @property
    def hit(self) -> TurnHit | None:
        return self.source if isinstance(self.source, TurnHit) else None

    @property
    def text(self) -> str:
        """The text that may be quoted."""
        if isinstance(self.source, TurnHit):
            return self.source.text
        return "\n".join((*self.source.key_facts, self.source.summary))

    @property
    def length(self) -> int:
        """Number of characters that may be quoted."""
        return len(self.text)


class Quotable(NamedTuple):
    """A candidate, and the number of its characters that may be quoted."""

    candidate: Candidate
    longest: int


def in_order_of_value(candidates: Iterable[Candidate], budget_tokens: int) -> list[Quotable]:
    """Sort by the chance of being what was asked for, divided by the cost of quoting it."""

    def price(quotable: Quotable) -> tuple[float, int]:
        rank = quotable.candidate.rank
        return (rank + _HEAD_START) * (quotable.longest / 4 + _FRAME_TOKENS), rank

    found = (Quotable(each, quoted_length(each, budget_tokens)) for each in candidates)
    return sorted(found, key=price)


def quoted_length(candidate: Candidate, budget_tokens: int) -> int:
    """Return how many characters of a candidate may be quoted; more for a better rank."""
    length = candidate.length
    if length <= max(WHOLE_TURN, 2 * budget_tokens):
        return length
    share = int(4 * budget_tokens * _BEST_SHARE / (candidate.rank + 1))
    return min(length, max(EXCERPT, budget_tokens // 4, share))


def excerpt(text: str, weigh: Weigh, longest: int) -> str:
    """The text, or of one longer than `longest` the sentences that say most of what is asked for.

    Sentences stay in their order, with an ellipsis where some are left out. Where none says
    anything of it, the first ones are taken.
    """
    if len(text) <= longest:
        return text
    lines = [list(split_sentences(line)) for line in text.splitlines()]
    sentences = [sentence for line in lines for sentence in line]
    worth = [weigh(sentence) for sentence in sentences]
    by_worth = sorted(range(len(sentences)), key=lambda number: (-worth[number], number))
    chosen: set[int] = set()
    room = longest
    for number in by_worth:
        if chosen and not worth[number]:
            break
        size = len(sentences[number])
        if size <= room:
            chosen.add(number)
            room -= size + len(_GAP)
        elif room > _SHORTEST_PART and not chosen:
            return _cut_around(sentences[number], room)
    return "\n".join(_parts(lines, chosen))


def _parts(lines: Iterable[Sequence[str]], chosen: Collection[int]) -> Iterator[str]:
    """The chosen sentences of each line, by their numbers over all lines.

    Lines stay apart, so that what begins one can still be told from the middle of a sentence.
    """
    number, skipped = 0, False
    for line in lines:
        parts: list[str] = []
        for sentence in line:
            if number in chosen:
                parts.append(f"… {sentence}" if skipped else sentence)
            skipped = number not in chosen
            number += 1
        if parts:
            yield " ".join(parts)
    if skipped:
        yield "…"


def _cut_around(sentence: str, room: int) -> str:
    head = sentence[: room - 1]
    space = head.rfind(" ")
    return (head[:space] if space > room // 2 else head).rstrip(" ,;:-–") + "…"


def question_before(candidate: Candidate) -> str:
    """The question that the candidate answers; empty where it stands on its own.

    Of a long turn only the end is taken, because that is where it asks.
    """
    hit, before = candidate.hit, candidate.before
    if hit is None or before is None or len(hit.text) >= SHORT_ANSWER or _asks(hit.text):
        return ""
    if before.role == hit.role and before.name == hit.name:
        return ""
    lines = before.text[-_QUESTION_LENGTH:].splitlines()
    asked = [each for line in lines for each in split_sentences(line) if _asks(each)]
    return asked[-1] if asked else ""


def _asks(text: str) -> bool:
    return text.rstrip().endswith(("?", "？", "؟"))
