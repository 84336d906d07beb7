"""Pairing of tool calls and results, which reads each message and the episode once."""

from __future__ import annotations

from typing import Any

import pytest

from octopus_memory import ToolResultWithoutCall
from octopus_memory.domain.message import Message, check_tool_results, open_calls


class CountingBody(dict[str, Any]):
    """A message's body that counts how often it is read."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        CountingBody.reads += 1
        return super().__getitem__(key)


def _call(*ids: str) -> Message:
    requests = [{"id": each, "type": "function", "function": {"name": "f"}} for each in ids]
    return Message(CountingBody(role="assistant", content=None, tool_calls=requests))


def _result(call_id: str) -> Message:
    return Message(CountingBody(role="tool", tool_call_id=call_id, content="ok"))


def _reads_of(count: int) -> int:
    ids = [f"c{number}" for number in range(count)]
    asked: list[set[str]] = []
    CountingBody.reads = 0
    check_tool_results([_call(*ids), *map(_result, ids)], lambda _: set())
    check_tool_results([_result(each) for each in ids], lambda some: asked.append(some) or some)
    assert asked == [set(ids)]
    return CountingBody.reads


def test_the_work_grows_with_the_results_and_not_with_their_square():
    assert _reads_of(400) <= 4.1 * _reads_of(100)


@pytest.mark.parametrize(
    ("messages", "open_before", "refused"),
    [
        ([_result("a")], {"a"}, None),
        ([_result("a")], set(), 0),
        ([_call("a"), _result("a"), _result("a")], set(), 2),
        ([_result("a"), _result("a")], {"a"}, 1),
        ([_result("a"), _call("a"), _result("a")], {"a"}, None),
        ([_call("a"), _result("b"), _result("a"), _result("a")], set(), 1),
        ([_call("a", "b"), _result("b"), _result("a")], set(), None),
    ],
)
def test_a_result_needs_a_call_that_is_open(
    messages: list[Message], open_before: set[str], refused: int | None
):
    if refused is None:
        check_tool_results(messages, lambda some: some & open_before)
        return
    with pytest.raises(ToolResultWithoutCall, match=rf"messages\[{refused}\]"):
        check_tool_results(messages, lambda some: some & open_before)


def test_the_last_mention_says_whether_a_call_is_open():
    said = [_call("a", "b"), _result("a"), _call("c"), _result("c"), _call("c")]
    assert open_calls(said) == {"a": False, "b": True, "c": True}
