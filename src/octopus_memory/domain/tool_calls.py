"""Pairing of tool calls and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .errors import ToolResultWithoutCall
from .message import Message, Role


def check_results(messages: Sequence[Message], waits_in_episode: Callable[[str], bool]) -> None:
    """Check that every bare tool result answers an open call."""
    for i, message in enumerate(messages):
        if message.role is not Role.TOOL or message.tool_call is not None:
            continue
        call_id = message.body["tool_call_id"]
        waits = is_waiting(messages[:i], call_id)
        if waits is None:
            waits = waits_in_episode(call_id)
        if not waits:
            raise ToolResultWithoutCall(
                f"messages[{i}].tool_call_id",
                "names no open call of this episode: add the assistant message with its "
                "tool_calls first, or give function_name and arguments with the result",
            )


def is_waiting(messages: Sequence[Message], call_id: str) -> bool | None:
    """True if the call is open after these messages; None if they do not mention it."""
    for message in reversed(messages):
        if message.role is Role.TOOL and message.body["tool_call_id"] == call_id:
            return False
        if any(request["id"] == call_id for request in message.requests):
            return True
    return None
