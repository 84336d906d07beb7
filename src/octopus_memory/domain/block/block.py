"""The context block: standing facts and passages of past conversations, inside a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from ..context import QuestionKind
from ..episode import SUMMARY_LIMIT, EpisodeSnippet, SignalShare, TurnHit
from ..facts import Fact, FactKind
from ..policy import Layout
from ..text.neutralize import neutralize
from .layout import (
    KNOWN,
    RECORD,
    Draft,
    ShownSummary,
    TokenCount,
    Words,
    as_sentence,
    date_line,
    exchange,
    fenced,
    is_quoted,
    place_of,
    quoted,
    speaker,
    spoken,
    summary_lines,
)
from .passages import (
    SUMMARY_SPEAKER,
    Candidate,
    LeftOut,
    LeftOutReason,
    Passage,
    Quotable,
    Weigh,
    excerpt,
    in_order_of_value,
    one_line,
    question_before,
)

__all__ = [
    "RECORD",
    "Block",
    "Material",
    "TokenCount",
    "Words",
    "fenced",
    "longest",
    "make_block",
    "quoted",
    "speaker",
    "spoken",
]

_FACTS_SHARE, _FACTS_SHARE_OF_ALL = 0.15, 0.4
"""The part of the budget for standing facts; the second for a question without a subject."""
_ALWAYS = frozenset((FactKind.NAME, FactKind.LANGUAGE, FactKind.INSTRUCTION))
"""Facts that matter for every answer, even for one to "thanks!"."""
_ALWAYS_TOKENS = 30
_SUMMARIES_FROM, _SUMMARIES_FROM_IF_VAGUE = 800, 500
"""Summaries and last sessions get a fifth of the tokens above this many, and 120 at most, because
in a small block quotations are worth more. They get them sooner where little is quoted, because the
message does not say what it is about."""
_SUMMARIES_SHARE = 5
_MOST_FOR_SUMMARIES = 120
_SUMMARY_LENGTH = 160
_FULL_AT = 0.5
"""The whole budget is spent when the best relevance is this far from `min_recall_score` to 1. Below
that, the square of the distance counts, because most unrelated questions are in the lower half. At
`min_recall_score` and below nothing is quoted."""
_ROUNDS = 3
_CLEAR, _CLEAR_TOKENS = 0.985, 800
"""Relevance of a best match that leaves no doubt, and the tokens from which on it is spared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fill:
    """How the budget is spent on a kind of question."""

    least: float = 0.0
    """The part of the budget that is spent even where nothing stored is relevant."""
    lines: float = 0.0
    """The part that one line an episode may take, before passages."""
    floor: float = 0.45
    """A passage is quoted if its relevance is at least this part of the best one's, because what is
    far behind only fills up."""
    clear_floor: float = 0.45
    """The same where the best match leaves no doubt."""


