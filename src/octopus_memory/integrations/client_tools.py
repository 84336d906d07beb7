"""The tools of the memory in a wrapped client, which answers their calls itself.

The model may call them beside the caller's own tools. Its calls of memory's tools are answered here
and the model is asked again, within a bound, so that the caller gets an answer, or calls of its own
tools alone. Where one answer has both kinds, memory's calls and results are put back into the
history when the caller sends the results of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ..domain.message import Json
from ..domain.own_words import OWN_TOOLS
from ..flow import Steps, ask
from .core import Conversation
from .repair import loaded, plain
from .tools import (
    FORGET_ABOUT,
    FORGET_SCHEMA,
    FORGET_TOOL,
    RECALL_ABOUT,
    RECALL_SCHEMA,
    RECALL_TOOL,
    MemoryTools,
)

MOST_ROUNDS = 4
"""How often the model may call memory's tools before it has to answer."""
_MOST_KEPT = 1_000
_TOOLS = (
    (RECALL_TOOL, RECALL_ABOUT, RECALL_SCHEMA),
    (FORGET_TOOL, FORGET_ABOUT, FORGET_SCHEMA),
)


Place: TypeAlias = Callable[[int], int]
"""Returns the place of a part in the whole answer."""


class OwnCall(NamedTuple):
    """A call of one of memory's tools."""

    id: str
    name: str
    arguments: Json


