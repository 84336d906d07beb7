"""Microsoft Agent Framework, with a chat client that records its requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.domain.own_words import NOT_KEPT
from tests.support.integrations import FACT, QUESTION, SECRET, Erased, Scopes, texts

pytest.importorskip("agent_framework")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from octopus_memory.integrations.agent_framework import (
    OctopusContextProvider,
    OctopusHistoryProvider,
)


class Model(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Answers with its script, and keeps what it was asked."""

    def __init__(self, *script: Message) -> None:
        super().__init__()
        self.script = list(script)
        self.seen: list[tuple[list[Message], str]] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        self.seen.append((list(messages), options.get("instructions") or ""))
        if not stream:
            return self.answer()

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            said = (await self.answer()).messages[0]
            yield ChatResponseUpdate(
                role="assistant", contents=said.contents, message_id=said.message_id
            )

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

    async def answer(self) -> ChatResponse:
        return ChatResponse(messages=[self.script.pop(0)])

    def asked(self) -> str:
        """The last request."""
        messages, instructions = self.seen[-1]
        return json.dumps([instructions, [each.to_dict() for each in messages]])


def says(text: str) -> Message:
    return Message("assistant", [text])


def calls(name: str, **several: dict[str, Any]) -> Message:
    contents = [
        Content.from_function_call(call_id, name, arguments=json.dumps(arguments))
        for call_id, arguments in several.items()
    ]
    return Message("assistant", contents)


@tool
def note(what: str) -> str:
    """Note something."""
    return f"noted: {what}"


def agent(scope: Any, model: Model, **more: Any) -> Agent:
    providers = [OctopusHistoryProvider(scope), OctopusContextProvider(scope)]
    return Agent(model, "Be brief.", tools=[note], context_providers=providers, **more)


def ask(
    scope: Any, session_id: str, said: Any, *script: Message, stream: bool = False, **more: Any
) -> Model:
    return asyncio.run(aask(scope, session_id, said, *script, stream=stream, **more))


async def aask(
    scope: Any, session_id: str, said: Any, *script: Message, stream: bool = False, **more: Any
) -> Model:
    model = Model(*script)
    made = agent(scope, model, **more)
    session = AgentSession(session_id=session_id)
    if stream:
        await made.run(said, session=session, stream=True).get_final_response()
    else:
        await made.run(said, session=session)
    return model


