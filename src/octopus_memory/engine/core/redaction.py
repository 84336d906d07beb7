"""Find personal data in messages, summaries and metadata, and replace it by placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from ...domain.message import Json, Message, Role
from ...domain.text.pii import (
    NumberOf,
    PiiKind,
    PiiSpan,
    is_placeholder,
    normalized,
    placeholder,
    redact,
)
from ...ports.models import Redactor

T = TypeVar("T")

_SEPARATOR = "\n\x1e\n"

# Keys whose values belong to the protocol and never name a person.
_STRUCTURE = frozenset(
    {"role", "id", "type", "tool_call_id", "function_name", "agent", "is_error", "duration_ms"}
)
_JSON_TEXT = frozenset({"arguments", "content", "result"})

# Keys that tell the redactor the kind of their value.
_TELLING = re.compile(
    r"name|phone|mobile|cell|tel|fax|ssn|social|birth|dob|born|address|street|card|mail|iban|ip\b",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+")
# An inline file. Text that only begins like one is searched.
_FILE = re.compile(r"data:[\w.+-]*/?[\w.+-]*(?:;[\w.+=-]+)*;base64,[\w+/=-]*")
_LONGEST_KEY = 60
_SHORTEST_NUMBER = 7
# Deeper values are searched as JSON text, because a message may be nested as deep as Python's
# stack.
_DEEPEST = 12

_TOKEN = re.compile(
    r'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"(?P<key>\s*:)?|'
    r"(?P<number>-?\d+)(?P<rest>(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<mark>[][{}])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A text in a message, with its key as words, such as "first name"."""

    text: str
    label: str = ""

    @property
    def shown(self) -> str:
        return f"{self.label}: {self.text}" if self.label else self.text


Visit: TypeAlias = Callable[[Leaf], str | None]
"""Called for each leaf, always in the same order; returns its new text, or None to keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted(Generic[T]):
    """A redacted value and what was found in it. `value` is the given object if nothing was."""

    value: T
    kinds: tuple[PiiKind, ...] = ()
    names: tuple[str, ...] = ()
    """The names found, as written, for later turns of the episode. They must not be stored."""


def redact_message(
    message: Message,
    redactor: Redactor,
    *,
    names: Sequence[str] = (),
    number_of: NumberOf | None = None,
) -> Redacted[Message]:
    """Replace personal data in a message; keys, ids and roles stay unchanged.

    A user's `name` is replaced as a whole; the names of other roles are searched like any text.
    """
    own = _own_name(message)
    found = _Found(redactor, (*names, *own))
    map_message(message.body, found.collect)
    found.search()
    body = map_message(message.body, found.replacing(number_of))
    kinds = found.kinds
    if own:
        value = normalized(PiiKind.PERSON_NAME, own[0])
        number = number_of(PiiKind.PERSON_NAME, value) if number_of else None
        body = {**body, "name": placeholder(PiiKind.PERSON_NAME, number)}
        kinds = (PiiKind.PERSON_NAME, *kinds)
    changed = message if body is message.body else Message(body)
    return Redacted(value=changed, kinds=kinds, names=(*own, *found.names))


def found_in(
    message: Message, redactor: Redactor, *, names: Sequence[str] = ()
) -> Redacted[Message]:
    """Find what `redact_message` would replace, and leave the message unchanged."""
    own = _own_name(message)
    found = _Found(redactor, (*names, *own))
    map_message(message.body, found.collect)
    found.search()
    kinds = (PiiKind.PERSON_NAME, *found.kinds) if own else found.kinds
    return Redacted(value=message, kinds=kinds, names=(*own, *found.names))


def redact_text(
    text: str,
    redactor: Redactor,
    *,
    names: Sequence[str] = (),
    number_of: NumberOf | None = None,
) -> Redacted[str]:
    """Replace personal data in a summary, a key fact, or any other text."""
    spans = redactor.find(text, names=names)
    if not spans:
        return Redacted(value=text)
    return Redacted(
        value=redact(text, spans, number_of),
        kinds=tuple(span.kind for span in spans),
        names=tuple(_names(text, spans)),
    )


def redact_json(
    value: Json,
    redactor: Redactor,
    *,
    names: Sequence[str] = (),
    number_of: NumberOf | None = None,
) -> Redacted[Json]:
    """Replace personal data in the values of any JSON, such as a session's metadata; keys stay."""
    found = _Found(redactor, names)
    map_value(value, "", found.collect)
    found.search()
    changed = map_value(value, "", found.replacing(number_of))
    return Redacted(value=changed, kinds=found.kinds, names=tuple(found.names))


