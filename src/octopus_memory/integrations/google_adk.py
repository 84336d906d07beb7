"""Google ADK: a `BaseMemoryService`, and a plugin that stores each run and injects the block.

service = OctopusMemoryService(memory)
app = App(name="hr", root_agent=agent, plugins=[OctopusPlugin(service)])
runner = Runner(app=app, session_service=sessions, memory_service=service)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from ..domain.block.layout import recalled
from ..domain.episode import Turn, TurnHit
from ..domain.errors import MissingExtra
from ..domain.message import AS_GIVEN, Json
from ..flow import ask
from .core import Conversation, OnError, digest, parsed
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
    from google.adk.events.event import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types
except ModuleNotFoundError as error:
    raise MissingExtra("google-adk", __name__) from error

if TYPE_CHECKING:
    from ..aio import AsyncEpisodicMemory, AsyncRemoteMemory
    from ..engine.memory import Memory
    from ..remote import RemoteMemory

AnyMemory: TypeAlias = "Memory | RemoteMemory | AsyncEpisodicMemory | AsyncRemoteMemory"
_NO_SESSION = "memories"
"""The session of events and memories that are added without one."""


class OctopusMemoryService(BaseMemoryService):
    """Stores the events of ADK's sessions once, by their ids, and searches them.

    The runner's `app_name` and `user_id` are the agent and the user of the scope. A search returns
    at most `limit` memories, and none that scores below `min_score`.
    """

    def __init__(
        self,
        memory: AnyMemory,
        *,
        tenant: str = "default",
        limit: int = 10,
        min_score: float | None = 0.5,
        on_error: OnError = "continue",
    ) -> None:
        self._memory, self._tenant = memory, tenant
        self._on_error: OnError = on_error
        self._limit, self._min_score = limit, min_score

    def conversation(
        self, app_name: str, user_id: str, session_id: str | None, budget: int | None = None
    ) -> Conversation:
        """Return a user's session; without an id, the session of explicit memories."""
        scope = self._memory.scope(tenant=self._tenant, agent=app_name, user=user_id)
        return Conversation(
            scope, session_id or _NO_SESSION, budget_tokens=budget, on_error=self._on_error
        )

    async def add_session_to_memory(self, session: Any) -> None:
        """Store the events of a session that are new."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            session_id=session.id,
            events=session.events,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events that are new; searches return `custom_metadata` with each of them."""
        whole = [each for each in events if not each.partial and each.content]
        stored = [part for each in whole if each.content.parts for part in _parts(each)]
        if not stored:
            return
        bodies, keys, times = (list(each) for each in zip(*stored, strict=True))
        if custom_metadata:
            bodies = [{**body, "metadata": dict(custom_metadata)} for body in bodies]
        talk = self.conversation(app_name, user_id, session_id)
        await talk.aadd(bodies, keys, at=times)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store explicit memories, each once: by its id, or by its content where it has none."""
        for memory in memories:
            await self.add_events_to_memory(
                app_name=app_name,
                user_id=user_id,
                events=[_as_event(memory)],
                custom_metadata={**memory.custom_metadata, **(custom_metadata or {})},
            )

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories of this user that are relevant to the query, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        talk = self.conversation(app_name, user_id, None)
        wanted = {"limit": self._limit, "min_score": self._min_score}
        found = ask(talk.sync, "recall_turns", query, **wanted)
        hits = await talk.awithin_limit(found, [])
        return SearchMemoryResponse(memories=[_entry(hit) for hit in hits])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Remove a memory for good; adding its session again does not bring it back."""
        talk = self.conversation(app_name, user_id, None)
        turn = await talk.awaited.turn(memory_id) if memory_id else None
        if turn is not None:
            await talk.finish(talk.awaited.remove_turns(turn.session_id, ids=[turn]))


