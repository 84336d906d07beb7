"""Strands: a `MemoryStore` that stores and searches, and a plugin that injects the block.

store = OctopusMemoryStore(memory.scope(user="ana"), session_id="monday")
manager = MemoryManager(stores=[store], injection=False)
agent = Agent(model=model, memory_manager=manager, plugins=[store.injector()])
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from ..aio import AsyncMemoryScope
from ..domain.block.layout import recalled
from ..domain.episode import Turn
from ..domain.errors import MissingExtra
from ..domain.message import Json, as_text
from ..flow import ask
from .core import (
    AnyScope,
    Call,
    Conversation,
    OnError,
    Result,
    digest,
    items_of,
    keys_of,
    turns_of,
)

try:
    from strands.hooks.events import MessageAddedEvent
    from strands.memory import (
        ExtractionConfig,
        ExtractionTrigger,
        ExtractionTriggerContext,
        MemoryEntry,
        MemoryMessageFilter,
        MemoryStore,
    )
    from strands.types.session import decode_bytes_values, encode_bytes_values
    from strands.vended_plugins.context_injector import ContextInjector
except ModuleNotFoundError as error:
    raise MissingExtra("strands", __name__) from error

_FORM = "strands"
_LIMIT = 5
_MEMORIES = "memories"
"""The session of entries that are added without a conversation."""


class MessageTrigger(ExtractionTrigger):
    """Stores each message as soon as the agent has it, so that a run that fails loses none."""

    name = "message"

    def attach(self, context: ExtractionTriggerContext) -> None:
        """Store whenever a message is added."""
        context.agent.add_hook(lambda _: context.fire(), MessageAddedEvent)


class OctopusMemoryStore(MemoryStore):
    """Stores the messages of a session, and searches the user's other sessions.

    With a `key`, a run that is repeated from its start by a new store stores nothing twice. A
    search returns nothing that scores below `min_score`.
    """

    def __init__(
        self,
        scope: AnyScope,
        *,
        session_id: str,
        name: str = "octopus",
        description: str | None = "Earlier conversations with this user.",
        max_search_results: int | None = None,
        min_score: float | None = 0.5,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
        key: str | None = None,
        on_error: OnError = "continue",
    ) -> None:
        self.name, self.description = name, description
        self.max_search_results, self.writable = max_search_results, writable
        every = {"trigger": MessageTrigger(), "filter": MemoryMessageFilter(exclude=[])}
        self.extraction = every if extraction is None and writable else extraction
        # An agent that is called runs each time in a new event loop, and connections are bound to
        # one: so requests are sent from threads.
        self._scope = scope.sync if isinstance(scope, AsyncMemoryScope) else scope
        self._min_score = min_score
        self._on_error: OnError = on_error
        self._talk = Conversation(self._scope, session_id, on_error=on_error)
        self._run, self._is_named = key or str(uuid4()), key is not None

    async def search(self, query: str, options: Any = None) -> list[MemoryEntry]:
        """Return what was said in other sessions and is relevant to the query, best first."""
        if not query.strip():
            return []
        limit = (options or {}).get("max_search_results") or self.max_search_results or _LIMIT
        own = self._talk.session_id
        wanted = {"limit": limit, "min_score": self._min_score, "leave_out_session": own}
        found = ask(self._talk.sync, "recall_turns", query, **wanted)
        hits = await self._talk.awithin_limit(found, [])
        return [
            MemoryEntry(
                # The manager's tool shows the model the text as it stands here.
                content=recalled([hit]),
                metadata={
                    **hit.metadata,
                    "session_id": hit.session_id,
                    "role": str(hit.role),
                    "at": hit.at.isoformat(),
                    "score": hit.score,
                },
            )
            for hit in hits
        ]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Store a memory that the model or the caller wrote, once."""
        body: dict[str, Json] = {"role": "assistant", "content": content}
        if metadata:
            body["metadata"] = dict(metadata)
        talk = Conversation(self._scope, _MEMORIES, on_error=self._on_error)
        await talk.aadd([body], [digest(content.strip())])

    async def add_messages(self, messages: Sequence[Any], context: Any = None) -> None:
        """Store messages in their order; a batch that is given again is stored once."""
        numbers = getattr(context, "sequence_numbers", None)
        bodies: list[dict[str, Json]] = []
        keys: list[str | None] = []
        for index, message in enumerate(messages):
            item = json.loads(json.dumps(encode_bytes_values(dict(message)), default=str))
            turns = _turns(item)
            bodies += turns
            keys += keys_of(self._key_of(item, numbers[index]) if numbers else None, len(turns))
        await self._talk.aadd(bodies, keys)

    def _key_of(self, item: Mapping[str, Any], number: int) -> str:
        if self._is_named:
            return f"{self._run}:{number}"
        # Agents that share a store count their messages each from 0.
        return f"{self._run}:{number}:{digest([item['role'], item['content']])}"

    def injector(self, *, budget_tokens: int | None = None) -> ContextInjector:
        """Make a plugin that gives the model the memory block with every call."""
        talk = Conversation(
            self._scope,
            self._talk.session_id,
            budget_tokens=budget_tokens,
            on_error=self._on_error,
        )

        async def block(context: Any) -> str:
            said = [_text(each) for each in context.messages if each["role"] == "user"]
            return await talk.ablock(next((text for text in reversed(said) if text), ""))

        return ContextInjector(block, name="octopus", trigger="everyTurn")


def history(turns: Sequence[Turn]) -> list[Any]:
    """Return the messages of turns that a store kept, exactly as the agent had them."""
    return [decode_bytes_values(item) for item in items_of(_FORM, turns)]


def _text(message: Mapping[str, Any]) -> str:
    return "\n".join(block["text"] for block in message["content"] if block.get("text"))


def _turns(item: Mapping[str, Any]) -> list[dict[str, Json]]:
    asked = [block["toolUse"] for block in item["content"] if "toolUse" in block]
    given = [block["toolResult"] for block in item["content"] if "toolResult" in block]
    return turns_of(
        _FORM,
        item,
        role=item["role"],
        text=_text(item),
        calls=[Call(each["toolUseId"], each["name"], as_text(each["input"])) for each in asked],
        results=[
            Result(each["toolUseId"], _result(each["content"]), each.get("status") == "error")
            for each in given
        ],
    )


def _result(content: Sequence[Mapping[str, Any]]) -> str:
    said = [part["text"] if "text" in part else as_text(part.get("json")) for part in content]
    return "\n".join(text for text in said if text)
