"""Summaries without a model: the sentences that carry most, in the speakers' own words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace, nlargest
from typing import NamedTuple

import Stemmer

from ...domain.episode import SUMMARY_LIMIT, Summary, Turn
from ...domain.errors import InvalidSetting
from ...domain.message import Role
from ...domain.stopwords import STOPWORDS
from ...domain.terms import Flag, bare, pieces, turn_flags, words

_TURN_CHARS = 4_000
_EPISODE_CHARS = 1_000_000
_SENTENCE_CHARS = 240
_FACT_CHARS = 160
_CANDIDATES = 2_000
# A term counts less each time it is said again; one that a key fact says is already partly said.
_REPEAT = 0.15
_SAID_IN_FACT = 0.3

# Words that say little about a conversation's subject, beside the stopwords that say nothing.
_FREQUENT = """
absolutely agree always amazing anything appreciate awesome back bad beautiful best better big bit
come cool day definitely different enjoy ever every everyone everything exactly excited experience
feel felt find fun get give glad go good got great guess happen happy hard hear help hope idea keep
important inspiring interesting kind know last let life like little long look lot love made make
maybe mean moment much need never new next nice one only part people person place please pretty
really remember right said say see seem share show something soon sorry sound special start stay
still stuff super sure take talk tell thank thing think time totally try use want way well wish work
"""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LINK = re.compile(r"!?\[([^][\n]{0,200})\]\([^()\s]{0,500}\)")
_URL = re.compile(r"https?://([^\s/]+)\S*")
_MARKUP = re.compile(
    r"(?m)^[\s>#*+\-–•|]*(?:\d{1,2}[.)]\s+)?|\*\*|__|`+|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff|]"
)
# No break before a German month: its day is written "3. Mai".
_BREAK = re.compile(
    r"(?<=[.!?…])([\"'”’)\]]*)\s+(?!Januar|Februar|März|April|Mai|Jun|Jul|Aug|Sept|Okt|Nov|Dez)"
    r"|(?<=[。！？])([”」』）]*)"
)
_ABBREVIATION = re.compile(r"(?:^|[\s(.])(?:[^\W\d_]|Dr|Mrs?|Ms|Prof|St|N[or]|vs|ca|bzw)\.$")
_OPENER = re.compile(
    r"(?i)^(?:(?:hey|hi|hello|bye|wow|oh|ah|aw+|yeah|y[eu]p|yes|sure|okay|ok|thanks|thank you|well"
    r"|haha|lol|cool|great|nice|right|definitely|absolutely|totally|of course|by the way|btw|anyway"
    r"|also|actually|honestly|certainly|plus)(?:,? (?-i:[A-ZÀ-Þ])\w+\.?){0,2}(?:[,!.…:]+| [-–])"
    r"(?:\s+|$)|(?:and|but|so|ok|okay|yeah|also),?\s+)+"
    r"|^(?:你好|您好|谢谢|謝謝|hallo|danke|hola|gracias|merci|bonjour)[!！.。,，]\s*"
)
_NAME = re.compile(r"(?<=[\w,;:] )(?!I\b)[A-ZÀ-Þ][\w'’]+")
_FIRST_PERSON = re.compile(
    r"(?i)\b(?:i|i['’]?(?:m|ve)|i['’](?:d|ll)|my|we|we['’](?:re|ve|ll)|our|let['’]s|ich|mein\w*|mir"
    r"|wir|unser\w*|je|j['’]|mon|ma|mes|nous|yo|mi|mis|me gusta|soy|tengo|vivo|prefiero|eu|meu"
    r"|minha)\b|[我私僕俺]|^(?:had|went|got|bought|been|took|made|gonna|just \w+ed|trying)\b"
)
_SECOND_PERSON = re.compile(r"(?i)\b(?:you|your)\b")
# What lasts (likes, traits, work, home), what happened, what is planned or decided.
_STATED = re.compile(
    r"(?i)\b(?:prefer\w*|favou?rite|allergic|vegetarian|vegan|can['’]t stand|hates?|dislikes?"
    r"|call me|my name|i['’]d rather|i (?:always|never|usually|only)|(?:i|we)(?:['’]ve| have)"
    r"|(?:i['’]?m|i am|we['’]re|we are) (?:\w+ )?(?:an?|the|from|in|based|married|keen|into|\w+ing"
    r"|\d+)|i (?:really |also |still )?(?:like|love|enjoy|live|work|study|own|run|teach|play|use"
    r"|speak)|(?:my|our|ma|mon|mes|meine?|mi|mis) (?:\w+ ){1,3}(?:is|are|was|were|ha[sd]|have"
    r"|lives?|works?|starts?|est|sont|ist|sind|hat|wird|es|tiene)|ich (?:bin|habe|wohne|arbeite|mag"
    r"|heiße|bevorzuge|esse|lebe|nehme)|j['’](?:ai|habite|aime)|je (?:suis|préfère|travaille"
    r"|m['’]appelle)|me llamo|prefiero|vivo|trabajo|me gusta|soy|tengo|decid\w+|agreed|let['’]s"
    r"|plan(?:s|ning|ned)? (?:to|on)|going to|gonna|i(?:['’]ll| will)|i (?:want|need)|booked"
    r"|signed up|deadline|möchte|werde|quiero|voy a)\b|(?:\b(?:i|we)(?: (?:just|also|recently"
    r"|finally|even|actually|once|first|had|\w+ly))* |^(?:just |recently |finally )?)(?:(?!need"
    r"|feed|speed|excited|indeed)\w{2,}ed|went|got|bought|made|took|won|lost|had|met|saw|found"
    r"|began|gave|wrote|built|taught|ran|left|became|broke|came|drove|flew|spent|sold|read|grew"
    r"|chose|quit)\b|我(?:是|有|住|喜欢|喜歡|在|叫|的|对|想|要|决定|打算)|私は|好き|过敏|[了過]"
)
_REQUEST = re.compile(
    r"(?i)\b(?:please|pls|plz|bitte|s['’]il (?:vous|te) plaît|por favor)\b.*\b(?:be|keep|call|speak"
    r"|answer|reply|don['’]t|do not|always|never|avoid|remember|address|duzen|siezen|formal\w*)\b"
    r"|\b(?:call me|from now on|remember that|keep in mind)\b|请(?:用|叫|不要|记住)|ください"
)
_TASK = re.compile(
    r"(?i)^(?:please |pls |can |could )?(?:you )?(?:write|give|make|create|explain|translate|list"
    r"|find|show|tell|help|suggest|recommend|summari[sz]e|generate|fix|add|rewrite|compare|describe"
    r"|draft|calculate|check|what|how|schreib\w*|erklär\w*|übersetz\w*)\b"
)
_RESULT = re.compile(
    r"(?i)\b(?:you(?: have|['’]ve| are|['’]re| need| owe)|your|confirm\w*|booked|scheduled|total"
    r"|due|remaining|result|costs?|sent|created|updated|fixed|cause|deadline|delivered|sie haben"
    r"|ihr\w*|vous avez|votre|tienes?)\b|[您你]"
)
_ADVICE = re.compile(r"(?i)\b(?:you (?:can|could|should|may|might)|if you|consider|try|often)\b")
_FILLER = re.compile(
    r"(?i)\b(?:(?:i['’]m|i am|i was) (?:so |really |very |always |just |also )*(?:glad|happy|sorry"
    r"|sure|here (?:to|for)|excited|proud|grateful|thankful|off to)|i (?:think|hope|guess|believe"
    r"|know (?:how|what|you)|understand|bet|wish|wonder|have faith)|i can(?:['’]t)? (?:help|imagine"
    r"|see|wait)|can['’]t wait|(?:happy|glad) to|let me|feel free|keep (?:you|me) (?:updated"
    r"|posted)|you['’]re welcome|sounds? (?:good|great|like)|good luck|i(?:['’]ll| will) (?:keep"
    r"|make sure|let you|try|do that)|best of luck|congrat\w*|as an ai|i (?:really )?love (?:that"
    r"|it|this|your)|thx|thank(?:s| you)|take care|have a (?:great|good|nice)|see you|talk (?:soon"
    r"|later)|how can i|catch (?:up|you)|keep (?:up|going|it up|those)|good to (?:see|hear)"
    r"|no (?:problem|worries)|means? a lot|you got this|agree|appreciate)\b|\b(?:to"
    r"|gonna) keep \w+ing|^that['’]s (?:so |really |very )?\w+[.!]"
)
_DANGLING = re.compile(r"(?i)^(?:it|that|this|they|he|she|those|these|there|here)\b")


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


class ExtractiveSummarizer:
    """Picks sentences that cover an episode's subjects and state its facts, offline.

    The same turns always give the same summary. The work is bounded, so no `timeout` is needed: of
    very long turns, and of each turn of a very long episode, only both ends are read.
    """

    def __init__(self, *, max_chars: int = 1_200, max_facts: int = 8) -> None:
        if not 80 <= max_chars <= SUMMARY_LIMIT:
            raise InvalidSetting("max_chars", f"must be between 80 and {SUMMARY_LIMIT:,}")
        if max_facts < 0:
            raise InvalidSetting("max_facts", "must not be negative: 0 gives no key facts")
        self._max_chars = max_chars
        self._max_facts = max_facts

    @property
    def name(self) -> str:
        return "extractive-v1"

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:  # noqa: ARG002
        spoken = [turn for turn in turns if turn.role in (Role.USER, Role.ASSISTANT)]
        analyzed = _Words(" ".join(turn.text[:100] for turn in spoken[:50]))
        sentences = _sentences(spoken, analyzed)
        weights = _term_weights(sentences, analyzed)
        candidates = _candidates(sentences, weights)
        facts = _pick_facts(candidates, weights, self._max_facts)
        chosen = _pick_summary(candidates, facts, weights, self._max_chars)
        return Summary(
            text=_render(chosen) or _without_subject(turns, self._max_chars),
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
    return " ".join(_MARKUP.sub("", text).split())


def _plain(text: str, limit: int) -> str:
    """The words of both ends, without markup; code blocks only where there is nothing else."""
    if len(text) > limit:
        text = f"{text[: limit * 3 // 4]}\n{text[-(limit // 4) :]}"
    prose = _FENCE.sub("\n", text).strip() or text
    return _MARKUP.sub("", _URL.sub(r"\1", _LINK.sub(r"\1", prose)))


def _split(text: str) -> Iterator[str]:
    for line in text.splitlines():
        held = ""
        for piece in _BREAK.sub(r"\1\2\n", " ".join(line.split())).split("\n"):
            held = f"{held} {piece}" if held else piece
            if not _ABBREVIATION.search(held[-12:]):
                yield from _trimmed(held)
                held = ""
        yield from _trimmed(held)


def _trimmed(sentence: str) -> Iterator[str]:
    if text := _OPENER.sub("", sentence):
        yield _shorten(text[0].upper() + text[1:], _SENTENCE_CHARS)


def _shorten(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return head[: space if space > limit // 2 else None].rstrip(" ,;:-–") + "…"


class _Words:
    """Text to distinct stems, for one episode: a stemmer is not to be shared by threads."""

    def __init__(self, sample: str) -> None:
        seen = words(sample, len(sample))
        language = max(STOPWORDS, key=lambda name: sum(w in STOPWORDS[name] for w in seen))
        self._stem = Stemmer.Stemmer(language).stemWord
        self._stopwords = STOPWORDS[language] | STOPWORDS["english"]
        self._known: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> tuple[str, ...]:
        known = self._known
        found = words(text, len(text))
        for word in found:
            if word not in known:
                plain = bare(word)[:40]
                stems = () if plain in self._stopwords else map(self._stem, pieces(plain))
                known[word] = tuple(stems)
        return tuple(dict.fromkeys(term for word in found for term in known[word]))


def _term_weights(sentences: Sequence[_Sentence], analyzed: _Words) -> dict[str, float]:
    frequent = set(analyzed.terms(_FREQUENT))
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
    asks = bool(turn_flags(text) & Flag.QUESTION)
    idle = bool(_FILLER.search(text)) or (text.endswith("!") and info < 2)
    fact = 0.0 if asks or idle else _fact_strength(sentence)
    worth = _share(sentence) * (1 + 0.5 * min(fact, 3.0))
    if text.endswith(":") and not sentence.is_person:
        worth = 0.0  # it only announces a list or a block of code
    elif idle or (asks and not sentence.to_assistant):
        worth *= 0.3
    elif _DANGLING.search(text) or (fact < 1 and _SECOND_PERSON.search(text)):
        worth *= 0.7
    return _Candidate(sentence=sentence, info=info, asks=asks, fact=fact, worth=worth)


def _fact_strength(sentence: _Sentence) -> float:
    text = sentence.text
    flags = turn_flags(text)
    details = bool(flags & Flag.NUMBER) + bool(flags & Flag.TIME) + bool(_NAME.search(text))
    strength = 0.5 * details
    if sentence.is_person:
        strength += bool(_FIRST_PERSON.search(text)) + bool(_STATED.search(text))
        strength += 2 * bool(_REQUEST.search(text)) - 1.5 * bool(_TASK.search(text))
        strength += sentence.to_assistant and details > 0
    else:
        strength += bool(_RESULT.search(text)) + sentence.in_short_turn
        strength -= 1.5 * bool(_ADVICE.search(text))
    if _DANGLING.search(text) or len(text) > _FACT_CHARS:
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

    def value(candidate: _Candidate) -> float:
        terms, length = candidate.sentence.terms, len(candidate.sentence.text)
        news = sum(weights[term] * math.pow(_REPEAT, said.get(term, 0.0)) for term in terms)
        return news * candidate.worth / math.pow(length + 20, 0.7)

    def take(sentence: _Sentence) -> None:
        longer = sorted([*chosen, sentence], key=lambda chosen: chosen.order)
        new = sum(said.get(term, 0.0) < 1 for term in sentence.terms)
        if new >= 0.3 * len(sentence.terms) and len(_render(longer)) <= budget:
            chosen[:] = longer
            said.update({term: said.get(term, 0.0) + 1 for term in sentence.terms})

    topic = _topic(candidates)
    if topic:
        take(topic.sentence)
    heap = [(-value(c), c.sentence.order, c) for c in candidates if c is not topic]
    heapify(heap)
    while heap:
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
        text = sentence.text
        if text[-1].isalnum():
            text += "." if text[-1] < "\u3000" else "。"
        parts.append(text if sentence.speaker == speaker else f"{sentence.speaker}: {text}")
        speaker = sentence.speaker
    return " ".join(parts)


def _without_subject(turns: Sequence[Turn], budget: int) -> str:
    """A short line for an episode without a telling sentence: greetings, tools, pictures."""
    for roles in ((Role.USER, Role.ASSISTANT), (Role.TOOL,), (Role.SYSTEM,)):
        spoken = ((turn, _one_line(turn.text[:500])) for turn in turns if turn.role in roles)
        lines = [f"{_speaker(turn)}: {_shorten(text, 120)}" for turn, text in spoken if text]
        if lines:
            return _shorten(" ".join(lines[:5]), min(budget, 400))
    return "No text was exchanged."
