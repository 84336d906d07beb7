"""LlamaIndex's agents and chat engines, with its own mock models."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import AsyncEpisodicMemory, EpisodicMemory, InvalidInput
from octopus_memory.domain.own_words import NOT_KEPT
from tests.support.integrations import FACT, QUESTION, SECRET, Erased, Scopes, texts

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.workflow import Context

from octopus_memory.integrations.llamaindex import OctopusMemory

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Model:
    """Answers for LlamaIndex's mock model, and what it was asked."""

    def __init__(self, *answers: ChatMessage | str) -> None:
        self.asked: list[list[ChatMessage]] = []
        self._answers = iter(answers)
        self.llm = MockFunctionCallingLLM(response_generator=self._answer, is_chat_model=True)

    def _answer(self, messages: Any, **_: Any) -> ChatMessage:
        self.asked.append(list(messages))
        answer = next(self._answers)
        return says(answer) if isinstance(answer, str) else answer


def says(text: str) -> ChatMessage:
    return ChatMessage(text, role="assistant")


def hears(text: str) -> ChatMessage:
    return ChatMessage(text, role="user")


def calls(name: str, **arguments: Any) -> ChatMessage:
    block = ToolCallBlock(tool_call_id="c1", tool_name=name, tool_kwargs=arguments)
    return ChatMessage(role="assistant", blocks=[block])


def note(what: str) -> str:
    """Note something."""
    return f"noted: {what}"


async def talk(memory: OctopusMemory, said: str, *answers: Any, **more: Any) -> Model:
    model = Model(*answers)
    tools = [note, *more.pop("tools", ())]
    agent = FunctionAgent(llm=model.llm, tools=tools, system_prompt="Be brief.", streaming=False)
    await agent.run(user_msg=said, memory=memory, **more)
    return model


def run(memory: OctopusMemory, said: str, *answers: Any, **more: Any) -> Model:
    return asyncio.run(talk(memory, said, *answers, **more))


def test_the_second_session_is_told_what_the_first_one_heard(scopes: Scopes, kept: EpisodicMemory):
    first = OctopusMemory(scopes(), session_id="one")
    run(first, FACT, calls("note", what="it"), "I noted it.")
    assert texts(scopes(), "one") == [FACT, "", "noted: it", "I noted it."]
    kept.flush()
    asked = run(OctopusMemory(scopes(), session_id="two"), QUESTION, "It is X4.")
    assert [message.role for message in asked.asked[-1]] == ["system", "system", "user"]
    assert SECRET in str(asked.asked[-1])
    assert texts(scopes(), "two") == [QUESTION, "It is X4."]
    stranger = run(OctopusMemory(scopes("ben"), session_id="two"), QUESTION, "I do not know.")
    assert SECRET not in str(stranger.asked[-1])


def test_a_chat_engine_remembers(scopes: Scopes, kept: EpisodicMemory):
    def chat(session_id: str, *said: str) -> Model:
        model = Model(*(f"Answer to {each}" for each in said))
        memory = OctopusMemory(scopes(), session_id=session_id)
        engine = SimpleChatEngine.from_defaults(llm=model.llm, memory=memory)
        for each in said:
            engine.chat(each)
        return model

    again = chat("one", FACT, "And now?")
    assert FACT in str(again.asked[-1])
    kept.flush()
    assert SECRET in str(chat("two", QUESTION).asked[-1])
    assert texts(scopes(), "two") == [QUESTION, f"Answer to {QUESTION}"]


MESSAGES = [
    ChatMessage("Be kind.", role="system"),
    ChatMessage(
        role="user",
        blocks=[TextBlock(text="Look."), ImageBlock(image=b"\x89PNG", image_mimetype="image/png")],
        additional_kwargs={"x": [1, None]},
    ),
    ChatMessage(role="assistant", blocks=[ThinkingBlock(content="Hm.", num_tokens=3)]),
    ChatMessage(
        role="assistant",
        blocks=[
            TextBlock(text="Let me see."),
            ToolCallBlock(tool_call_id="c", tool_name="note", tool_kwargs={"what": "it"}),
            ToolCallBlock(tool_name="other", tool_kwargs='{"raw": 1}'),
        ],
    ),
    ChatMessage("noted", role="tool", additional_kwargs={"tool_call_id": "c"}),
    ChatMessage("done", role="function", additional_kwargs={"name": "other"}),
    ChatMessage("late", role="tool", additional_kwargs={"tool_call_id": "lost"}),
    ChatMessage("Done.", role="chatbot"),
    ChatMessage(role="user", blocks=[]),
    ChatMessage("", role="assistant"),
]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_messages_come_back_exactly(scopes: Scopes, mode: str):
    memory = OctopusMemory.from_defaults(scope=scopes(), session_id="s")
    if mode == "sync":
        assert memory.get() == memory.get_all() == []
        memory.put_messages(MESSAGES)
        assert memory.get_all() == memory.get() == MESSAGES
        return

    async def story() -> None:
        await memory.aput_messages(MESSAGES)
        assert await memory.aget_all() == await memory.aget() == MESSAGES

    asyncio.run(story())


def test_turns_of_other_origin_are_part_of_the_history(scopes: Scopes):
    scopes().add("s", [("user", "Hi."), ("assistant", "Hello.")])
    assert OctopusMemory(scopes(), session_id="s").get_all() == [hears("Hi."), says("Hello.")]


def test_the_history_is_limited_from_a_users_message_on(scopes: Scopes):
    memory = OctopusMemory(scopes(), session_id="s", token_limit=200)
    said = [hears("a " * 50), calls("note", what="b"), says("b " * 50), hears("c " * 50)]
    said.insert(2, ChatMessage("noted", role="tool", additional_kwargs={"tool_call_id": "c1"}))
    memory.put_messages(said)
    assert memory.get() == said
    assert memory.get(initial_token_count=100) == said[-1:]
    memory.put(says("d " * 300))
    assert memory.get() == [said[-1], says("d " * 300)]
    assert len(memory.get_all()) == 6


