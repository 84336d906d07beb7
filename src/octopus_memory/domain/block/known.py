"""Choice of the standing facts that a question needs.

Name, address, language, instructions and constraints are needed for every answer. Any other fact is
shown where the question is about it: by the subject that the question names ("Where do I live?"),
or by a word that both share ("Is Miso allowed on the train?").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ...words import listed, pattern, sections
from ..facts import Fact, FactKind

_ALWAYS = frozenset((FactKind.NAME, FactKind.LANGUAGE, FactKind.INSTRUCTION, FactKind.CONSTRAINT))
_LONGEST = 2_000
"""Characters of the question that are read."""
_LEAST_WORD = 3
"""Letters of the shortest word by which a question names a fact."""
_STEM = 5
"""Letters by which two forms of a word are compared."""


_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_HAN = re.compile(r"[\u3400-\u9fff]+")


def choose_facts(facts: Sequence[Fact], question: str) -> list[Fact]:
    """Return the current facts that the answer to `question` needs, most important first.

    Pinned facts come first, then those that every answer needs, then those that the question is
    about, each group in the order given.
    """
    asked = question[:_LONGEST]
    wanted = {kind for kind, pattern in _patterns().items() if pattern.search(asked)}
    if _all().search(asked):
        wanted = set(FactKind)
    said = frozenset(_terms(asked))
    always = [fact for fact in facts if fact.is_pinned or fact.kind in _ALWAYS]
    about = [
        fact
        for fact in facts
        if not (fact.is_pinned or fact.kind in _ALWAYS)
        and (fact.kind in wanted or _is_named(fact, said, wanted))
    ]
    return sorted(always, key=lambda fact: not fact.is_pinned) + about


@cache
def _patterns() -> dict[FactKind, re.Pattern[str]]:
    said = {kind: pattern("facts", f"{kind} subject") for kind in FactKind}
    return {
        kind: re.compile(rf"(?:(?<![^\W\u3400-\u9fff])(?:{words}))", re.IGNORECASE)
        for kind, words in said.items()
        if words
    }


@cache
def _all() -> re.Pattern[str]:
    return re.compile(pattern("facts", "all"), re.IGNORECASE)


@cache
def _words_for(slot: str) -> frozenset[str]:
    """Words of a question that stand for the people and pets of a slot."""
    return frozenset(_terms(" ".join(sections("facts").get(f"{slot} words", ()))))


def _is_named(fact: Fact, said: frozenset[str], wanted: set[FactKind]) -> bool:
    """True if the question has a word of the fact, or one for the person whom it is about."""
    if fact.kind is FactKind.PERSON:
        who = fact.slot.partition(" ")[0]
        if who in ("boss", "colleague") and FactKind.WORK in wanted:
            return True
        if not said.isdisjoint(_words_for(who)):
            return True
    return not said.isdisjoint(_terms(fact.text))


def _terms(text: str) -> Iterator[str]:
    """Words of a text that tell what it is about, each cut to its stem; pairs of Han characters."""
    for found in _HAN.finditer(text):
        run = found[0]
        pairs = [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
        yield from (pair for pair in pairs if pair not in listed("facts", "empty Chinese"))
    empty = listed("facts", "empty")
    for found in _WORD.finditer(_HAN.sub(" ", text.casefold())):
        for part in re.split(r"['’-]", found[0]):
            if len(part) >= _LEAST_WORD and part not in empty:
                yield part[:_STEM]
