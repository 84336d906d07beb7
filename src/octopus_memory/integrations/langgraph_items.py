"""Encoding of a LangGraph store's item in Octopus: its session, its text, its marks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from ..domain.errors import MissingExtra
from ..domain.message import Message

try:
    from langgraph.store.base import get_text_at_path
except ModuleNotFoundError as error:
    raise MissingExtra("langgraph", "octopus_memory.integrations.langgraph") from error

Namespace: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Namespace, str]
OURS = "langgraph:"
"""The beginning of the session ids, and of the names of the sessions' metadata."""
_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def texts_of(value: Any, path: str) -> Iterable[str]:
    """The texts at a path of a value; `$` is the whole of it."""
    return ["\n".join(_lines(value))] if path == "$" else get_text_at_path(value, path)


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """A value as lines of its fields' names and values, which read better than JSON."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _lines(each, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _lines(each, name)
    elif value is not None:
        yield f"{name}: {value}"


def session_of(namespace: Namespace, key: str) -> str:
    """The id of an item's own session."""
    return OURS + json.dumps([*namespace, key], ensure_ascii=False)


def place_of(session_id: str) -> Place:
    """The item that a session is of."""
    *namespace, key = json.loads(session_id.removeprefix(OURS))
    return tuple(namespace), key


def prefixes(namespace: Namespace) -> dict[str, str]:
    """The metadata of an item's session, by which a search in any prefix finds it."""
    return {f"{OURS}{n}": mark(namespace[:n]) for n in range(len(namespace) + 1)}


def mark(value: Any) -> str:
    """A digest without digits, which a redactor might take for a phone number."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest().translate(_LETTERS)


def has(message: Message | None, marks: Mapping[str, str]) -> bool:
    """Return True if a message was written with these marks."""
    had = {} if message is None else message.body.get("metadata") or {}
    return all(had.get(name) == mark for name, mark in marks.items())