def dicts(messages: list[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]


def stored(scope: Any, session_id: str, **named: Any) -> list[dict[str, Any]]:
    provider = OctopusHistoryProvider(scope, **named)
    return dicts(asyncio.run(provider.get_messages(session_id)))


def save(scope: Any, session_id: str, *messages: Message) -> None:
    asyncio.run(OctopusHistoryProvider(scope).save_messages(session_id, messages))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_second_session_is_told_what_the_first_one_heard(
    scopes: Scopes, kept: EpisodicMemory, stream: bool
):
    script = calls("note", c1={"what": "a"}, c2={"what": "b"}), says("I noted it.")
    ask(scopes(), "one", FACT, *script, stream=stream)
    assert texts(scopes(), "one") == [FACT, "", "noted: a", "noted: b", "I noted it."]
    kept.flush()
    asked = ask(scopes(), "two", QUESTION, says("It is X4."), stream=stream)
    assert SECRET in asked.seen[-1][1]
    assert asked.seen[-1][1].startswith("Be brief.")
    assert texts(scopes(), "two") == [QUESTION, "It is X4."]
    stranger = ask(scopes("ben"), "two", QUESTION, says("I do not know."), stream=stream)
    assert SECRET not in stranger.asked()


def test_the_history_goes_to_the_model_again(scopes: Scopes):
    ask(scopes(), "s", "I like tea.", calls("note", c1={"what": "tea"}), says("Noted."))
    messages, _ = ask(scopes(), "s", "What do I like?", says("Tea.")).seen[-1]
    roles = ["user", "assistant", "tool", "assistant", "user"]
    assert [message.role for message in messages] == roles
    assert messages[2].contents[0].call_id == "c1"
    assert messages[-2].text == "Noted."


MESSAGES = [
    Message("user", ["Look.", Content.from_data(b"\x00\xff", "image/png")], author_name="ana"),
    Message("assistant", [Content.from_text_reasoning(text="Hm.", protected_data="xyz")]),
    Message(
        "assistant",
        [
            Content.from_text("One moment."),
            Content.from_function_call("c1", "note", arguments={"what": [1, None]}),
            Content.from_function_call("c2", "note", arguments="{}"),
        ],
        message_id="m1",
        additional_properties={"x": [1, None, {"y": "z"}]},
    ),
    Message(
        "tool",
        [
            Content.from_function_result("c1", result="done"),
            Content.from_function_result("c2", result="failed", exception="why"),
        ],
    ),
    Message("system", ["Be kind."]),
    Message("user", [Content.from_uri("https://example.com/a", media_type="image/png")]),
    Message("assistant", ["Bye."], message_id="m1"),
    Message("developer", ["Be short."]),
]


def test_messages_come_back_exactly(scopes: Scopes):
    save(scopes(), "s", *MESSAGES)
    assert stored(scopes(), "s") == dicts(MESSAGES)
    turns = scopes().session("s").turns
    # Reasoning and pictures alone are replayed and never recalled.
    assert [turn.indexed for turn in turns] == [
        True, False, True, True, True, True, False, True, True
    ]  # fmt: skip
    chat = scopes().session("s").messages()
    results = [message["content"] for message in chat if message["role"] == "tool"]
    assert results == ["done", "failed"]
    assert stored(scopes(), "unknown") == []


def test_only_the_last_messages_are_loaded_where_that_is_asked(scopes: Scopes):
    save(scopes(), "s", *MESSAGES)
    for last, count in ((2, 2), (5, 4), (6, 4), (7, 6), (100, 8)):
        assert stored(scopes(), "s", last=last) == dicts(MESSAGES[-count:])


def test_a_transcript_that_is_given_again_is_stored_once(scopes: Scopes):
    talk = [Message("user", ["Yes."]), says("Good."), Message("user", ["Yes."]), says("Fine.")]
    for count in (2, 4, 4):
        save(scopes(), "s", *talk[:count])
    said = ["Yes.", "Good.", "Yes.", "Fine."]
    assert texts(scopes(), "s") == said
    # The same words alone are a new message, unless nothing has answered them yet.
    save(scopes(), "s", Message("user", ["Yes."]))
    save(scopes(), "s", Message("user", ["Yes."]), says("Good."))
    assert texts(scopes(), "s") == [*said, "Yes.", "Good."]
    save(scopes(), "s")
    # A run that is repeated with the ids of its messages is stored once, whatever came between.
    for number in range(2):
        given = Message("user", ["Three."], message_id="h3")
        ask(scopes(), "r", [given], Message("assistant", ["Third."], message_id="a3"))
        save(scopes(), "r", Message("user", [f"between {number}"]))
    assert texts(scopes(), "r") == ["Three.", "Third.", "between 0", "between 1"]


def test_a_result_without_its_call_is_stored(scopes: Scopes):
    late = Message("tool", [Content.from_function_result("lost", result="late")])
    save(scopes(), "s", late, says("Thanks."))
    assert stored(scopes(), "s") == dicts([late, says("Thanks.")])


def test_each_model_call_is_stored_where_the_agent_asks_for_it(scopes: Scopes):
    flags = {"require_per_service_call_history_persistence": True}
    with pytest.raises(IndexError):
        ask(scopes(), "s", "Do not forget me.", calls("note", c1={"what": "x"}), **flags)
    assert texts(scopes(), "s") == ["Do not forget me.", ""]
    ask(scopes(), "r", "One.", calls("note", c1={"what": "x"}), says("First."), **flags)
    ask(scopes(), "r", "Two.", says("Second."), **flags)
    assert texts(scopes(), "r") == ["One.", "", "noted: x", "First.", "Two.", "Second."]


def test_a_cancelled_call_and_two_writers_lose_nothing(scopes: Scopes):
    async def story() -> None:
        provider = OctopusHistoryProvider(scopes())
        for number in range(4):
            message = Message("user", [f"first {number}"], message_id=f"f{number}")
            task = asyncio.create_task(provider.save_messages("s", [message]))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if number % 2:
                # The caller does it again, and nothing is stored twice.
                await provider.save_messages("s", [message])
            else:
                others = asyncio.all_tasks() - {asyncio.current_task()}
                await asyncio.gather(*others)

        async def write(name: str) -> None:
            other = OctopusHistoryProvider(scopes())
            for number in range(5):
                await other.save_messages("both", [Message("user", [f"{name} {number}"])])

        await asyncio.gather(write("a"), write("b"))

    asyncio.run(story())
    assert texts(scopes(), "s") == [f"first {n}" for n in range(4)]
    said = texts(scopes(), "both")
    assert sorted(said) == sorted(f"{name} {n}" for name in "ab" for n in range(5))
    assert [each for each in said if each[0] == "a"] == [f"a {n}" for n in range(5)]


def test_the_tool_searches_this_users_memory(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    asked = ask(
        scopes(), "new", "Look it up.", calls("recall_memory", c1={"query": QUESTION}), says("X4.")
    )
    assert SECRET in asked.asked()
    # What memory gave is not stored as words of the conversation.
    assert texts(scopes(), "new") == ["Look it up.", "", NOT_KEPT, "X4."]


def test_the_scope_is_found_by_the_session(kept: EpisodicMemory):
    users = {"s1": "ana", "s2": "ben"}

    def scope(session_id: str) -> Any:
        return kept.scope(user=users[session_id])

    ask(scope, "s1", "I am Ana.", says("Hi Ana."))
    ask(scope, "s2", "I am Ben.", says("Hi Ben."))
    assert texts(kept.scope(user="ana"), "s1") == ["I am Ana.", "Hi Ana."]
    assert texts(kept.scope(user="ben"), "s2") == ["I am Ben.", "Hi Ben."]


def test_an_awaited_memory_serves_as_well(awaited: Any, kept: EpisodicMemory):
    async def story() -> None:
        async with awaited:
            scope = awaited.scope(user="ana")
            await aask(scope, "one", FACT, says("Noted."))
            kept.flush()
            assert SECRET in (await aask(scope, "two", QUESTION, says("X4."))).asked()

    asyncio.run(story())


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, erased: Erased):
    scope = kept.scope(user="ana")
    ask(scope, "s", "Remember zanzibarquark.", says("Zanzibarquark, noted."))
    erased(scope)
