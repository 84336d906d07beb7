"""Messages in the chat-completion format: validation, text, token count, tool calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from .errors import InvalidMessage, MessageTooLarge, ToolResultWithoutCall

Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, list or dict with text keys."""

MessageLike: TypeAlias = "Message | Mapping[str, Json] | tuple[str, Json]"
"""Accepted by `add`: a chat-completion dict, a `(role, content)` pair, or a `Message`."""


AS_GIVEN = "as_given"
"""The key that keeps a message of another provider's form as it came: see `domain.forms`."""
MESSAGE_TOKENS = 4
"""Tokens that a message costs besides its text."""
_MEDIA = ("image", "audio", "video", "file", "document")
_MEDIA_TOKENS = 1_000
"""Approximate tokens of an image or other media, whatever its size in bytes."""


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


DEEPEST = 100
"""Maximum nesting of lists and dicts, so that a caller deep in its own stack can read it back."""
_NESTED = (dict, list, tuple)
_ROLES = {role.value: role for role in Role}
_RECORD = {
    "toolCallId": "tool_call_id",
    "functionName": "function_name",
    "durationMs": "duration_ms",
    "isError": "is_error",
}
_LONGEST_CHARACTER = 6
"""Maximum bytes of one character in JSON: a control character takes six."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call and its result, as one tool turn carries them."""

    tool_call_id: str
    function_name: str
    arguments: Json = None
    result: Json = None
    duration_ms: int | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the client wrote it. `body` is returned exactly as it was stored."""

    body: Mapping[str, Json]

    @classmethod
    def tool(cls, call: ToolCall, content: str | None = None) -> Message:
        """A tool turn that carries its own call; `content` defaults to the result as text."""
        body = {
            "role": "tool",
            "tool_call_id": call.tool_call_id,
            "content": as_text(call.result) if content is None else content,
            "function_name": call.function_name,
            "arguments": call.arguments,
            "result": call.result,
            "duration_ms": call.duration_ms,
            "is_error": call.is_error,
        }
        return cls(body)

    @property
    def role(self) -> Role:
        role = self.body["role"]
        return _ROLES.get(role) or Role(role)

    @property
    def content(self) -> Json:
        return self.body.get("content")

    @property
    def name(self) -> str | None:
        return self.body.get("name")

    @property
    def agent(self) -> str | None:
        """The speaking agent, if several share an episode."""
        return self.body.get("agent")

    @property
    def text(self) -> str:
        """Text content, the text parts of multi-part content, or a tool's result."""
        content = self.body.get("content")
        if isinstance(content, str):
            return content
        if content is None and "result" in self.body:
            content = self.body["result"]
        if isinstance(content, list):
            parts = (p.get("text") for p in content if isinstance(p, dict))
            return "\n".join(part for part in parts if isinstance(part, str))
        return as_text(content)

    @property
    def requests(self) -> Sequence[Mapping[str, Json]]:
        """Tool calls that an assistant message requests; empty for other roles."""
        return self.body.get("tool_calls") or () if self.body["role"] == Role.ASSISTANT else ()

    @property
    def tool_call(self) -> ToolCall | None:
        """The call that a tool turn carries; None for a bare result and for other roles."""
        body = self.body
        if body["role"] != Role.TOOL or "function_name" not in body:
            return None
        return ToolCall(
            tool_call_id=body["tool_call_id"],
            function_name=body["function_name"],
            arguments=body.get("arguments"),
            result=body["result"] if "result" in body else body.get("content"),
            duration_ms=body.get("duration_ms"),
            is_error=bool(body.get("is_error", False)),
        )


def as_text(value: Json) -> str:
    if value is None:
        return ""
    # A later check rejects what is not JSON and names its field; here it only must not raise.
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def message_tokens(message: Message, count: Callable[[str], int]) -> int:
    """Tokens of a message: its text, its tool calls, and the fixed overhead."""
    tokens = MESSAGE_TOKENS + count(message.text)
    content = message.body.get("content")
    if isinstance(content, list):
        tokens += sum(_part_tokens(part, count) for part in content)
    if "tool_calls" not in message.body and "arguments" not in message.body:
        return tokens
    call = message.tool_call
    extra = message.requests or (call.arguments if call else None)
    return tokens + count(as_text(extra)) if extra else tokens


