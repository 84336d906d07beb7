"""Bodies of responses: the JSON form of each value, and the typed dictionary that describes it.

The OpenAPI page is made from the dictionaries. Models would validate every value again, although
the values come from Octopus itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, NamedTuple, NotRequired, get_args, get_origin

from pydantic import BaseModel, ConfigDict, RootModel, WithJsonSchema, with_config
from typing_extensions import TypedDict

from ...domain import wire
from ...domain.episode import Episode, Turn
from ...domain.message import Message

# pydantic reads the TypedDict of the standard library only from Python 3.12 on.

_exact = with_config(ConfigDict(extra="forbid"))
"""Forbid fields other than those of the class."""
_NAMES = {
    "AuditEntryOut": "AuditOut",
    "EpisodeReplayOut": "EpisodeDetail",
    "EpisodeSnippetOut": "SnippetOut",
    "EpisodeUseOut": "UseOut",
    "EpisodeUsesOut": "UsesOut",
    "ImportReportOut": "ImportOut",
    "MemoryContextOut": "ContextOut",
    "SessionReplayOut": "SessionDetail",
    "SignalShareOut": "SignalOut",
    "TurnHitOut": "HitOut",
}
"""Names of the schemas that are not the type's own with "Out" after it."""
_LISTS = {
    "results: EpisodeSnippet": "SearchOut",
    "results: TurnHit": "TurnSearchOut",
    "turns: Turn": "TurnItems",
    "items: AuditEntry": "AuditList",
    "items: EraseReceipt": "ReceiptList",
    "items: Hold": "HoldList",
}
_WORDS = {
    "EpisodeDetail": "An episode with its messages: null if it is archived, or if the caller may "
    "not read them.",
    "StoredOut": "A stored turn. Its message is null if it is stored as it was sent.\n\n"
    "Where fewer turns are given than messages were sent, every turn has its message.",
}
_TYPES = {
    "MemoryContext.kind": str,
    "MemoryContext.messages": list[dict[str, Any]],
    "Session.status": str,
    "TurnHit.role": str,
}
"""Fields that the page describes more broadly than their type."""


class Form(NamedTuple):
    """How a response is described, and how it is written."""

    shape: Any
    write: Callable[[Any], Any]


@cache
def form(kind: Any, inside: str | None = None) -> Form:
    """The form of a value of this type; of a list or a plain value, under the name `inside`."""
    if isinstance(kind, Form):
        return kind
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return Form(kind, lambda value: value)
    if inside is None:
        return Form(_shape(kind), wire.writer(kind))
    if arguments := get_args(kind):
        item = arguments[0].__name__
        name = _LISTS.get(f"{inside}: {item}") or f"{item}Items"
    else:
        name = f"{inside.capitalize()}Out"
    write = wire.writer(kind)
    return Form(_dictionary(name, {inside: _shape(kind)}), lambda found: {inside: write(found)})


@cache
def _shape(kind: Any) -> Any:
    """The type that describes the JSON form of a type's values."""
    arguments = get_args(kind)
    if (inner := wire.optional(kind)) is not None:
        return _shape(inner) | None
    if get_origin(kind) in {tuple, list}:
        return _list(arguments[0])
    if kind is Message or wire.is_mapping(kind):
        return GenericAlias(dict, arguments or (str, Any))
    if not wire.is_value(kind):
        return str if kind is bytes else kind
    if hasattr(kind, "from_dict"):
        return ReceiptOut
    name = f"{arguments[0].__name__}List" if arguments else f"{kind.__name__}Out"
    return _dictionary(_NAMES.get(name, name), _fields(kind))


def _list(item: Any) -> Any:
    return GenericAlias(list, (_shape(item),))


def _fields(kind: Any) -> dict[str, Any]:
    return {part.name: _type(part) for part in wire.parts(kind)}


def _type(part: wire.Part) -> Any:
    kind = _TYPES.get(part.owner) or _shape(part.kind)
    return kind | None if part.owner in wire.HIDDEN else kind


def _dictionary(name: str, fields: dict[str, Any]) -> Any:
    made: Any = TypedDict(name, fields)  # type: ignore[misc]  # known only when it runs
    made.__doc__ = _WORDS.get(name)
    return _exact(made)


@_exact
class CopiesOut(TypedDict):
    """What became of older copies of the database; only where scopes have keys."""

    unreadable_since: str | None
    keys_kept_until: str | None


@_exact
class ReceiptOut(TypedDict):
    """A receipt of an erasure. Its SHA-256 covers the names of the fields, too."""

    id: Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
    at: str
    tenant: str
    subject: str
    removed: dict[str, int]
    left: dict[str, int]
    physical: bool
    pending: list[str]
    nodes: NotRequired[list[str]]
    complete: bool
    copies: NotRequired[CopiesOut]
    sha256: str


class ConfigOut(RootModel[dict[str, dict[str, Any]]]):
    """The settings of an agent by part. `sources`, if asked for, has the same parts."""


_STORED = {name: kind for name, kind in _fields(Turn).items() if name != "embeddingRef"}
_STORED["message"] |= None
ADDED = Form(
    _dictionary("AddedOut", {"turns": GenericAlias(list, (_dictionary("StoredOut", _STORED),))}),
    lambda added: added,
)


def added(turns: list[Turn], sent: list[dict[str, Any]]) -> dict[str, Any]:
    """Name the turns that a call stored, or an earlier call with the same key did."""
    bodies = sent if len(sent) == len(turns) else [None] * len(turns)
    return {"turns": [_stored(*each) for each in zip(turns, bodies, strict=True)]}


def _stored(turn: Turn, sent: dict[str, Any] | None) -> dict[str, Any]:
    body: dict[str, Any] = wire.writer(Turn)(turn)
    del body["embeddingRef"]
    if body["message"] == sent:
        body["message"] = None
    return body


def without_content(episode: Episode) -> Episode:
    """The episode as an auditor sees it."""
    return replace(episode, summary=None, key_facts=(), metadata={})
