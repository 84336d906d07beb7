"""Personal data in messages, summaries and metadata: found, or replaced by placeholders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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
from .redacted_fields import Leaf, Visit, map_message, map_value

T = TypeVar("T")

_PARTED = "\n\x1e\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted(Generic[T]):
    """What is left, and what was found in it. `value` is the very object given if nothing was."""

    value: T
    kinds: tuple[PiiKind, ...] = ()
    names: tuple[str, ...] = ()
    """The people named, as written: what later turns of the episode call them by. Keep it nowhere
    that outlives the episode's being worked on."""


def redact_message(
    message: Message,
    redactor: Redactor,
    *,
    names: Sequence[str] = (),
    number_of: NumberOf | None = None,
) -> Redacted[Message]:
    """The message with placeholders for personal data; keys, ids and roles stay as they are.

    A user's `name` is a person's, and is replaced whole; other roles' are read like any text.
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
    """What `redact_message` would find, with the message left as it is."""
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
    """A summary, a key fact, or any other text."""
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
    """A session's metadata, or any other JSON: values are looked into, keys are left."""
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
    """The texts of one message, searched together: a name said in one is known in the others."""

    def __init__(self, redactor: Redactor, names: Sequence[str]) -> None:
        self._redactor = redactor
        self._given = names
        self._leaves: list[Leaf] = []
        self._spans: list[list[PiiSpan]] = []

    def collect(self, leaf: Leaf) -> str | None:
        self._leaves.append(leaf)
        return None

    def search(self) -> None:
        whole = _PARTED.join(leaf.shown for leaf in self._leaves)
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
        """A visit in the order of `collect` that answers with the new text, where there is one."""
        results = iter(self._spans)

        def replace(leaf: Leaf) -> str | None:
            spans = next(results)
            return redact(leaf.text, spans, number_of) if spans else None

        return replace


def _shared_out(leaves: Sequence[Leaf], spans: Sequence[PiiSpan]) -> Iterator[list[PiiSpan]]:
    """The spans of each leaf, in its own places; what reaches into its label is cut off."""
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
        start = last + len(_PARTED)


def _names(text: str, spans: Sequence[PiiSpan]) -> Iterator[str]:
    for span in spans:
        if span.kind is PiiKind.PERSON_NAME:
            yield text[span.start : span.end]
