"""Summarizer without a model: selects the most informative sentences."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import heapify, heappop, heapreplace, nlargest
from typing import NamedTuple

from ...domain.episode import SAYS, SUMMARY_LIMIT, Summary, Turn
from ...domain.errors import InvalidSetting
from ...domain.facts import FoundFact
from ...domain.message import Json, Role
from ...domain.search.terms import Flag, word_flags
from ...domain.text.neutralize import LINE_BREAK
from . import cues
from .sentences import (
    Sentence,
    Words,
    closed,
    language_of,
    one_line_of,
    read_sentences,
    shorten,
    speaker_of,
    words_of,
)


class ExtractiveSummarizer:
    """Selects sentences that cover an episode's subjects and state its facts, offline.

    Standing facts about the user are found by precise rules for English, German, French, Spanish
    and Chinese, in each turn when it is indexed.

    The summary is about two fifths of the conversation, or one sentence. Key facts are what it
    leaves out. A short answer is kept with its question. Equal turns give equal summaries. The work
    is bounded, so `timeout` is ignored: of very long turns, and of each long turn of a very long
    episode, only the start, the middle and the end are read.
    """

    def __init__(self, *, max_chars: int = 1_200, max_facts: int = 12) -> None:
        if not 80 <= max_chars <= SUMMARY_LIMIT:
            raise InvalidSetting("max_chars", f"must be between 80 and {SUMMARY_LIMIT:,}")
        if max_facts < 0:
            raise InvalidSetting("max_facts", "must not be negative: 0 gives no key facts")
        self._max_chars = max_chars
        self._max_facts = max_facts

    @property
    def name(self) -> str:
        return "extractive-v3"

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:  # noqa: ARG002
        # Imported here, so that word lists are loaded when the first episode is closed.
        from .extractive import select

        return select(turns, max_chars=self._max_chars, max_facts=self._max_facts)

    def key_facts(self, turns: Sequence[Turn]) -> tuple[str, ...]:
        """Key facts beside a summary by somebody else, which may lack any of them."""
        from .extractive import select

        return select(turns, max_chars=0, max_facts=self._max_facts).key_facts

    def facts(self, turns: Sequence[Turn], before: Turn | None = None) -> tuple[FoundFact, ...]:
        """Standing facts about the user, found by rules."""
        from .standing.find import find_facts

        return find_facts(turns, before)


_RESULT_CHARS = 4_000
_TOOL_FACT_CHARS = 240
_VALUE_CHARS = 80


def tool_facts(turns: Sequence[Turn], limit: int) -> dict[int, str]:
    """At most `limit` facts by the turn's position: the newest results with new values."""
    said = "\n".join(turn.text for turn in turns if turn.role is not Role.TOOL).casefold()
    facts: dict[int, str] = {}
    for turn in reversed(turns):
        if len(facts) >= limit:
            break
        if turn.role is Role.TOOL and (line := _result_line(turn.text, said)):
            fact = f"{speaker_of(turn)}{SAYS}{line.replace(SAYS, ', ')}"
            if fact not in facts.values():
                facts[turn.ordinal] = fact
    return facts


def _result_line(text: str, said: str) -> str:
    """The result in one line, or empty if the conversation contains all of it."""
    pairs = list(_pairs(_parsed(text)))
    if not pairs:
        lines = _lines(text[:_RESULT_CHARS])
        is_said = all(line.casefold() in said for line in lines)
        return "" if is_said else shorten(LINE_BREAK.join(lines), _TOOL_FACT_CHARS)
    is_new = [value.casefold() not in said for _, value in pairs]
    if not any(is_new):
        return ""
    room = _TOOL_FACT_CHARS
    kept: set[int] = set()
    # New values come first, because not everything may fit.
    for i in sorted(range(len(pairs)), key=lambda i: not is_new[i]):
        room -= len(pairs[i][0]) + len(pairs[i][1]) + 3
        if room < 0:
            break
        kept.add(i)
    shown = [f"{name} {value}".strip() for name, value in map(pairs.__getitem__, sorted(kept))]
    return ", ".join(shown) + "." if shown else ""


def _lines(text: str) -> list[str]:
    """Non-empty lines, kept apart, because a role header may begin one."""
    return [line for line in map(one_line_of, text.splitlines()) if line]


def _parsed(text: str) -> Json:
    if not text.lstrip().startswith(("{", "[")) or len(text) > _RESULT_CHARS:
        return None
    try:
        # Keep numbers as written: a search for 64.90 does not match 64.9.
        parsed: Json = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return parsed


