"""Rules that find standing facts, read from one TOML file per language.

A rule is a small pattern of one clause, the slot that it fills, and examples: `says` maps messages
to the fact expected, `not` lists messages that are none. The examples are the rule's tests.
Patterns are case-insensitive regular expressions in which `<<NAME>>` stands for a macro of the file
or one of `_MACROS`. All values close in the same way: before a punctuation mark, before one of the
language's `stop` words, or with the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ....words import FOLDER, pattern

LANGUAGES = ("english", "german", "french", "spanish", "chinese")

_UPPER = r"(?-i:[A-ZÀ-ÖØ-Þ])"
_PARTICLE = r"(?:de|la|le|les|da|do|del|der|den|van|von|am|sur|of|los|las|el|y|&|-)"
_DRUG = f"(?:{pattern('drugs', 'drug')})"
_MACROS = {
    # A value is closed where its word ends, so that no pattern can give back a letter of it.
    "END": r"(?![\w'’-])(?=\s*(?:$|[^\w\s&'’-])|\s+[-–—]\s|\s+(?:<<STOP>>)(?!\w))",
    "CAP": rf"(?!(?:<<NOT_NAME>>)(?!\w)){_UPPER}\w*(?:-\w+|['’](?!s\b)\w+)*",
    "NAME": rf"<<CAP>>(?:(?: {_PARTICLE}){{0,2}} <<CAP>>){{0,3}}",
    "WORD": r"(?!(?:<<STOP>>)(?!\w))[^\W\d_][\w'’-]*",
    "THING": r"<<WORD>>(?: <<WORD>>){0,2}",
    "ITEMS": r"<<THING>>(?:(?:, (?:<<OR>> )?| <<OR>> )<<THING>>){0,4}",
    "DRUG": _DRUG,
    "YEAR": r"(?:19[2-9]|20[0-2])\d",
    "AGE": r"(?:1[0-9]|[2-9]\d)",
}
_OF_CLAUSES = ("opener", "subject", "joint", "before")
_PARTS = ("unreal", "task", "evasive", "polite", "split")
DRUG = re.compile(_DRUG, re.IGNORECASE)
_VALUES = ("CAP", "NAME", "WORD", "THING", "ITEMS", "PLACE", "PLACES", "GIVEN")
_ANY_WORDS = r"[^.;!?\n]{1,80}?"
_GROUP = re.compile(r"\(\?P<\w+>")
_MACRO = re.compile(r"<<(\w+)>>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern of one clause, and the slot that it fills or ends."""

    slots: tuple[str, ...]
    """Keys of `words/slots.txt`; more than one only for a rule that ends them."""
    source: str
    """The pattern, with its macros expanded."""
    hint: re.Pattern[str]
    """Matches wherever the pattern does, and is compiled in a fraction of the time, because any
    words may stand for a value."""
    text: str
    """Template of the groups, if it is not the slot's own."""
    topic: str
    ends: bool
    also_ends: tuple[str, ...]
    """Slots of the same value that it ends as well."""
    says: Mapping[str, str]
    """Messages and the fact that the rule finds in each; `-slot` for one that it ends."""
    denies: Sequence[str]
    """Messages in which no rule finds a fact."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches from the start of a clause. Groups: `v` the value, `key` the part of it that
        names the slot, `name`, `relation`, `thing`, `topic`, `place`, `date`.

        Compiled on first use, because most rules are never needed.
        """
        return _compiled(self.source)

    def match(self, sentence: str, at: int) -> re.Match[str] | None:
        return self.pattern.match(sentence, at) if self.hint.match(sentence, at) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """Rules and closing conditions of one language."""

    name: str
    rules: tuple[Rule, ...]
    any_hint: re.Pattern[str]
    """Matches where the hint of any rule does, so that most clauses are tried once."""
    asked: tuple[tuple[str, re.Pattern[str]], ...]
    """Slots, and the questions whose short answer fills them."""
    texts: Mapping[str, str]
    """Sentence for each slot, with the value as `{v}`."""
    relations: Mapping[str, str]
    """Words for relatives, friends and pets, and the part of the slot that all languages share."""
    topics: tuple[tuple[str, re.Pattern[str]], ...]
    """What an instruction may be about, and the words that say so."""
    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    relative: Mapping[str, str]
    """Words for a time, and what they stand for: `tomorrow` is `day+1`."""
    opener: re.Pattern[str]
    """Words that may open a clause without being part of it: "and", "by the way"."""
    subject: re.Pattern[str]
    """Words with which a clause begins, also without a punctuation mark before them."""
    joint: re.Pattern[str]
    """Words inside a sentence after which a clause without a subject may begin."""
    before: re.Pattern[str]
    """Words before a subject after which it states nothing: "that", "if", "said"."""
    unreal: re.Pattern[str]
    """Marks the rest of a sentence as not a statement: conditions, reports, stories."""
    task: re.Pattern[str]
    """A turn with a text to work on, which is not the user's voice."""
    evasive: re.Pattern[str]
    """An answer without information: "no idea"."""
    polite: re.Pattern[str]
    """Words that an instruction does not need: "please"."""
    split: re.Pattern[str]
    """What separates the items of a list."""


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE)


