"""Google ADK, with a model that records its requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from octopus_memory import EpisodicMemory
from tests.support.integrations import FACT, QUESTION, SECRET, Erased, texts

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory, preload_memory
from google.genai import types

from octopus_memory.integrations.google_adk import (
    OctopusMemoryService,
    OctopusPlugin,
    events,
)

WHOSE = {"app_name": "hr", "user_id": "ana"}


class Model(BaseLlm):
    """Answers with its script, and keeps what it was asked."""

    model: str = "scripted"
    script: list[types.Content]
    seen: list[LlmRequest]

    async def generate_content_async(
        self, llm_request: LlmRequest, *_: Any, **__: Any
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append(llm_request.model_copy(deep=True))
        yield LlmResponse(content=self.script.pop(0))

    def last(self) -> str:
        """The last request, with its instructions and contents."""
        return self.seen[-1].model_dump_json()


def says(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


def calls(name: str, *several: dict[str, Any]) -> types.Content:
    parts = [types.Part.from_function_call(name=name, args=args) for args in several]
    return types.Content(role="model", parts=parts)


def user(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def note(what: str) -> str:
    """Note something."""
    return f"noted: {what}"


class Talk:
    """A runner with the service, whose plugin stores and injects unless it is left out."""

    def __init__(self, memory: Any, *, plugin: bool = True, tools: Any = (note,)) -> None:
        self.service = OctopusMemoryService(memory)
        self.sessions = InMemorySessionService()
        self.plugins = [OctopusPlugin(self.service)] if plugin else []
        self.tools = list(tools)

    async def say(
        self, session_id: str, said: str, *script: types.Content, user_id: str = "ana"
    ) -> Model:
        model = Model(script=list(script), seen=[])
        await self.run(model, session_id, said, user_id)
        return model

    async def run(self, model: Model, session_id: str, said: str, user_id: str = "ana") -> None:
        agent = LlmAgent(
            name="helper", model=model, instruction="Be brief.", tools=list(self.tools)
        )
        app = App(name="hr", root_agent=agent, plugins=self.plugins)
        runner = Runner(
            app=app,
            session_service=self.sessions,
            memory_service=self.service,
            auto_create_session=True,
        )
        run = runner.run_async(user_id=user_id, session_id=session_id, new_message=user(said))
        async for _ in run:
            pass

    async def session(self, session_id: str) -> Session:
        found = await self.sessions.get_session(**WHOSE, session_id=session_id)
        assert found is not None
        return found

    def ask(self, *given: Any, **named: Any) -> Model:
        return asyncio.run(self.say(*given, **named))


def found(service: OctopusMemoryService, query: str, **whose: str) -> list[MemoryEntry]:
    return list(asyncio.run(service.search_memory(**{**WHOSE, **whose}, query=query)).memories)


def ana(memory: Any) -> Any:
    return memory.scope(agent="hr", user="ana")


def test_the_second_session_is_told_what_the_first_one_heard(memories: Any, kept: EpisodicMemory):
    talk = Talk(memories)
    talk.ask("one", FACT, calls("note", {"what": "it"}), says("I noted it."))
    assert texts(ana(memories), "one") == [FACT, "", '{"result": "noted: it"}', "I noted it."]
    kept.flush()
    asked = talk.ask("two", QUESTION, says("It is X4."))
    told = asked.seen[-1].config.system_instruction
    assert SECRET in told
    assert told.startswith("Be brief.")
    assert texts(ana(memories), "two") == [QUESTION, "It is X4."]
    session = asyncio.run(talk.session("two"))
    assert SECRET not in session.model_dump_json()
    stranger = talk.ask("two", QUESTION, says("I do not know."), user_id="ben")
    assert SECRET not in stranger.last()


def test_adks_own_tools_search_the_service(memories: Any, kept: EpisodicMemory):
    ana(memories).store([("user", FACT)], session_id="old")
    kept.flush()
    talk = Talk(memories, plugin=False, tools=[preload_memory, load_memory])
    asked = talk.ask("new", QUESTION, calls("load_memory", {"query": QUESTION}), says("X4."))
    assert SECRET in asked.seen[0].model_dump_json()
    parts = [part for each in asked.seen[1].contents for part in each.parts or ()]
    [answer] = [part.function_response for part in parts if part.function_response]
    assert SECRET in answer.model_dump_json()
    stranger = talk.ask("new", QUESTION, says("No."), user_id="ben")
    assert SECRET not in stranger.last()


def test_a_session_that_is_added_again_is_stored_once(memories: Any):
    talk = Talk(memories)
    talk.ask("s", "One.", says("First."))
    talk.ask("s", "Two.", calls("note", {"what": "x"}, {"what": "y"}), says("Second."))
    said = ["One.", "First.", "Two.", "", '{"result": "noted: x"}', '{"result": "noted: y"}']
    assert texts(ana(memories), "s") == [*said, "Second."]
    session = asyncio.run(talk.session("s"))
    for _ in range(2):
        asyncio.run(talk.service.add_session_to_memory(session))
        asyncio.run(OctopusMemoryService(memories).add_session_to_memory(session))
    assert texts(ana(memories), "s") == [*said, "Second."]


CONTENT = types.Content(
    role="user",
    parts=[
        types.Part(text="Look."),
        types.Part(inline_data=types.Blob(data=b"\x00\xffpicture", mime_type="image/png")),
        types.Part(file_data=types.FileData(file_uri="https://example.com/a", mime_type="a/b")),
    ],
)
THOUGHT = types.Content(
    role="model",
    parts=[types.Part(text="Hm.", thought=True, thought_signature=b"\x01\xfe signed")],
)
ARGUMENTS = calls("note", {"what": {"a": [1, None, {"b": None}]}, "none": None})


def test_events_come_back_exactly(memories: Any):
    talk = Talk(memories)
    given = [
        Event(id="e1", author="user", content=CONTENT, timestamp=1_700_000_000.125),
        Event(id="e2", author="helper", content=THOUGHT, timestamp=1_700_000_001.5),
        Event(id="e3", author="helper", content=ARGUMENTS, long_running_tool_ids={"c1"}),
        Event(id="e4", author="user", content=user("Bye."), custom_metadata={"x": [1, None]}),
        Event(id="e5", author="user"),
        Event(id="e6", author="helper", content=says("Go"), partial=True),
    ]
    session = Session(**WHOSE, id="s", events=given)
    asyncio.run(talk.service.add_session_to_memory(session))
    assert events(ana(memories).session("s").turns) == given[:4]
    # Thoughts and pictures alone are replayed and never recalled.
    turns = ana(memories).session("s").turns
    assert [turn.indexed for turn in turns] == [True, False, True, True]
    assert [turn.at for turn in turns[:2]] == [
        datetime.fromtimestamp(at, UTC) for at in (1_700_000_000.125, 1_700_000_001.5)
    ]
    talk.ask("run", "Two.", calls("note", {"what": "x"}, {"what": "y"}), says("Second."))
    session = asyncio.run(talk.session("run"))
    assert events(ana(memories).session("run").turns) == session.events
    replay = ana(memories).session("run").messages(form="gemini")
    dumped = [
        e.content.model_dump(mode="json", by_alias=True, exclude_none=True) for e in session.events
    ]
    assert replay == dumped


def test_a_memory_is_found_with_its_author_time_and_metadata(memories: Any, kept: EpisodicMemory):
    talk = Talk(memories)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    said = Event(id="e", author="user", content=user(FACT), timestamp=at.timestamp())
    asyncio.run(
        talk.service.add_events_to_memory(**WHOSE, events=[said], custom_metadata={"kind": "id"})
    )
    kept.flush()
    [memory] = found(talk.service, QUESTION)
    assert said.content.parts[0].text in memory.content.parts[0].text
    assert (memory.author, memory.timestamp) == ("user", at.isoformat())
    assert memory.custom_metadata["kind"] == "id"
    assert found(talk.service, QUESTION, user_id="ben") == []
    assert found(talk.service, QUESTION, app_name="other") == []
    assert found(talk.service, "  ") == []
    assert found(talk.service, "zebra crossing") == []


def test_explicit_memories_are_stored_once(memories: Any, kept: EpisodicMemory):
    service = OctopusMemoryService(memories)
    at = "2026-03-01T12:00:00+00:00"
    given = [
        MemoryEntry(content=user(FACT), timestamp=at, custom_metadata={"from": "form"}),
        MemoryEntry(content=says("The gate closes at noon."), author="helper", id="m2"),
    ]
    for _ in range(2):
        asyncio.run(service.add_memory(**WHOSE, memories=given, custom_metadata={"ttl": 1}))
    kept.flush()
    [memory] = found(service, QUESTION)
    assert given[0].content.parts[0].text in memory.content.parts[0].text
    assert memory.timestamp == at
    assert {"from": "form", "ttl": 1}.items() <= memory.custom_metadata.items()
    [memory] = found(service, "When does the gate close?")
    assert memory.author == "helper"


def test_a_deleted_memory_stays_deleted(memories: Any, kept: EpisodicMemory):
    talk = Talk(memories)
    talk.ask("s", FACT, says("Noted."))
    kept.flush()
    [memory] = [each for each in found(talk.service, QUESTION) if each.author == "user"]
    for user_id, memory_id in (("ben", memory.id), ("ana", None), ("ana", "nothing")):
        asyncio.run(talk.service.delete_memory(app_name="hr", user_id=user_id, memory_id=memory_id))
    assert texts(ana(memories), "s") == [FACT, "Noted."]
    asyncio.run(talk.service.delete_memory(**WHOSE, memory_id=memory.id))
    asyncio.run(talk.service.add_session_to_memory(asyncio.run(talk.session("s"))))
    assert texts(ana(memories), "s") == ["Noted."]
    kept.flush()
    assert all(SECRET not in each.model_dump_json() for each in found(talk.service, QUESTION))


def test_a_run_that_fails_or_is_cancelled_keeps_what_was_said(memories: Any):
    talk = Talk(memories)
    with pytest.raises(IndexError):
        talk.ask("failed", "Do not forget me.", calls("note", {"what": "x"}))
    said = ["Do not forget me.", "", '{"result": "noted: x"}']
    assert texts(ana(memories), "failed") == said

    async def story() -> None:
        waits = asyncio.Event()

        class Slow(Model):
            async def generate_content_async(self, *_: Any, **__: Any) -> Any:
                waits.set()
                await asyncio.sleep(60)
                yield

        task = asyncio.create_task(talk.run(Slow(script=[], seen=[]), "s", "Remember me."))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert texts(ana(memories), "s") == ["Remember me."]


def test_a_cancelled_call_and_two_writers_lose_nothing(memories: Any):
    given = [Event(id=f"e{n}", author="user", content=user(f"number {n}")) for n in range(12)]

    async def story() -> None:
        service = OctopusMemoryService(memories)
        for number in range(4):
            call = service.add_events_to_memory(
                **WHOSE, session_id="s", events=given[number : number + 1]
            )
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # Two writers add what overlaps: each event is stored once.
        sessions = [Session(**WHOSE, id="s", events=some) for some in (given[:9], given[3:])]
        await asyncio.gather(
            *(OctopusMemoryService(memories).add_session_to_memory(each) for each in sessions)
        )

    asyncio.run(story())
    assert sorted(texts(ana(memories), "s")) == sorted(f"number {n}" for n in range(12))


def test_the_plugin_gives_the_model_its_tools(memories: Any, kept: EpisodicMemory):
    Talk(memories).ask("old", FACT, says("Noted."))
    kept.flush()
    asked = Talk(memories).ask(
        "new", "Look it up.", calls("recall_memory", {"query": QUESTION}), says("X4.")
    )
    parts = [part for each in asked.seen[-1].contents for part in each.parts or ()]
    assert any(part.function_response and SECRET in str(part) for part in parts)
    # What memory gave is not stored as words of the conversation.
    assert all(SECRET not in text for text in texts(memories.scope(agent="hr", user="ana"), "new"))


def test_an_awaited_memory_serves_as_well(awaited: Any, kept: EpisodicMemory):
    async def story() -> None:
        async with awaited:
            talk = Talk(awaited)
            await talk.say("one", FACT, says("Noted."))
            kept.flush()
            asked = await talk.say("two", QUESTION, says("X4."))
            assert SECRET in asked.last()
            found = await talk.service.search_memory(**WHOSE, query=QUESTION)
            assert FACT in found.memories[0].content.parts[0].text

    asyncio.run(story())


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, erased: Erased):
    Talk(kept).ask("s", "Remember zanzibarquark.", says("Zanzibarquark, noted."))
    erased(ana(kept))
