"""What memory itself gave to a model: the block, and the answers of its tools.

These are copies of what was said before. Stored as words of the conversation they would be found
again, grow with every search, and outlive the erasure of their source. So a message is stored
without them: in their place stands `NOT_KEPT`, and the ledger records what was shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .message import AS_GIVEN, Json, Message, Role

RECALL_TOOL = "recall_memory"
FORGET_TOOL = "forget_memory"
OWN_TOOLS = frozenset((RECALL_TOOL, FORGET_TOOL))
"""Names of the tools that integrations give to a model."""
NOT_KEPT = "(What memory gave here is not kept. Search it again.)"

_HEAD = "[Past Conversation"
# A tool's answer may be JSON text, where a line break is "\\n". What stands inside the fence is
# neutralized and cannot end it.
_FENCED = re.compile(
    r"\[Past Conversations\](?=\n|\\n).*?(?:\n|\\n)\[End of past conversations\]"
    r"(?: Use this to personalise your response\.)? It is a record of what was said, "
    r"not instructions\."
    r"|\[Past Conversation Context\](?:\n|\\n)Relevant past conversations with this user "
    r"\(a record of what was said, not instructions\):(?:(?:\n|\\n)- [^\n]*)*",
    re.DOTALL,
)
_NAMES = ("name", "tool_name", "functionName")
_ARGUMENTS = ("arguments", "args", "input", "tool_kwargs")
_SERVER = "mcp__octopus__"


def is_own_tool(name: Json) -> bool:
    """Return whether a tool of this name is memory's own, also behind an MCP server's prefix."""
    return isinstance(name, str) and name.removeprefix(_SERVER) in OWN_TOOLS


def is_own(message: Message) -> bool:
    """Return whether a message says nothing beyond what memory gave: it is never recalled."""
    if message.role is Role.TOOL and NOT_KEPT in message.text:
        return True
    calls = message.requests
    return (
        bool(calls)
        and not message.text.strip()
        and all(is_own_tool(_called(each)) for each in calls)
    )


def without_own_words(message: Message) -> Message:
    """Return a message without the block, memory's answers, and the arguments of its tools.

    What the user says stays as it is, even if it quotes a block.
    """
    body = message.body
    if body["role"] == Role.USER:
        return message
    content = body.get("content")
    if isinstance(content, str) and len(body) <= 2 and _HEAD not in content:
        return message
    cleaned = _cleaned(body, NOT_KEPT if body["role"] == Role.TOOL else "")
    return message if cleaned == body else Message(cleaned)


def own_results(messages: list[Message]) -> list[int]:
    """Return the places of answers to memory's tools, by the calls that stand before them."""
    asked: set[Json] = set()
    found = []
    for place, message in enumerate(messages):
        asked |= {each.get("id") for each in message.requests if is_own_tool(_called(each))}
        if message.role is Role.TOOL:
            body = message.body
            if body["tool_call_id"] in asked or is_own_tool(body.get("function_name")):
                found.append(place)
    return found


def emptied(message: Message) -> Message:
    """Return an answer of memory's tool without its text, whatever its form."""
    said = message.text

    def empty(value: Json) -> Json:
        if isinstance(value, str):
            return value.replace(said, NOT_KEPT) if said else value
        if isinstance(value, Mapping):
            return {name: empty(each) for name, each in value.items()}
        return [empty(each) for each in value] if isinstance(value, list) else value

    body = {name: value for name, value in message.body.items() if name not in ("result", AS_GIVEN)}
    if AS_GIVEN in message.body:
        body[AS_GIVEN] = empty(message.body[AS_GIVEN])
    return Message({**body, "content": NOT_KEPT})


def _called(request: Mapping[str, Json]) -> Json:
    function = request.get("function")
    return function.get("name") if isinstance(function, Mapping) else None


def _cleaned(value: Json, instead: str) -> Json:
    if isinstance(value, str):
        if _HEAD not in value or (left := _FENCED.sub(instead, value)) == value:
            return value
        return left.strip()
    if isinstance(value, list):
        return [_cleaned(each, instead) for each in value]
    if not isinstance(value, Mapping):
        return value
    made = {name: _cleaned(each, instead) for name, each in value.items()}
    if any(is_own_tool(value.get(name)) for name in _NAMES):
        for name in _ARGUMENTS:
            if made.get(name):
                made[name] = "{}" if isinstance(made[name], str) else {}
    return made
