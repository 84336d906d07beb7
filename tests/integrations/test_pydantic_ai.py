"""PydanticAI's agents, with its own test models."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import AsyncEpisodicMemory, EpisodicMemory, MemoryClosed
from tests.support.integrations import FACT, QUESTION, SECRET, Erased, Scopes, texts

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, BinaryContent, ImageUrl, ModelRetry, RunContext
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from octopus_memory.domain.own_words import NOT_KEPT
from octopus_memory.integrations.core import Conversation
from octopus_memory.integrations.pydantic_ai import OctopusMemory, _OneRun, history


class Model(FunctionModel):
    """PydanticAI's function model, which says what it is told and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[Any] = []
        self._answers = iter(answers)
        super().__init__(self._answer, stream_function=self._stream)

    def _next(self, messages: Any) -> list[Any]:
        self.asked.append(list(messages))
        answer = next(self._answers)
        parts = answer if isinstance(answer, list) else [answer]
        return [TextPart(part) if isinstance(part, str) else part for part in parts]

    def _answer(self, messages: Any, _: AgentInfo) -> ModelResponse:
        return ModelResponse(self._next(messages))

    async def _stream(self, messages: Any, _: AgentInfo) -> Any:
        for number, part in enumerate(self._next(messages)):
            if isinstance(part, ToolCallPart):
                yield {
                    number: DeltaToolCall(
                        part.tool_name, part.args_as_json_str(), tool_call_id="c1"
                    )
                }
            else:
                yield part.content


