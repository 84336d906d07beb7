"""Answers of the fake server in the forms of three APIs, whole or as events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Event = tuple[str | None, Any]
"""The name of a server-sent event, where the API names them, and its data."""


def chat_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """A chat completion as its stream sends it."""
    choice = answer["choices"][0]
    head = {key: answer[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Event:
        return None, head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    message = choice["message"]
    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(message.get("content") or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        begun = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    yield None, "[DONE]"


def response_of(message: Mapping[str, Any], *, number: int, model: str) -> dict[str, Any]:
    """A chat answer as `/v1/responses` gives it."""
    output: list[dict[str, Any]] = list(message.get("reasoning_items") or ())
    if message.get("content"):
        part = {"type": "output_text", "text": message["content"], "annotations": []}
        output.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for place, call in enumerate(message.get("tool_calls") or ()):
        output.append(
            {
                "type": "function_call",
                "id": f"fc_{number}_{place}",
                "call_id": call["id"],
                "status": "completed",
                **call["function"],
            }
        )
    used = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": used | details,
    }


def response_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """A response as its stream sends it."""
    number = 0

    def event(kind: str, **more: Any) -> Event:
        nonlocal number
        number += 1
        return kind, {"type": kind, "sequence_number": number, **more}

    yield event("response.created", response={**answer, "status": "in_progress", "output": []})
    for index, item in enumerate(answer["output"]):
        place = {"output_index": index, "item_id": item.get("id", "")}
        yield event("response.output_item.added", output_index=index, item=_begun(item))
        if item["type"] == "message":
            part, inside = item["content"][0], {**place, "content_index": 0}
            empty = {**part, "text": ""}
            yield event("response.content_part.added", **inside, part=empty)
            for piece in _pieces(part["text"]):
                yield event("response.output_text.delta", **inside, delta=piece, logprobs=[])
            whole = part["text"]
            yield event("response.output_text.done", **inside, text=whole, logprobs=[])
            yield event("response.content_part.done", **inside, part=part)
        elif item["type"] == "function_call":
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            yield event(
                "response.function_call_arguments.done", **place, arguments=item["arguments"]
            )
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=answer)


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as a stream announces it, before its text."""
    if item["type"] == "message":
        return {**item, "content": [], "status": "in_progress"}
    return {**item, "arguments": ""} if item["type"] == "function_call" else dict(item)


def message_of(message: Mapping[str, Any], *, number: int, model: str) -> dict[str, Any]:
    """A chat answer as `/v1/messages` gives it."""
    blocks: list[dict[str, Any]] = list(message.get("thinking_blocks") or ())
    if message.get("content"):
        blocks.append({"type": "text", "text": message["content"]})
    calls = message.get("tool_calls") or ()
    for call in calls:
        asked = call["function"]
        given = json.loads(asked["arguments"] or "{}")
        blocks.append({"type": "tool_use", "id": call["id"], "name": asked["name"], "input": given})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def message_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """A message as its stream sends it."""

    def event(kind: str, **more: Any) -> Event:
        return kind, {"type": kind, **more}

    yield event("message_start", message={**answer, "content": [], "stop_reason": None})
    for index, block in enumerate(answer["content"]):
        yield from (event(kind, index=index, **more) for kind, more in _block_events(block))
    ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ended, usage={"output_tokens": 1})
    yield event("message_stop")


def _block_events(block: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, delta = "content_block_delta", {"text": "text_delta", "thinking": "thinking_delta"}
    if block["type"] == "tool_use":
        yield "content_block_start", {"content_block": {**block, "input": {}}}
        for piece in _pieces(json.dumps(block["input"])):
            yield kind, {"delta": {"type": "input_json_delta", "partial_json": piece}}
    else:
        name = block["type"]
        empty = {"type": name, name: "", **({"signature": ""} if name == "thinking" else {})}
        yield "content_block_start", {"content_block": empty}
        for piece in _pieces(block[name]):
            yield kind, {"delta": {"type": delta[name], name: piece}}
        if block.get("signature"):
            signed = {"type": "signature_delta", "signature": block["signature"]}
            yield kind, {"delta": signed}
    yield "content_block_stop", {}


def _pieces(text: str) -> Sequence[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def sent(event: Event) -> bytes:
    """A server-sent event on the wire."""
    name, data = event
    text = data if isinstance(data, str) else json.dumps(data)
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {text}\n\n".encode()