class OctopusPlugin(BasePlugin):
    """Stores a run before each call of its models and at its end; gives them block and tools."""

    def __init__(
        self,
        service: OctopusMemoryService,
        *,
        budget_tokens: int | None = None,
        with_tools: bool = True,
        name: str = "octopus",
    ) -> None:
        super().__init__(name=name)
        self._service, self._budget, self._with_tools = service, budget_tokens, with_tools

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Store the run's events so far, and add the block to the instructions."""
        await self._store(callback_context)
        session, said = callback_context.session, callback_context.user_content
        whose = session.app_name, session.user_id, session.id
        words = [part.text for part in (said.parts if said else None) or () if part.text]
        talk = self._service.conversation(*whose, self._budget)
        block = await talk.ablock(" ".join(words))
        if block:
            llm_request.append_instructions([block])
        if self._with_tools:
            llm_request.append_tools(
                [
                    _Tool(talk, RECALL_TOOL, RECALL_ABOUT, RECALL_SCHEMA),
                    _Tool(talk, FORGET_TOOL, FORGET_ABOUT, FORGET_SCHEMA),
                ]
            )

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Store the rest of the run."""
        await self._store(invocation_context)

    async def _store(self, context: Any) -> None:
        said = [e for e in context.session.events if e.invocation_id == context.invocation_id]
        run = context.session.model_copy(update={"events": said})
        await self._service.add_session_to_memory(run)


class _Tool(BaseTool):
    """A tool of the memory, in one user's session."""

    def __init__(self, talk: Conversation, name: str, about: str, schema: dict[str, Json]) -> None:
        super().__init__(name=name, description=about)
        self._tools, self._schema = MemoryTools(talk), schema

    def __deepcopy__(self, _: dict[int, Any]) -> _Tool:
        # A copy of a request is about the same memory, whose connections cannot be copied.
        return self

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> str:
        """Answer a call of the model's."""
        del tool_context
        return await self._tools.acall(self.name, args)


def events(turns: Sequence[Turn]) -> list[Event]:
    """Return the events that turns were stored from, exactly as the session had them."""
    found: list[dict[str, Json]] = []
    for turn in turns:
        kept = turn.message.body.get(AS_GIVEN) or {}
        if kept.get("joins") and found:
            found[-1]["content"]["parts"] += kept["item"]["parts"]
        elif "event" in kept:
            content = {**kept["item"], "parts": list(kept["item"]["parts"])}
            found.append({**kept["event"], "content": content})
    return [Event.model_validate(each) for each in found]


def _parts(event: Event) -> list[tuple[dict[str, Json], str, datetime]]:
    """The messages of an event with key and time: one for each tool result, else one."""
    item = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    stored = []
    for number, message in enumerate(parsed([item.pop("content")])):
        body = dict(message.body)
        if not number:
            body[AS_GIVEN] = {**body[AS_GIVEN], "event": item}
        if body["role"] != "tool":
            body["role"] = "user" if event.author == "user" else "assistant"
        if event.author != "user":
            body["agent"] = event.author
        key = f"{event.id}#{number}" if number else event.id
        stored.append((body, key, datetime.fromtimestamp(event.timestamp, UTC)))
    return stored


def _as_event(memory: MemoryEntry) -> Event:
    made_id = digest([memory.author, memory.content.model_dump(mode="json", exclude_none=True)])
    author = memory.author or "user"
    event = Event(id=memory.id or made_id, author=author, content=memory.content)
    if memory.timestamp:
        event.timestamp = datetime.fromisoformat(memory.timestamp).timestamp()
    return event


def _entry(hit: TurnHit) -> MemoryEntry:
    body: Mapping[str, Json] = {} if hit.message is None else hit.message.body
    # ADK's tools show the model the text as it stands here, so it is fenced and neutralized.
    part = types.Part(text=recalled([hit]))
    return MemoryEntry(
        id=str(hit.id),
        content=types.Content(role="user" if hit.role == "user" else "model", parts=[part]),
        author=body.get("agent") or str(hit.role),
        timestamp=hit.at.isoformat(),
        custom_metadata={**hit.metadata, "session_id": hit.session_id, "score": hit.score},
    )
