"""Measures whether a text holds a question's evidence and answer. Pure.

A turn counts as held when at least 60 % of its word 4-grams stand in the text, so that a quotation
counts and a paraphrase or a few common words do not.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain

from .conversation import BenchTurn, Question

LONG_TURN = 400
"""A turn of more characters than this is long: a block may well quote a part of it only."""

_GRAM = 4
_HELD = 0.6
_SENTENCES = 3
_ANSWER_HELD = 0.7

# Scripts written without spaces: Thai, Lao, Burmese, Khmer, kana and Han. Each character is a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SENTENCE_END = re.compile(
    r"(?<=[.!?…])\s+|(?<=[.!?…][\"'”’)\]])\s+|(?<=[。！？])(?![」』”）])|\n+"
)

# The months as they begin in English, German, French and Spanish.
_MONTHS = (
    ("jan", "jän", "ene"), ("feb", "fév"), ("mar", "mär"), ("apr", "avr", "abr"),
    ("may", "mai"), ("jun", "juin"), ("jul", "juil"), ("aug", "août", "ago"),
    ("sep",), ("oct", "okt"), ("nov",), ("dec", "dez", "déc", "dic"),
)  # fmt: skip

Gram = tuple[str, ...]


def words(text: str) -> list[str]:
    """Return the case-folded words in order; of scripts without spaces, the characters."""
    found: list[str] = _WORD.findall(text.casefold())
    return found


def grams(text: str) -> set[Gram]:
    """Return the word 4-grams; of fewer than 4 words one gram of them all, of none nothing."""
    found = words(text)
    size = min(_GRAM, len(found))
    return _runs(found, size) if size else set()


class BlockText:
    """A memory block's text, made ready to be searched for grams."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = text.casefold()
        self._words = words(text)
        self._grams: dict[int, set[Gram]] = {}

    def holds(self, text: str) -> bool:
        """Tell whether at least 60 % of the text's grams stand in the block.

        A text without a word, such as an emoji, has to stand there as it is.
        """
        wanted = grams(text)
        return self.holds_grams(wanted) if wanted else text.strip() in self._text

    def holds_grams(self, wanted: Collection[Gram]) -> bool:
        """Tell whether at least 60 % of these grams stand in the block."""
        return sum(map(self._has, wanted)) >= _HELD * len(wanted)

    def holds_string(self, string: str) -> bool:
        """Tell whether a string stands in the block, ignoring case and white space.

        A number has to stand there whole: "12" is not in "2012".
        """
        letters = "".join(string.casefold().split())
        pattern = r"\s*".join(map(re.escape, letters))
        before = r"(?<!\d)" if letters[0].isdigit() else ""
        after = r"(?!\d)" if letters[-1].isdigit() else ""
        return re.search(before + pattern + after, self._folded) is not None

    def holds_date(self, day: date) -> bool:
        """Tell whether a day stands in the block: 2024-05-01, 1 May, May 1, 1.5. or 5月1日.

        A day is written in any of the five languages, with or without its year.
        """
        number, month = rf"0?{day.day}", rf"0?{day.month}"
        names = "|".join(_MONTHS[day.month - 1])
        forms = (
            rf"{day.year}[-/.]{month}[-/.]{number}(?!\d)",
            rf"(?<!\d){number}(?:st|nd|rd|th|er|º)?\.?\s+(?:of\s+|de\s+)?(?:{names})",
            rf"(?:{names})\w*\.?\s+{number}(?!\d)",
            rf"(?<![\d.]){number}[./]{month}(?:[./]|(?!\d))",
            rf"(?<!\d){month}月{number}[日号]",
        )
        return any(re.search(form, self._folded) for form in forms)

    def _has(self, gram: Gram) -> bool:
        size = len(gram)
        if size not in self._grams:
            self._grams[size] = _runs(self._words, size)
        return gram in self._grams[size]


class Rarity:
    """Inverse document frequency of words over the turns of one conversation."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._turns = len(texts)
        self._having = Counter(chain.from_iterable(set(words(text)) for text in texts))

    def weight(self, word: str) -> float:
        """Return ln(turns / turns that have the word); 0 for a word that no turn has."""
        having = self._having[word]
        return math.log(self._turns / having) if having else 0.0


def answer_sentences(text: str, wanted: Collection[str], rarity: Rarity) -> list[str]:
    """Return at most 3 sentences of a turn that together hold 70 % of the wanted words' weight.

    The choice is greedy: each time the sentence that adds the most weight, the first of equals.
    Where the turn has no wanted word of any weight, no sentence is better than another: all are
    returned.
    """
    sentences = [part for part in _SENTENCE_END.split(text) if words(part)]
    missing = {word: rarity.weight(word) for word in set(words(text)) & set(wanted)}
    total = sum(missing.values())
    if total <= 0:
        return sentences
    chosen: list[str] = []
    while len(chosen) < _SENTENCES and sum(missing.values()) > (1 - _ANSWER_HELD) * total:
        best = max(sentences, key=lambda sentence: _weight(sentence, missing))
        if not _weight(best, missing):
            break
        chosen.append(best)
        for word in words(best):
            missing.pop(word, None)
    return chosen


def is_complete(text: str, question: Question) -> bool | None:
    """Tell whether a block holds every answer string and day, and no forbidden string.

    None for a question that names none of them.
    """
    if not (question.answer_words or question.answer_dates or question.forbidden_words):
        return None
    block = _block(text)
    return (
        all(map(block.holds_string, question.answer_words))
        and all(map(block.holds_date, question.answer_dates))
        and not any(map(block.holds_string, question.forbidden_words))
    )


def measure_block(
    text: str, question: Question, turns: Mapping[str, BenchTurn], rarity: Rarity
) -> dict[str, tuple[float, ...]]:
    """Return the figures of one block for one question that has evidence.

    `evidence` is the share of the evidence turns that the block holds, `answer_words` the share of
    the answer strings. `long_turns` has a 1 or 0 for each long evidence turn: whether the block
    holds the sentences that answer. A figure that does not apply is left out.
    """
    block = _block(text)
    evidence = [turns[name].text for name in sorted(question.evidence_turns)]
    found: dict[str, tuple[float, ...]] = {}
    if evidence:
        found["evidence"] = (_share(block.holds(said) for said in evidence),)
    long_turns = [said for said in evidence if len(said) > LONG_TURN]
    if long_turns:
        wanted = _wanted_words(question)
        found["long_turns"] = tuple(
            float(_holds_answer(block, said, wanted, rarity)) for said in long_turns
        )
    if question.answer_words:
        found["answer_words"] = (_share(map(block.holds_string, question.answer_words)),)
    return found


def _holds_answer(block: BlockText, said: str, wanted: Collection[str], rarity: Rarity) -> bool:
    sentences = answer_sentences(said, wanted, rarity)
    return block.holds_grams(set(chain.from_iterable(map(grams, sentences))))


def _wanted_words(question: Question) -> set[str]:
    parts = [question.text, question.answer or "", *question.answer_words]
    return set(chain.from_iterable(map(words, parts)))


def _weight(sentence: str, missing: Mapping[str, float]) -> float:
    return sum(missing.get(word, 0.0) for word in set(words(sentence)))


def _runs(found: Sequence[str], size: int) -> set[Gram]:
    return {tuple(found[place : place + size]) for place in range(len(found) - size + 1)}


def _share(held: Iterable[bool]) -> float:
    values = list(held)
    return sum(values) / len(values)


@lru_cache(maxsize=4)
def _block(text: str) -> BlockText:
    """Prepare a text once for the questions asked in a row that give the same block."""
    return BlockText(text)