def calls(name: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(name, arguments, "c1")


def agent(scope: Any, *answers: Any, **more: Any) -> tuple[Agent[Any, Any], Model]:
    model = Model(*answers)
    made: Agent[Any, Any] = Agent(
        model, instructions="Be brief.", capabilities=[OctopusMemory(scope, **more)]
    )

    @made.tool_plain
    def note(what: str) -> str:
        """Note something."""
        return f"noted: {what}"

    return made, model


def ask(made: Agent[Any, Any], said: Any, **more: Any) -> Any:
    # `run_sync` leaves its event loop open.
    return asyncio.run(made.run(said, **more))


def run(scope: Any, session_id: str, said: Any, *answers: Any, **more: Any) -> Model:
    made, model = agent(scope, *answers)
    ask(made, said, conversation_id=session_id, **more)
    return model


async def stream(scope: Any, session_id: str, said: str, *answers: Any) -> Model:
    made, model = agent(scope, *answers)
    async with made.run_stream(said, conversation_id=session_id) as result:
        await result.get_output()
    return model


@pytest.mark.parametrize("mode", ["run", "stream"])
def test_the_second_session_is_told_what_the_first_one_heard(
    scopes: Scopes, kept: EpisodicMemory, mode: str
):
    def say(scope: Any, session_id: str, said: str, *answers: Any) -> Model:
        if mode == "run":
            return run(scope, session_id, said, *answers)
        return asyncio.run(stream(scope, session_id, said, *answers))

    say(scopes(), "one", FACT, calls("note", what="it"), "I noted it.")
    assert texts(scopes(), "one") == [FACT, "", "noted: it", "I noted it."]
    kept.flush()
    asked = say(scopes(), "two", QUESTION, "It is X4.")
    assert SECRET in str(asked.asked[-1])
    assert texts(scopes(), "two") == [QUESTION, "It is X4."]
    stranger = say(scopes("ben"), "two", QUESTION, "I do not know.")
    assert SECRET not in str(stranger.asked[-1])


def test_the_block_is_in_the_request_and_not_in_the_history(scopes: Scopes, kept: EpisodicMemory):
    run(scopes(), "one", FACT, "I noted it.")
    kept.flush()
    made, model = agent(scopes(), "It is X4.", "As I said.")
    first = ask(made, QUESTION, conversation_id="two")
    again = ask(made, "Again?", message_history=first.all_messages(), conversation_id="two")
    assert SECRET in str(model.asked[0][0].parts[0].content)
    assert SECRET not in str(again.all_messages())
    assert SECRET not in str(history(scopes().session("two").turns))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_shortened_history_loses_nothing_and_gets_no_block(
    scopes: Scopes, kept: EpisodicMemory, is_first: bool
):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    model = Model(calls("note", what="it"), "Noted.", calls("note", what="x"), "X4.")
    memory, shortened = OctopusMemory(scopes()), ProcessHistory(lambda messages: messages[-1:])
    both = [memory, shortened] if is_first else [shortened, memory]
    made: Agent[Any, Any] = Agent(model, capabilities=both)

    @made.tool_plain
    def note(what: str) -> str:
        return f"noted: {what}"

    result = ask(made, "Note it.", conversation_id="s")
    result = ask(made, QUESTION, message_history=result.all_messages(), conversation_id="s")
    said = ["Note it.", "", "noted: it", "Noted.", QUESTION, "", "noted: x", "X4."]
    assert texts(scopes(), "s") == said
    assert all(SECRET in str(asked) for asked in model.asked[2:])
    assert SECRET not in str(result.all_messages())


def test_a_conversation_that_goes_on_stores_each_message_once(scopes: Scopes):
    made, _ = agent(scopes(), "First.", calls("note", what="x"), "Second.", "Second.")
    result = ask(made, "One.")
    result = ask(made, "Two.", message_history=result.all_messages())
    result = ask(made, "Two.", message_history=result.all_messages())
    said = ["One.", "First.", "Two.", "", "noted: x", "Second.", "Two.", "Second."]
    session_id = result.all_messages()[0].conversation_id
    assert texts(scopes(), session_id) == said
    assert history(scopes().session(session_id).turns) == result.all_messages()


def test_a_repeated_run_with_its_id_stores_once(scopes: Scopes):
    for _ in range(2):
        run(scopes(), "s", FACT, calls("note", what="it"), "Noted.", run_id="run-1")
    assert texts(scopes(), "s") == [FACT, "", "noted: it", "Noted."]


def test_messages_come_back_exactly(scopes: Scopes):
    made, _ = agent(
        scopes(),
        [ThinkingPart("Hm.", signature="sig"), calls("note"), ToolCallPart("fail", {}, "c2")],
        [
            TextPart("Let me see."),
            calls("note", what="it"),
            ToolCallPart("note", '{"what":"1"}', "d"),
        ],
        [ThinkingPart("Only thoughts.")],
        "Done.",
    )

    @made.tool_plain
    def fail() -> str:
        raise ModelRetry("Not like that.")

    said = [
        "Look.",
        ImageUrl("https://example.com/a.png"),
        BinaryContent(b"\x00\xff", media_type="image/png"),
    ]
    result = ask(made, said, conversation_id="s", metadata={"x": [1, None]})
    # As JSON, because a link that was read from it has its media type filled in.
    again = ModelMessagesTypeAdapter.dump_json(history(scopes().session("s").turns))
    assert again == result.all_messages_json()
    chat = scopes().session("s").messages()
    assert chat[0] == {"role": "user", "content": "Look."}
    assert chat[-1] == {"role": "assistant", "content": "Done."}
    assert [call["function"]["name"] for call in chat[1]["tool_calls"]] == ["note", "fail"]


def test_a_history_that_was_made_by_hand_is_stored_once(scopes: Scopes):
    given = [ModelRequest([UserPromptPart("Hi.")]), ModelResponse([TextPart("Hello.")])]
    made, _ = agent(scopes(), "Yes.", "No.")
    for said in ("One?", "Two?"):
        ask(made, said, message_history=given, conversation_id="s")
    assert texts(scopes(), "s") == ["Hi.", "Hello.", "One?", "Yes.", "Two?", "No."]


def test_a_result_whose_call_was_cut_off_is_stored(scopes: Scopes):
    one = _OneRun(Conversation(scopes(), "s"), with_tools=False)
    one._messages = [
        ModelRequest([ToolReturnPart("lost", "late", "gone"), UserPromptPart("Hi.")]),
        ModelResponse([TextPart("Hello.")]),
    ]
    for _ in range(2):
        asyncio.run(one._store())
    assert texts(scopes(), "s") == ["late", "Hi.", "Hello."]
    assert history(scopes().session("s").turns) == one._messages


def test_a_run_that_fails_keeps_what_was_said(scopes: Scopes):
    with pytest.raises((StopIteration, RuntimeError)):
        run(scopes(), "s", "Do not forget me.", calls("note", what="it"))
    assert texts(scopes(), "s") == ["Do not forget me.", "", "noted: it"]


def test_a_cancelled_run_and_two_writers_lose_nothing(scopes: Scopes):
    async def story() -> None:
        waits = asyncio.Event()
        made, _ = agent(scopes(), calls("wait"))

        @made.tool_plain
        async def wait() -> str:
            waits.set()
            await asyncio.sleep(60)
            return "done"

        task = asyncio.create_task(made.run("Remember me.", conversation_id="s"))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert texts(scopes(), "s")[:2] == ["Remember me.", ""]

    def talk(number: int) -> None:
        run(scopes(), "both", f"number {number}", f"answer {number}")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(talk, range(6)))
    said = texts(scopes(), "both")
    assert sorted(said) == sorted(f"{kind} {n}" for n in range(6) for kind in ("number", "answer"))


