"""The three calls of clients: where their messages stand, and where a block goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from ..domain.message import Json
from .repair import plain

Event = dict[str, Any]


class Collector(Protocol):
    """Puts the events of a stream together. A tool call that is not complete is no call."""

    def take(self, event: Event) -> None: ...

    def messages(self) -> list[Json]:
        """Return the text received so far, even if the stream was interrupted."""
        ...


class Api(Protocol):
    """A call of a client."""

    @property
    def calls(self) -> Sequence[str]:
        """The names of the calls that take messages."""
        ...

    def fits(self, client: Any) -> bool: ...

    def resource(self, client: Any) -> Any:
        """The object that has the calls."""
        ...

    def whole(self, named: dict[str, Any]) -> dict[str, Any]:
        """The arguments with a list in place of an iterator, which can be read once only."""
        ...

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        """The messages of a call, without instructions."""
        ...

    def inject(self, named: dict[str, Any], block: str) -> dict[str, Any]:
        """The arguments with the block in their instructions."""
        ...

    def outputs(self, answer: Any) -> list[Json]:
        """The messages of an answer, which is an object of the client's or its JSON."""
        ...

    def choices(self, answer: Any) -> list[Json]:
        """The answers among which the caller chooses; empty where there is one."""
        ...

    def collector(self) -> Collector: ...


_INSTRUCTS = frozenset(("system", "developer"))


def _listed(named: dict[str, Any], name: str) -> dict[str, Any]:
    given = named.get(name)
    if given is None or isinstance(given, str | list | tuple | dict):
        return named
    try:
        return {**named, name: list(given)}
    except TypeError:
        # A marker of the client's own for "not given".
        return named


def _messages(named: dict[str, Any], name: str) -> list[Any]:
    given = named.get(name)
    return [plain(each) for each in given] if isinstance(given, list | tuple) else []


class Chat:
    """`client.chat.completions`."""

    calls = ("create", "parse")

    def fits(self, client: Any) -> bool:
        return hasattr(client, "chat") and hasattr(client, "responses")

    def resource(self, client: Any) -> Any:
        return client.chat.completions

    def whole(self, named: dict[str, Any]) -> dict[str, Any]:
        return _listed(named, "messages")

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        return [each for each in _messages(named, "messages") if not _instructs(each)]

    def inject(self, named: dict[str, Any], block: str) -> dict[str, Any]:
        if not block:
            return named
        messages = list(named.get("messages") or ())
        place = 0
        for message in messages:
            if not _instructs(plain(message)):
                break
            place += 1
        messages.insert(place, {"role": "system", "content": block})
        return {**named, "messages": messages}

    def outputs(self, answer: Any) -> list[Json]:
        return self.choices(answer)[:1]

    def choices(self, answer: Any) -> list[Json]:
        found = _field(plain(answer), "choices") or ()
        return [_spoken(choice["message"]) for choice in found]

    def collector(self) -> Collector:
        return _ChatEvents()