def _own_name(message: Message) -> tuple[str, ...]:
    name = message.name
    said = message.role is Role.USER and name and not is_placeholder(name)
    return (name,) if said and name else ()


class _Found:
    """Searches the texts of one message together, so that a name in one is found in the others."""

    def __init__(self, redactor: Redactor, names: Sequence[str]) -> None:
        self._redactor = redactor
        self._given = names
        self._leaves: list[Leaf] = []
        self._spans: list[list[PiiSpan]] = []

    def collect(self, leaf: Leaf) -> str | None:
        self._leaves.append(leaf)
        return None

    def search(self) -> None:
        whole = _SEPARATOR.join(leaf.shown for leaf in self._leaves)
        spans = self._redactor.find(whole, names=self._given) if whole.strip() else []
        self._spans = list(_shared_out(self._leaves, spans))

    @property
    def kinds(self) -> tuple[PiiKind, ...]:
        return tuple(span.kind for spans in self._spans for span in spans)

    @property
    def names(self) -> list[str]:
        pairs = zip(self._leaves, self._spans, strict=True)
        return [name for leaf, spans in pairs for name in _names(leaf.text, spans)]

    def replacing(self, number_of: NumberOf | None) -> Visit:
        """Return a visitor that replaces the texts, in the order in which `collect` saw them."""
        results = iter(self._spans)

        def replace(leaf: Leaf) -> str | None:
            spans = next(results)
            return redact(leaf.text, spans, number_of) if spans else None

        return replace


def _shared_out(leaves: Sequence[Leaf], spans: Sequence[PiiSpan]) -> Iterator[list[PiiSpan]]:
    """Yield the spans of each leaf, relative to its text and without its label."""
    start, at = 0, 0
    for leaf in leaves:
        first = start + len(leaf.shown) - len(leaf.text)
        last = start + len(leaf.shown)
        own = []
        while at < len(spans) and spans[at].start < last:
            span = spans[at]
            if span.end > first:
                begin, end = max(span.start, first) - first, min(span.end, last) - first
                own.append(PiiSpan(begin, end, span.kind))
            if span.end > last:
                break
            at += 1
        yield own
        start = last + len(_SEPARATOR)


def _names(text: str, spans: Sequence[PiiSpan]) -> Iterator[str]:
    for span in spans:
        if span.kind is PiiKind.PERSON_NAME:
            yield text[span.start : span.end]


def map_message(body: Mapping[str, Json], visit: Visit) -> Mapping[str, Json]:
    """Return the body with the texts that `visit` returned; the same object if it returned none."""
    role = body["role"]

    def change(key: str, value: Json) -> Json:
        if key in _STRUCTURE or (key == "name" and role in {Role.USER, Role.TOOL}):
            return value
        return _map_field(key, value, role, visit)

    return _map_dict(body, change)


def _map_field(key: str, value: Json, role: str, visit: Visit) -> Json:
    if key == "content" and isinstance(value, list):
        return _map_list(value, lambda part: _map_part(part, role, visit))
    if key == "tool_calls" and isinstance(value, list):
        return _map_list(value, lambda call: _map_call(call, visit))
    if key == "function_call":
        return _map_call(value, visit)
    if isinstance(value, str) and role == Role.TOOL and key in _JSON_TEXT:
        return map_json_text(value, visit)
    return map_value(value, "", visit)


