"""Checks of a model's summary and facts against the conversation.

A weak model invents names and numbers, repeats its instructions or itself. A sentence that says
what nobody said is dropped, so that it never replaces an extract of what was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from ...domain.block.passages import split_sentences
from ...domain.episode import Summary, Turn
from ...domain.facts import FoundFact
from ...domain.message import Role, as_text
from ...domain.search.terms import words
from ...words import sections
from .sentences import Words, language_of

_LEAST_SAID = 0.25
"""Least share of a sentence's terms that were said. A summary uses words of its own, too."""
_LEAST_TERMS = 3
"""Terms from which on their share counts: "Asked about holidays." may be right with none."""
_ECHO_WORDS = 6
"""Words in a row that a sentence shares with the instructions and not with the conversation."""
_MOST_REPEATED = 40
_LEAST_DISTINCT = 0.2
_YEARS_AROUND = 2
_NUMBER = re.compile(r"\d+(?:[.,:/\u202f’'-]\d+)*")
_QUOTED = re.compile(r'"([^"]+)"')
_WORD = re.compile(r"[^\W\d_][^\W_]*(?:[-’'][^\W\d_]+)*")
_CALENDAR = frozenset(
    (
        *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        *("january", "february", "march", "april", "may", "june", "july", "august"),
        *("september", "october", "november", "december", "utc", "am", "pm"),
    )
)
_MONTH = (
    r"(?:jan|feb|fév|mar|mär|apr|avr|abr|may|mai|jun|juin|jul|juil|aug|aoû|ago|sep|oct|okt|nov|dec|"
    r"dez|déc|dic|ene)\w*"
)
# Models turn "tomorrow" into a date, whose day nobody said.
_DAY = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th|\.|er)?\s+(?:of\s+|de\s+)?{_MONTH}"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?!:)"
    r"|(?<=\d{4}-)\d\d-\d\d\b|\d{1,2}月|\d{1,2}日",
    re.IGNORECASE,
)


@cache
def _spelled() -> dict[str, str]:
    """Digits by the words for small numbers."""
    lines = sections("sentences")["numbers from zero"]
    return {word: str(n) for n, line in enumerate(lines) for word in line.split()}


class NotSaid(Exception):
    """Raised for a summary that the conversation does not support."""


class Grounding:
    """Decides what of a model's answer the turns of one episode support."""

    def __init__(self, turns: Sequence[Turn], instructions: str) -> None:
        spoken = [turn for turn in turns if turn.role is not Role.SYSTEM]
        self._words = Words(language_of(spoken))
        self._by_turn = {turn.ordinal: frozenset(self._words.terms(_said(turn))) for turn in spoken}
        text = "\n".join(map(_said, spoken))
        self._terms = frozenset().union(*self._by_turn.values())
        spelled = _spelled()
        self._numbers = _numbers(text) | {
            spelled[w] for w in words(text, len(text)) if w in spelled
        }
        self._years = {turn.at.year for turn in spoken}
        # Without the first word of an example, which is the form of a fact: "Lives in …".
        quoted = " ".join(each.partition(" ")[2] for each in _QUOTED.findall(instructions))
        self._examples = frozenset(self._words.terms(quoted)) - self._terms
        self._echoes = _runs(instructions) - _runs(text)

    def check(self, made: Summary) -> Summary:
        """Return the answer without what nobody said.

        :raises NotSaid: if less than half of the summary is left
        """
        sentences = [each.strip() for each in split_sentences(made.text) if each.strip()]
        distinct = list(dict.fromkeys(sentences))
        kept = [each for each in distinct if self.supports(each)]
        terms = self._words.terms(" ".join(kept))
        said = sum(term in self._terms for term in terms)
        if 2 * len(kept) < len(sentences) or said < _LEAST_SAID * len(terms) or _repeats(made.text):
            raise NotSaid("the model's summary says what nobody said: try another model")
        text = made.text if len(kept) == len(sentences) else " ".join(kept)
        return replace(
            made,
            text=text,
            key_facts=tuple(each for each in made.key_facts if self.supports(each)),
            facts=tuple(each for each in made.facts if self._is_fact(each)),
        )

    def supports(self, sentence: str) -> bool:
        """Return whether the turns say this: its names, its numbers and enough of its words."""
        terms = self._words.terms(sentence)
        unsaid = [term for term in terms if term not in self._terms and not term.isdecimal()]
        if unsaid and self._examples.issuperset(unsaid):
            return False
        if len(terms) >= _LEAST_TERMS and len(terms) - len(unsaid) < _LEAST_SAID * len(terms):
            return False
        return (
            self._echoes.isdisjoint(_runs(sentence))
            and all(map(self._is_number, _NUMBER.findall(_DAY.sub("", sentence))))
            and all(map(self._is_name, self._names(sentence)))
        )

    def _is_fact(self, fact: FoundFact) -> bool:
        """Return whether the named turn, or the one that it answers, says something of this."""
        if not self.supports(fact.text):
            return False
        near = self._by_turn.get(fact.ordinal, frozenset()) | self._by_turn.get(
            fact.ordinal - 1, frozenset()
        )
        terms = self._words.terms(fact.text)
        return not terms or not near.isdisjoint(terms)

    def _names(self, sentence: str) -> Iterable[str]:
        """Words that are written as names. German writes every noun so, and is not looked at."""
        if self._words.language == "german":
            return []
        found = list(_WORD.finditer(sentence))
        inside = {each[0] for each in found[1:] if each[0][0].isupper()}
        return [name for name in inside if name.casefold() not in _CALENDAR and len(name) > 1]

    def _is_name(self, name: str) -> bool:
        # A word without terms is a stopword, such as "I".
        terms = self._words.terms(name)
        return not terms or not self._terms.isdisjoint(terms)

    def _is_number(self, number: str) -> bool:
        """Return whether a number was said, or is a year near the conversation."""
        found = re.findall(r"\d+", number)
        if number in self._numbers or "".join(found) in self._numbers:
            return True
        return all(each.lstrip("0") in self._numbers or self._is_year(each) for each in found)

    def _is_year(self, digits: str) -> bool:
        near = (abs(int(digits) - year) <= _YEARS_AROUND for year in self._years)
        return digits.isascii() and any(near)


def _said(turn: Turn) -> str:
    """Everything that a turn says, with names and tool calls."""
    call = turn.tool_call
    parts = [turn.text, turn.message.name, turn.agent, as_text(list(turn.message.requests))]
    if call is not None:
        parts += [call.function_name, as_text(call.arguments), as_text(call.result)]
    return " ".join(part for part in parts if part)


def _numbers(text: str) -> frozenset[str]:
    """The numbers of a text, whole and by their groups of digits."""
    found = _NUMBER.findall(text)
    groups = {group.lstrip("0") for each in found for group in re.findall(r"\d+", each)}
    return frozenset({*found, *groups, *(re.sub(r"\D", "", each) for each in found)})


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    found = words(text, len(text))
    ends = range(_ECHO_WORDS, len(found) + 1)
    return frozenset(tuple(found[end - _ECHO_WORDS : end]) for end in ends)


def _repeats(text: str) -> bool:
    """Return whether a long text says the same few words again and again."""
    found = words(text, len(text))
    return len(found) > _MOST_REPEATED and len(set(found)) < _LEAST_DISTINCT * len(found)
