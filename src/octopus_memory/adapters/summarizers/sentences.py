"""Which of an episode's sentences cover its subjects, and which state its facts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapify, heappop, heapreplace, nlargest
from itertools import chain
from typing import NamedTuple

import Stemmer

from ...domain.episode import SAYS, Summary, Turn
from ...domain.message import Role
from ...domain.stopwords import STOPWORDS
from ...domain.terms import Flag, bare, pieces, shape_flags, word_flags, words
from . import cues

_TURN_CHARS = 4_000
_EPISODE_CHARS = 1_000_000
_SENTENCE_CHARS = 240
_FACT_CHARS = 160
_CANDIDATES = 2_000
# A term counts less each time it is said again; one that a key fact says is already partly said.
_REPEAT = 0.15
_SAID_IN_FACT = 0.3
# As numbers: `IntFlag` takes longer to compare than the rest of a sentence's judgement.
_QUESTION, _NUMBER, _TIME = int(Flag.QUESTION), int(Flag.NUMBER), int(Flag.TIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    order: int
    speaker: str
    text: str
    terms: tuple[str, ...]
    is_person: bool
    """Not an assistant: a user, or anyone where people chat with each other."""
    to_assistant: bool
    in_short_turn: bool


class _Candidate(NamedTuple):
    sentence: _Sentence
    info: float
    asks: bool
    fact: float
    worth: float


def pick(turns: Sequence[Turn], *, max_chars: int, max_facts: int) -> Summary:
    """The summary and the key facts, of the turns' own sentences."""
    spoken = [turn for turn in turns if turn.role in (Role.USER, Role.ASSISTANT)]
    analyzed = _Words(_language_of(" ".join(turn.text[:100] for turn in spoken[:50])))
    sentences = _sentences(spoken, analyzed)
    weights = _term_weights(sentences, analyzed)
    candidates = _candidates(sentences, weights)
    facts = _pick_facts(candidates, weights, max_facts)
    chosen = _pick_summary(candidates, facts, weights, max_chars)
    return Summary(
        text=_render(chosen) or _without_subject(turns, max_chars),
        key_facts=tuple(_render([fact]) for fact in facts),
    )


