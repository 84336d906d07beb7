"""The rules that find standing facts: their form, and how they are read from the package's data.

Each language has a TOML file. Its patterns are regular expressions that ignore case, in which
`<<NAME>>` stands for a macro of the file or one of `_MACROS`; a macro that is a list is one of its
words. `text` and `slot` are templates of a pattern's named groups.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ....domain.facts import FactKind

LANGUAGES = ("english", "german", "french", "spanish", "chinese")

# A name: one capital word, or several with particles between them.
_CAPITAL = r"(?-i:[A-ZÀ-ÖØ-Þ])[\w'’-]*(?:\.(?=\w))?"
_PARTICLE = r"(?:de|la|le|les|da|do|del|der|den|van|von|am|an|sur|upon|of|los|las|el|y|im)"
# Drugs by the endings that their names have in most languages, then those without one.
_DRUG = (
    r"(?:[\w-]*(?:pril|sartan|statina?e?|prolol|olol|formina?e?|farina?e?|parina?e?|mycina?e?"
    r"|micina|cillina?e?|cilina|prazole?|zepam|zolam|lopram|oxetina?e?|tralina?e?|profena?o?"
    r"|profène|cetamol|cétamol|thyroxine?|tiroxina|dipine?a?|gliptina?e?|gliflozina?e?|xabana?"
    r"|triptana?|setrona?|coxib|nazole?|thiazide?|tiazida|semide?|gatran)"
    r"|aspirina?e?|insulina?e?|cortisone?|cortisona|prednisolone?|prednisone?|prednisona|marcumar"
    r"|eliquis|xarelto|digoxina?e?|lithium|litio|methotrexate?|metotrexato|tramadol|morphine?"
    r"|codeine?|ozempic|wegovy|clopidogrel|l-thyroxin|euthyrox|levothyrox|ventolin"
    r"|salbutamol|gabapentine?a?|pregabaline?a?|lyrica|ritalin|concerta)"
)
_AMOUNT = (
    r"(?:[€$£¥]\s?\d[\d.,’' ]*k?|\d[\d.,’' ]*(?:k\b|\s?(?:euros?|eur|dollars?|usd|pounds?|gbp"
    r"|francs?|franken|chf|pesos?|yuan|rmb|mille|mil|tausend|thousand)\b|\s?[€$£¥]))"
)
_MACROS = {
    "NAME": _CAPITAL,
    "NAMES": rf"{_CAPITAL}(?:(?: {_PARTICLE}){{0,2}} {_CAPITAL}){{0,3}}",
    "END": r"(?=\s*(?:[.,;:!?…()–]|$))",
    "DRUG": _DRUG,
    "AMOUNT": _AMOUNT,
}
_CLAUSE_END = re.compile(r"[,;:–—(.!?，。；：！？、（]\s*|\s[-–—]\s")
_MACRO = re.compile(r"<<(\w+)>>")

DRUG = re.compile(_DRUG, re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A statement of the user that is a standing fact."""

    kind: FactKind
    pattern: re.Pattern[str]
    """Matches from the start of a clause, which `clauses` finds."""
    text: str
    """A template of the pattern's groups; empty for the user's own sentence."""
    slot: str
    """A template, too; `*` for a fact that replaces nothing but itself."""
    ends: bool
    near: re.Pattern[str] | None
    """What the turn, or the one before it, must have as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to the user whose short answer is a standing fact: the label, then the answer."""

    kind: FactKind
    pattern: re.Pattern[str]
    label: str
    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """Everything that is known of one language."""

    rules: tuple[Rule, ...]
    asked: tuple[Asked, ...]
    connective: re.Pattern[str]
    """A word that may open a clause and is no part of it: "and", "by the way"."""
    joint: re.Pattern[str]
    """A word inside a sentence after which a clause may begin."""
    unreal: re.Pattern[str]
    """What makes a later clause of the sentence no statement: conditions, reports, stories."""
    dangling: re.Pattern[str]
    """How a text ends that was cut in the middle of a phrase."""
    evasive: re.Pattern[str]
    """An answer that tells nothing: "no idea"."""
    other: re.Pattern[str]
    """In a question: another person than the user, as group `relation`."""
    task: re.Pattern[str]
    """A turn that brings a text to work on, which is not the user speaking."""
    relations: Mapping[str, str]
    """Words for relatives, friends and pets to the slot that they share in every language."""


@cache
def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def gate(name: str) -> frozenset[str]:
    """Words of which a text in an unknown language must have one to be searched by these rules."""
    return frozenset(_data(name)["gate"].split())


@cache
def language(name: str) -> Language:
    """The rules of a language, compiled when they are first needed."""
    data = _data(name)
    relations = {word: slot for slot, words in data["relations"].items() for word in words}
    macros = _MACROS | {key: _alternatives(value) for key, value in data["macros"].items()}
    macros["RELATION"] = _alternatives(list(relations))

    def compiled(pattern: str) -> re.Pattern[str]:
        return re.compile(_expanded(pattern, macros), re.IGNORECASE)

    return Language(
        rules=tuple(_rule(each, compiled) for each in data["rules"]),
        asked=tuple(
            Asked(
                kind=FactKind(each["kind"]),
                pattern=compiled(each["pattern"]),
                label=each["label"],
                slot=each["slot"],
            )
            for each in data["asked"]
        ),
        connective=compiled(data["connective"]),
        joint=compiled(data["joint"]),
        unreal=compiled(data["unreal"]),
        dangling=compiled(data["dangling"]),
        evasive=compiled(data["evasive"]),
        other=compiled(data["other"]),
        task=compiled(data["task"]),
        relations=relations,
    )


def _rule(each: Mapping[str, Any], compiled: Callable[[str], re.Pattern[str]]) -> Rule:
    near = each.get("near")
    return Rule(
        kind=FactKind(each["kind"]),
        pattern=compiled(each["pattern"]),
        text=each.get("text", ""),
        slot=each.get("slot", "*"),
        ends=each.get("ends", False),
        near=compiled(near) if near else None,
    )


def clauses(sentence: str, known: Language) -> list[int]:
    """Where the clauses of a sentence begin, each with and without the words that open it."""
    starts = {0, *(found.end() for found in _CLAUSE_END.finditer(sentence))}
    starts.update(found.end() for found in known.joint.finditer(sentence))
    for start in tuple(starts):
        place = start
        while opened := known.connective.match(sentence, place):
            if opened.end() <= place:
                break
            place = opened.end()
            starts.add(place)
    return sorted(starts)


def _alternatives(value: str | list[str]) -> str:
    if isinstance(value, str):
        return value
    return f"(?:{'|'.join(sorted(value, key=len, reverse=True))})"


def _expanded(pattern: str, macros: Mapping[str, str]) -> str:
    while "<<" in pattern:
        pattern = _MACRO.sub(lambda found: macros[found[1]], pattern)
    return pattern
