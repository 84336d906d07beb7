"""One message in the chat-completion form, checked on entry and kept key by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from .errors import InvalidMessage, MessageTooLarge
from .quick import maker

Json: TypeAlias = Any
"""A plain JSON value: None, bool, int, float, str, list or dict with text keys."""

MessageLike: TypeAlias = "Message | Mapping[str, Json] | tuple[str, Json]"
"""What `add` takes: a chat-completion dict, a `(role, content)` pair, or a `Message`."""


MESSAGE_TOKENS = 4
"""What a message costs beside its text."""
_MEDIA = ("image", "audio", "video", "file", "document")
_MEDIA_TOKENS = 1_000
"""About what a picture or the like costs a model, however many bytes it is."""


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


DEEPEST = 100
"""The most levels of lists and dicts, so that a caller whose own stack is deep can read it back."""
_NESTED = (dict, list, tuple)
_ROLES = {role.value: role for role in Role}
_RECORD = {
    "toolCallId": "tool_call_id",
    "functionName": "function_name",
    "durationMs": "duration_ms",
    "isError": "is_error",
}
_LONGEST_CHARACTER = 6
"""The most bytes that JSON takes for one: a control character is written as six."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call and its result, as one tool turn carries them."""

    tool_call_id: str
    function_name: str
    arguments: Json = None
    result: Json = None
    duration_ms: int | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the client wrote it. `body` is read back equal to what went in."""

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
        """The speaking agent, where several share an episode."""
        return self.body.get("agent")

    @property
    def text(self) -> str:
        """The words: text content, the text parts of multi-part content, or a tool's result."""
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
        """The tool calls an assistant message asks for; on any other the key means nothing."""
        return self.body.get("tool_calls") or () if self.body["role"] == Role.ASSISTANT else ()

    @property
    def tool_call(self) -> ToolCall | None:
        """The call a tool turn carries; None where it is a bare result or no tool turn."""
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


_make_message = maker(Message)


def as_text(value: Json) -> str:
    if value is None:
        return ""
    # What is no JSON is refused later, with its field named: here it need only not break.
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def message_tokens(message: Message, count: Callable[[str], int]) -> int:
    """What a message costs a model: its words, its tool calls, and its own frame."""
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
    """Of a part that is no text: of another provider's form, or a picture."""
    if not isinstance(part, dict):
        return count(as_text(part))
    if isinstance(part.get("text"), str):
        return 0
    kind = str(part.get("type"))
    return _MEDIA_TOKENS if any(name in kind for name in _MEDIA) else count(as_text(part))


def parse_message(given: MessageLike, *, field: str = "message", max_bytes: int) -> Message:
    """Check one message and take a private copy of it.

    :raises InvalidMessage: with the field and the remedy, where it is not a plain JSON message
    :raises MessageTooLarge: where its JSON is over `max_bytes`
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
    return _make_message(body)


def _as_body(given: MessageLike, field: str) -> dict[str, Json]:
    if isinstance(given, tuple) and len(given) == 2:
        return {"role": given[0], "content": given[1]}
    if isinstance(given, Message):
        return dict(given.body)
    # To ask about a mapping takes longer than all the rest.
    if type(given) is dict or isinstance(given, Mapping):
        return dict(given)
    raise InvalidMessage(
        field,
        f"{type(given).__name__} is not a message: give a dict with 'role' and 'content' (of a "
        "library's object, its model_dump()), or a (role, content) pair",
    )


def _from_record(record: dict[str, Json], field: str) -> dict[str, Json]:
    """A tool turn from the record of the design documents, which has its keys in camelCase."""
    for name, ours in _RECORD.items():
        if name in record and ours in record:
            raise InvalidMessage(f"{field}.{name}", f"must not stand beside {ours}: give one")
    body = {_RECORD.get(key, key): value for key, value in record.items()}
    return {"role": Role.TOOL.value, **body}


def is_deep(value: Mapping[str, Json]) -> bool:
    """Whether it is nested more than `DEEPEST` levels deep.

    Looked at level by level, before anything recurses into it: from Python 3.13 on, JSON goes
    10,000 levels deep whatever room the stack has, and a small one ends the process.
    """
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        # By identity, because a list that holds another twice would double each level.
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
        raise InvalidMessage(field, f"is nested more than {DEEPEST} deep: store it as text")
    try:
        dumped = json.dumps(plain, allow_nan=False, ensure_ascii=False)
        copy: dict[str, Json] = json.loads(dumped)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(field, "must be plain JSON (no NaN, bytes or objects)") from error
    # A tuple, or a key that is no text, would come back as something else.
    if copy != plain:
        raise InvalidMessage(field, "must be plain JSON: lists, and dicts with text keys")
    # Four bytes a character is the most UTF-8 takes; measure exactly only when that could matter.
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
    """Whether it has nothing but texts, which need no copy, and is short however it is written."""
    longest = 0
    for key, value in body.items():
        if type(key) is not str or type(value) is not str:
            return False
        longest += _LONGEST_CHARACTER * (len(key) + len(value) + 2)
    return longest <= max_bytes


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
        raise InvalidMessage(f"{field}.tool_call_id", "must name the call this is the result of")
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
    # A role can be anything the caller sent by mistake, message text included: never echo it whole.
    return repr(value[:20]) if isinstance(value, str) else type(value).__name__