def _sentences(turns: Sequence[Turn], analyzed: _Words) -> list[_Sentence]:
    # Where both sides have names, two people are chatting, as far as can be told.
    people = len({turn.role for turn in turns if turn.message.name}) == 2
    limit = min(_TURN_CHARS, max(100, _EPISODE_CHARS // max(1, len(turns))))
    found: list[_Sentence] = []
    for turn in turns:
        speaker, by_user = _speaker(turn), turn.role is Role.USER
        texts = list(_split(_plain(turn.text, limit)))
        for text in texts:
            if terms := analyzed.terms(text):
                sentence = _Sentence(
                    order=len(found),
                    speaker=speaker,
                    text=text,
                    terms=terms,
                    is_person=people or by_user,
                    to_assistant=by_user and not people,
                    in_short_turn=len(texts) <= 3,
                )
                found.append(sentence)
    return found


def _speaker(turn: Turn) -> str:
    call = turn.tool_call
    name = f"Tool {call.function_name}" if call else turn.message.name or ""
    return _shorten(_one_line(name), 40) or turn.role.title()


def _one_line(text: str) -> str:
    return " ".join(cues.MARKUP.sub("", text).split())


def _plain(text: str, limit: int) -> str:
    """The words of both ends, without markup; code blocks only where there is nothing else."""
    if len(text) > limit:
        text = f"{text[: limit * 3 // 4]}\n{text[-(limit // 4) :]}"
    prose = cues.FENCE.sub("\n", text).strip() or text
    return cues.MARKUP.sub("", cues.URL.sub(r"\1", cues.LINK.sub(r"\1", prose)))


def _split(text: str) -> Iterator[str]:
    for line in text.splitlines():
        held = ""
        for piece in cues.BREAK.sub(r"\1\2\n", " ".join(line.split())).split("\n"):
            held = f"{held} {piece}" if held else piece
            if not cues.ABBREVIATION.search(held[-12:]):
                yield from _trimmed(held)
                held = ""
        yield from _trimmed(held)


def _trimmed(sentence: str) -> Iterator[str]:
    if text := cues.OPENER.sub("", sentence):
        yield _shorten(text[0].upper() + text[1:], _SENTENCE_CHARS)


def _shorten(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return head[: space if space > limit // 2 else None].rstrip(" ,;:-–") + "…"


class _Words:
    """Text to distinct stems, for one episode: a stemmer is not to be shared by threads."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._stem = Stemmer.Stemmer(language).stemWord
        self._stopwords = STOPWORDS[language] | STOPWORDS["english"]
        self._known: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> tuple[str, ...]:
        known = self._known
        found = words(text, len(text))
        for word in set(found).difference(known):
            plain = bare(word)[:40]
            stems = () if plain in self._stopwords else map(self._stem, pieces(plain))
            known[word] = tuple(stems)
        return tuple(dict.fromkeys(chain.from_iterable(map(known.__getitem__, found))))


def _language_of(sample: str) -> str:
    seen = words(sample, len(sample))
    return max(STOPWORDS, key=lambda name: sum(map(STOPWORDS[name].__contains__, seen)))


@cache
def _frequent(language: str) -> frozenset[str]:
    return frozenset(_Words(language).terms(cues.FREQUENT))


def _term_weights(sentences: Sequence[_Sentence], analyzed: _Words) -> dict[str, float]:
    frequent = _frequent(analyzed.language)
    speakers = set(analyzed.terms(" ".join({sentence.speaker for sentence in sentences})))
    counts = Counter(term for sentence in sentences for term in sentence.terms)
    weights: dict[str, float] = {}
    for term, count in counts.items():
        rarity = 0.0 if term in speakers else 0.4 if term in frequent else 1.0
        weights[term] = rarity * (1 + 0.3 * math.log(count))
    return weights


def _candidates(sentences: Sequence[_Sentence], weights: Mapping[str, float]) -> list[_Candidate]:
    """The sentences that say something, the densest of them where they are many; in order."""
    informed = [(sum(weights[term] for term in s.terms), s) for s in sentences]
    densest = nlargest(_CANDIDATES, informed, key=lambda pair: pair[0] / (len(pair[1].text) + 40))
    judged = [_judged(sentence, info) for info, sentence in densest]
    telling = [c for c in judged if c.info * min(c.worth, 1.0) >= _share(c.sentence)]
    return sorted(telling or judged, key=lambda candidate: candidate.sentence.order)


def _share(sentence: _Sentence) -> float:
    # Assistants say the most, but what will be asked for is mostly what the user said.
    return 1.0 if sentence.is_person else 0.6


def _judged(sentence: _Sentence, info: float) -> _Candidate:
    text = sentence.text
    asks = bool(shape_flags(text) & _QUESTION)
    idle = bool(cues.FILLER.search(text)) or (text.endswith("!") and info < 2)
    fact = 0.0 if asks or idle else _fact_strength(sentence)
    worth = _share(sentence) * (1 + 0.5 * min(fact, 3.0))
    if text.endswith(":") and not sentence.is_person:
        worth = 0.0  # it only announces a list or a block of code
    elif idle or (asks and not sentence.to_assistant):
        worth *= 0.3
    elif cues.DANGLING.search(text) or (fact < 1 and cues.SECOND_PERSON.search(text)):
        worth *= 0.7
    return _Candidate(sentence=sentence, info=info, asks=asks, fact=fact, worth=worth)


def _fact_strength(sentence: _Sentence) -> float:
    text = sentence.text
    flags = word_flags(text)
    details = bool(flags & _NUMBER) + bool(flags & _TIME) + bool(cues.NAME.search(text))
    strength = 0.5 * details
    if sentence.is_person:
        strength += bool(cues.FIRST_PERSON.search(text)) + bool(cues.STATED.search(text))
        strength += 2 * bool(cues.REQUEST.search(text)) - 1.5 * bool(cues.TASK.search(text))
        strength += sentence.to_assistant and details > 0
    else:
        strength += bool(cues.RESULT.search(text)) + sentence.in_short_turn
        strength -= 1.5 * bool(cues.ADVICE.search(text))
    if cues.DANGLING.search(text) or len(text) > _FACT_CHARS:
        strength -= 1
    return max(strength, 0.0)


def _pick_facts(
    candidates: Sequence[_Candidate], weights: Mapping[str, float], limit: int
) -> list[_Sentence]:
    covered: set[str] = set()

    def value(candidate: _Candidate) -> float:
        news = sum(weights[term] for term in candidate.sentence.terms if term not in covered)
        return 2 * candidate.fact + min(news, 4.0)

    strong = (c for c in candidates if c.fact >= 2 and len(c.sentence.text) <= _FACT_CHARS)
    pool = nlargest(20 * limit, strong, key=value)
    picked: list[_Sentence] = []
    while pool and len(picked) < limit:
        pool.sort(key=value)
        best = pool.pop().sentence
        if sum(term not in covered for term in best.terms) >= 0.4 * len(best.terms):
            picked.append(best)
            covered.update(best.terms)
    return sorted(picked, key=lambda sentence: sentence.order)


def _pick_summary(
    candidates: Sequence[_Candidate],
    facts: Iterable[_Sentence],
    weights: Mapping[str, float],
    budget: int,
) -> list[_Sentence]:
    """What the user came for, then whatever brings most new terms for its length."""
    said = {term: _SAID_IN_FACT for fact in facts for term in fact.terms}
    chosen: list[_Sentence] = []
    # As far as can be told without rendering: speakers' names and spaces come on top.
    room = budget
    shortest = min((len(_own_words(c.sentence.text)) for c in candidates), default=0)

    def value(candidate: _Candidate) -> float:
        terms, length = candidate.sentence.terms, len(candidate.sentence.text)
        news = sum([weights[t] * _REPEAT ** said[t] if t in said else weights[t] for t in terms])
        return news * candidate.worth / math.pow(length + 20, 0.7)

    def take(sentence: _Sentence) -> None:
        nonlocal room
        size = len(_own_words(sentence.text))
        if size > room:
            return
        longer = sorted([*chosen, sentence], key=lambda chosen: chosen.order)
        new = sum(said.get(term, 0.0) < 1 for term in sentence.terms)
        if new >= 0.3 * len(sentence.terms) and len(_render(longer)) <= budget:
            chosen[:] = longer
            room -= size
            said.update({term: said.get(term, 0.0) + 1 for term in sentence.terms})

    topic = _topic(candidates)
    if topic:
        take(topic.sentence)
    heap = [(-value(c), c.sentence.order, c) for c in candidates if c is not topic]
    heapify(heap)
    while heap and shortest <= room:
        # Values only fall as more is said: whoever stays on top with a fresh value is the best.
        _, order, candidate = heap[0]
        fresh = -value(candidate)
        if fresh > min((rival[0] for rival in heap[1:3]), default=0.0):
            heapreplace(heap, (fresh, order, candidate))
        else:
            take(heappop(heap)[2].sentence)
    return chosen


def _topic(candidates: Sequence[_Candidate]) -> _Candidate | None:
    """What a user came to an assistant for: the first turn's question, or what says most in it."""
    first: list[_Candidate] = []
    for candidate in candidates:
        if candidate.sentence.to_assistant:
            first.append(candidate)
        elif first:
            break
    return max(first, key=lambda c: c.info * (1 + c.asks), default=None)


def _render(sentences: Iterable[_Sentence]) -> str:
    parts: list[str] = []
    speaker = ""
    for sentence in sentences:
        text = _own_words(sentence.text)
        if text[-1].isalnum():
            text += "." if text[-1] < "\u3000" else "。"
        parts.append(text if sentence.speaker == speaker else f"{sentence.speaker}{SAYS}{text}")
        speaker = sentence.speaker
    return " ".join(parts)


def _own_words(text: str) -> str:
    """Without the mark that says who speaks: what one says must not pass for another's words."""
    return text.replace(SAYS, ", ")


def _without_subject(turns: Sequence[Turn], budget: int) -> str:
    """A short line for an episode without a telling sentence: greetings, tools, pictures."""
    for roles in ((Role.USER, Role.ASSISTANT), (Role.TOOL,), (Role.SYSTEM,)):
        spoken = ((turn, _one_line(turn.text[:500])) for turn in turns if turn.role in roles)
        lines = [
            f"{_speaker(turn)}{SAYS}{_shorten(_own_words(text), 120)}"
            for turn, text in spoken
            if text
        ]
        if lines:
            return _shorten(" ".join(lines[:5]), min(budget, 400))
    return "No text was exchanged."