class ChatTools:
    """The tools in `client.chat.completions`."""

    messages = "messages"
    no_choice: Json = "none"

    def is_call(self, event: Json) -> bool:
        return any((c.get("delta") or {}).get("tool_calls") for c in event.get("choices") or ())

    def own_places(self, events: list[Json]) -> frozenset[int]:
        return frozenset(
            piece["index"]
            for event in events
            for choice in event.get("choices") or ()
            for piece in (choice.get("delta") or {}).get("tool_calls") or ()
            if (piece.get("function") or {}).get("name") in OWN_TOOLS
        )

    def shown(self, event: Any, own: frozenset[int], place: Place, *, is_first: bool) -> Any:
        del is_first
        for choice in getattr(event, "choices", None) or ():
            calls = getattr(choice.delta, "tool_calls", None)
            if calls:
                choice.delta.tool_calls = [each for each in calls if each.index not in own] or None
                for each in choice.delta.tool_calls or ():
                    each.index = place(each.index)
        return event

    def offered(self) -> list[Json]:
        return [
            {"type": "function", "function": {"name": n, "description": d, "parameters": s}}
            for n, d, s in _TOOLS
        ]

    def calls(self, said: list[Json]) -> list[OwnCall]:
        return [
            OwnCall(call["id"], call["function"]["name"], loaded(call["function"]["arguments"]))
            for message in said
            for call in message.get("tool_calls") or ()
            if call.get("function", {}).get("name") in OWN_TOOLS
        ]

    def others(self, said: list[Json]) -> list[str]:
        """Ids of calls of the caller's tools."""
        return [
            call["id"]
            for message in said
            for call in message.get("tool_calls") or ()
            if call.get("function", {}).get("name") not in OWN_TOOLS
        ]

    def results(self, answers: list[tuple[OwnCall, str]]) -> list[Json]:
        return [
            {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in answers
        ]

    def without_own(self, answer: Any) -> Any:
        for choice in answer.choices:
            calls = [
                call
                for call in choice.message.tool_calls or ()
                if getattr(getattr(call, "function", None), "name", None) not in OWN_TOOLS
            ]
            choice.message.tool_calls = calls or None
        return answer

    def put_back(self, messages: list[Any], kept: OrderedDict[str, list[Json]]) -> list[Any]:
        made: list[Any] = []
        for message in messages:
            body = plain(message)
            calls = body.get("tool_calls") or () if isinstance(body, dict) else ()
            found = next((kept[c["id"]] for c in calls if c.get("id") in kept), None)
            made += [message] if found is None else found
        return made


class ResponseTools:
    """The tools in `client.responses`."""

    messages = "input"
    no_choice: Json = "none"

    def is_call(self, event: Json) -> bool:
        kind = (event.get("item") or {}).get("type")
        return event.get("type") == "response.output_item.added" and kind == "function_call"

    def own_places(self, events: list[Json]) -> frozenset[int]:
        return frozenset(
            event["output_index"]
            for event in events
            if self.is_call(event) and event["item"].get("name") in OWN_TOOLS
        )

    def shown(self, event: Any, own: frozenset[int], place: Place, *, is_first: bool) -> Any:
        if event.type in {"response.created", "response.in_progress"} and not is_first:
            return None
        index = getattr(event, "output_index", None)
        if index in own:
            return None
        if index is not None:
            event.output_index = place(index)
        if event.type in {"response.completed", "response.incomplete"}:
            self.without_own(event.response)
        return event

    def offered(self) -> list[Json]:
        return [
            {"type": "function", "name": n, "description": d, "parameters": s, "strict": False}
            for n, d, s in _TOOLS
        ]

    def calls(self, said: list[Json]) -> list[OwnCall]:
        return [
            OwnCall(item["call_id"], item["name"], loaded(item.get("arguments") or "{}"))
            for item in said
            if item.get("type") == "function_call" and item.get("name") in OWN_TOOLS
        ]

    def others(self, said: list[Json]) -> list[str]:
        kinds = {"function_call", "custom_tool_call"}
        return [
            item["call_id"]
            for item in said
            if item.get("type") in kinds and item.get("name") not in OWN_TOOLS
        ]

    def results(self, answers: list[tuple[OwnCall, str]]) -> list[Json]:
        return [
            {"type": "function_call_output", "call_id": call.id, "output": text}
            for call, text in answers
        ]

    def without_own(self, answer: Any) -> Any:
        answer.output = [
            item
            for item in answer.output
            if item.type != "function_call" or item.name not in OWN_TOOLS
        ]
        return answer

    def put_back(self, messages: list[Any], kept: OrderedDict[str, list[Json]]) -> list[Any]:
        made: list[Any] = []
        done: set[int] = set()
        for item in messages:
            body = plain(item)
            is_call = isinstance(body, dict) and body.get("type") == "function_call"
            found = kept.get(body.get("call_id")) if is_call else None
            if found is not None and id(found) not in done:
                done.add(id(found))
                # The calls of the caller's tools are in the history already.
                made += [each for each in found if each.get("call_id") != body.get("call_id")]
            made.append(item)
        return made


class MessageTools:
    """The tools in `client.messages` of Anthropic's."""

    messages = "messages"
    no_choice: Json = {"type": "none"}  # noqa: RUF012 - never changed

    def is_call(self, event: Json) -> bool:
        kind = (event.get("content_block") or {}).get("type")
        return event.get("type") == "content_block_start" and kind == "tool_use"

    def own_places(self, events: list[Json]) -> frozenset[int]:
        return frozenset(
            event["index"]
            for event in events
            if self.is_call(event) and event["content_block"].get("name") in OWN_TOOLS
        )

    def shown(self, event: Any, own: frozenset[int], place: Place, *, is_first: bool) -> Any:
        if event.type == "message_start" and not is_first:
            return None
        index = getattr(event, "index", None)
        if index in own:
            return None
        if index is not None:
            event.index = place(index)
        return event

    def offered(self) -> list[Json]:
        return [{"name": n, "description": d, "input_schema": s} for n, d, s in _TOOLS]

    def _blocks(self, said: list[Json]) -> list[Json]:
        content = [message.get("content") for message in said]
        return [
            block
            for blocks in content
            if isinstance(blocks, list)
            for block in blocks
            if isinstance(block, dict) and block.get("type") == "tool_use"
        ]

    def calls(self, said: list[Json]) -> list[OwnCall]:
        return [
            OwnCall(block["id"], block["name"], block.get("input"))
            for block in self._blocks(said)
            if block["name"] in OWN_TOOLS
        ]

    def others(self, said: list[Json]) -> list[str]:
        return [block["id"] for block in self._blocks(said) if block["name"] not in OWN_TOOLS]

    def results(self, answers: list[tuple[OwnCall, str]]) -> list[Json]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text}
            for call, text in answers
        ]
        return [{"role": "user", "content": blocks}]

    def without_own(self, answer: Any) -> Any:
        answer.content = [
            block
            for block in answer.content
            if block.type != "tool_use" or block.name not in OWN_TOOLS
        ]
        return answer

    def put_back(self, messages: list[Any], kept: OrderedDict[str, list[Json]]) -> list[Any]:
        made: list[Any] = []
        owed: list[Json] = []
        for message in messages:
            body = plain(message)
            ids = [block["id"] for block in self._blocks([body])]
            found = next((kept[each] for each in ids if each in kept), None)
            if found is not None:
                asked, given = found
                made.append(asked)
                owed = given["content"]
            elif owed and body.get("role") == "user" and isinstance(body.get("content"), list):
                # All results of one answer stand in one message.
                made.append({**body, "content": [*owed, *body["content"]]})
                owed = []
            else:
                made.append(message)
        return made