_FILLS = {
    QuestionKind.POINT: _Fill(clear_floor=0.75),
    QuestionKind.LIST: _Fill(),
    QuestionKind.TIME: _Fill(least=0.3),
    QuestionKind.OVERVIEW: _Fill(least=1),
    QuestionKind.SMALL_TALK: _Fill(),
}
_FILL_WITHOUT_SUBJECT = _Fill(least=1, lines=0.5, floor=0, clear_floor=0)
"""For "What did we talk about last week?": everything of that time, whatever its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Search results for one message, from which a block is made."""

    candidates: tuple[Candidate, ...] = ()
    """Turns and summaries that may be quoted, best first."""
    relevant: tuple[EpisodeSnippet, ...] = ()
    """The episodes that get a summary, most relevant first."""
    recent: tuple[EpisodeSnippet, ...] = ()
    """The last sessions, newest first."""
    facts: tuple[Fact, ...] = ()
    """Current standing facts, most important first."""
    relevance: float = 0.0
    """Relevance of the best candidate."""
    kind: QuestionKind = QuestionKind.POINT
    has_subject: bool = True
    """False for a question that names nothing but a time, or asks for everything."""
    time: str = ""
    """The time that the question names, for the reader."""
    left_out: tuple[LeftOut, ...] = ()
    """What was left out before."""

    @property
    def is_small_talk(self) -> bool:
        """True for a message that needs no memory, such as "thanks!"."""
        return self.kind is QuestionKind.SMALL_TALK


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The finished text, its tokens, what it is made of and what was left out of it."""

    text: str = ""
    tokens: int = 0
    facts: tuple[Fact, ...] = ()
    passages: tuple[Passage, ...] = ()
    """Oldest first, as they stand in the text."""
    summaries: tuple[EpisodeSnippet, ...] = ()
    """The episodes that are shown with a summary."""
    left_out: tuple[LeftOut, ...] = ()


def make_block(
    material: Material,
    layout: Layout,
    budget_tokens: int,
    count: TokenCount,
    *,
    min_score: float,
    weigh: Weigh,
) -> Block:
    """Fill the budget with what is worth most for its tokens. The same input gives the same text.

    Standing facts come first, in a bounded share. A question without a subject then gets one line
    an episode. Then passages are quoted in the order of their value until the budget is used, or
    the part of it that the question's kind and relevance allow. The most relevant episodes and the
    last sessions get a one-line summary from a share of their own, and from what is left over. The
    text never has more than `budget_tokens`.
    """
    draft = Draft(layout=layout, count=count, time=material.time)
    fill = _FILLS[material.kind] if material.has_subject else _FILL_WITHOUT_SUBJECT
    left_out = [*material.left_out, *_add_facts(draft, material, budget_tokens)]
    allowed = _allowance(material, budget_tokens, min_score, fill)
    snippets = _summarized(material)
    is_vague = allowed < budget_tokens
    share = _share_of_summaries(budget_tokens, is_vague=is_vague) if snippets else 0
    limit = min(budget_tokens, allowed + share)
    if fill.lines:
        # What does not fit now may fit into what the passages leave free.
        list(_add_summaries(draft, snippets, int(limit * fill.lines)))
        share = 0
    waiting, behind = _add_passages(draft, material, fill, limit - share, budget_tokens, weigh)
    _drop_quoted_summaries(draft)
    left_out += _passages_left(waiting, draft, is_vague=is_vague)
    left_out += _passages_left(behind, draft, is_vague=True)
    left_out += _add_summaries(draft, snippets, limit)
    text = _shrink(draft, budget_tokens)
    known = {fact.id: fact for fact in material.facts}
    return Block(
        text=text,
        tokens=count(text) if text else 0,
        facts=tuple(known[fact_id] for fact_id in draft.facts),
        passages=tuple(_explained(draft.passages, material)),
        summaries=tuple(each.snippet for each in draft.summaries.values()),
        left_out=tuple(left_out),
    )


def _share_of_summaries(budget: int, *, is_vague: bool) -> int:
    start = _SUMMARIES_FROM_IF_VAGUE if is_vague else _SUMMARIES_FROM
    return min(max(0, budget - start) // _SUMMARIES_SHARE, _MOST_FOR_SUMMARIES)


def _explained(passages: Iterable[Passage], material: Material) -> Iterator[Passage]:
    """The passages oldest first, each with what makes up its score, computed where it is read."""
    found = [candidate.source for candidate in material.candidates]
    sources = {each.id if isinstance(each, TurnHit) else each.episode_id: each for each in found}
    for passage in sorted(passages, key=place_of):
        source = sources[passage.turn_ids[-1] if passage.turn_ids else passage.episode_id]
        yield passage.explained_by(partial(_signals_of, source))


def _signals_of(source: TurnHit | EpisodeSnippet) -> tuple[SignalShare, ...]:
    return source.signals


def _allowance(material: Material, budget: int, min_score: float, fill: _Fill) -> int:
    """The tokens that a question may cost: all where what was found is relevant, else ever less."""
    if material.is_small_talk:
        return 0
    full = min_score + (1 - min_score) * _FULL_AT
    if not min_score or material.relevance >= full:
        return budget
    # A threshold of 1 leaves no room between them to divide by.
    grown = max(0.0, (material.relevance - min_score) / max(full - min_score, 1e-9))
    return int(budget * max(fill.least, grown**2))


def _add_facts(draft: Draft, material: Material, budget: int) -> Iterator[LeftOut]:
    room = int(budget * (_FACTS_SHARE if material.has_subject else _FACTS_SHARE_OF_ALL))
    if material.is_small_talk:
        room = min(room, _ALWAYS_TOKENS)
    room -= draft.count(KNOWN)
    for fact in material.facts:
        text = as_sentence(neutralize(fact.text, SUMMARY_LIMIT))
        if fact.replaces is not None:
            text = f"{text} (since {fact.since.date().isoformat()})"
        cost = draft.count(f"{text} ")
        needless = material.is_small_talk and not (fact.is_pinned or fact.kind in _ALWAYS)
        if needless or cost > room:
            reason = LeftOutReason.RELEVANCE if needless else LeftOutReason.SHARE
            yield LeftOut(what="fact", reason=reason, fact_id=fact.id, tokens=cost)
            continue
        draft.facts[fact.id] = text
        room -= cost


def _add_passages(
    draft: Draft, material: Material, fill: _Fill, allowed: int, budget: int, weigh: Weigh
) -> tuple[list[Quotable], list[Quotable]]:
    """Quote what fits, the most valuable first.

    Returns the candidates that did not fit, and those too far behind the best match.
    """
    ordered = in_order_of_value(material.candidates, budget)
    floor = material.relevance * fill.floor
    waiting = [each for each in ordered if each.candidate.score >= floor]
    behind = [each for each in ordered if each.candidate.score < floor]
    if material.relevance >= _CLEAR and fill.clear_floor > fill.floor:
        # An update may be far behind the statement that it corrects, so some are quoted first.
        waiting = _fill_rounds(draft, waiting, min(allowed, _CLEAR_TOKENS), weigh)
        floor = material.relevance * fill.clear_floor
        behind += [each for each in waiting if each.candidate.score < floor]
        waiting = [each for each in waiting if each.candidate.score >= floor]
    return _fill_rounds(draft, waiting, allowed, weigh), behind


def _fill_rounds(
    draft: Draft, waiting: list[Quotable], allowed: int, weigh: Weigh
) -> list[Quotable]:
    used = draft.count("\n".join(draft.lines()))
    # Counting line by line rounds each line up. Further rounds fill the tokens that this left free.
    for _ in range(_ROUNDS):
        known = len(draft.passages)
        waiting = _fill(draft, waiting, allowed - used, weigh)
        if not waiting or len(draft.passages) == known:
            break
        used = draft.tokens
    return waiting


def _fill(draft: Draft, waiting: Sequence[Quotable], room: int, weigh: Weigh) -> list[Quotable]:
    dated = {passage.episode_id for passage in draft.passages}
    quoted_turns = {turn for passage in draft.passages for turn in passage.turn_ids}
    left: list[Quotable] = []
    for quotable in waiting:
        candidate, longest = quotable
        if candidate.hit is not None and candidate.hit.id in quoted_turns:
            continue
        # Skip a candidate that cannot fit before neutralizing it, because that costs more.
        if draft.count(candidate.text[:longest]) > room:
            left.append(quotable)
            continue
        passage = _passage(candidate, draft, longest, weigh, quoted_turns)
        if passage is None:
            continue
        date = 0 if passage.episode_id in dated else draft.count(f"{date_line(passage.at)}\n---\n")
        if passage.tokens + date > room:
            left.append(quotable)
            continue
        room -= passage.tokens + date
        draft.passages.append(passage)
        dated.add(passage.episode_id)
        quoted_turns.update(passage.turn_ids)
    return left


def _passage(
    candidate: Candidate, draft: Draft, longest: int, weigh: Weigh, quoted_turns: set[UUID]
) -> Passage | None:
    """Return the candidate as a passage; None if it has no words."""
    hit = candidate.source
    if isinstance(hit, EpisodeSnippet):
        return _passage_of_summary(candidate, hit, draft, longest, weigh)
    said = draft.quote(hit, excerpt(hit.text, weigh, longest))
    if not said.text:
        return None
    asked, turn_ids = Words("", ""), [hit.id]
    before, question = candidate.before, question_before(candidate)
    if before is not None and question and before.id not in quoted_turns:
        asked, turn_ids = draft.quote(before, question), [before.id, hit.id]
    return Passage(
        text=said.text,
        speaker=said.speaker,
        asked=asked.text,
        asked_by=asked.speaker,
        turn_ids=tuple(turn_ids),
        episode_id=hit.episode_id,
        session_id=hit.session_id,
        ordinal=hit.ordinal,
        at=hit.at,
        score=candidate.score,
        tokens=draft.count(f"Said: {exchange(asked, said)}\n"),
    )


def _passage_of_summary(
    candidate: Candidate, snippet: EpisodeSnippet, draft: Draft, longest: int, weigh: Weigh
) -> Passage | None:
    text = neutralize(excerpt(candidate.text, weigh, longest), SUMMARY_LIMIT)
    if not text:
        return None
    return Passage(
        text=text,
        speaker=SUMMARY_SPEAKER,
        turn_ids=(),
        episode_id=snippet.episode_id,
        session_id=snippet.session_id,
        at=snippet.date,
        score=candidate.score,
        tokens=draft.count(f"Summary: {text}\n"),
        is_archived=snippet.is_archived,
    )


def _passages_left(
    waiting: Iterable[Quotable], draft: Draft, *, is_vague: bool
) -> Iterator[LeftOut]:
    reason = LeftOutReason.RELEVANCE if is_vague else LeftOutReason.BUDGET
    quoted_turns = {turn for passage in draft.passages for turn in passage.turn_ids}
    for candidate, _ in waiting:
        turn_id = None if candidate.hit is None else candidate.hit.id
        if turn_id not in quoted_turns:
            yield LeftOut(
                what="passage",
                reason=reason,
                episode_id=candidate.source.episode_id,
                turn_id=turn_id,
                score=candidate.score,
                tokens=candidate.length // 4,
            )


def _summarized(material: Material) -> list[EpisodeSnippet]:
    """The relevant episodes and the last sessions, each once."""
    if material.is_small_talk:
        return []
    return list({each.episode_id: each for each in (*material.relevant, *material.recent)}.values())


def _add_summaries(
    draft: Draft, snippets: Sequence[EpisodeSnippet], limit: int
) -> Iterator[LeftOut]:
    used = draft.tokens
    for snippet in snippets:
        if snippet.episode_id in draft.summaries:
            continue
        cost = draft.count(snippet.summary[:_SUMMARY_LENGTH])
        shown = _summary(snippet, draft, limit - used - cost) if used + cost <= limit else None
        if shown is not None:
            if not shown.words:
                continue
            cost = draft.count("\n".join(summary_lines(shown)))
            if used + cost <= limit:
                draft.summaries[snippet.episode_id] = shown
                used += cost
                continue
        yield LeftOut(
            what="summary",
            reason=LeftOutReason.SHARE,
            episode_id=snippet.episode_id,
            score=snippet.relevance,
            tokens=cost,
        )


def _drop_quoted_summaries(draft: Draft) -> None:
    """Take out summaries whose every sentence is quoted by now."""
    for episode_id, shown in list(draft.summaries.items()):
        passages = [each for each in draft.passages if each.episode_id == episode_id]
        if passages and all(is_quoted(said.text, passages) for said in shown.words):
            del draft.summaries[episode_id]


def _summary(snippet: EpisodeSnippet, draft: Draft, room: int) -> ShownSummary:
    """The episode in one line, and its key facts where there is room for them.

    It has no words where the episode's passages say all of it.
    """
    if snippet.summary:
        # Neutralize before joining lines, because line starts are lost afterwards.
        told = one_line(neutralize(snippet.summary[: 3 * _SUMMARY_LENGTH]), _SUMMARY_LENGTH)
        said = [Words("", told)]
    else:
        said = [draft.quote(turn, turn.text) for turn in snippet.turns]
    passages = [each for each in draft.passages if each.episode_id == snippet.episode_id]
    words = tuple(each for each in said if each.text and not is_quoted(each.text, passages))
    facts: tuple[str, ...] = ()
    if draft.count(" ".join(snippet.key_facts)) <= room:
        facts = tuple(filter(None, map(neutralize, snippet.key_facts)))
    return ShownSummary(snippet=snippet, words=words, facts=facts)


def _shrink(draft: Draft, budget: int) -> str:
    """Take parts out again, the least valuable first, while the text is over the budget."""
    while draft.count(text := draft.text) > budget and text:
        if draft.summaries:
            draft.summaries.popitem()
        elif draft.passages:
            draft.passages.pop()
        elif draft.facts:
            draft.facts.popitem()
        else:
            draft.time = ""
    return text


def longest(least: int, most: int, fits: Callable[[int], bool]) -> int | None:
    """The largest length from `least` to `most` that fits, or None; one that was tried."""
    if least > most or not fits(least):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least