def _pairs(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Scalar values of a result, each with its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _pairs(inner, one_line_of(str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from _pairs(inner, name)
    elif isinstance(value, str) and (lines := _lines(value)):
        yield name, shorten(LINE_BREAK.join(lines), _VALUE_CHARS)
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"


_FACT_CHARS = 160
# A summary grows until it is the first share of the conversation, and never beyond the second, but
# it has at least one sentence.
_SHARE, _MOST = 0.4, 0.6
_ASKED_CHARS = 120
_CANDIDATES = 2_000
# Maximum share of key facts that are tool results.
_TOOLS = 0.25
# A term counts less each time it is repeated.
_REPEAT = 0.15
# What makes a statement a key fact, and the share of its terms that must be new.
_STRONG, _NEWS = 1.0, 0.3
# As ints, because comparing `IntFlag` members takes longer than the rest of the scoring.
_NUMBER, _TIME = int(Flag.NUMBER), int(Flag.TIME)


class _Candidate(NamedTuple):
    """A candidate for the summary: a sentence, or a short answer with its questions."""

    sentence: Sentence
    terms: tuple[str, ...]
    length: int
    info: float
    asks: bool
    fact: float
    worth: float

    @property
    def parts(self) -> tuple[Sentence, ...]:
        return (*self.sentence.asked, self.sentence)


def select(turns: Sequence[Turn], *, max_chars: int, max_facts: int) -> Summary:
    """Summary and key facts, made of the turns' own sentences, each of which is used once.

    Without characters for a summary, all is left to the key facts.
    """
    spoken = [turn for turn in turns if turn.role in (Role.USER, Role.ASSISTANT)]
    analyzed = words_of(language_of(spoken))
    sentences = read_sentences(spoken, analyzed)
    weights = _term_weights(sentences, analyzed)
    candidates = _candidates(sentences, weights)
    # The summary of an episode with only tool calls shows their results.
    results = tool_facts(turns, round(max_facts * _TOOLS)) if candidates else {}
    chosen = _pick_summary(candidates, weights, _rendered_length(sentences, {}), max_chars)
    told = {sentence.order for sentence in chosen}
    rest = [candidate for candidate in candidates if candidate.sentence.order not in told]
    said = {term for sentence in chosen for term in sentence.terms}
    facts = _pick_facts(rest, weights, said, max_facts - len(results))
    key_facts = [(fact.sentence.ordinal, _render_fact(fact)) for fact in facts]
    key_facts += results.items()
    return Summary(
        text=_render(chosen) or _without_subject(turns, max_chars),
        key_facts=tuple(fact for _, fact in sorted(key_facts, key=lambda each: each[0])),
    )


@cache
def _frequent(language: str) -> frozenset[str]:
    return frozenset(Words(language).terms(cues.FREQUENT))


def _term_weights(sentences: Sequence[Sentence], analyzed: Words) -> dict[str, float]:
    frequent = _frequent(analyzed.language)
    speakers = set(analyzed.terms(" ".join({sentence.speaker for sentence in sentences})))
    counts = Counter(term for sentence in sentences for term in sentence.terms)
    weights: dict[str, float] = {}
    for term, count in counts.items():
        rarity = 0.0 if term in speakers else 0.4 if term in frequent else 1.0
        weights[term] = rarity * (1 + 0.3 * math.log(count))
    return weights


def _candidates(sentences: Sequence[Sentence], weights: Mapping[str, float]) -> list[_Candidate]:
    """Informative sentences in order; if there are many, those with the most terms."""
    # A question with a short answer, or an offer with the user's, is shown with it or not at all.
    answered = {
        asked.order
        for sentence in sentences
        for asked in sentence.asked
        if asked.is_question or sentence.to_assistant
    }
    informed = []
    for sentence in sentences:
        if sentence.order in answered:
            continue
        parts = (*sentence.asked, sentence)
        terms = tuple(dict.fromkeys(term for part in parts for term in part.terms))
        if terms:
            length = sum(len(part.text) for part in parts)
            informed.append((sum(weights[term] for term in terms), length, terms, sentence))
    densest = nlargest(_CANDIDATES, informed, key=lambda each: each[0] / (each[1] + 40))
    judged = [_judged(*each) for each in densest]
    telling = [c for c in judged if c.info * min(c.worth, 1.0) >= _share(c.sentence)]
    return sorted(telling or judged, key=lambda candidate: candidate.sentence.order)


def _share(sentence: Sentence) -> float:
    # Assistants write most, but later questions are mostly about what the user said.
    return 1.0 if sentence.is_person or sentence.asked else 0.4


def _judged(info: float, length: int, terms: tuple[str, ...], sentence: Sentence) -> _Candidate:
    text = sentence.text
    lower = text.lower()
    asks = sentence.is_question
    idle = bool(cues.FILLER.search(lower)) or (text.endswith("!") and info < 2)
    if sentence.asked:
        asks = asks or sentence.asked[0].to_assistant
        idle = idle or (not asks and bool(cues.IDLE_QUESTION.search(sentence.asked[-1].text)))
    fact = 0.0 if sentence.is_question or idle else _fact_strength(sentence, lower)
    worth = _share(sentence) * (1 + 0.5 * min(fact, 3.0))
    if text.endswith(":") and not sentence.is_person:
        worth = 0.0  # it only announces a list or a block of code
    elif idle or (sentence.is_question and not sentence.to_assistant):
        worth *= 0.3
    elif not sentence.asked and (
        cues.DANGLING.search(text) or (fact < 1 and cues.SECOND_PERSON.search(text))
    ):
        worth *= 0.7
    return _Candidate(sentence, terms, length, info, asks, fact, worth)


def _fact_strength(sentence: Sentence, lower: str) -> float:
    text = sentence.text
    flags = word_flags(text)
    when = flags & _TIME or cues.WHEN.search(lower)
    details = bool(flags & _NUMBER) + bool(when) + bool(cues.NAME.search(text))
    strength = 0.5 * details
    if sentence.asked:
        return strength + _answer_strength(sentence)
    if sentence.is_person:
        strength += bool(cues.FIRST_PERSON.search(lower)) + bool(cues.STATED.search(lower))
        strength += 2 * bool(cues.REQUEST.search(lower)) - 1.5 * bool(cues.TASK.search(text))
        strength += sentence.to_assistant and details > 0
    else:
        strength += bool(cues.RESULT.search(lower)) + sentence.in_short_turn
        strength -= 1.5 * bool(cues.ADVICE.search(text))
    if cues.DANGLING.search(text) or len(text) > _FACT_CHARS:
        strength -= 1
    return max(strength, 0.0)


def _answer_strength(sentence: Sentence) -> float:
    """Bonus of an answer to a question, which needs no words that sound like a fact."""
    question = sentence.asked[-1]
    if not question.is_question and not cues.ASKING.search(question.text):
        return 1.0
    if not question.is_person and cues.OFFER.search(question.text):
        return 0.5
    return 2.0


def _pick_facts(
    candidates: Sequence[_Candidate],
    weights: Mapping[str, float],
    covered: set[str],
    limit: int,
) -> list[_Candidate]:
    """Statements that tell more than the terms that the summary has `covered`."""

    def value(candidate: _Candidate) -> float:
        news = sum(weights[term] for term in candidate.terms if term not in covered)
        return 2 * candidate.fact + min(news, 4.0)

    stated = [c for c in candidates if len(c.sentence.text) <= _FACT_CHARS]
    strong = [c for c in stated if c.fact >= _STRONG] or _next_best(stated)
    pool = nlargest(20 * limit, strong, key=value)
    picked: list[_Candidate] = []
    while pool and len(picked) < limit:
        pool.sort(key=value)
        best = pool.pop()
        if sum(term not in covered for term in best.terms) >= _NEWS * len(best.terms):
            picked.append(best)
            covered.update(best.terms)
    return sorted(picked, key=lambda candidate: candidate.sentence.order)


def _next_best(stated: Sequence[_Candidate]) -> list[_Candidate]:
    """The best statement, as the key fact of an episode without plain facts."""
    told = [c for c in stated if c.fact > 0 and not cues.TASK.search(c.sentence.text)]
    return nlargest(2, told, key=lambda c: (c.fact, c.info))


def _pick_summary(
    candidates: Sequence[_Candidate],
    weights: Mapping[str, float],
    whole: int,
    max_chars: int,
) -> list[Sentence]:
    """Sentences for the summary: the topic, then those with the most new terms per length.

    The first may take all of `max_chars`, together they take a share of the `whole` conversation.
    """
    said: Counter[str] = Counter()
    chosen: dict[int, Sentence] = {}
    lengths: dict[int, int] = {}
    enough, most = min(int(_SHARE * whole), max_chars), min(int(_MOST * whole), max_chars)
    # A lower bound of the rendered length, without speakers' names and spaces.
    used = 0

    def budget() -> int:
        return most if chosen else max_chars

    def value(candidate: _Candidate) -> float:
        terms = candidate.terms
        news = sum([weights[t] * _REPEAT ** said[t] if t in said else weights[t] for t in terms])
        return news * candidate.worth / math.pow(candidate.length + 20, 0.7)

    def take(candidate: _Candidate) -> None:
        nonlocal used
        new = {part.order: part for part in candidate.parts if part.order not in chosen}
        size = sum(len(_own_words(part.text)) for part in new.values())
        if size > budget() - used:
            return
        if sum(term not in said for term in candidate.terms) < 0.3 * len(candidate.terms):
            return
        longer = chosen | new
        if _rendered_length(_in_order(longer), lengths) <= budget():
            chosen.update(new)
            used += size
            said.update(candidate.terms)

    topic = _topic(candidates)
    if topic:
        take(topic)
    heap = [(-value(c), c.sentence.order, c) for c in candidates if c is not topic]
    heapify(heap)
    while heap and used < enough:
        # Values only fall: the candidate that stays on top after an update is the best.
        _, order, candidate = heap[0]
        if (
            candidate.length > budget() - used
            and not candidate.sentence.asked
            and SAYS not in candidate.sentence.text
        ):
            heappop(heap)
            continue
        fresh = -value(candidate)
        if fresh > min((rival[0] for rival in heap[1:3]), default=0.0):
            heapreplace(heap, (fresh, order, candidate))
        else:
            take(heappop(heap)[2])
    return _in_order(chosen)


def _in_order(chosen: Mapping[int, Sentence]) -> list[Sentence]:
    return [chosen[order] for order in sorted(chosen)]


def _topic(candidates: Sequence[_Candidate]) -> _Candidate | None:
    """Topic of a user's request: the first turn's question, or its most informative sentence."""
    first: list[_Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.parts[0].order):
        if candidate.parts[0].to_assistant:
            first.append(candidate)
        elif first:
            break
    return max(first, key=lambda c: c.info * (1 + c.asks), default=None)


def _render(sentences: Iterable[Sentence]) -> str:
    parts: list[str] = []
    speaker = ""
    for sentence in sentences:
        text = closed(_own_words(sentence.text))
        parts.append(text if sentence.speaker == speaker else f"{sentence.speaker}{SAYS}{text}")
        speaker = sentence.speaker
    return " ".join(parts)


def _rendered_length(sentences: Iterable[Sentence], lengths: dict[int, int]) -> int:
    """Length of what `_render` makes; `lengths` caches that of each sentence."""
    total, speaker = -1, ""
    for sentence in sentences:
        length = lengths.get(sentence.order)
        if length is None:
            length = lengths[sentence.order] = len(closed(_own_words(sentence.text)))
        total += length + 1
        if sentence.speaker != speaker:
            speaker = sentence.speaker
            total += len(speaker) + len(SAYS)
    return max(total, 0)


def _render_fact(candidate: _Candidate) -> str:
    """Text of a key fact: a statement with its speaker, a short answer after its question."""
    answer = candidate.sentence
    asked = " ".join(closed(_own_words(question.text)) for question in answer.asked)
    told = _render([answer])
    if not asked:
        return told
    question = shorten(asked, _ASKED_CHARS)
    if answer.asked[0].speaker == answer.speaker:
        # One who answers their own question: the name stands before both.
        said = f"{answer.speaker}{SAYS}"
        return f"{said}{question} {told.removeprefix(said)}"
    return f"{question} {told}"


def _own_words(text: str) -> str:
    """Text without speaker separators, so that it cannot pass for another speaker's words."""
    return text.replace(SAYS, ", ")


def _without_subject(turns: Sequence[Turn], budget: int) -> str:
    """A short line for an episode without informative sentences: greetings, tools, pictures."""
    for roles in ((Role.USER, Role.ASSISTANT), (Role.TOOL,), (Role.SYSTEM,)):
        spoken = ((turn, one_line_of(turn.text[:500])) for turn in turns if turn.role in roles)
        lines = [
            f"{speaker_of(turn)}{SAYS}{shorten(_own_words(text), 120)}"
            for turn, text in spoken
            if text
        ]
        if lines:
            return shorten(" ".join(lines[:5]), min(budget, 400))
    return "No text was exchanged."