def test_the_tool_searches_this_users_memory(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    asked = calls("recall_memory", query="passport number")
    model = run(scopes(), "later", "Look it up.", asked, "X4.")
    assert SECRET in str(model.asked[-1])
    # What memory gave is not stored as words of the conversation.
    assert texts(scopes(), "later") == ["Look it up.", "", NOT_KEPT, "X4."]


def test_the_tools_can_be_left_out(kept: EpisodicMemory):
    scope = kept.scope(user="ana")
    for with_tools in (True, False):
        model = TestModel(call_tools=[])
        ask(Agent(model, capabilities=[OctopusMemory(scope, with_tools=with_tools)]), "Hi.")
        assert model.last_model_request_parameters is not None
        names = [tool.name for tool in model.last_model_request_parameters.function_tools]
        assert names == (["recall_memory", "forget_memory"] if with_tools else [])


def test_user_and_session_come_from_the_runs_dependencies(kept: EpisodicMemory):
    def scope(ctx: RunContext[Any]) -> Any:
        return kept.scope(user=ctx.deps["user"])

    made, _ = agent(scope, "Hi Ana.", "Hi Ben.", session_id=lambda ctx: ctx.deps["thread"])
    for user in ("ana", "ben"):
        ask(made, f"I am {user}.", deps={"user": user, "thread": f"of {user}"})
    assert texts(kept.scope(user="ana"), "of ana") == ["I am ana.", "Hi Ana."]
    assert texts(kept.scope(user="ben"), "of ben") == ["I am ben.", "Hi Ben."]


def test_an_asynchronous_memory_serves(tmp_path: Path):
    async def story() -> None:
        url = f"sqlite:///{tmp_path / 'memory.db'}"
        async with await AsyncEpisodicMemory.open(url, embedder="hashing") as memory:
            scope = memory.scope(user="ana")
            made, model = agent(scope, "Noted.", "X4.")
            await made.run(FACT, conversation_id="one")
            await memory.flush()
            await made.run(QUESTION, conversation_id="two")
            assert SECRET in str(model.asked[-1])

    asyncio.run(story())


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, erased: Erased):
    scope = kept.scope(user="ana")
    run(scope, "s", "Remember zanzibarquark.", "Zanzibarquark, noted.")
    erased(scope)


def test_a_history_that_grows_by_hand_is_stored_once(scopes: Scopes):
    given: list[Any] = []
    for number in range(5):
        made, _ = agent(scopes(), f"answer {number}")
        ask(made, f"question {number}", message_history=list(given), conversation_id="s")
        given.append(ModelRequest([UserPromptPart(f"question {number}")]))
        given.append(ModelResponse([TextPart(f"answer {number}")]))
    said = [f"{kind} {number}" for number in range(5) for kind in ("question", "answer")]
    assert texts(scopes(), "s") == said


def test_the_agent_goes_on_without_its_memory(kept: EpisodicMemory):
    made, model = agent(kept.scope(user="ana"), calls("recall_memory", query="x"), "Hello.")
    kept.close()
    assert ask(made, "Hi.", conversation_id="s").output == "Hello."
    assert "cannot be searched now" in str(model.asked[-1])
    strict, _ = agent(kept.scope(user="ana"), "Hello.", on_error="raise")
    with pytest.raises(MemoryClosed):
        ask(strict, "Hi.", conversation_id="s")
