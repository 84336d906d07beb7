"""Strands, with a model that records its requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.domain.own_words import NOT_KEPT
from tests.support.integrations import FACT, QUESTION, SECRET, Erased, Scopes, texts

pytest.importorskip("strands")

from strands import Agent, tool
from strands.memory import AddMessagesContext, MemoryManager
from strands.models import Model as BaseModel
from strands.types.exceptions import EventLoopException

from octopus_memory.integrations.strands import OctopusMemoryStore, history


class Model(BaseModel):
    """Answers with its script, and keeps what it was asked."""

    def __init__(self, *script: list[dict[str, Any]]) -> None:
        self.script = list(script)
        self.seen: list[Any] = []

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.seen.append(deepcopy(messages))
        blocks = self.script.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        for block in blocks:
            start, delta = {}, block
            if "toolUse" in block:
                use = block["toolUse"]
                start = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
                delta = {"toolUse": {"input": json.dumps(use["input"])}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        is_call = any("toolUse" in block for block in blocks)
        yield {"messageStop": {"stopReason": "tool_use" if is_call else "end_turn"}}

    def asked(self) -> str:
        """The last request."""
        return json.dumps(self.seen[-1])


def says(text: str) -> list[dict[str, Any]]:
    return [{"text": text}]


def calls(name: str, **several: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}
        for call_id, given in several.items()
    ]


@tool
def note(what: str) -> str:
    """Note something."""
    return f"noted: {what}"


class Talk:
    """One session of a user."""

    def __init__(self, scope: Any, session_id: str, *, block: bool = True, **named: Any) -> None:
        self.store = OctopusMemoryStore(scope, session_id=session_id, **named)
        self.manager = MemoryManager(stores=[self.store], injection=not block)
        self.plugins = [self.store.injector()] if block else []
        self.agent: Agent | None = None

    def say(self, said: str, *script: list[dict[str, Any]]) -> Model:
        model = Model(*script)
        self.made(model)(said)
        return model

    def made(self, model: BaseModel) -> Agent:
        self.agent = Agent(
            model=model,
            tools=[note],
            system_prompt="Be brief.",
            memory_manager=self.manager,
            plugins=self.plugins,
            callback_handler=None,
        )
        return self.agent


@pytest.mark.parametrize("block", [True, False], ids=["block", "entries"])
def test_the_second_session_is_told_what_the_first_one_heard(
    scopes: Scopes, kept: EpisodicMemory, block: bool
):
    script = calls("note", c1={"what": "a"}, c2={"what": "b"}), says("I noted it.")
    Talk(scopes(), "one", block=block).say(FACT, *script)
    assert texts(scopes(), "one") == [FACT, "", "noted: a", "noted: b", "I noted it."]
    chat = scopes().session("one").messages()
    assert [call["function"]["name"] for call in chat[1]["tool_calls"]] == ["note", "note"]
    kept.flush()
    talk = Talk(scopes(), "two", block=block)
    asked = talk.say(QUESTION, says("It is X4."))
    assert SECRET in asked.asked()
    # The block is in the request, and in no history.
    assert texts(scopes(), "two") == [QUESTION, "It is X4."]
    assert SECRET not in json.dumps(talk.agent.messages)
    stranger = Talk(scopes("ben"), "two", block=block).say(QUESTION, says("I do not know."))
    assert SECRET not in stranger.asked()


def test_every_call_of_a_run_has_the_block(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    asked = Talk(scopes(), "s").say(QUESTION, calls("note", c1={"what": "a"}), says("X4."))
    assert [SECRET in json.dumps(messages) for messages in asked.seen] == [True, True]


def test_an_agent_that_goes_on_stores_each_message_once(scopes: Scopes):
    talk = Talk(scopes(), "s")
    agent = talk.made(Model(says("First."), calls("note", c1={"what": "x"}), says("Second.")))
    agent("One.")
    agent("Two.")
    said = ["One.", "First.", "Two.", "", "noted: x", "Second."]
    assert texts(scopes(), "s") == said
    asyncio.run(talk.manager.flush())
    assert texts(scopes(), "s") == said


def test_a_repeated_run_with_a_key_stores_once(scopes: Scopes):
    for _ in range(2):
        talk = Talk(scopes(), "s", key="run-1")
        talk.say(FACT, calls("note", c1={"what": "it"}), says("Noted."))
    assert texts(scopes(), "s") == [FACT, "", "noted: it", "Noted."]
    # A batch whose answer was lost is given again.
    store = OctopusMemoryStore(scopes(), session_id="r")
    for _ in range(2):
        batch = [{"role": "user", "content": says("ok")}] * 2
        asyncio.run(store.add_messages(batch, AddMessagesContext(sequence_numbers=[3, 5])))
    assert texts(scopes(), "r") == ["ok", "ok"]


MESSAGES: list[Any] = [
    {
        "role": "user",
        "content": [
            {"text": "Look."},
            {"image": {"format": "png", "source": {"bytes": b"\x00\xff"}}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "xyz"}}},
            {"reasoningContent": {"redactedContent": b"\x01\xfe"}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"text": "One moment."},
            *calls("note", c1={"what": [1, None, {"a": "b"}]}, c2={"what": "y"}),
        ],
        "metadata": {"custom": {"x": [1, None]}},
    },
    {
        "role": "user",
        "content": [
            {
                "toolResult": {
                    "toolUseId": "c1",
                    "status": "success",
                    "content": [{"text": "done"}, {"json": {"n": 1}}],
                }
            },
            {"toolResult": {"toolUseId": "c2", "status": "error", "content": [{"text": "no"}]}},
            {"text": "Go on."},
        ],
    },
    {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "lost", "status": "success", "content": []}}],
    },
    {"role": "assistant", "content": [{"text": "Bye."}, {"cachePoint": {"type": "default"}}]},
]


def test_messages_come_back_exactly(scopes: Scopes):
    store = OctopusMemoryStore(scopes(), session_id="s")
    asyncio.run(store.add_messages(MESSAGES))
    turns = scopes().session("s").turns
    assert history(turns) == MESSAGES
    # Reasoning alone is replayed and never recalled.
    assert [turn.indexed for turn in turns] == [True, False, *[True] * 6]
    assert [turn.text for turn in turns[3:]] == ['done\n{"n": 1}', "no", "Go on.", "", "Bye."]
    talk = Talk(scopes(), "run")
    talk.say("Two.", calls("note", c1={"what": "x"}, c2={"what": "y"}), says("Second."))
    # The manager leaves out the agent's own ids.
    sent = [{k: v for k, v in m.items() if k != "tracking_id"} for m in talk.agent.messages]
    assert history(scopes().session("run").turns) == sent


def test_a_run_that_fails_keeps_what_was_said(scopes: Scopes):
    with pytest.raises(EventLoopException):
        Talk(scopes(), "s").say("Do not forget me.", calls("note", c1={"what": "x"}))
    assert texts(scopes(), "s") == ["Do not forget me.", "", "noted: x"]


def test_cancelled_runs_and_two_writers_lose_nothing(scopes: Scopes):
    async def story() -> None:
        waits = asyncio.Event()

        class Slow(Model):
            async def stream(self, *_: Any, **__: Any) -> Any:
                waits.set()
                await asyncio.sleep(60)
                yield

        talk = Talk(scopes(), "s")
        task = asyncio.create_task(talk.made(Slow()).invoke_async("Remember me."))
        await waits.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await talk.manager.flush()

        store = OctopusMemoryStore(scopes(), session_id="cut")
        for number in range(4):
            message = {"role": "user", "content": says(f"first {number}")}
            call = asyncio.create_task(store.add_messages([message]))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

        async def write(name: str) -> None:
            other = OctopusMemoryStore(scopes(), session_id="both")
            for number in range(5):
                message = {"role": "user", "content": says(f"{name} {number}")}
                given = AddMessagesContext(sequence_numbers=[number])
                await other.add_messages([message], given)

        await asyncio.gather(write("a"), write("b"))

    asyncio.run(story())
    assert texts(scopes(), "s") == ["Remember me."]
    assert sorted(texts(scopes(), "cut")) == [f"first {n}" for n in range(4)]
    said = texts(scopes(), "both")
    assert sorted(said) == sorted(f"{name} {n}" for name in "ab" for n in range(5))
    assert [each for each in said if each[0] == "a"] == [f"a {n}" for n in range(5)]


def test_agents_that_share_a_store_lose_nothing(scopes: Scopes):
    store = OctopusMemoryStore(scopes(), session_id="s")
    for number in range(2):
        manager = MemoryManager(stores=[store], injection=False)
        model = Model(says(f"answer {number}"))
        Agent(model=model, memory_manager=manager, callback_handler=None)(f"question {number}")
    said = ["question 0", "answer 0", "question 1", "answer 1"]
    assert texts(scopes(), "s") == said


def test_the_models_tools_search_and_add(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    store = OctopusMemoryStore(scopes(), session_id="new")
    manager = MemoryManager(stores=[store], add_tool_config=True, injection=False)
    kept.flush()
    gate = "The gate closes at noon."
    model = Model(
        calls("search_memory", c1={"query": QUESTION}),
        calls("add_memory", c2={"entries": [gate]}),
        says("Done."),
    )
    Agent(model=model, memory_manager=manager, callback_handler=None)("Look it up.")
    # What memory gave is not stored as words of the conversation.
    assert not any(SECRET in text for text in texts(scopes(), "new"))
    assert any(NOT_KEPT in text for text in texts(scopes(), "new"))

    async def again() -> None:
        await manager.add(gate, {"metadata": {"kind": "opening hours"}})
        await manager.add("The gate opens at six.", {"metadata": {"kind": "opening hours"}})

    asyncio.run(again())
    assert texts(scopes(), "memories") == [gate, "The gate opens at six."]
    kept.flush()
    found = asyncio.run(manager.search("When does the gate open?"))
    assert '"The gate opens at six."' in found[0].content
    assert found[0].metadata["kind"] == "opening hours"
    assert found[0].store_name == "octopus"
    assert len(asyncio.run(manager.search("gate", {"max_search_results": 1}))) == 1
    assert asyncio.run(store.search(" ")) == []
    assert asyncio.run(store.search("zebra crossing")) == []


def test_a_store_may_be_read_only(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    asked = Talk(scopes(), "s", writable=False).say(QUESTION, says("X4."))
    assert SECRET in asked.asked()
    assert [session.id for session in scopes().sessions().items] == ["old"]


def test_an_awaited_memory_serves_as_well(awaited: Any, kept: EpisodicMemory):
    scope = awaited.scope(user="ana")
    Talk(scope, "one").say(FACT, says("Noted."))
    kept.flush()
    assert SECRET in Talk(scope, "two").say(QUESTION, says("X4.")).asked()


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, erased: Erased):
    scope = kept.scope(user="ana")
    Talk(scope, "s").say("Remember zanzibarquark.", says("Zanzibarquark, noted."))
    asyncio.run(OctopusMemoryStore(scope, session_id="s").add("zanzibarquark"))
    erased(scope)
