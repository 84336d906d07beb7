"""Splits turns into sentences with speaker, terms, and the question that a short answer needs."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import Stemmer

from ...domain.block.passages import split_sentences
from ...domain.episode import Turn
from ...domain.message import Role
from ...domain.search.languages import stopwords
from ...domain.search.terms import Flag, bare, pieces, shape_flags, words
from . import cues

_TURN_CHARS = 40_000
_EPISODE_CHARS = 400_000
_LEAST_TURN_CHARS = 100
_SENTENCE_CHARS = 240
_NAME_CHARS = 40
# A turn up to this size after a question is one answer.
_ANSWER_CHARS = 140
# A reply up to this size is joined to the sentence before it, even if that is not a question.
_BARE_CHARS = 30
_QUESTION_CHARS = 140
_MOST_QUESTIONS = 3
_FRAGMENT_CHARS = 25
# Maximum size of an answer that needs its question, with and without a subject of its own.
_NEEDY_WORDS = 12
_NEEDY_UNSPACED = 14
_QUESTION = int(Flag.QUESTION)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sentence:
    """A sentence, or a short answer of several."""

    order: int
    ordinal: int
    """Position of its turn."""
    speaker: str
    text: str
    terms: tuple[str, ...]
    is_person: bool
    """True for a user, and for both sides if people chat with each other."""
    to_assistant: bool
    in_short_turn: bool
    is_question: bool
    asked: tuple[Sentence, ...] = ()
    """Questions that this sentence answers and needs to be understood."""


_KNOWN_WORDS = 50_000


class Words:
    """Maps text to distinct stems. One per thread, because a stemmer is not thread-safe."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._stem = Stemmer.Stemmer(language).stemWord
        self._stopwords = stopwords()[language] | stopwords()["english"]
        self._known: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> tuple[str, ...]:
        known = self._known
        found = words(text, len(text))
        if len(known) > _KNOWN_WORDS:
            known.clear()
        for word in set(found).difference(known):
            plain = bare(word)[:40]
            stems = () if plain in self._stopwords else map(self._stem, pieces(plain))
            known[word] = tuple(stems)
        return tuple(dict.fromkeys(chain.from_iterable(map(known.__getitem__, found))))


_of_thread = threading.local()


def words_of(language: str) -> Words:
    """The thread's stems of a language, kept because most words of an episode were met before."""
    made: dict[str, Words] = _of_thread.__dict__.setdefault("words", {})
    if language not in made:
        made[language] = Words(language)
    return made[language]


def language_of(turns: Sequence[Turn]) -> str:
    """The language whose stopwords occur most in the first turns."""
    sample = " ".join(turn.text[:100] for turn in turns[:50])
    seen = words(sample, len(sample))
    return max(stopwords(), key=lambda name: sum(map(stopwords()[name].__contains__, seen)))


def read_sentences(turns: Sequence[Turn], analyzed: Words) -> list[Sentence]:
    """Sentences of user and assistant turns, in order."""
    # If both sides have names, assume that two people are chatting.
    people = len({turn.role for turn in turns if turn.message.name}) == 2
    limit = _turn_limit(turns)
    found: list[Sentence] = []
    before: list[Sentence] = []
    for turn in turns:
        speaker, by_user = speaker_of(turn), turn.role is Role.USER
        heard = before if before and before[-1].speaker != speaker else []
        answers = bool(_trailing_questions(heard))
        text = plain(turn.text, limit)
        texts = list(_statements(text, answers=answers, by_person=by_user or people))
        said: list[Sentence] = []
        for text in texts:
            sentence = Sentence(
                order=len(found),
                ordinal=turn.ordinal,
                speaker=speaker,
                text=text,
                terms=analyzed.terms(text),
                is_person=people or by_user,
                to_assistant=by_user and not people,
                in_short_turn=len(texts) <= 3,
                is_question=bool(shape_flags(text) & _QUESTION),
                asked=_asked_before(text, said[-1]) if said else _needed(text, heard, texts),
            )
            found.append(sentence)
            said.append(sentence)
        before = said or before
    return found


def speaker_of(turn: Turn) -> str:
    """Name of the speaker, or the role."""
    call = turn.tool_call
    name = f"Tool {call.function_name}" if call else turn.message.name or ""
    return shorten(one_line_of(name), _NAME_CHARS) or turn.role.title()


def one_line_of(text: str) -> str:
    """Text without markup and line breaks."""
    return " ".join(cues.MARKUP.sub("", text).split())


