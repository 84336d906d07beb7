"""How a message of PydanticAI is written in Octopus: its turns, and the mark that names it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from ..domain.message import AS_GIVEN, Json

FORM = "pydantic-ai"
Body: TypeAlias = dict[str, Json]


def bodies_of(message: ModelMessage) -> list[Body]:
    """The turns of a message: the first has the message itself beside its text."""
    [item] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    kept: Body = {"form": FORM, "item": item}
    bodies = _asked(message) if isinstance(message, ModelRequest) else _answered(message)
    if not bodies:
        bodies, kept["opaque"] = [{"role": "assistant", "content": ""}], True
    bodies[0][AS_GIVEN] = kept
    return bodies


def _asked(message: ModelRequest) -> list[Body]:
    bodies: list[Body] = []
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            bodies.append({"role": "user", "content": text_of(part)})
        elif isinstance(part, ToolReturnPart):
            said = part.model_response_str()
            bodies.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": said})
        elif isinstance(part, RetryPromptPart) and part.tool_name:
            said = part.model_response()
            body = {"role": "tool", "tool_call_id": part.tool_call_id, "content": said}
            bodies.append({**body, "is_error": True})
    return bodies


def _answered(message: Any) -> list[Body]:
    said = "\n".join(part.content for part in message.parts if isinstance(part, TextPart))
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    if calls:
        return [{"role": "assistant", "content": said or None, "tool_calls": calls}]
    return [{"role": "assistant", "content": said}] if said else []


def digest(bodies: Sequence[Body]) -> str:
    """Equal for two messages that say the same, whenever and under whatever ids of calls."""
    said = [
        (body["role"], body["content"], [call["function"] for call in body.get("tool_calls", ())])
        for body in bodies
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def text_of(part: UserPromptPart) -> str:
    """The words of a user's part, which may have images and files beside them."""
    given = [part.content] if isinstance(part.content, str) else part.content
    return "\n".join(
        text for each in given if isinstance(text := getattr(each, "content", each), str)
    )
