"""Readers of other programs' transcripts: conversations as messages with times.

Reader of ChatGPT's data export, in which each conversation is a tree of messages.

It reads the branch that was shown last: the messages of user, assistant and tools, with images and
recordings by their address. It leaves out hidden instructions, the model's thoughts, and empty
nodes.
"""

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


_HIDDEN = frozenset(
    ("user_editable_context", "model_editable_context", "thoughts", "reasoning_recap")
)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_TEXT_FIELDS = ("text", "result", "content", "summary")


def chatgpt_conversations(
    chunks: Iterable[str], longest: int = LONGEST_PART
) -> Iterator[Conversation]:
    """Yield the conversations of an export.

    :raises InvalidInput: naming the conversation and its field
    """
    for number, (_, value) in enumerate(json_values(chunks, longest)):
        yield _conversation(value, number)


def _conversation(value: Any, number: int) -> Conversation:
    prefix = f"conversations[{number}]."
    if not isinstance(value, Mapping) or not isinstance(value.get("mapping"), Mapping):
        raise InvalidInput(f"{prefix}mapping", "must be an object of messages by id")
    key = value.get("conversation_id") or value.get("id")
    if not isinstance(key, str) or not key:
        raise InvalidInput(f"{prefix}conversation_id", "must be text")
    messages: list[dict[str, Json]] = []
    times: list[datetime | None] = []
    at, left_out = as_time(value.get("create_time")), 0
    call: str | None = None
    for node_id, message in _branch(value, prefix):
        at = as_time(message.get("create_time")) or at
        body, call = _message(node_id, message, call)
        if body is None:
            left_out += 1
            continue
        messages.append(body)
        times.append(at)
    return Conversation(
        prefix=prefix,
        session_id=f"chatgpt:{key}"[:256],
        key=key,
        messages=messages,
        times=times,
        metadata=_metadata(value),
        left_out=left_out,
    )


def _metadata(value: Mapping[str, Json]) -> dict[str, Json]:
    named = {"title": value.get("title"), "model": value.get("default_model_slug")}
    return {"source": "chatgpt"} | {k: v for k, v in named.items() if isinstance(v, str) and v}


def _branch(value: Mapping[str, Any], prefix: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Messages of the branch that was shown last, in order."""
    mapping = value["mapping"]
    node_id = value.get("current_node") or _last_leaf(mapping)
    found: list[tuple[str, Mapping[str, Any]]] = []
    seen: set[str] = set()
    while node_id is not None:
        node = mapping.get(node_id) if isinstance(node_id, str) else None
        if not isinstance(node, Mapping) or node_id in seen:
            raise InvalidInput(f"{prefix}mapping", "must contain the parent of every message")
        seen.add(node_id)
        if isinstance(node.get("message"), Mapping):
            found.append((node_id, node["message"]))
        node_id = node.get("parent")
    return found[::-1]


def _last_leaf(mapping: Mapping[str, Any]) -> str | None:
    """The newest leaf, for a file without `current_node`."""
    leaves = [
        (as_time(_object(node.get("message")).get("create_time")) or _LONG_AGO, node_id)
        for node_id, node in mapping.items()
        if isinstance(node, Mapping) and not node.get("children")
    ]
    return max(leaves)[1] if leaves else None


def _message(
    node_id: str, message: Mapping[str, Any], call: str | None
) -> tuple[dict[str, Json] | None, str | None]:
    """The message to store, or None, and the id of the tool call that waits for its result."""
    author, content = _object(message.get("author")), _object(message.get("content"))
    role = author.get("role")
    said = None if _is_hidden(message, content) else _content(content)
    if said is None:
        return None, call
    if role == "assistant" and message.get("recipient", "all") != "all":
        function = {"name": str(message["recipient"]), "arguments": _words(said)}
        request = {"id": node_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [request]}, node_id
    if role == "tool":
        body = {"role": "tool", "tool_call_id": call or node_id, "content": said}
        if call is None:
            # A tool message without a preceding call carries its own call.
            body |= {"function_name": str(author.get("name") or "tool"), "arguments": None}
        return body, None
    if role in ("user", "assistant", "system"):
        return {"role": role, "content": said}, call
    return None, call


def _is_hidden(message: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    hidden = _object(message.get("metadata")).get("is_visually_hidden_from_conversation")
    # A message that a newer answer replaced has weight 0.
    kind = str(content.get("content_type"))
    return bool(hidden) or kind in _HIDDEN or message.get("weight") == 0


def _object(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one, so that the message is left out."""
    return value if isinstance(value, Mapping) else {}


def _content(content: Mapping[str, Any]) -> Json:
    """Text, or a list of parts if it has more than text; None if it is empty."""
    raw = content.get("parts")
    if not isinstance(raw, list):
        words = (content.get(name) for name in _TEXT_FIELDS)
        return next((each for each in words if isinstance(each, str) and each), None)
    parts = [part for part in map(_part, raw) if part is not None]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts) or None
    return parts


def _part(part: Any) -> dict[str, Json] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part} if part else None
    if not isinstance(part, Mapping):
        return None
    kind, address = part.get("content_type"), part.get("asset_pointer")
    if isinstance(part.get("text"), str):
        # The transcript of a recording.
        return {"type": "text", "text": part["text"]} if part["text"] else None
    if not isinstance(address, str):
        return None
    if kind == "image_asset_pointer":
        return {"type": "image_url", "image_url": {"url": address}}
    return {"type": str(kind or "file"), "asset_pointer": address}


def _words(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")
