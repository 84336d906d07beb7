"""The ledger: a record of the memories that a model was shown for each turn, with reasons.

An entry refers to facts, turns and episodes by id, without their text. It contains the query only
if the agent's setting `context.ledger` is `full`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from math import isnan
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .block.passages import LeftOut, LeftOutReason, Passage
from .episode import SignalShare, TurnHit
from .errors import InvalidInput

if TYPE_CHECKING:
    # A client decodes entries and must not pay for the patterns of the block.
    from .block.block import Block, Material

MOST_CUT = 10
"""Maximum number of cut items in an entry, the most relevant; `left_out` counts all of them."""
QUERY_LIMIT = 2_000
"""Maximum characters of a query in an entry."""
_MOST_SIGNALS = 3
_OF_THE_QUESTION = "question"


class InjectedKind(StrEnum):
    """Kind of an item."""

    FACT = "fact"
    PASSAGE = "passage"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A memory that was shown to the model, or cut."""

    kind: InjectedKind
    rank: int
    """Rank among the items of its kind by relevance, from 1."""
    score: float | None = None
    """Relevance, 0 to 1; None for an item that was not searched."""
    reason: str = ""
    """For a shown item, the strongest signals or the reason why it is always shown; for a cut item,
    a `LeftOutReason`."""
    episode_id: UUID | None = None
    """None for a fact that the caller gave."""
    ordinal: int | None = None
    """Position of the turn in its episode; None for summaries and facts."""
    fact_id: UUID | None = None
    tokens: int = 0
    contributions: Mapping[str, float] = field(default_factory=dict)
    """What each signal adds to the log odds of `score`, strongest first; they add up to it. Empty
    for an item that was not searched, or not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """An entry of the ledger: a block that was made for one turn of a session."""

    id: UUID
    session_id: str
    at: datetime
    shown: tuple[Injected, ...] = ()
    cut: tuple[Injected, ...] = ()
    """The best `MOST_CUT` items that were found but not shown."""
    left_out: int = 0
    """Number of items that were found but not shown."""
    budget_tokens: int = 0
    block_tokens: int = 0
    block_hash: str = ""
    """SHA-256 of the block's text, in hexadecimal; empty if there was no block."""
    query: str | None = None
    """The message that was answered, if the agent's ledger is `full`."""
    episode_id: UUID | None = None
    """Episode of the turn; None before a turn follows, and after its turns are removed."""
    ordinal: int | None = None
    """Position of the first turn that was stored after the block was made: the message that was
    answered, or the answer if the message was stored before."""

    @property
    def episode_ids(self) -> frozenset[UUID]:
        """Ids of the episodes in the entry."""
        named = (item.episode_id for item in (*self.shown, *self.cut))
        return frozenset(each for each in named if each is not None)

    def within(self, episode_ids: Iterable[UUID]) -> Injection:
        """The entry without the items of other episodes."""
        there = frozenset(episode_ids)

        def kept(items: Sequence[Injected]) -> tuple[Injected, ...]:
            return tuple(i for i in items if i.episode_id is None or i.episode_id in there)

        return replace(self, shown=kept(self.shown), cut=kept(self.cut))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeUse:
    """A block in which an episode was shown."""

    injection_id: UUID
    session_id: str
    at: datetime
    items: int
    """Number of the episode's turns, summaries and facts in the block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeUses:
    """Uses of an episode: how often it was shown to the model, and in which blocks."""

    episode_id: UUID
    times: int = 0
    """Number of blocks that show it."""
    cut: int = 0
    """Number of further blocks for which it was found but cut."""
    last: datetime | None = None
    recent: tuple[EpisodeUse, ...] = ()
    """Blocks that show it, newest first, limited."""


_CUT = (LeftOutReason.BUDGET, LeftOutReason.RELEVANCE, LeftOutReason.SHARE)
"""Reasons of what was found for the question. The others were never candidates."""


def make_injection(
    injection_id: UUID,
    session_id: str,
    at: datetime,
    material: Material,
    block: Block,
    *,
    budget_tokens: int,
    query: str | None,
) -> Injection:
    """Make the entry of a block."""
    ranks = _ranks(block)
    found = [each for each in block.left_out if each.reason in _CUT]
    left_out = sorted(found, key=lambda each: -(each.score or 0.0))[:MOST_CUT]
    cut = {each.turn_id for each in left_out}
    turns = {
        candidate.source.id: candidate.source.ordinal
        for candidate in material.candidates
        if isinstance(candidate.source, TurnHit) and candidate.source.id in cut
    }
    return Injection(
        id=injection_id,
        session_id=session_id,
        at=at,
        shown=(*_facts(block), *_passages(block, ranks), *_summaries(block, ranks)),
        cut=tuple(_cut(each, turns, ranks) for each in left_out),
        left_out=len(found),
        budget_tokens=budget_tokens,
        block_tokens=block.tokens,
        block_hash=block_hash(block.text),
        query=None if query is None else query[:QUERY_LIMIT],
    )


def block_hash(text: str) -> str:
    """SHA-256 of a block's text, in hexadecimal."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def _ranks(block: Block) -> Mapping[object, int]:
    """Rank of every passage and every summary by relevance, shown or cut."""
    ranks: dict[object, int] = {}
    found: dict[str, list[tuple[float, object]]] = {"passage": [], "summary": []}
    for passage in block.passages:
        found["passage"].append((passage.score, _key(passage)))
    for snippet in block.summaries:
        found["summary"].append((snippet.relevance or 0.0, ("summary", snippet.episode_id)))
    for each in block.left_out:
        if each.what in found:
            found[each.what].append((each.score or 0.0, _key(each)))
    for items in found.values():
        items.sort(key=lambda item: -item[0])
        ranks |= {key: place for place, (_, key) in enumerate(items, 1)}
    return ranks


