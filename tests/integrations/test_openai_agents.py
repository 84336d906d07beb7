"""The OpenAI Agents SDK, with its own scripted model."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, MemoryClosed
from octopus_memory.domain.own_words import NOT_KEPT
from tests.support import byte_scan
from tests.support.integrations import FACT, QUESTION, SECRET, Scopes, texts

agents = pytest.importorskip("agents")

from agents import Agent, Runner, SessionSettings, function_tool, set_tracing_disabled  # noqa: E402
from agents.memory.session import Session  # noqa: E402
from agents.testing import ModelStep, ScriptedModel  # noqa: E402
from agents.testing.model import UnexpectedModelCall  # noqa: E402
from openai.types.responses import (  # noqa: E402
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from octopus_memory.integrations.openai_agents import OctopusSession, tools  # noqa: E402

set_tracing_disabled(True)


def says(text: str) -> ModelStep:
    part = ResponseOutputText(annotations=[], text=text, type="output_text", logprobs=[])
    message = ResponseOutputMessage(
        id="msg", content=[part], role="assistant", status="completed", type="message"
    )
    return ModelStep(output=[message])


def calls(name: str, **arguments: Any) -> ModelStep:
    call = ResponseFunctionToolCall(
        arguments=json.dumps(arguments), call_id="c1", name=name, type="function_call"
    )
    return ModelStep(output=[call])


@function_tool
def note(what: str) -> str:
    """Note something."""
    return f"noted: {what}"


def agent(*steps: ModelStep) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(list(steps))
    return Agent(name="helper", instructions="Be brief.", model=model, tools=[note]), model


def run(session: OctopusSession, said: str, *steps: ModelStep) -> ScriptedModel:
    made, model = agent(*steps)
    asyncio.run(Runner.run(made, said, session=session, run_config=session.run_config()))
    return model


def instructions(model: ScriptedModel) -> str:
    assert model.last_call is not None
    return model.last_call.system_instructions or ""


def test_it_is_a_session(kept: EpisodicMemory):
    assert isinstance(OctopusSession("s", kept.scope(user="ana")), Session)


def test_the_second_session_is_told_what_the_first_one_heard(scopes: Scopes, kept: EpisodicMemory):
    first = OctopusSession("one", scopes())
    run(first, FACT, calls("note", what="passport"), says("I noted it."))
    assert texts(scopes(), "one") == [FACT, "", "noted: passport", "I noted it."]
    kept.flush()
    model = run(OctopusSession("two", scopes()), QUESTION, says("It is X4."))
    assert SECRET in instructions(model)
    assert instructions(model).startswith("Be brief.")
    assert texts(scopes(), "two") == [QUESTION, "It is X4."]
    stranger = run(OctopusSession("two", scopes("ben")), QUESTION, says("I do not know."))
    assert SECRET not in instructions(stranger)


def test_the_history_goes_to_the_model_again(scopes: Scopes):
    session = OctopusSession("s", scopes())
    run(session, "I like tea.", says("Noted."))
    model = run(session, "What do I like?", says("Tea."))
    assert model.last_call is not None
    given = json.dumps(model.last_call.input)
    assert "I like tea." in given
    assert "Noted." in given


ITEMS: list[Any] = [
    {"role": "user", "content": "Hi."},
    {"role": "developer", "content": "Be kind."},
    {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "xyz"},
    {"type": "function_call", "call_id": "c", "name": "note", "arguments": "{}", "id": "fc"},
    {"type": "function_call_output", "call_id": "c", "output": "done"},
    {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}},
    {"type": "compaction", "encrypted_content": "zzz"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a"}]},
    {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Bye.", "annotations": []}],
    },
    {"type": "function_call_output", "call_id": "lost", "output": "late"},
    {"something": "else"},
]


def test_items_come_back_exactly(scopes: Scopes):
    session = OctopusSession("s", scopes())

    async def story() -> None:
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS
        for limit in (1, 3, 100, 2**63 - 1):
            assert await session.get_items(limit) == ITEMS[-limit:]
        assert await session.get_items(0) == []
        assert await session.pop_item() == ITEMS[-1]
        assert await session.get_items() == ITEMS[:-1]
        limited = OctopusSession("s", scopes(), session_settings=SessionSettings(limit=2))
        assert await limited.get_items() == ITEMS[-3:-1]
        await session.add_items([])

    asyncio.run(story())


def test_a_cleared_session_is_empty_and_remembered(scopes: Scopes, kept: EpisodicMemory):
    session = OctopusSession("s", scopes())

    async def story() -> None:
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        await session.add_items([{"role": "user", "content": FACT}])
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([{"role": "user", "content": "Hello again."}])
        assert len(await session.get_items()) == 1

    asyncio.run(story())
    kept.flush()
    assert SECRET in instructions(run(session, QUESTION, says("It is X4.")))


def test_a_repeated_run_with_a_key_stores_once(scopes: Scopes):
    for _ in range(2):
        session = OctopusSession("s", scopes(), key="run-1")
        run(session, FACT, calls("note", what="it"), says("Noted."))
    assert texts(scopes(), "s") == [FACT, "", "noted: it", "Noted."]


def test_cancelled_calls_and_two_writers_lose_nothing(scopes: Scopes):
    async def story() -> None:
        session = OctopusSession("s", scopes())
        await session.add_items([{"role": "user", "content": f"first {n}"} for n in range(20)])
        for _ in range(10):
            task = asyncio.create_task(session.pop_item())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # Each goes on and removes one item, or none: nothing else is gone.
        done = await asyncio.gather(*session._talk._running, return_exceptions=True)
        assert not [error for error in done if isinstance(error, Exception)]
        items = await session.get_items()
        assert len(items) == 10
        assert [item["content"] for item in items] == [f"first {n}" for n in range(10)]

        async def write(name: str) -> None:
            other = OctopusSession("both", scopes())
            for number in range(5):
                await other.add_items([{"role": "user", "content": f"{name} {number}"}])

        await asyncio.gather(write("a"), write("b"))
        said = [item["content"] for item in await OctopusSession("both", scopes()).get_items()]
        assert sorted(said) == sorted(f"{name} {n}" for name in "ab" for n in range(5))
        assert [each for each in said if each[0] == "a"] == [f"a {n}" for n in range(5)]
        popped = await asyncio.gather(
            *(OctopusSession("both", scopes()).pop_item() for _ in range(10))
        )
        assert sorted(item["content"] for item in popped if item) == sorted(said)

    asyncio.run(story())


def test_event_loops_of_several_threads_share_a_session(scopes: Scopes):
    session = OctopusSession("s", scopes())

    def write(number: int) -> None:
        item: Any = {"role": "user", "content": f"said {number}"}
        asyncio.run(asyncio.wait_for(session.add_items([item]), timeout=60))

    with ThreadPoolExecutor(max_workers=5) as threads:
        list(threads.map(write, range(10)))
    assert sorted(texts(scopes(), "s")) == sorted(f"said {number}" for number in range(10))


@pytest.mark.parametrize("given", [None, {"limit": 2}, SessionSettings(limit=2)])
def test_settings_may_be_a_dictionary_or_left_out(kept: EpisodicMemory, given: Any):
    session = OctopusSession("s", kept.scope(user="ana"), session_settings=given)
    assert session.session_settings == SessionSettings(limit=given and 2)


def test_the_tool_searches_this_users_memory(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    session = OctopusSession("new", scopes())
    model = ScriptedModel([calls("recall_memory", query="passport number"), says("X4.")])
    helper = Agent(name="helper", model=model, tools=tools())
    config = session.run_config()
    result = asyncio.run(Runner.run(helper, "Look it up.", session=session, run_config=config))
    assert any(SECRET in str(item.raw_item) for item in result.new_items)
    # What memory gave is not stored as words of the conversation.
    assert texts(scopes(), "new") == ["Look it up.", "", NOT_KEPT, "X4."]


def test_a_tool_of_a_shared_agent_takes_the_session_of_the_run(kept: EpisodicMemory):
    ana = OctopusSession("a", kept.scope(user="ana"))
    kept.scope(user="ana").store([("user", FACT)], session_id="old")
    script = [calls("recall_memory", query="passport number"), says("I do not know.")]
    helper = Agent(name="helper", model=ScriptedModel(script * 2), tools=[ana.recall_tool()])
    ben = OctopusSession("b", kept.scope(user="ben"))
    for config in (ben.run_config(), None):
        result = asyncio.run(
            Runner.run(helper, "My passport number?", session=ben, run_config=config)
        )
        assert SECRET not in str([item.raw_item for item in result.new_items])


def test_a_run_that_failed_and_is_repeated_without_a_key_stores_once(scopes: Scopes):
    session = OctopusSession("s", scopes())
    for model in (ScriptedModel([]), ScriptedModel([says("Hello.")])):
        helper = Agent(name="helper", model=model)
        try:
            asyncio.run(Runner.run(helper, "Hi.", session=session))
        except UnexpectedModelCall:
            continue
    assert texts(scopes(), "s") == ["Hi.", "Hello."]


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, tmp_path: Path):
    scope = kept.scope(user="ana")
    run(OctopusSession("s", scope), "Remember zanzibarquark.", says("Zanzibarquark, noted."))
    kept.flush()
    assert scope.erase().is_complete
    wanted = {"word": [b"zanzibarquark", b"Zanzibarquark"]}
    assert byte_scan.search(tmp_path / "db", wanted) == []


def test_the_agent_goes_on_without_its_memory(kept: EpisodicMemory):
    session = OctopusSession("s", kept.scope(user="ana"))
    strict = OctopusSession("s", kept.scope(user="ana"), on_error="raise")
    kept.close()
    script = [calls("recall_memory", query="x"), says("Hello.")]
    helper = Agent(name="helper", model=ScriptedModel(script), tools=tools())
    config = session.run_config()
    result = asyncio.run(Runner.run(helper, "Hi.", session=session, run_config=config))
    assert result.final_output == "Hello."
    with pytest.raises(MemoryClosed):
        asyncio.run(Runner.run(helper, "Hi.", session=strict))
