"""The texts inside a message or another JSON value, each with the key that says what it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ...domain.message import Json, Role

# Keys whose values name things of the protocol, and never a person.
_STRUCTURE = frozenset(
    {"role", "id", "type", "tool_call_id", "function_name", "agent", "is_error", "duration_ms"}
)
_JSON_TEXT = frozenset({"arguments", "content", "result"})

# A key is worth telling only where it says what kind of value it has.
_TELLING = re.compile(
    r"name|phone|mobile|cell|tel|fax|ssn|social|birth|dob|born|address|street|card|mail|iban|ip\b",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+")
# A file written out; text that only begins like one is read.
_FILE = re.compile(r"data:[\w.+-]*/?[\w.+-]*(?:;[\w.+=-]+)*;base64,[\w+/=-]*")
_LONGEST_KEY = 60
_SHORTEST_NUMBER = 7
# From here on it is read as text: a message may be nested as deep as Python's stack.
_DEEPEST = 12

_TOKEN = re.compile(
    r'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"(?P<key>\s*:)?|'
    r"(?P<number>-?\d+)(?P<rest>(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<mark>[][{}])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One text, and the words that its key comes to ("first name")."""

    text: str
    label: str = ""

    @property
    def shown(self) -> str:
        return f"{self.label}: {self.text}" if self.label else self.text


Visit: TypeAlias = Callable[[Leaf], str | None]
"""Called for each leaf, always in the same order; answers with its new text, or None."""


def map_message(body: Mapping[str, Json], visit: Visit) -> Mapping[str, Json]:
    """The body with what `visit` answers in it; the same object where it never does."""
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
        return _map_json_text(value, visit)
    return map_value(value, "", visit)


def _map_part(part: Json, role: str, visit: Visit) -> Json:
    """One part of a content: the texts everywhere in it, but no recording."""

    def change(key: str, value: Json) -> Json:
        if key in {"type", "input_audio"}:
            return value
        if key == "text" and role == Role.TOOL and isinstance(value, str):
            return _map_json_text(value, visit)
        return map_value(value, key, visit)

    return _map_dict(part, change)


def _map_call(call: Json, visit: Visit) -> Json:
    """A request for a tool: its arguments are JSON in a text, as the API has it, or plain JSON."""
    if not isinstance(call, dict):
        return call

    def change(key: str, value: Json) -> Json:
        if key in {"id", "type", "name"}:
            return value
        if key in {"function", "custom"}:
            return _map_call(value, visit)
        if key in {"arguments", "input"} and isinstance(value, str):
            return _map_json_text(value, visit)
        return map_value(value, "", visit)

    return _map_dict(call, change)


def map_value(value: Json, key: str, visit: Visit, depth: int = 0) -> Json:
    """Any JSON with what `visit` answers in it; the same object where it never does."""
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
        new = _map_json_text(text, visit, key)
        return value if new is text else json.loads(new)
    if isinstance(value, list):
        return _map_list(value, lambda item: map_value(item, key, visit, depth + 1))
    return _map_dict(value, lambda name, inner: map_value(inner, name, visit, depth + 1))


def _map_json_text(text: str, visit: Visit, key: str = "") -> str:
    """JSON written out in a text: what is found is replaced in its values, all else stays as it is.

    What is no JSON is plain text.
    """
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
    """Each value that is text or a whole number: where it stands, and the key it is under."""
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
    """`firstName` and `first_name` as "first name"; nothing for a key that tells nothing."""
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
