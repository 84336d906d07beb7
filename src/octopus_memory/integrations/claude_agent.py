"""The Claude Agent SDK: a `SessionStore`, a prompt hook that injects the block, and a recall tool.

store = OctopusSessionStore(memory.scope(user="ana"))
async for message in query(prompt="Hello", options=store.options()):
    ...
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import PurePath
from typing import Any, NamedTuple

from ..domain.errors import InvalidMessage, MissingExtra, SessionNotFound
from ..domain.message import AS_GIVEN, Json
from ..flow import ask
from .core import AnyScope, Conversation, OnError, items_of, keys_of, parsed, turns_of
from .tools import (
    FORGET_ABOUT,
    FORGET_SCHEMA,
    FORGET_TOOL,
    RECALL_ABOUT,
    RECALL_SCHEMA,
    RECALL_TOOL,
    MemoryTools,
)

try:
    from claude_agent_sdk import (
        ClaudeAgentOptions,
        HookMatcher,
        SessionKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        create_sdk_mcp_server,
        tool,
    )
except ModuleNotFoundError as error:
    raise MissingExtra("claude-agent-sdk", __name__) from error

_FORM = "claude-agent"
_HOOK = "UserPromptSubmit"
_SERVER = "octopus"
_ALLOWED = [f"mcp__{_SERVER}__{name}" for name in (RECALL_TOOL, FORGET_TOOL)]
_PAGE, _LONGEST_PROJECT = 100, 100
_NOT_SAID = ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")
"""Marks of entries that neither the user nor the model said in the conversation."""
_BLOCK = "<octopus_memory>\n{}\n</octopus_memory>"
# Greedy, because nothing that the block quotes may end it early; the CLI may cut off its end.
_STORED_BLOCK = re.compile(r"<octopus_memory>(?:.*</octopus_memory>|.*\Z)", re.DOTALL)


class OctopusSessionStore:
    """Stores each entry of the SDK's transcripts once, by its uuid, and gives it back exactly.

    What the user and the model say is recalled in later sessions. Entries of subagents, and those
    that the CLI writes for itself, are replayed and never recalled. The memory block, which the
    CLI writes into its transcript, is left out.
    """

    def __init__(
        self,
        scope: AnyScope,
        *,
        budget_tokens: int | None = None,
        with_tools: bool = True,
        on_error: OnError = "continue",
    ) -> None:
        self._scope, self._budget, self._with_tools = scope, budget_tokens, with_tools
        self._on_error: OnError = on_error
        # Holds the calls that go on when their callers are cancelled.
        self._talk = Conversation(scope, _FORM)

    def conversation(self, key: Mapping[str, str]) -> Conversation:
        """Return the session of Octopus in which a transcript is stored."""
        return self._conversation(_name(key))

    def _conversation(self, session_id: str) -> Conversation:
        return Conversation(
            self._scope, session_id, budget_tokens=self._budget, on_error=self._on_error
        )

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries in their order; one whose uuid is known is skipped."""
        said = [turn for entry in entries for turn in _turns(entry, bool(key.get("subpath")))]
        if not said:
            return
        bodies, keys, index, times = map(list, zip(*said, strict=True))
        await self._conversation(_name(key)).aadd(bodies, keys, index=index, at=times)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return every entry of a transcript; None for one that was never written."""
        found = ask(self._conversation(_name(key)), "tail")
        replay = await self._talk.awithin_limit(found, None)
        return None if replay is None else items_of(_FORM, replay.turns) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the transcripts of a project, without those of subagents."""
        start = _project(project_key)
        return [
            {"session_id": rest, "mtime": int(seen.timestamp() * 1000)}
            async for rest, seen in self._below(start)
            if "/" not in rest
        ]

    async def list_subkeys(self, key: Mapping[str, str]) -> list[str]:
        """Return the subpaths of the subagents' transcripts of a session."""
        return [rest async for rest, _ in self._below(f"{_name(key)}/")]

    async def delete(self, key: SessionKey) -> None:
        """Erase a transcript with all that was made of it, and those of its subagents."""
        name = _name(key)
        below = [] if key.get("subpath") else await self.list_subkeys(key)
        for each in [*(f"{name}/{subpath}" for subpath in below), name]:
            with suppress(SessionNotFound):
                await self._talk.finish(self._talk.awaited.erase_session(each))

    async def _below(self, start: str) -> AsyncIterator[tuple[str, datetime]]:
        for number in count(1):
            page = await self._talk.awaited.sessions(number, _PAGE)
            for session in page.items:
                if session.id.startswith(start):
                    yield session.id.removeprefix(start), session.last_seen_at
            if len(page.items) < _PAGE:
                return

    async def prompt_hook(self, given: Any, _: str | None, __: Any) -> dict[str, Any]:
        """Answer a `UserPromptSubmit` hook with the memory block for the prompt."""
        project = PurePath(given["transcript_path"]).parent.name
        key = {"project_key": project, "session_id": given["session_id"]}
        block = await self.conversation(key).ablock(given["prompt"])
        if not block:
            return {}
        context = _BLOCK.format(block)
        return {"hookSpecificOutput": {"hookEventName": _HOOK, "additionalContext": context}}

    def options(self, base: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """Return options with the store, the hook and the tools; of `base` the rest stays."""
        base = base or ClaudeAgentOptions()
        hooks = dict(base.hooks or {})
        hooks[_HOOK] = [*hooks.get(_HOOK, []), HookMatcher(hooks=[self.prompt_hook])]
        more: dict[str, Any] = {}
        if self._with_tools and isinstance(base.mcp_servers, dict):
            more["mcp_servers"] = {_SERVER: self.tool_server(), **base.mcp_servers}
            more["allowed_tools"] = [*base.allowed_tools, *_ALLOWED]
        return replace(base, session_store=self, hooks=hooks, **more)

    def tool_server(self) -> Any:
        """Return an MCP server in this process, with the tools of this user's memory."""
        tools = MemoryTools(self._talk)

        def made(name: str, about: str, schema: dict[str, Json]) -> Any:
            async def call(arguments: dict[str, Any]) -> dict[str, Any]:
                answer = await tools.acall(name, arguments)
                return {"content": [{"type": "text", "text": answer}]}

            return tool(name, about, schema)(call)

        both = [
            made(RECALL_TOOL, RECALL_ABOUT, RECALL_SCHEMA),
            made(FORGET_TOOL, FORGET_ABOUT, FORGET_SCHEMA),
        ]
        return create_sdk_mcp_server(_SERVER, tools=both)


class _Turn(NamedTuple):
    body: dict[str, Json]
    key: str | None
    is_recalled: bool
    at: datetime


def _project(key: str) -> str:
    """Return the start of a project's session ids: a long path is cut, and its hash added."""
    if len(key) > _LONGEST_PROJECT:
        key = f"{key[-60:]}~{sha256(key.encode()).hexdigest()[:32]}"
    return f"claude:{key}/"


def _name(key: Mapping[str, str]) -> str:
    main = _project(key["project_key"]) + key["session_id"]
    return f"{main}/{key['subpath']}" if key.get("subpath") else main


def _turns(entry: Mapping[str, Json], is_subagent: bool) -> list[_Turn]:
    if entry.get("type") == "attachment":
        entry = _without_block(entry)
    bodies, is_said = _said(entry), not is_subagent and not any(map(entry.get, _NOT_SAID))
    if not bodies:
        bodies = turns_of(_FORM, entry, role="assistant", text="")
    keys, at = keys_of(entry.get("uuid"), len(bodies)), _time(entry)
    return [_Turn(body, key, is_said, at) for body, key in zip(bodies, keys, strict=True)]


def _said(entry: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the turns of an entry that is a message; the first keeps the whole entry."""
    message = entry.get("message")
    if entry.get("type") not in {"user", "assistant"} or not isinstance(message, dict):
        return []
    try:
        turns = parsed([{"role": message.get("role"), "content": message.get("content")}])
    except InvalidMessage:
        return []
    made = []
    for number, turn in enumerate(turns):
        kept: dict[str, Json] = (
            {"opaque": True} if (turn.body.get(AS_GIVEN) or {}).get("opaque") else {}
        )
        kept |= {"form": _FORM} if number else {"form": _FORM, "item": entry}
        made.append({**turn.body, AS_GIVEN: kept})
    return made


def _without_block(value: Json) -> Json:
    """Return an entry without the memory block, which the CLI writes into an attachment."""
    if isinstance(value, str):
        return _STORED_BLOCK.sub("", value)
    if isinstance(value, dict):
        return {name: _without_block(each) for name, each in value.items()}
    return [_without_block(each) for each in value] if isinstance(value, list) else value


def _time(entry: Mapping[str, Json]) -> datetime:
    try:
        at = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return datetime.now(UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