def _instructs(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") in _INSTRUCTS


def _field(value: Json, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _spoken(message: dict[str, Any]) -> dict[str, Any]:
    """An answer without what only this client's types have."""
    kept = {key: value for key, value in message.items() if key not in {"parsed", "annotations"}}
    if kept.get("tool_calls") or kept.get("content") or kept.get("refusal"):
        return kept
    return {**kept, "content": ""}


class _ChatEvents:
    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._is_ended = False

    def take(self, event: Event) -> None:
        first = next((c for c in event.get("choices") or () if not c.get("index")), None)
        if first is None:
            return
        delta = first.get("delta") or {}
        for key in ("content", "refusal"):
            if piece := delta.get(key):
                self._said[key] = self._said.get(key, "") + piece
        for piece in delta.get("tool_calls") or ():
            call = self._calls.setdefault(
                piece["index"], {"type": "function", "function": {"name": "", "arguments": ""}}
            )
            if piece.get("id"):
                call["id"] = piece["id"]
            function = piece.get("function") or {}
            call["function"]["name"] += function.get("name") or ""
            call["function"]["arguments"] += function.get("arguments") or ""
        self._is_ended = self._is_ended or bool(first.get("finish_reason"))

    def messages(self) -> list[Json]:
        # A call is whole when the next one has begun, or the answer has ended.
        last = max(self._calls, default=-1) + self._is_ended
        calls = [
            call
            for index, call in sorted(self._calls.items())
            if index < last and call.get("id") and _is_json(call["function"]["arguments"])
        ]
        if not self._said and not calls:
            return []
        body: dict[str, Any] = {"role": "assistant", "content": None, **self._said}
        return [{**body, "tool_calls": calls} if calls else body]


def _is_json(text: str) -> bool:
    try:
        json.loads(text or "{}")
    except ValueError:
        return False
    return True


class Responses:
    """`client.responses`."""

    calls = ("create", "parse")

    def fits(self, client: Any) -> bool:
        return hasattr(client, "chat") and hasattr(client, "responses")

    def resource(self, client: Any) -> Any:
        return client.responses

    def whole(self, named: dict[str, Any]) -> dict[str, Any]:
        return _listed(named, "input")

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        if isinstance(named.get("input"), str):
            return [{"role": "user", "content": named["input"]}]
        return [each for each in _messages(named, "input") if not _instructs(each)]

    def inject(self, named: dict[str, Any], block: str) -> dict[str, Any]:
        if not block:
            return named
        told = named.get("instructions")
        return {**named, "instructions": f"{told}\n\n{block}" if isinstance(told, str) else block}

    def outputs(self, answer: Any) -> list[Json]:
        return [_unparsed(item) for item in _field(plain(answer), "output") or ()]

    def choices(self, _: Any) -> list[Json]:
        return []

    def collector(self) -> Collector:
        return _ResponseEvents()


def _unparsed(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, list):
        parts = [{k: v for k, v in part.items() if k != "parsed"} for part in content]
        item = {**item, "content": parts}
    return {key: value for key, value in item.items() if key != "parsed_arguments"}


class _ResponseEvents:
    def __init__(self) -> None:
        self._whole: list[Json] | None = None
        self._items: list[Json] = []
        self._text = ""

    def take(self, event: Event) -> None:
        kind = event.get("type")
        if kind in {"response.completed", "response.incomplete"}:
            self._whole = Responses().outputs(event.get("response"))
        elif kind == "response.output_item.done":
            self._items.append(_unparsed(event["item"]))
            self._text = ""
        elif kind == "response.output_text.delta":
            self._text += event["delta"]

    def messages(self) -> list[Json]:
        if self._whole is not None:
            return self._whole
        cut = [{"role": "assistant", "content": self._text}] if self._text else []
        return self._items + cut


class Messages:
    """`client.messages` of Anthropic's."""

    calls = ("create", "parse")

    def fits(self, client: Any) -> bool:
        return hasattr(client, "messages") and not hasattr(client, "chat")

    def resource(self, client: Any) -> Any:
        return client.messages

    def whole(self, named: dict[str, Any]) -> dict[str, Any]:
        return _listed(named, "messages")

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        return _messages(named, "messages")

    def inject(self, named: dict[str, Any], block: str) -> dict[str, Any]:
        if not block:
            return named
        told = named.get("system")
        added = {"type": "text", "text": block}
        if isinstance(told, str):
            return {**named, "system": [{"type": "text", "text": told}, added]}
        return {**named, "system": [*told, added] if isinstance(told, list | tuple) else block}

    def outputs(self, answer: Any) -> list[Json]:
        return _answered(plain(answer))

    def choices(self, _: Any) -> list[Json]:
        return []

    def collector(self) -> Collector:
        return _MessageEvents()


def _answered(answer: Json) -> list[Json]:
    blocks = [
        {key: value for key, value in block.items() if key not in {"parsed", "parsed_output"}}
        for block in _field(answer, "content") or ()
    ]
    return [{"role": "assistant", "content": blocks}] if blocks else []


class _MessageEvents:
    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._ended: set[int] = set()

    def take(self, event: Event) -> None:
        match event.get("type"):
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                self._add(event["index"], event["delta"])
            case "content_block_stop":
                self._ended.add(event["index"])

    def _add(self, index: int, delta: dict[str, Any]) -> None:
        if "partial_json" in delta:
            self._inputs[index] = self._inputs.get(index, "") + delta["partial_json"]
            return
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        for key in ("text", "thinking", "signature"):
            if key in delta:
                block[key] = block.get(key, "") + delta[key]

    def messages(self) -> list[Json]:
        blocks = []
        for index, block in sorted(self._blocks.items()):
            if "input" in block or index in self._inputs:
                # The stream ended amid a call, which nobody can answer.
                if index not in self._ended or not _is_json(self._inputs.get(index, "")):
                    continue
                if index in self._inputs:
                    block["input"] = json.loads(self._inputs[index] or "{}")
            blocks.append(block)
        return _answered({"content": blocks})


APIS: tuple[Api, ...] = (Chat(), Responses(), Messages())
