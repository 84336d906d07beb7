"""Precision and recall of standing facts, and the state after changes, on a set of messages.

`messages.jsonl` has one message a line with the texts of the facts that it states; `-slot` stands
for a slot that it ends. `changes.jsonl` has messages over time and the texts of the facts that are
current afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from ..adapters.summarizers.standing.find import find_facts
from ..domain.episode import Turn
from ..domain.errors import InvalidInput
from ..domain.facts import Fact, FactOrigin, FoundFact, current
from ..domain.message import Message
from .datasets import Dataset

PARTS = ("dev", "held-out")
_SAID_AT = datetime(2025, 3, 14, 12, tzinfo=UTC)
_NOT_STANDING = ("Favourite ", "Prefers ", "Lieblings", "最喜欢")
_FAVOURITE = (" favorita:", " favorito:", " préféré :", " préférée :")

Find = Callable[[Sequence[Turn]], Sequence[FoundFact]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactMiss:
    """A message or a sequence with what was expected and what was found."""

    id: str
    text: str
    expected: tuple[str, ...]
    found: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactFigures:
    """Counts of one part of the set."""

    messages: int
    found: int
    right: int
    expected: int
    """Facts of the standing kinds that the messages state."""
    recalled: int
    changes: int
    settled: int
    """Sequences after which exactly the expected facts are current."""
    misses: tuple[FactMiss, ...]

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.recalled / self.expected if self.expected else 1.0

    @property
    def final_state(self) -> float:
        return self.settled / self.changes if self.changes else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundIn:
    """A fact that was found in a conversation, with the message that states it."""

    conversation: str
    turn: str
    said: str
    kind: str
    slot: str
    text: str
    ends: bool


def measure_facts(folder: Path, find: Find = find_facts) -> dict[str, FactFigures]:
    """Measure on the set in `folder`; returns figures for each part and language, and in all.

    :raises InvalidInput: when a file is missing or malformed
    """
    messages = list(_lines(folder / "messages.jsonl", ("id", "part", "language", "text", "facts")))
    changes = list(
        _lines(folder / "changes.jsonl", ("id", "part", "language", "messages", "facts"))
    )
    judged = [(each, _said(find, each["text"])) for each in messages]
    settled = [(each, _state(find, each["messages"])) for each in changes]
    languages = sorted({each["language"] for each in messages})
    groups = [
        ("all", "part", (*PARTS,)),
        *((part, "part", (part,)) for part in PARTS),
        *((language, "language", (language,)) for language in languages),
    ]
    return {
        name: _figures(
            [pair for pair in judged if pair[0][field] in wanted],
            [pair for pair in settled if pair[0][field] in wanted],
        )
        for name, field, wanted in groups
    }


def facts_markdown(figures: Mapping[str, FactFigures]) -> str:
    """The figures as a table."""
    lines = [
        "| part | messages | precision | recall of standing facts | changes | final state right |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, each in figures.items():
        lines.append(
            f"| {name} | {each.messages:,} | {each.precision:.3f} ({each.right:,}/{each.found:,})"
            f" | {each.recall:.3f} ({each.recalled:,}/{each.expected:,}) | {each.changes:,}"
            f" | {each.final_state:.3f} |"
        )
    return "\n".join(lines)


def facts_json(figures: Mapping[str, FactFigures]) -> dict[str, Any]:
    """The figures, with what was expected and found where they differ."""
    return {
        name: {
            "messages": each.messages,
            "precision": each.precision,
            "recall": each.recall,
            "changes": each.changes,
            "final_state": each.final_state,
            "misses": [asdict(miss) for miss in each.misses] if name == "all" else [],
        }
        for name, each in figures.items()
    }


def facts_in(dataset: Dataset, find: Find = find_facts) -> Iterator[FoundIn]:
    """Every fact that is found in a dataset's conversations, to be judged by reading."""
    for conversation in dataset.conversations:
        for place, turn in enumerate(conversation.turns):
            before = conversation.turns[place - 1] if place else None
            said = [
                _turn(each.text, each.at, ordinal, role=each.role)
                for ordinal, each in enumerate((before, turn))
                if each is not None and each.session_id == turn.session_id
            ]
            for fact in find(said):
                if fact.ordinal == said[-1].ordinal:
                    yield FoundIn(
                        conversation=conversation.id,
                        turn=turn.id,
                        said=turn.text,
                        kind=fact.kind.value,
                        slot=fact.slot,
                        text=fact.text,
                        ends=fact.ends,
                    )


def _figures(
    messages: Sequence[tuple[Mapping[str, Any], list[str]]],
    changes: Sequence[tuple[Mapping[str, Any], list[str]]],
) -> FactFigures:
    found = right = expected = recalled = settled = 0
    misses: list[FactMiss] = []
    for each, said in messages:
        wanted = set(each["facts"])
        standing = {text for text in wanted if _is_standing(text)}
        found += len(said)
        right += sum(text in wanted for text in said)
        expected += len(standing)
        recalled += len(standing.intersection(said))
        if wanted != set(said):
            misses.append(_miss(each["id"], each["text"], each["facts"], said))
    for each, state in changes:
        is_right = sorted(each["facts"]) == sorted(state)
        settled += is_right
        if not is_right:
            text = " > ".join(message["text"] for message in each["messages"])
            misses.append(_miss(each["id"], text, each["facts"], state))
    return FactFigures(
        messages=len(messages),
        found=found,
        right=right,
        expected=expected,
        recalled=recalled,
        changes=len(changes),
        settled=settled,
        misses=tuple(misses),
    )


def _miss(id_: str, text: str, expected: Iterable[str], found: Iterable[str]) -> FactMiss:
    return FactMiss(id=id_, text=text, expected=tuple(expected), found=tuple(found))


def _is_standing(text: str) -> bool:
    """False for favourites, which are shown only where a question is about them."""
    return not text.startswith(_NOT_STANDING) and not any(mark in text for mark in _FAVOURITE)


def _said(find: Find, text: str) -> list[str]:
    facts = find([_turn(text, _SAID_AT, 0)])
    return [f"-{fact.slot}" if fact.ends else fact.text for fact in facts]


def _state(find: Find, messages: Sequence[Mapping[str, str]]) -> list[str]:
    facts: list[Fact] = []
    at = _SAID_AT
    for ordinal, message in enumerate(messages):
        at = datetime.fromisoformat(message["at"])
        for found in find([_turn(message["text"], at, ordinal)]):
            facts.append(
                Fact(
                    id=UUID(int=len(facts) + 1),
                    kind=found.kind,
                    text=found.text,
                    slot=found.slot,
                    since=at,
                    ordinal=ordinal,
                    origin=FactOrigin.RULES,
                    ends=found.ends,
                )
            )
    return [fact.text for fact in current(facts, now=at + timedelta(days=1))]


def _turn(text: str, at: datetime, ordinal: int, *, role: str = "user") -> Turn:
    return Turn(
        id=UUID(int=ordinal + 1),
        episode_id=UUID(int=0),
        session_id="bench",
        ordinal=ordinal,
        message=Message({"role": role, "content": text}),
        tokens=0,
        at=at,
    )


def _lines(path: Path, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("data", f"must be a folder with {path.name}: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            each = json.loads(line)
            known = [each[field] for field in fields]
        except (ValueError, TypeError, LookupError) as error:
            raise InvalidInput(
                "data", f"must have {', '.join(fields)} in {path.name}, line {number}"
            ) from error
        if known:
            yield each