@cache
def _data(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / "standing" / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def gate(name: str) -> frozenset[str]:
    """Words of which a text of unknown language must contain one for these rules to apply."""
    return frozenset(_data(name)["gate"].split())


@cache
def language(name: str) -> Language:
    """Rules of a language, compiled on first use."""
    data = _data(name)
    relations = {word: slot for slot, words in data["relations"].items() for word in words.split()}
    relations = {word.replace("_", " "): slot for word, slot in relations.items()}
    macros = _MACROS | {key: _alternatives(value) for key, value in data["macros"].items()}
    macros["RELATION"] = _one_of(relations)
    macros["MONTH"] = _one_of(data["months"])
    macros["WEEKDAY"] = _one_of(data["weekdays"])
    macros["SOON"] = _one_of(data["relative"])

    def compiled(pattern: str) -> re.Pattern[str]:
        return re.compile(_expanded(pattern, macros), re.IGNORECASE)

    loose = macros | dict.fromkeys(_VALUES, _ANY_WORDS) | {"END": ""}

    def hint(pattern: str) -> str:
        return _GROUP.sub("(?:", _expanded(pattern, loose))

    every = "|".join(f"(?:{hint(each['pattern'])})" for each in data["rules"])
    return Language(
        name=name,
        any_hint=re.compile(every, re.IGNORECASE),
        rules=tuple(
            Rule(
                slots=tuple(each["slot"].split(", ")),
                source=_expanded(each["pattern"], macros),
                hint=re.compile(hint(each["pattern"]), re.IGNORECASE),
                text=each.get("text", ""),
                topic=each.get("topic", ""),
                ends=each.get("ends", False),
                also_ends=tuple(each.get("also_ends", ())),
                says=each.get("says", {}),
                denies=each.get("not", ()),
            )
            for each in data["rules"]
        ),
        asked=tuple((slot, compiled(pattern)) for slot, pattern in data["asked"].items()),
        texts=data["texts"],
        relations=relations,
        topics=tuple((topic, compiled(words)) for topic, words in data["topics"].items()),
        months=data["months"],
        weekdays=data["weekdays"],
        relative=data["relative"],
        # For text in lower case, which is searched twice as fast as with a flag.
        **{part: re.compile(_expanded(data[part], macros)) for part in _OF_CLAUSES},
        **{part: compiled(data[part]) for part in _PARTS},
    )


def _alternatives(value: str | list[str]) -> str:
    return value if isinstance(value, str) else f"(?:{'|'.join(value)})"


def _one_of(words: Mapping[str, Any]) -> str:
    return f"(?:{'|'.join(sorted(map(re.escape, words), key=len, reverse=True))})"


def _expanded(pattern: str, macros: Mapping[str, str]) -> str:
    while "<<" in pattern:
        pattern = _MACRO.sub(lambda found: macros[found[1]], pattern)
    return pattern