def _key(each: Passage | LeftOut) -> tuple[str, UUID | None]:
    if isinstance(each, Passage):
        return "passage", each.turn_ids[-1] if each.turn_ids else each.episode_id
    return each.what, each.turn_id or each.episode_id


def _facts(block: Block) -> Iterable[Injected]:
    for rank, fact in enumerate(block.facts, 1):
        yield Injected(
            kind=InjectedKind.FACT,
            rank=rank,
            reason="pinned" if fact.is_pinned else fact.kind.value,
            episode_id=fact.episode_id,
            fact_id=fact.id,
        )


def _passages(block: Block, ranks: Mapping[object, int]) -> Iterable[Injected]:
    for passage in block.passages:
        # The question's own share is the same for every passage, so it explains none.
        helped = [
            share
            for share in passage.signals
            if share.contribution > 0 and share.signal != _OF_THE_QUESTION
        ]
        strongest = sorted(helped, key=lambda share: -share.contribution)
        names = dict.fromkeys(share.signal for share in strongest)
        yield Injected(
            kind=InjectedKind.PASSAGE,
            rank=ranks.get(_key(passage), 0),
            score=passage.score,
            reason=", ".join([*names][:_MOST_SIGNALS]),
            episode_id=passage.episode_id,
            ordinal=None if passage.ordinal < 0 else passage.ordinal,
            tokens=passage.tokens,
            contributions=contributions(passage.signals),
        )


def _summaries(block: Block, ranks: Mapping[object, int]) -> Iterable[Injected]:
    for snippet in block.summaries:
        yield Injected(
            kind=InjectedKind.SUMMARY,
            rank=ranks.get(("summary", snippet.episode_id), 0),
            score=snippet.relevance,
            reason="recent" if snippet.relevance is None else "relevant",
            episode_id=snippet.episode_id,
            contributions={} if snippet.relevance is None else contributions(snippet.signals),
        )


def contributions(signals: Iterable[SignalShare]) -> dict[str, float]:
    """What each signal adds to the log odds, rounded as an entry keeps it."""
    added: dict[str, float] = {}
    for share in signals:
        # Unknown where a row has no vector, and JSON has no such number.
        if isnan(share.contribution):
            continue
        added[share.signal] = round(added.get(share.signal, 0.0) + share.contribution, 2)
    return added


def _cut(each: LeftOut, turns: Mapping[UUID, int], ranks: Mapping[object, int]) -> Injected:
    return Injected(
        kind=InjectedKind(each.what),
        rank=ranks.get(_key(each), 0),
        score=each.score,
        reason=each.reason.value,
        episode_id=each.episode_id,
        ordinal=None if each.turn_id is None else turns.get(each.turn_id),
        fact_id=each.fact_id,
        tokens=each.tokens,
    )


def pack_items(items: Sequence[Injected]) -> list[list[Any]]:
    """Items of one episode as JSON, without the episode's id."""
    return [
        [
            item.kind.value,
            item.rank,
            None if item.score is None else round(item.score, 4),
            item.reason,
            item.ordinal,
            None if item.fact_id is None else str(item.fact_id),
            item.tokens,
            *([dict(item.contributions)] if item.contributions else []),
        ]
        for item in items
    ]


def unpack_items(packed: Any, episode_id: UUID | None) -> list[Injected]:
    """Reverse of `pack_items`.

    :raises InvalidInput: for anything else
    """
    try:
        return [
            Injected(
                kind=InjectedKind(kind),
                rank=_whole(rank) or 0,
                score=None if score is None else float(score),
                reason=str(reason),
                episode_id=episode_id,
                ordinal=_whole(ordinal),
                fact_id=None if fact_id is None else UUID(fact_id),
                tokens=_whole(tokens) or 0,
                contributions={str(k): float(v) for added in more for k, v in added.items()},
            )
            # Entries of an earlier release end with the tokens.
            for kind, rank, score, reason, ordinal, fact_id, tokens, *more in packed
        ]
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInput("items", "must be as the ledger packs them") from error


def _whole(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError("is not a whole number")
    return value


def by_episode(items: Iterable[Injected]) -> dict[UUID | None, list[Injected]]:
    """Items by episode, in order."""
    found: dict[UUID | None, list[Injected]] = {}
    for item in items:
        found.setdefault(item.episode_id, []).append(item)
    return found
