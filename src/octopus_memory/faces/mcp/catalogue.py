"""The lists that a client gets at its start. They need neither the memory nor pydantic.

`tools.json` is made from the tools when a wheel is built, because making the schemas at every start
takes 0.3 seconds of CPU.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from ...built import read_built
from ...domain.identity import AccessRole
from ...domain.message import Json

FILE = Path(__file__).with_name("tools.json")
SCHEME = "octopus://sessions/"
PROMPT = "context"
_WRITES = frozenset({AccessRole.AGENT, AccessRole.ADMIN})
_OWNS = frozenset({AccessRole.USER, AccessRole.ADMIN})
_CALLERS = {
    "remember": _WRITES,
    "close_session": _WRITES,
    "forget": _OWNS,
    "forget_episode": _OWNS,
}
"""Roles that may call a tool; the others are for every role that may read conversations."""
READERS = frozenset({AccessRole.AGENT, AccessRole.USER, AccessRole.ADMIN})
"""Roles that may read conversations."""

PROMPTS: list[Json] = [
    {
        "name": PROMPT,
        "title": "Ask with memory",
        "description": "Your message, after what earlier conversations say about it.",
        "arguments": [
            {"name": "message", "description": "The message, word for word", "required": True},
            {
                "name": "session_id",
                "description": "Id of the current conversation. Default: the current one",
                "required": False,
            },
        ],
    }
]
TEMPLATES: list[Json] = [
    {
        "uriTemplate": SCHEME + "{session_id}",
        "name": "session",
        "title": "A conversation",
        "description": "The messages of one conversation, in order.",
        "mimeType": "text/plain",
    }
]


@cache
def tools() -> dict[str, dict[str, Any]]:
    """Return the tools as `tools/list` shows them, by name."""
    built = read_built(FILE)
    if built is not None:
        return {tool["name"]: tool for tool in json.loads(built)}
    from .tools import TOOLS, described

    return {name: described(tool) for name, tool in TOOLS.items()}


def may_call(role: AccessRole | None, name: str) -> bool:
    """Return whether a role may call a tool. None may call all of them."""
    return role is None or role in _CALLERS.get(name, READERS)


def reads_only(name: object) -> bool:
    """Return whether a tool changes nothing. An unknown one does not."""
    tool = tools().get(name) if isinstance(name, str) else None
    return tool is None or tool["annotations"]["readOnlyHint"]
