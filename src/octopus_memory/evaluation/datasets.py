"""Datasets: conversations and questions, read from files of several formats."""

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
    """Hash of the file, or of the files of a folder in order."""
    conversations: tuple[Conversation, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names of categories whose keys do not explain themselves."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Counts of parts of the data that `bench recall` does not use."""

    @property
    def turns(self) -> int:
        return sum(len(conversation.turns) for conversation in self.conversations)

    @property
    def questions(self) -> int:
        return sum(len(conversation.questions) for conversation in self.conversations)

    @property
    def unanswerable(self) -> int:
        """Return the number of questions that the data mark as having no evidence."""
        return sum(len(conversation.unanswerable) for conversation in self.conversations)

    @property
    def categories(self) -> list[str]:
        return sorted({a.category for found in self.conversations for a in found.questions})

    @property
    def unanswerable_categories(self) -> list[str]:
        return sorted({a.category for found in self.conversations for a in found.unanswerable})

    @property
    def languages(self) -> list[str]:
        """Return the languages of the questions; empty if the data name none."""
        asked = (a for found in self.conversations for a in found.questions)
        return sorted({a.language for a in asked if a.language is not None})

    @property
    def asks_for_dates(self) -> bool:
        """Return whether a question names days that a block must hold."""
        return any(a.answer_dates for found in self.conversations for a in found.questions)

    def about(self, categories: Collection[str]) -> Dataset:
        """Return the dataset with the questions of these categories only.

        :raises InvalidInput: for a category that no question has
        """
        known = sorted({*self.categories, *self.unanswerable_categories})
        unknown = set(categories) - set(known)
        if unknown:
            raise InvalidInput(
                "categories",
                f"must be among {', '.join(known)}, not {', '.join(sorted(unknown))}",
            )
        kept = tuple(conversation.about(categories) for conversation in self.conversations)
        return replace(self, conversations=kept)

    def first(self, conversations: int) -> Dataset:
        if conversations < 1:
            raise InvalidInput("limit_conversations", "must be a positive whole number")
        return replace(self, conversations=self.conversations[:conversations])


def load_dataset(
    form: Format | str,
    path: Path,
    *,
    categories: Collection[str] = (),
    user_turns_only: bool = False,
    captions: bool = False,
) -> Dataset:
    """Read a file, or for JSON Lines the *.jsonl files of a folder by name.

    Without `categories` all are taken, of LoCoMo all that have an answer.

    :raises InvalidInput: when the data cannot be read as this format
    """
    form = _format(form)
    if user_turns_only and form is Format.LOCOMO:
        raise InvalidInput(
            "user_turns_only", "must not be given for LoCoMo, which has two people and no assistant"
        )
    files = _jsonl_files(path) if form is Format.JSONL and path.is_dir() else [path]
    raw = {file: _bytes(file) for file in files}
    left_out: Counter[str] = Counter()
    conversations = _read(form, raw, left_out, captions=captions)
    if user_turns_only:
        before = sum(len(found.questions) for found in conversations)
        conversations = [found.of_user() for found in conversations]
        after = sum(len(found.questions) for found in conversations)
        left_out["questions about the assistant's turns"] += before - after
    found = Dataset(
        name=form.value,
        sha256=hashlib.sha256(b"".join(raw.values())).hexdigest(),
        conversations=tuple(conversations),
        labels=locomo.LABELS if form is Format.LOCOMO else {},
        left_out={what: count for what, count in sorted(left_out.items()) if count},
    )
    if not categories and form is Format.LOCOMO:
        categories = set(found.categories) & set(locomo.ANSWERABLE)
    return found.about(categories) if categories else found


def _jsonl_files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.jsonl"), key=lambda file: file.name)
    if not found:
        raise InvalidInput("data", f"{folder} has no *.jsonl file")
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput("data", f"cannot read {path}: {error.strerror}") from error


def _text(path: Path, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("data", f"{path} must be UTF-8") from error


def _read(
    form: Format, raw: Mapping[Path, bytes], left_out: Counter[str], *, captions: bool
) -> list[Conversation]:
    texts = {path.name: _text(path, content) for path, content in raw.items()}
    first = next(iter(texts.values()))
    match form:
        case Format.LOCOMO:
            return locomo.read(first, left_out, captions=captions)
        case Format.LONGMEMEVAL:
            return longmemeval.read(first, left_out)
        case Format.JSONL:
            return plain.read(texts, left_out)


def _format(given: str) -> Format:
    try:
        return Format(given)
    except ValueError as error:
        raise InvalidInput("dataset", f"must be one of {', '.join(Format)}") from error
