"""Reader of ChatGPT's data export, in which each conversation is a tree of messages.

It reads the branch that was shown last: the messages of user, assistant and tools, with images and
recordings by their address. It leaves out hidden instructions, the model's thoughts, and empty
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ..errors import InvalidInput
from ..message import Json
from .export_format import LONGEST_PART
from .transcripts import Conversation, as_time, json_values

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