def test_a_reset_history_is_empty_and_remembered(scopes: Scopes, kept: EpisodicMemory):
    memory = OctopusMemory(scopes(), session_id="s")
    memory.reset()
    memory.put(hears(FACT))
    memory.reset()
    assert memory.get_all() == []
    kept.flush()
    asked = run(memory, QUESTION, "It is X4.")
    assert SECRET in str(asked.asked[-1])
    assert texts(scopes(), "s") == [QUESTION, "It is X4."]


def test_a_history_that_is_set_is_stored_once(scopes: Scopes, kept: EpisodicMemory):
    memory = OctopusMemory(scopes(), session_id="s")
    past = [hears(FACT), says("I noted it.")]
    # A service that keeps the history itself gives all of it to each run.
    for _ in range(2):
        memory.set(past)
        assert memory.get_all() == past
    run(memory, "Thanks.", "You are welcome.", chat_history=past)
    past += [hears("Thanks."), says("You are welcome.")]
    assert memory.get_all() == past
    # A rewritten history replaces the old one, which can still be recalled, once.
    short = [hears("In short: passport."), *past[2:]]
    memory.set(short)
    assert memory.get_all() == short
    kept.flush()
    found = [hit.text for hit in scopes().recall_turns(QUESTION, limit=20)]
    assert sorted(found) == sorted({*found})
    assert FACT in found
    assert "In short: passport." in found


def test_the_block_is_not_stored_when_it_is_given_back(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    memory = OctopusMemory(scopes(), session_id="s")
    memory.put(hears(QUESTION))
    given = memory.get()
    assert SECRET in str(given)
    memory.set([*given, says("X4.")])
    memory.put_messages(given[:1])
    assert memory.get_all() == [hears(QUESTION), says("X4.")]


def test_a_repeated_run_with_a_key_stores_once(scopes: Scopes):
    for _ in range(2):
        memory = OctopusMemory(scopes(), session_id="s", key="run-1")
        run(memory, FACT, calls("note", what="it"), "Noted.")
    assert texts(scopes(), "s") == [FACT, "", "noted: it", "Noted."]


def test_cancelled_calls_and_two_writers_lose_nothing(scopes: Scopes):
    memory = OctopusMemory(scopes(), session_id="s")

    async def story() -> None:
        waits = asyncio.Event()

        async def wait() -> str:
            """Wait."""
            waits.set()
            await asyncio.sleep(60)
            return "done"

        task = asyncio.create_task(talk(memory, "Remember me.", calls("wait"), tools=[wait]))
        await waits.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        puts = [asyncio.create_task(memory.aput(hears(f"put {n}"))) for n in range(5)]
        await asyncio.sleep(0)
        for put in puts:
            put.cancel()
        await asyncio.gather(*puts, return_exceptions=True)
        await asyncio.gather(*memory._talk._running)

    asyncio.run(story())
    said = texts(scopes(), "s")
    assert said[0] == "Remember me."
    assert sorted(said[1:]) == [f"put {n}" for n in range(5)]

    def write(number: int) -> None:
        run(OctopusMemory(scopes(), session_id="both"), f"number {number}", f"answer {number}")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(6)))
    said = texts(scopes(), "both")
    assert sorted(said) == sorted(f"{kind} {n}" for n in range(6) for kind in ("number", "answer"))


def test_the_tool_searches_this_users_memory(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    memory = OctopusMemory(scopes(), session_id="s")
    tool = memory.recall_tool()
    assert SECRET in str(tool.call(query="passport number"))
    asked = calls("recall_memory", query="passport number")
    run(memory, "Look it up.", asked, "X4.", tools=[tool])
    # What memory gave is not stored as words of the conversation.
    assert texts(scopes(), "s") == ["Look it up.", "", NOT_KEPT, "X4."]


def test_a_context_that_was_saved_takes_a_memory_again(kept: EpisodicMemory):
    scope = kept.scope(user="ana")

    async def story() -> None:
        agent = FunctionAgent(llm=Model("Hello.", "Again.").llm, streaming=False)
        ctx = Context(agent)
        await agent.run(user_msg="Hi.", memory=OctopusMemory(scope, session_id="s"), ctx=ctx)
        saved = json.loads(json.dumps(ctx.to_dict()))
        restored = Context.from_dict(agent, saved)
        with pytest.raises(InvalidInput, match="scope"):
            (await restored.store.get("memory")).get()
        memory = OctopusMemory(scope, session_id="s")
        await agent.run(user_msg="Once more.", memory=memory, ctx=restored)

    asyncio.run(story())
    assert texts(scope, "s") == ["Hi.", "Hello.", "Once more.", "Again."]


def test_an_asynchronous_memory_serves(tmp_path: Path):
    async def story() -> None:
        url = f"sqlite:///{tmp_path / 'memory.db'}"
        async with await AsyncEpisodicMemory.open(url, embedder="hashing") as octopus:
            scope = octopus.scope(user="ana")
            await talk(OctopusMemory(scope, session_id="one"), FACT, "Noted.")
            await octopus.flush()
            asked = await talk(OctopusMemory(scope, session_id="two"), QUESTION, "X4.")
            assert SECRET in str(asked.asked[-1])

    asyncio.run(story())


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, erased: Erased):
    scope = kept.scope(user="ana")
    memory = OctopusMemory(scope, session_id="s")
    run(memory, "Remember zanzibarquark.", "Zanzibarquark, noted.")
    erased(scope)
    assert memory.get_all() == []