def _part_tokens(part: Json, count: Callable[[str], int]) -> int:
    """Tokens of a content part that is not text."""
    if not isinstance(part, dict):
        return count(as_text(part))
    if isinstance(part.get("text"), str):
        return 0
    kind = str(part.get("type"))
    return _MEDIA_TOKENS if any(name in kind for name in _MEDIA) else count(as_text(part))


def parse_message(given: MessageLike, *, field: str = "message", max_bytes: int) -> Message:
    """Validate a message and return a private copy.

    :raises InvalidMessage: if it is not a plain JSON message; names the field and the remedy
    :raises MessageTooLarge: if its JSON is over `max_bytes`
    """
    body = _as_body(given, field)
    if "toolCallId" in body and body.get("role", Role.TOOL) == Role.TOOL:
        body = _from_record(body, field)
    is_text = _is_short_text(body, max_bytes)
    if not is_text:
        body = _plain_copy(body, field, max_bytes)
    role = body.get("role")
    if not isinstance(role, str) or role not in _CHECKS:
        known = ", ".join(Role)
        remedy = ": store it as system" if role == "developer" else ""
        raise InvalidMessage(f"{field}.role", f"{_shown(role)} is not one of {known}{remedy}")
    if not is_text:
        _check_kinds(body, field)
    _CHECKS[role](body, field)
    return Message(body)


def _as_body(given: MessageLike, field: str) -> dict[str, Json]:
    if isinstance(given, tuple) and len(given) == 2:
        return {"role": given[0], "content": given[1]}
    if isinstance(given, Message):
        return dict(given.body)
    # `isinstance` with an ABC takes longer than everything else here, so test for dict first.
    if type(given) is dict or isinstance(given, Mapping):
        return dict(given)
    raise InvalidMessage(
        field,
        f"{type(given).__name__} is not a message: pass a dict with 'role' and 'content' (for a "
        "library's object, its model_dump()), or a (role, content) pair",
    )


def _from_record(record: dict[str, Json], field: str) -> dict[str, Json]:
    """A tool turn from the record format of the design documents, with camelCase keys."""
    for name, ours in _RECORD.items():
        if name in record and ours in record:
            raise InvalidMessage(f"{field}.{name}", f"must not be given together with {ours}")
    body = {_RECORD.get(key, key): value for key, value in record.items()}
    return {"role": Role.TOOL.value, **body}


def is_deep(value: Mapping[str, Json]) -> bool:
    """True if it is nested more than `DEEPEST` levels deep.

    Goes level by level before anything recurses into the value, because from Python 3.13 on `json`
    recurses 10,000 levels whatever the stack's size, and a small stack overflows.
    """
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        # Keyed by identity, because a list that holds another twice would double each level.
        found = {
            id(inner): inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, Mapping) else outer)
            if isinstance(inner, _NESTED)
        }
        if not found:
            return False
        level = list(found.values())
    return any(level)


def _plain_copy(plain: dict[str, Json], field: str, max_bytes: int) -> dict[str, Json]:
    if is_deep(plain):
        raise InvalidMessage(field, f"must not be nested over {DEEPEST} deep: store it as text")
    try:
        dumped = json.dumps(plain, allow_nan=False, ensure_ascii=False)
        copy: dict[str, Json] = json.loads(dumped)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(field, "must be plain JSON (no NaN, bytes or objects)") from error
    # Tuples and non-text keys would be read back as something else.
    if copy != plain:
        raise InvalidMessage(field, "must be plain JSON: lists, and dicts with text keys")
    # UTF-8 takes at most four bytes per character: encode only if that could exceed the limit.
    if len(dumped) * 4 > max_bytes:
        size = len(dumped.encode("utf-8", "surrogatepass"))
        if size > max_bytes:
            raise MessageTooLarge(
                field,
                f"is {size:,} bytes as JSON, over the limit of {max_bytes:,}: store large "
                "attachments elsewhere and keep their address, or raise "
                "SessionConfig.max_message_bytes",
            )
    return copy