def _map_part(part: Json, role: str, visit: Visit) -> Json:
    """Map the texts of a content part; audio data stays unchanged."""

    def change(key: str, value: Json) -> Json:
        if key in {"type", "input_audio"}:
            return value
        if key == "text" and role == Role.TOOL and isinstance(value, str):
            return map_json_text(value, visit)
        return map_value(value, key, visit)

    return _map_dict(part, change)


def _map_call(call: Json, visit: Visit) -> Json:
    """Map a tool call, whose arguments are JSON in a text or plain JSON."""
    if not isinstance(call, dict):
        return call

    def change(key: str, value: Json) -> Json:
        if key in {"id", "type", "name"}:
            return value
        if key in {"function", "custom"}:
            return _map_call(value, visit)
        if key in {"arguments", "input"} and isinstance(value, str):
            return map_json_text(value, visit)
        return map_value(value, "", visit)

    return _map_dict(call, change)


def map_value(value: Json, key: str, visit: Visit, depth: int = 0) -> Json:
    """Return any JSON with the texts that `visit` returned; the same object if it returned none."""
    if isinstance(value, str):
        return value if _is_file(value) else _said(visit(Leaf(text=value, label=label(key))), value)
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        shown = str(value)
        worth = len(shown) >= _SHORTEST_NUMBER
        return _said(visit(Leaf(text=shown, label=label(key))), value) if worth else value
    if depth >= _DEEPEST:
        text = json.dumps(value)
        new = map_json_text(text, visit, key)
        return value if new is text else json.loads(new)
    if isinstance(value, list):
        return _map_list(value, lambda item: map_value(item, key, visit, depth + 1))
    return _map_dict(value, lambda name, inner: map_value(inner, name, visit, depth + 1))


def map_json_text(text: str, visit: Visit, key: str = "") -> str:
    """Map the values of JSON in a text and keep all else; plain text is mapped whole."""
    if text.lstrip()[:1] not in ("{", "["):
        return visit(Leaf(text=text)) or text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return visit(Leaf(text=text)) or text
    parts: list[str] = []
    done = 0
    for start, end, leaf in _literals(text, key):
        new = visit(leaf)
        if new is not None:
            parts += (text[done:start], json.dumps(new, ensure_ascii=text.isascii()))
            done = end
    return "".join((*parts, text[done:])) if parts else text


def _literals(text: str, key: str) -> Iterator[tuple[int, int, Leaf]]:
    """Yield the position and the leaf of each text and each long whole number."""
    keys = [key]
    for token in _TOKEN.finditer(text):
        mark = token["mark"]
        if mark in ("{", "["):
            keys.append(keys[-1])
        elif mark:
            keys.pop()
        elif token["key"]:
            keys[-1] = _decoded(token["text"])
        elif token["number"]:
            if not token["rest"] and len(token["number"]) >= _SHORTEST_NUMBER:
                yield *token.span(), Leaf(text=token["number"], label=label(keys[-1]))
        else:
            said = _decoded(token["text"])
            if not _is_file(said):
                yield *token.span(), Leaf(text=said, label=label(keys[-1]))


def label(key: str) -> str:
    """Return `firstName` and `first_name` as "first name"; an empty text for a key that tells
    nothing.
    """
    if len(key) > _LONGEST_KEY or not _TELLING.search(key):
        return ""
    return " ".join(_HUMP.sub(" ", key).split()).lower()


def _decoded(literal: str) -> str:
    said: str = json.loads(f'"{literal}"', strict=False) if "\\" in literal else literal
    return said


def _is_file(text: str) -> bool:
    return text.startswith("data:") and _FILE.fullmatch(text) is not None


def _map_dict(whole: Mapping[str, Json], change: Callable[[str, Json], Json]) -> Mapping[str, Json]:
    new = {key: change(key, value) for key, value in whole.items()}
    return new if any(new[key] is not value for key, value in whole.items()) else whole


def _map_list(items: list[Json], change: Callable[[Json], Json]) -> list[Json]:
    new = [change(item) for item in items]
    return new if any(one is not other for one, other in zip(new, items, strict=True)) else items


def _said(new: str | None, value: Json) -> Json:
    return value if new is None else new
