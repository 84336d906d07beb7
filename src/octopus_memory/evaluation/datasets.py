"""A file of conversations and questions as one value, whichever format it is in."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from ..domain.errors import InvalidInput
from . import locomo, longmemeval, plain
from .conversation import BenchTurn, Conversation, Question

__all__ = ["BenchTurn", "Conversation", "Dataset", "Format", "Question", "load_dataset"]


class Format(StrEnum):
    LOCOMO = "locomo"
    LONGMEMEVAL = "longmemeval"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    name: str
    sha256: str
    """Of the file: two runs with the same hash saw the same data."""
    conversations: tuple[Conversation, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """What a category is called, where its key does not say it."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """What the file has and the loader could not use, counted."""

    @property
    def turns(self) -> int:
        return sum(len(conversation.turns) for conversation in self.conversations)

    @property
    def questions(self) -> int:
        return sum(len(conversation.questions) for conversation in self.conversations)

    @property
    def categories(self) -> list[str]:
        return sorted({a.category for found in self.conversations for a in found.questions})

    def about(self, categories: Collection[str]) -> Dataset:
        """Only the questions of these categories.

        :raises InvalidInput: for a category that no question has
        """
        unknown = set(categories) - set(self.categories)
        if unknown:
            raise InvalidInput(
                "categories",
                f"{', '.join(sorted(unknown))} not found: there are {', '.join(self.categories)}",
            )
        kept = tuple(conversation.about(categories) for conversation in self.conversations)
        return replace(self, conversations=kept)

    def first(self, conversations: int) -> Dataset:
        if conversations < 1:
            raise InvalidInput("limit_conversations", "must be a whole number above zero")
        return replace(self, conversations=self.conversations[:conversations])


def load_dataset(
    form: Format | str,
    path: Path,
    *,
    categories: Collection[str] = (),
    user_turns_only: bool = False,
    captions: bool = False,
) -> Dataset:
    """Read a file. Without `categories` all are taken, of LoCoMo all that have an answer.

    :raises InvalidInput: when the file cannot be read as this format
    """
    form = _format(form)
    if user_turns_only and form is Format.LOCOMO:
        raise InvalidInput("user_turns_only", "LoCoMo has two people and no assistant")
    try:
        raw = path.read_bytes()
        text = raw.decode()
    except OSError as error:
        raise InvalidInput("data", f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("data", f"{path} is no UTF-8 text") from error
    left_out: Counter[str] = Counter()
    conversations = _read(form, text, left_out, captions=captions)
    if user_turns_only:
        before = sum(len(found.questions) for found in conversations)
        conversations = [found.of_user() for found in conversations]
        after = sum(len(found.questions) for found in conversations)
        left_out["questions about the assistant's turns"] += before - after
    found = Dataset(
        name=form.value,
        sha256=hashlib.sha256(raw).hexdigest(),
        conversations=tuple(conversations),
        labels=locomo.LABELS if form is Format.LOCOMO else {},
        left_out={what: count for what, count in sorted(left_out.items()) if count},
    )
    if not categories and form is Format.LOCOMO:
        categories = set(found.categories) & set(locomo.ANSWERABLE)
    return found.about(categories) if categories else found


def _read(form: Format, text: str, left_out: Counter[str], *, captions: bool) -> list[Conversation]:
    match form:
        case Format.LOCOMO:
            return locomo.read(text, left_out, captions=captions)
        case Format.LONGMEMEVAL:
            return longmemeval.read(text, left_out)
        case Format.JSONL:
            return plain.read(text, left_out)


def _format(given: str) -> Format:
    try:
        return Format(given)
    except ValueError as error:
        raise InvalidInput("dataset", f"must be one of {', '.join(Format)}") from error
