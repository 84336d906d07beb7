"""Pairing of tool calls and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .errors import ToolResultWithoutCall
from .message import Message, Role


def check_results(messages: Sequence[Message], open_before: Callable[[set[str]], set[str]]) -> None:
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


def calls(messages: Iterable[Message]) -> dict[str, bool]:
    """Return the ids of the calls that the messages mention: True for a call still open."""
    return {call_id: is_open for message in messages for call_id, is_open in _mentions(message)}


def _mentions(message: Message) -> list[tuple[str, bool]]:
    if message.role is Role.TOOL:
        return [(message.body["tool_call_id"], False)]
    return [(request["id"], True) for request in message.requests]
