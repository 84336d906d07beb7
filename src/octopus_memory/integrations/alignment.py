"""Alignment of a caller's messages with what a session has stored, as a diff does.

Callers send the whole history with each call, a part of it, or the last message alone. Some drop
tool messages or reasoning, edit a message, or put one in front. What was said before is told by
its content, so that each message is stored once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from ..domain.message import AS_GIVEN, Json, Message, Role
from .repair import digest

_MEDIA = frozenset(
    ("url", "uri", "data", "file_id", "file_data", "fileUri", "image_url", "bytes", "image", "path")
)
"""Names under which the forms of clients hold a picture, a file, or its address."""


class Mark(NamedTuple):
    """What a turn says. Two messages with the same mark are one that was sent again."""

    role: str
    said: Hashable
    is_answer: bool
    """True for words of the assistant, after which the user speaks again."""
    has_id: bool
    """True for a tool's call or result."""


Known: TypeAlias = dict[int, int]
"""Places of the given marks that are stored, each with its place in the session."""


def mark(message: Message) -> Mark:
    """Return what a message says, whatever else its client wrote beside it."""
    body, text = message.body, message.text.strip()
    role, kept = message.role, body.get(AS_GIVEN) or {}
    said: tuple[Any, ...] = (text, message.name)
    if role is Role.ASSISTANT and not text:
        # Without words, calls and opaque items are told by their ids.
        item: dict[str, Json] = kept["item"] if isinstance(kept.get("item"), dict) else {}
        calls = tuple(str(request.get("id")) for request in message.requests)
        said = (calls, None if calls else (str(item.get("type")), str(item.get("id"))))
    elif role is Role.TOOL:
        said = (text, body.get("tool_call_id"))
    elif role is Role.USER:
        media = sorted(set(_media(body.get("content"))) | set(_media(kept.get("item"))))
        said = (*said, digest(media) if media else None)
    is_answer = role is Role.ASSISTANT and bool(text) and not message.requests
    has_id = role is Role.TOOL or bool(message.requests and not text)
    return Mark(role.value, said, is_answer, has_id)


def _media(value: Json) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _media(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in _MEDIA and isinstance(each, str):
                yield each
            else:
                yield from _media(each)


def new_places(given: Sequence[Mark], stored: Sequence[Mark]) -> list[int]:
    """Return the places of the given turns that the session does not have.

    What is given before the user's last words is history: it is stored as far as it stands in the
    session in the same order. What follows is said now: it is stored only where the session goes
    on with the same words, or ends with them unanswered, as after a call that failed.
    """
    now = start_of_now(given, stored)
    known = _common(given[:now], stored)
    known |= _in_another_order(given[:now], known, stored)
    last = max(known.values(), default=None)
    goes_on = stored[last + 1 :] if last is not None else unanswered(stored)
    count = repeated(given[now:], goes_on)
    return [at for at in range(len(given)) if at not in known and not now <= at < now + count]


def start_of_now(given: Sequence[Mark], stored: Sequence[Mark]) -> int:
    """Return where history ends: before the user's last words, or after a call that is stored.

    A call is told by its id, and words are not: the user may say the same again.
    """
    now = len(given)
    while now and given[now - 1].role != Role.USER:
        now -= 1
    while now and given[now - 1].role == Role.USER:
        now -= 1
    there = set(stored)
    for at in range(len(given), now, -1):
        if given[at - 1].has_id and given[at - 1] in there:
            return at
    return now


def unanswered(stored: Sequence[Mark]) -> Sequence[Mark]:
    """Return the end of a session after the assistant's last words."""
    after = takewhile(lambda each: not each.is_answer, reversed(stored))
    return stored[len(stored) - sum(1 for _ in after) :]


def repeated(said: Sequence[Mark], goes_on: Sequence[Mark]) -> int:
    """Count the turns at the start of `said` with which the session goes on."""
    at = 0
    for count, each in enumerate(said):
        if each.role == Role.TOOL and each in goes_on:
            # Results of parallel calls may come in another order.
            continue
        while at < len(goes_on) and goes_on[at] != each and goes_on[at].role != Role.USER:
            at += 1
        if at == len(goes_on) or goes_on[at] != each:
            return count
        at += 1
    return len(said)


def _in_another_order(given: Sequence[Mark], known: Known, stored: Sequence[Mark]) -> Known:
    """Return results of parallel calls that stand after the same call, in another order."""
    found: Known = {}
    call = None
    for at, each in enumerate(given):
        if each.role != Role.TOOL:
            call = known.get(at, call)
        elif at not in known and call is not None and each in stored[call:]:
            found[at] = stored.index(each, call)
    return found


def _common(given: Sequence[Mark], stored: Sequence[Mark]) -> Known:
    """Return a longest common subsequence, as late in the session as possible.

    This is the algorithm of Hunt and Szymanski, from the ends to the beginnings.
    """
    end = len(stored) - len(given)
    if end >= 0 and list(stored[end:]) == list(given):
        return {at: end + at for at in range(len(given))}
    places: dict[Mark, list[int]] = {}
    for place, each in enumerate(reversed(stored)):
        places.setdefault(each, []).append(place)
    ends: list[int] = []
    links: list[Any] = []
    for at, each in enumerate(reversed(given)):
        for place in reversed(places.get(each, ())):
            length = bisect_left(ends, place)
            linked = (at, place, links[length - 1] if length else None)
            if length == len(ends):
                ends.append(place)
                links.append(linked)
            else:
                ends[length], links[length] = place, linked
    known: Known = {}
    link = links[-1] if links else None
    while link is not None:
        at, place, link = link
        known[len(given) - 1 - at] = len(stored) - 1 - place
    return known
