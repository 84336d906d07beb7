"""Rules that find standing facts, read from one TOML file per language.

Patterns are case-insensitive regular expressions, in which `<<NAME>>` stands for a macro of the
file or one of `_MACROS`; a macro that is a list matches one of its words. `text` and `slot` are
templates of a pattern's named groups.
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

# A name: one capitalized word, or several with particles between them.
_CAPITAL = r"(?-i:[A-ZÀ-ÖØ-Þ])[\w'’-]*(?:\.(?=\w))?"
_PARTICLE = r"(?:de|la|le|les|da|do|del|der|den|van|von|am|an|sur|upon|of|los|las|el|y|im)"
# Drugs by the endings of their names in most languages, then those without such an ending.
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
    """A pattern of statements by the user that are standing facts."""

    kind: FactKind
    pattern: re.Pattern[str]
    """Matches from the start of a clause, which `clauses` finds."""
    text: str
    """Template of the pattern's groups; empty for the user's own sentence."""
    slot: str
    """Template of the slot; `*` for a fact that replaces only itself."""
    ends: bool
    near: re.Pattern[str] | None
    """Pattern that must also occur in the turn or in the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to the user whose short answer is a standing fact: label, then answer."""

    kind: FactKind
    pattern: re.Pattern[str]
    label: str
    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """Rules and patterns of one language."""

    rules: tuple[Rule, ...]
    asked: tuple[Asked, ...]
    connective: re.Pattern[str]
    """A word that may open a clause without being part of it: "and", "by the way"."""
    joint: re.Pattern[str]
    """A word inside a sentence after which a clause may begin."""
    unreal: re.Pattern[str]
    """Marks the rest of a sentence as not a statement: conditions, reports, stories."""
    dangling: re.Pattern[str]
    """End of a text that was cut in the middle of a phrase."""
    evasive: re.Pattern[str]
    """An answer without information: "no idea"."""
    other: re.Pattern[str]
    """Another person than the user in a question, as group `relation`."""
    task: re.Pattern[str]
    """A turn with a text to work on, which is not the user's voice."""
    relations: Mapping[str, str]
    """Maps words for relatives, friends and pets to the slot that all languages share."""


@cache
def _data(name: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def gate(name: str) -> frozenset[str]:
    """Words of which a text of unknown language must contain one for these rules to apply."""
    return frozenset(_data(name)["gate"].split())


@cache
def language(name: str) -> Language:
    """Rules of a language, compiled on first use."""
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
    """Positions at which clauses of a sentence begin, with and without their opening words."""
    starts = {0, *(found.end() for found in _CLAUSE_END.finditer(sentence))}
    starts.update(found.end() for found in known.joint.finditer(sentence))
    for start in tuple(starts):
        at = start
        while opened := known.connective.match(sentence, at):
            if opened.end() <= at:
                break
            at = opened.end()
            starts.add(at)
    return sorted(starts)


def _alternatives(value: str | list[str]) -> str:
    if isinstance(value, str):
        return value
    return f"(?:{'|'.join(sorted(value, key=len, reverse=True))})"


def _expanded(pattern: str, macros: Mapping[str, str]) -> str:
    while "<<" in pattern:
        pattern = _MACRO.sub(lambda found: macros[found[1]], pattern)
    return pattern
