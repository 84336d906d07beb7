"""The wire between the service and its client: the route of a call, and the JSON form of values.

One codec serves both sides, driven by the types. A field is written in camelCase. A value that is
one field of another stands beside its owner's other fields, as an episode's scope does; values in a
list have objects of their own.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from .errors import OctopusError
from .message import Message

F = TypeVar("F", bound=Callable[..., Any])
Convert = Callable[[Any], Any]
_NAMES = {
    "Episode.is_cold": "canRestore",
    "EpisodeReplay.turns": "messages",
    "EpisodeSnippet.relevance": "relevanceScore",
    "Hold.user": "userId",
    "Injected.kind": "what",
    "Scope.agent": "agentId",
    "Scope.user": "userId",
}
"""Names on the wire that are not the field's own."""
_NOT_SENT = {"AuditEntry.tenant", "Fact.is_deleted", "Hold.tenant", "Scope.tenant"}
_PROPERTIES = {"ImportReport": {"warnings": tuple[str, ...]}}
"""What is written beside the fields, and not read."""
HIDDEN = {"EpisodeReplay.turns": "episode.is_archived"}
"""Fields that are null on the wire where a flag is set."""
_KNOWN = {"Scope": {"tenant": "default"}}
"""What a client reads is of its credential's tenant, which the service does not name."""


class Part(NamedTuple):
    """A field of a value, as it is written."""

    name: str
    path: str
    """The attributes that lead to it from the value, separated by dots."""
    kind: Any
    owner: str
    """The field as `Class.field`."""


@cache
def parts(kind: Any) -> tuple[Part, ...]:
    """The fields of a dataclass as they are written, with those of the values that it has."""
    found: list[Part] = []
    made = _bare(kind).__name__
    for name, hint in (_hints(kind) | _PROPERTIES.get(made, {})).items():
        owner = f"{made}.{name}"
        if owner in _NOT_SENT:
            continue
        if is_value(hint):
            found += [each._replace(path=f"{name}.{each.path}") for each in parts(hint)]
        else:
            found.append(Part(_NAMES.get(owner) or camel(name), name, hint, owner))
    return tuple(found)


@cache
def writer(kind: Any) -> Convert:
    """A function that makes the JSON form of a value of this type.

    Ids, times and enumerations stay as they are, for the encoder to write. It is compiled, because
    the service writes thousands of values a second: one expression for the type and all in it.
    """
    made: Convert = eval(f"lambda value: {_written(kind, 'value')}")  # noqa: S307 - of fields alone
    return made


def _written(kind: Any, value: str, depth: int = 0) -> str:
    """The expression for the JSON form of what the expression `value` gives."""
    if (inner := optional(kind)) is not None:
        form = _written(inner, value, depth)
        return form if form == value else f"(None if {value} is None else {form})"
    if get_origin(kind) in {tuple, list}:
        each = f"each{depth}"
        form = _written(get_args(kind)[0], each, depth + 1)
        return f"list({value})" if form == each else f"[{form} for {each} in {value}]"
    if is_value(kind) and not hasattr(kind, "from_dict"):
        fields = []
        for part in parts(kind):
            form = _written(part.kind, f"{value}.{part.path}", depth)
            if part.owner in HIDDEN:
                form = f"(None if {value}.{HIDDEN[part.owner]} else {form})"
            fields.append(f"{part.name!r}: {form}")
        return f"{{{', '.join(fields)}}}"
    for fits, form in (
        (kind is Message, f"dict({value}.body)"),
        (kind is bytes, f"{value}.hex()"),
        (is_mapping(kind), f"dict({value})"),
        (hasattr(kind, "from_dict"), f"{value}.to_dict()"),
    ):
        if fits:
            return form
    return value


def read(kind: Any, body: Any) -> Any:
    """Make a value of its JSON form. A field that is not there has its default.

    :raises LookupError: for a field that is needed
    :raises TypeError: for a body of another shape, as does `ValueError`
    """
    return _reader(kind)(body)


@cache
def _reader(kind: Any) -> Convert:
    if (inner := optional(kind)) is not None:
        convert = _reader(inner)
        return lambda body: None if body is None else convert(body)
    if kind is datetime:
        return datetime.fromisoformat
    if get_origin(kind) in {tuple, list}:
        made, each = get_origin(kind), _reader(get_args(kind)[0])
        return lambda body: made(each(value) for value in body or ())
    if hasattr(kind, "from_dict"):
        from_dict: Convert = kind.from_dict
        return from_dict
    if is_value(kind):
        return _value_reader(kind)
    is_made = isinstance(kind, type) and issubclass(kind, UUID | Enum | Message)
    made_of: Convert = kind if is_made else _as_it_is
    return made_of


def _as_it_is(body: Any) -> Any:
    return body


def _value_reader(kind: Any) -> Convert:
    make, names = _bare(kind), {part.path: part.name for part in parts(kind)}
    known = _KNOWN.get(make.__name__, {})
    hints = _hints(kind)
    named = [(name, names[name], _reader(hint)) for name, hint in hints.items() if name in names]
    plain = [(name, key) for name, key, convert in named if convert is _as_it_is]
    named = [each for each in named if each[2] is not _as_it_is]
    beside = [(name, _reader(hint)) for name, hint in hints.items() if is_value(hint)]

    def value(body: Any) -> Any:
        given = known | {name: body[key] for name, key in plain if key in body}
        for name, key, convert in named:
            if key in body:
                given[name] = convert(body[key])
        for name, convert in beside:
            given[name] = convert(body)
        return make(**given)

    return value


def optional(kind: Any) -> Any:
    """The type that may be missing: X of `X | None`; None for another type."""
    if get_origin(kind) not in {Union, types.UnionType}:
        return None
    others = [each for each in get_args(kind) if each is not type(None)]
    return others[0] if len(others) == 1 else None


def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, those of a `Page[Episode]` with its argument."""
    hints = get_type_hints(_bare(kind))
    found = {field.name: hints[field.name] for field in dataclasses.fields(_bare(kind))}
    if not get_args(kind):
        return found
    return {name: hint[get_args(kind)] if _is_open(hint) else hint for name, hint in found.items()}


def _is_open(hint: Any) -> bool:
    return bool(getattr(hint, "__parameters__", ()))


def is_value(kind: Any) -> bool:
    return dataclasses.is_dataclass(_bare(kind)) and kind is not Message


def is_mapping(kind: Any) -> bool:
    return isinstance(origin := get_origin(kind), type) and issubclass(origin, Mapping)


def _bare(kind: Any) -> Any:
    return get_origin(kind) or kind


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


class Route(NamedTuple):
    """The request of a call, and how it may be retried."""

    method: str
    path: str
    """Below the service's prefix. Its parts in braces are arguments, `user_id` is the scope's."""
    inside: str | None = None
    """The name under which an answer's list stands."""
    retry: bool = True
    """Whether it is sent again when its answer is lost."""
    done: type[OctopusError] | None = None
    """The error by which the service refuses a retry of a call that succeeded before."""


def call(
    method: str,
    path: str,
    *,
    inside: str | None = None,
    retry: bool = True,
    done: type[OctopusError] | None = None,
) -> Callable[[F], F]:
    """Declare the route of a call."""

    def declared(function: F) -> F:
        function.__dict__["route"] = Route(method, path, inside, retry, done)
        return function

    return declared


def route_of(function: Callable[..., Any]) -> Route:
    """The route that a call was declared with."""
    found: Route = function.__dict__["route"]
    return found
