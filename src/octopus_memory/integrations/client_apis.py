"""The three calls of clients: where their messages stand, and where a block goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from ..domain.message import Json
from .core import plain


class Collector(Protocol):
    """Puts the events of a stream together."""

    def take(self, event: Any) -> None: ...

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

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        """The messages of a call, without instructions."""
        ...

    def inject(self, named: dict[str, Any], block: str) -> dict[str, Any]:
        """The arguments with the block in their instructions."""
        ...

    def outputs(self, answer: Any) -> list[Json]: ...

    def collector(self) -> Collector: ...


_INSTRUCTS = frozenset(("system", "developer"))


class Chat:
    """`client.chat.completions`."""

    calls = ("create", "parse")

    def fits(self, client: Any) -> bool:
        return hasattr(client, "chat") and hasattr(client, "responses")

    def resource(self, client: Any) -> Any:
        return client.chat.completions

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        given = [plain(each) for each in named.get("messages") or ()]
        return [each for each in given if each.get("role") not in _INSTRUCTS]

    def inject(self, named: dict[str, Any], block: str) -> dict[str, Any]:
        messages = list(named.get("messages") or ())
        if not block:
            return named
        place = 0
        for message in messages:
            if plain(message).get("role") not in _INSTRUCTS:
                break
            place += 1
        messages.insert(place, {"role": "system", "content": block})
        return {**named, "messages": messages}

    def outputs(self, answer: Any) -> list[Json]:
        choices = getattr(answer, "choices", None) or ()
        return [_spoken(plain(choice.message)) for choice in choices[:1]]

    def collector(self) -> Collector:
        return _ChatEvents()


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

    def take(self, event: Any) -> None:
        choices = getattr(event, "choices", None) or ()
        delta = getattr(choices[0], "delta", None) if choices else None
        if delta is None:
            return
        for key in ("content", "refusal"):
            piece = getattr(delta, key, None)
            if piece:
                self._said[key] = self._said.get(key, "") + piece
        for piece in getattr(delta, "tool_calls", None) or ():
            call = self._calls.setdefault(
                piece.index, {"type": "function", "function": {"name": "", "arguments": ""}}
            )
            if piece.id:
                call["id"] = piece.id
            if piece.function is not None:
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""

    def messages(self) -> list[Json]:
        calls = [call for call in self._calls.values() if call.get("id") and _is_whole(call)]
        if not self._said and not calls:
            return []
        body: dict[str, Any] = {"role": "assistant", "content": None, **self._said}
        return [{**body, "tool_calls": calls} if calls else body]


def _is_whole(call: dict[str, Any]) -> bool:
    """Return True if a call's arguments are complete JSON."""
    try:
        json.loads(call["function"]["arguments"] or "{}")
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

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        given = named.get("input")
        if isinstance(given, str):
            return [{"role": "user", "content": given}]
        items = [plain(each) for each in given] if isinstance(given, list | tuple) else []
        return [each for each in items if each.get("role") not in _INSTRUCTS]

    def inject(self, named: dict[str, Any], block: str) -> dict[str, Any]:
        if not block:
            return named
        told = named.get("instructions")
        return {**named, "instructions": f"{told}\n\n{block}" if isinstance(told, str) else block}

    def outputs(self, answer: Any) -> list[Json]:
        return [_unparsed(plain(item)) for item in getattr(answer, "output", None) or ()]

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

    def take(self, event: Any) -> None:
        kind = getattr(event, "type", "")
        if kind in {"response.completed", "response.incomplete"}:
            self._whole = Responses().outputs(event.response)
        elif kind == "response.output_item.done":
            self._items.append(_unparsed(plain(event.item)))
            self._text = ""
        elif kind == "response.output_text.delta":
            self._text += event.delta

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

    def inputs(self, named: dict[str, Any]) -> list[Json]:
        return [plain(each) for each in named.get("messages") or ()]

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

    def collector(self) -> Collector:
        return _MessageEvents()

    def snapshot(self, stream: Any) -> list[Json]:
        """Return the message of the helper's stream so far; empty if it has not begun."""
        with suppress(AssertionError, AttributeError):
            return self.outputs(stream.current_message_snapshot)
        return []


def _answered(answer: dict[str, Any]) -> list[Json]:
    blocks = [
        {key: value for key, value in block.items() if key not in {"parsed", "parsed_output"}}
        for block in answer.get("content") or ()
    ]
    return [{"role": "assistant", "content": blocks}] if blocks else []


class _MessageEvents:
    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}

    def take(self, event: Any) -> None:
        kind = getattr(event, "type", "")
        if kind == "content_block_start":
            self._blocks[event.index] = plain(event.content_block)
        elif kind == "content_block_delta":
            self._add(event.index, plain(event.delta))

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
            if index in self._inputs:
                try:
                    block["input"] = json.loads(self._inputs[index] or "{}")
                except ValueError:
                    # The stream ended amid a call, which nobody can answer.
                    continue
            blocks.append(block)
        return _answered({"content": blocks})


APIS: tuple[Api, ...] = (Chat(), Responses(), Messages())
