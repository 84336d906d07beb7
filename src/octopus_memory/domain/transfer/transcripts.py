"""Readers of other programs' transcripts: conversations as messages with times."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from itertools import chain
from typing import Any

from ..errors import InvalidInput
from ..message import Json
from .export_format import LONGEST_PART, check_length, is_header

_DECODE = json.JSONDecoder().raw_decode
_BLANK = " \t\n\r"


class ImportSource(StrEnum):
    """Format of an imported file."""

    OCTOPUS = "octopus"
    OPENAI = "openai"
    """Messages in the chat-completion format."""
    CHATGPT = "chatgpt"
    """`conversations.json` of a ChatGPT data export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation, before validation."""

    prefix: str
    """Prefix of the fields in errors: where the conversation is in its file."""
    session_id: str
    key: str
    """Identifies the conversation, equal at every import."""
    messages: Sequence[Mapping[str, Json]]
    times: Sequence[datetime | None]
    metadata: Mapping[str, Json] = field(default_factory=dict)
    left_out: int = 0


def json_values(chunks: Iterable[str], longest: int = LONGEST_PART) -> Iterator[tuple[bool, Any]]:
    """Yield the JSON values of a text: the elements of one array, or consecutive values as in
    JSON Lines. With each value, True if it was in an array.

    Holds one value at a time, so that an array of any length can be read.
    """
    source, text, at, in_array, count = iter(chunks), "", 0, False, 0
    size = 1
    while True:
        at = _skip(text, at, _BLANK + ("," if in_array else ""))
        if at < len(text):
            if not count and not in_array and text[at] in "[\ufeff":
                in_array, at = in_array or text[at] == "[", at + 1
                continue
            if in_array and text[at] == "]":
                _check_end(text[at + 1 :], source)
                return
            try:
                value, end = _DECODE(text, at)
            except (ValueError, RecursionError):
                end = -1
            # A value at the end may continue in the next chunk, as a number can.
            if end >= 0 and (end < len(text) or text[end - 1] in '}]"'):
                count, at, size = count + 1, end, 1
                yield in_array, value
                continue
        check_length(f"value {count + 1}", len(text) - at, longest)
        more = _more(source, size)
        if not more:
            if at < len(text) or in_array:
                raise InvalidInput(
                    f"value {count + 1}", "is not JSON: it is damaged, or the file is cut off"
                )
            return
        text, at = text[at:] + more, 0
        # Double what is read on each try, so that a large value is not scanned over and over.
        size = max(size, len(text))


def _check_end(text: str, source: Iterator[str]) -> None:
    if any(rest.strip() for rest in chain([text], source)):
        raise InvalidInput("file", "must end after its array: use one array, or objects, per file")


class _Counted:
    """Iterates over chunks and counts their characters."""

    def __init__(self, chunks: Iterable[str]) -> None:
        self._chunks = chunks
        self.length = 0

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            self.length += len(chunk)
            yield chunk


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at


def _more(source: Iterator[str], size: int) -> str:
    read, length = [], 0
    for chunk in source:
        read.append(chunk)
        length += len(chunk)
        if length >= size:
            break
    return "".join(read)


def detect(first: str) -> ImportSource:
    """Detect the format of a file from its beginning.

    :raises InvalidInput: if the format is unknown, or the text is empty
    """
    if not first.strip(_BLANK + "\ufeff"):
        raise InvalidInput("file", "is empty: give an export or another program's file")
    try:
        _, value = next(json_values([first]))
    except (InvalidInput, StopIteration):
        # The first value is incomplete: the key that occurs first in it decides.
        names = {
            "mapping": ImportSource.CHATGPT,
            "messages": ImportSource.OPENAI,
            "role": ImportSource.OPENAI,
        }
        found = [(first.find(f'"{n}"'), kind) for n, kind in names.items() if f'"{n}"' in first]
        if found:
            return min(found)[1]
    else:
        if is_header(value):
            return ImportSource.OCTOPUS
        if isinstance(value, Mapping) and "mapping" in value:
            return ImportSource.CHATGPT
        if isinstance(value, Mapping) and ("messages" in value or "role" in value):
            return ImportSource.OPENAI
    raise InvalidInput(
        "source",
        f"cannot be detected from the file's beginning: give one of {', '.join(ImportSource)}, on "
        "the command line with --format",
    )


def openai_conversations(
    chunks: Iterable[str], longest: int = LONGEST_PART
) -> Iterator[Conversation]:
    """Yield conversations of chat-completion messages: one list of them, or objects with
    `messages`, in a list or one per line. `id`, `metadata` and `created_at` of an object are
    optional.

    :raises InvalidInput: naming the conversation and its field
    """
    read = _Counted(chunks)
    values = json_values(read, longest)
    first = next(values, None)
    if first is None:
        raise InvalidInput("file", "is empty: give messages in the chat-completion format")
    in_array, value = first
    if in_array and isinstance(value, Mapping) and "role" in value:
        messages = [value]
        for _, each in values:
            # The whole file is one conversation.
            check_length("messages", read.length, longest)
            messages.append(each)
        yield _openai({"messages": messages}, "", Counter())
        return
    seen: Counter[str] = Counter()
    for number, (_, each) in enumerate(chain([first], values)):
        yield _openai(each, f"conversations[{number}].", seen)


def _openai(value: Any, prefix: str, seen: Counter[str]) -> Conversation:
    messages = value.get("messages") if isinstance(value, Mapping) else None
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise InvalidInput(f"{prefix}messages", "must be a list of messages")
    known = value.get("id") or value.get("session_id")
    key = known if isinstance(known, str) else _digest(messages)
    seen[key] += 1
    if seen[key] > 1:
        # Equal conversations in one file stay two, at every import.
        key = f"{key}-{seen[key]}"
    metadata = value.get("metadata")
    start = _first_time(value)
    return Conversation(
        prefix=prefix,
        session_id=f"openai:{key}"[:256],
        key=key,
        messages=_openai_messages(messages),
        times=[_first_time(each) or start for each in messages],
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _openai_messages(messages: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    """Messages with today's names for the roles and keys of older transcripts."""
    taken, call_id = [], "call_0"
    for number, message in enumerate(messages):
        body = dict(message)
        if body.get("role") == "developer":
            body["role"] = "system"
        asked = body.get("function_call")
        if body.get("role") == "assistant" and isinstance(asked, dict) and "tool_calls" not in body:
            call_id = f"call_{number}"
            del body["function_call"]
            body["tool_calls"] = [{"id": call_id, "type": "function", "function": asked}]
        if body.get("role") == "function":
            body |= {"role": "tool", "tool_call_id": call_id}
        taken.append(body)
    return taken


def _digest(messages: Sequence[Json]) -> str:
    return sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:32]


def _first_time(value: Mapping[str, Json]) -> datetime | None:
    for name in ("created_at", "create_time", "created", "timestamp"):
        moment = as_time(value.get(name))
        if moment is not None:
            return moment
    return None


def as_time(value: Json) -> datetime | None:
    """UTC time from seconds since 1970 or ISO 8601; None for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
