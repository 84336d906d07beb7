"""What the design documents print is taken as input: tool records, end reasons, a route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from octopus_memory import EndReason, EpisodicMemory, InvalidMessage, MemoryScope
from tests.support import rest_server
from tests.support.rest_server import HELLO, WHO

RECORD: dict[str, Any] = {
    "toolCallId": "call_abc123",
    "functionName": "get_order_status",
    "arguments": {"orderId": "ORD-8821"},
    "result": {"status": "shipped", "carrier": "FedEx"},
    "durationMs": 142,
    "isError": False,
}
STORED = {
    "role": "tool",
    "tool_call_id": "call_abc123",
    "function_name": "get_order_status",
    "arguments": {"orderId": "ORD-8821"},
    "result": {"status": "shipped", "carrier": "FedEx"},
    "duration_ms": 142,
    "is_error": False,
}


@pytest.fixture
def client(memory: EpisodicMemory) -> Iterator[httpx.Client]:
    with rest_server.http_client(memory) as opened:
        yield opened


@pytest.mark.parametrize("given", [RECORD, {"role": "tool", **RECORD}], ids=["bare", "with role"])
def test_a_tool_record_is_stored_by_its_names_here(scope: MemoryScope, given: dict[str, Any]):
    question = {"role": "user", "content": "Where is my order?", "name": None}
    asked, called = scope.add("s", [question, given])
    assert asked.message.body == question
    assert called.message.body == STORED
    call = called.tool_call
    assert call is not None
    assert (call.function_name, call.duration_ms) == ("get_order_status", 142)
    assert scope.session("s").messages()[-1]["tool_call_id"] == "call_abc123"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"tool_call_id": "another"}, r"messages\[0\]\.toolCallId"),
        ({"durationMs": "long"}, r"messages\[0\]\.duration_ms"),
        ({"role": "user", "content": "x"}, None),
    ],
)
def test_an_invalid_tool_record_is_refused_or_stored_unchanged(
    scope: MemoryScope, wrong: dict[str, Any], field: str | None
):
    given = RECORD | wrong
    if field is None:
        # Any other role may have keys of its own.
        [turn] = scope.add("s", given)
        assert turn.message.body == given
        return
    with pytest.raises(InvalidMessage, match=field):
        scope.add("s", [given])


def test_a_tool_record_over_rest(client: httpx.Client):
    sent = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO, RECORD]})
    assert sent.status_code == 201
    first, second = sent.json()["turns"]
    assert (first["message"], second["message"]) == (None, STORED)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("UserClosed", EndReason.USER_CLOSED),
        ("AgentClosed", EndReason.AGENT_CLOSED),
        ("Timeout", EndReason.TIMEOUT),
        ("ErrorClosed", EndReason.ERROR_CLOSED),
        ("TopicShift", EndReason.TOPIC_SHIFT),
    ],
)
def test_end_reasons_in_pascal_case(
    scope: MemoryScope, client: httpx.Client, given: str, reason: EndReason
):
    assert scope.store([("user", "Hello.")], reason=given).end_reason is reason
    opened = client.post("/episodes", json=WHO | {"messages": [HELLO]}).json()
    closed = client.post(f"/episodes/{opened['id']}/close", json={"reason": given})
    assert closed.json()["endReason"] == reason


@pytest.mark.parametrize("given", ["userclosed", "USERCLOSED", "Closed", "", "Timeout "])
def test_no_other_spelling_of_a_reason_is_taken(client: httpx.Client, given: str):
    opened = client.post("/episodes", json=WHO | {"messages": [HELLO]}).json()
    refused = client.post(f"/episodes/{opened['id']}/close", json={"reason": given})
    assert refused.status_code == 422


def test_a_users_memory_is_erased_by_the_route_of_the_design(
    memory: EpisodicMemory, client: httpx.Client
):
    for agent in ("hr", "it"):
        memory.scope(agent=agent, user="ana").store([("user", "Hello.")])
    one = client.delete("/users/ana/memory", params={"agentId": "hr"})
    assert (one.status_code, one.json()["removed"]["episodes"]) == (200, 1)
    assert client.delete("/users/ana/memory").json()["removed"]["episodes"] == 1
    assert memory.scope(agent="it", user="ana").episodes().total_count == 0