class OwnTools:
    """Memory's tools in one conversation of a wrapped client."""

    def __init__(self, form: ChatTools | ResponseTools | MessageTools, talk: Conversation) -> None:
        self._form, self._tools = form, MemoryTools(talk)
        self._kept: OrderedDict[str, list[Json]] = OrderedDict()
        """Answers with calls of both kinds, and memory's results, by the ids of the caller's."""

    def offered(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with the tools, and with what was taken out before."""
        given = named.get("tools")
        tools = [*(given if isinstance(given, list | tuple) else ()), *self._form.offered()]
        name = self._form.messages
        if self._kept and isinstance(named.get(name), list | tuple):
            named = {**named, name: self._form.put_back(list(named[name]), self._kept)}
        return {**named, "tools": tools}

    def calls(self, said: list[Json]) -> list[OwnCall]:
        return self._form.calls(said)

    def answer(self, calls: list[OwnCall]) -> Steps[list[tuple[OwnCall, str]]]:
        answers = []
        for call in calls:
            text: str = yield from ask(self._tools, "call", call.name, call.arguments)
            answers.append((call, text))
        return answers

    def goes_on(self, said: list[Json]) -> bool:
        """Return whether the model can be asked again: it waits for no tool of the caller's."""
        return not self._form.others(said)

    def followed(
        self, named: dict[str, Any], said: list[Json], answers: list[tuple[OwnCall, str]]
    ) -> dict[str, Any]:
        """Return the arguments of the next call, with the model's calls and their answers."""
        name = self._form.messages
        before = named.get(name)
        if isinstance(before, str):
            before = [{"role": "user", "content": before}]
        return {**named, name: [*(before or ()), *said, *self._form.results(answers)]}

    def keep(self, said: list[Json], answers: list[tuple[OwnCall, str]]) -> None:
        """Keep memory's calls and results until the caller sends the results of its own."""
        for call_id in self._form.others(said):
            self._kept[call_id] = [*said, *self._form.results(answers)]
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def without_own(self, answer: Any) -> Any:
        """Return an answer with the calls of the caller's tools alone."""
        return self._form.without_own(answer)

    def last(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call in which the model has to answer."""
        return {**named, "tool_choice": self._form.no_choice}

    def stream(self) -> StreamedTools:
        return StreamedTools(self._form)


class StreamedTools:
    """The events of one answer that may take several calls: memory's tools are not among them."""

    def __init__(self, form: ChatTools | ResponseTools | MessageTools) -> None:
        self._form = form
        self._round = 0
        self._held: list[Any] = []
        self._places: dict[tuple[int, int], int] = {}

    def take(self, event: Any) -> list[Any]:
        """Return what can be shown now. From the first tool call on, events are held back."""
        if self._held or self._form.is_call(plain(event)):
            self._held.append(event)
            return []
        shown = self._form.shown(event, frozenset(), self._place, is_first=not self._round)
        return [] if shown is None else [shown]

    def released(self) -> list[Any]:
        """Return the events that were held back, without calls of memory's tools."""
        held, self._held = self._held, []
        own = self._form.own_places([plain(event) for event in held])
        first = not self._round
        shown = [self._form.shown(each, own, self._place, is_first=first) for each in held]
        return [each for each in shown if each is not None]

    def next_round(self) -> None:
        """Drop what was held back, because the model is asked again."""
        self._held = []
        self._round += 1

    def _place(self, index: int) -> int:
        """Number the parts of the whole answer without a gap."""
        return self._places.setdefault((self._round, index), len(self._places))


FORMS: dict[str, ChatTools | ResponseTools | MessageTools] = {
    "Chat": ChatTools(),
    "Responses": ResponseTools(),
    "Messages": MessageTools(),
}
"""The forms of the tools, by the call that offers them."""