def shorten(text: str, limit: int) -> str:
    """Text cut after a word to at most `limit` characters, with an ellipsis."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return head[: space if space > limit // 2 else None].rstrip(" ,;:-–") + "…"


def closed(text: str) -> str:
    """A sentence that ends with a full stop or another end mark."""
    if text[-1].isalnum():
        text += "." if text[-1] < "\u3000" else "。"
    return text


def _turn_limit(turns: Sequence[Turn]) -> int:
    """Characters of each turn that are read: all, unless the episode is very long."""
    lengths = sorted(len(turn.text) for turn in turns)
    left = _EPISODE_CHARS
    for i, length in enumerate(lengths):
        share = left // (len(lengths) - i)
        if length > share:
            return max(_LEAST_TURN_CHARS, min(share, _TURN_CHARS))
        left -= length
    return _TURN_CHARS


def plain(text: str, limit: int) -> str:
    """Text of a turn without markup; code blocks only if there is nothing else.

    Of a turn over the limit, the start, the middle and the end are kept.
    """
    if len(text) > limit:
        half, quarter = limit // 2, limit // 4
        middle = (half + len(text) - quarter) // 2
        parts = (text[:half], text[middle - quarter // 2 : middle + quarter // 2], text[-quarter:])
        text = "\n".join(parts)
    prose = cues.FENCE.sub("\n", text).strip() or text
    clean = cues.MARKUP.sub("", cues.URL.sub(r"\1", cues.LINK.sub(r"\1", prose)))
    # A single number is an answer ("52. No."), not a list.
    is_list = len(cues.NUMBERING.findall(clean)) > 1
    return cues.NUMBERING.sub("", clean) if is_list else clean


def _statements(text: str, *, answers: bool, by_person: bool) -> Iterator[str]:
    """Sentences of a turn; a short reply to a question is one statement."""
    opener = cues.OPENER
    if answers:
        opener = cues.PERSON_OPENER if by_person else cues.ASSISTANT_OPENER
    sentences = [each for line in text.splitlines() for each in split_sentences(line)]
    if answers and len(sentences) > 1 and sum(map(len, sentences)) <= _ANSWER_CHARS:
        told = [closed(each) for each in sentences if not shape_flags(each) & _QUESTION]
        asks = [each for each in sentences if shape_flags(each) & _QUESTION]
        sentences = [" ".join(told), *asks] if told else asks
    for sentence in _glued(sentences):
        if trimmed := opener.sub("", sentence):
            yield from _chunks(trimmed)


def _glued(sentences: Sequence[str]) -> Iterator[str]:
    """Sentences, with "No, don't." and the like joined to the next."""
    held = ""
    for sentence in sentences:
        joined = f"{held} {sentence}" if held else sentence
        held = joined if len(joined) <= _FRAGMENT_CHARS and cues.YES_NO.search(joined) else ""
        if not held:
            yield joined
    if held:
        yield held


def _chunks(sentence: str) -> Iterator[str]:
    """Parts of a sentence of bounded length, cut after clauses."""
    while len(sentence) > _SENTENCE_CHARS:
        head = sentence[:_SENTENCE_CHARS]
        cut = max(head.rfind(end) + len(end.rstrip()) for end in (", ", "; ", " – ", "，", "；"))
        if cut < _SENTENCE_CHARS // 3:
            yield shorten(sentence, _SENTENCE_CHARS)
            return
        yield sentence[:cut].rstrip(" ,;–，；")
        sentence = sentence[cut:].lstrip()
    if sentence:
        yield sentence


def _trailing_questions(said: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Questions at the end of a turn, as many as fit."""
    questions = [sentence for sentence in said[-4:] if sentence.is_question]
    taken: list[Sentence] = []
    room = _QUESTION_CHARS
    for sentence in reversed(questions[-_MOST_QUESTIONS:]):
        room -= len(sentence.text)
        if taken and room < 0:
            break
        taken.insert(0, sentence)
    return tuple(taken)


def _asked_before(text: str, before: Sentence) -> tuple[Sentence, ...]:
    """Question before a fragment in the same turn: "Can I raise it? From 4 to 6 percent."."""
    if len(text) > _BARE_CHARS or not before.is_question or not _is_needy(text):
        return ()
    return (
        () if cues.REQUEST.search(text.lower()) or cues.FILLER.search(text.lower()) else (before,)
    )


def _needed(text: str, heard: Sequence[Sentence], texts: Sequence[str]) -> tuple[Sentence, ...]:
    """The other side's question, if the first sentence of a turn needs it."""
    if not heard or not text.strip(" .!,…") or not _is_needy(text):
        return ()
    if questions := _trailing_questions(heard):
        return questions
    last = heard[-1]
    is_idle = text.endswith("!") or cues.FILLER.search(text.lower())
    is_bare = len(texts) == 1 and len(text) <= _BARE_CHARS and not is_idle
    return (last,) if is_bare and len(last.text) <= _ANSWER_CHARS else ()


def _is_needy(text: str) -> bool:
    """True if a statement has no subject of its own, or begins with yes, no or a pronoun."""
    if shape_flags(text) & _QUESTION:
        return False
    if cues.YES_NO.search(text) or cues.DANGLING.search(text):
        return len(text) <= _SENTENCE_CHARS
    if cues.FIRST_PERSON.search(text.lower()) or cues.RESULT.search(text.lower()):
        return False
    if _UNSPACED.search(text):
        return len(text) <= _NEEDY_UNSPACED
    return len(text.split()) <= _NEEDY_WORDS