def _is_short_text(body: dict[str, Json], max_bytes: int) -> bool:
    """True if all values are strings, which need no copy, and its JSON surely fits the limit."""
    longest = 0
    for key, value in body.items():
        if type(key) is not str or type(value) is not str:
            return False
        longest += len(key) + len(value) + 2
    return longest * _LONGEST_CHARACTER <= max_bytes


def _check_kinds(body: dict[str, Json], field: str) -> None:
    for key in ("name", "agent"):
        if not isinstance(body.get(key), str | None):
            raise InvalidMessage(f"{field}.{key}", "must be text")
    _check_content(body.get("content"), field)


def _check_content(content: Json, field: str) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise InvalidMessage(f"{field}.content", "must be text or a list of parts")
    for number, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise InvalidMessage(
                f"{field}.content[{number}]", "must be a dict with a 'type', such as 'text'"
            )


def _check_spoken(body: dict[str, Json], field: str) -> None:
    if body.get("content") is None:
        raise InvalidMessage(f"{field}.content", f"is missing on a {body['role']} message")


def _check_assistant(body: dict[str, Json], field: str) -> None:
    requests = body.get("tool_calls")
    if requests is None:
        if body.get("content") is None and not body.get("refusal"):
            raise InvalidMessage(f"{field}.content", "is missing, and there are no tool_calls")
        return
    if not isinstance(requests, list):
        raise InvalidMessage(f"{field}.tool_calls", "must be a list")
    for number, request in enumerate(requests):
        if not isinstance(request, dict) or not _is_id(request.get("id")):
            raise InvalidMessage(f"{field}.tool_calls[{number}].id", "must be non-empty text")


def _check_tool(body: dict[str, Json], field: str) -> None:
    if not _is_id(body.get("tool_call_id")):
        raise InvalidMessage(f"{field}.tool_call_id", "must be the id of the answered call")
    if "function_name" in body and not _is_id(body["function_name"]):
        raise InvalidMessage(f"{field}.function_name", "must be non-empty text")
    if body.get("content") is None and "result" not in body:
        raise InvalidMessage(f"{field}.content", "is missing: give 'content' or 'result'")
    duration = body.get("duration_ms")
    if duration is not None and (not isinstance(duration, int | float) or duration < 0):
        raise InvalidMessage(f"{field}.duration_ms", "must be a number of milliseconds")
    if not isinstance(body.get("is_error", False), bool):
        raise InvalidMessage(f"{field}.is_error", "must be true or false")


_CHECKS = {
    "user": _check_spoken,
    "system": _check_spoken,
    "assistant": _check_assistant,
    "tool": _check_tool,
}


def _is_id(value: Json) -> bool:
    return isinstance(value, str) and value != ""


def _shown(value: object) -> str:
    # A caller may pass message text as a role by mistake: never echo it whole.
    return repr(value[:20]) if isinstance(value, str) else type(value).__name__


def check_tool_results(
    messages: Sequence[Message], open_before: Callable[[set[str]], set[str]]
) -> None:
    """Check that every bare tool result answers an open call.

    `open_before` returns which of some calls are open in the episode before these messages. It is
    called at most once, because reading an episode for each result would take quadratic time.
    """
    state: dict[str, bool] = {}
    unknown: dict[str, int] = {}
    refused: list[int] = []
    for i, message in enumerate(messages):
        if message.role is Role.TOOL and message.tool_call is None:
            call_id = message.body["tool_call_id"]
            if call_id not in state:
                unknown[call_id] = i
            elif not state[call_id]:
                refused.append(i)
        state.update(_mentions(message))
    if unknown:
        found = open_before(set(unknown))
        refused += [i for call_id, i in unknown.items() if call_id not in found]
    if refused:
        raise ToolResultWithoutCall(
            f"messages[{min(refused)}].tool_call_id",
            "names no open call of this episode: add the assistant message with its "
            "tool_calls first, or give function_name and arguments with the result",
        )


def open_calls(messages: Iterable[Message]) -> dict[str, bool]:
    """Return the ids of the calls that the messages mention: True for a call still open."""
    return {call_id: is_open for message in messages for call_id, is_open in _mentions(message)}


def _mentions(message: Message) -> list[tuple[str, bool]]:
    if message.role is Role.TOOL:
        return [(message.body["tool_call_id"], False)]
    return [(request["id"], True) for request in message.requests]
