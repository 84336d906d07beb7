"""LangChain's agents, with its own fake model."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, MemoryClosed
from tests.support.integrations import FACT, QUESTION, SECRET, Erased, Scopes, texts

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.messages import AIMessage, HumanMessage, SystemMessage
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from octopus_memory.domain.own_words import NOT_KEPT
from octopus_memory.integrations.langchain import OctopusMiddleware, history
from tests.support.langchain_model import Model, calls, model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@tool
def note(what: str) -> str:
    """Note something."""
    return f"noted: {what}"


class Talk:
    """One session of one user with an agent, sync or async."""

    def __init__(self, scope: Any, session_id: str, mode: str = "sync") -> None:
        self._middleware = OctopusMiddleware(scope, session_id=session_id)
        self._mode = mode

    def say(self, said: Any, *answers: Any, **config: Any) -> Model:
        made = model(*answers)
        agent = create_agent(
            made,
            [note],
            system_prompt="Be brief.",
            middleware=[self._middleware],
            checkpointer=config.pop("saver", None),
        )
        given = {"messages": [HumanMessage(said) if isinstance(said, str) else said]}
        options = {"configurable": config} if config else None
        if self._mode == "sync":
            agent.invoke(given, options)
        else:
            asyncio.run(agent.ainvoke(given, options))
        return made


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_second_session_is_told_what_the_first_one_heard(
    scopes: Scopes, kept: EpisodicMemory, mode: str
):
    Talk(scopes(), "one", mode).say(FACT, calls("note", what="it"), "I noted it.")
    assert texts(scopes(), "one") == [FACT, "", "noted: it", "I noted it."]
    kept.flush()
    asked = Talk(scopes(), "two", mode).say(QUESTION, "It is X4.")
    assert SECRET in asked.seen[-1][0].text
    assert asked.seen[-1][0].text.startswith("Be brief.")
    assert texts(scopes(), "two") == [QUESTION, "It is X4."]
    stranger = Talk(scopes("ben"), "two", mode).say(QUESTION, "I do not know.")
    assert SECRET not in str(stranger.seen[-1])


def test_a_thread_that_goes_on_stores_each_message_once(scopes: Scopes):
    saver, talk = InMemorySaver(), Talk(scopes(), "s")
    talk.say("One.", "First.", saver=saver, thread_id="t")
    talk.say("Two.", calls("note", what="x"), "Second.", saver=saver, thread_id="t")
    said = ["One.", "First.", "Two.", "", "noted: x", "Second."]
    assert texts(scopes(), "s") == said
    # A message that the caller sends again has its id.
    again = HumanMessage("Three.", id="h3")
    for _ in range(2):
        Talk(scopes(), "r").say(again, AIMessage("Third.", id="a3"))
    assert texts(scopes(), "r") == ["Three.", "Third."]


def test_messages_come_back_exactly(scopes: Scopes):
    saver = InMemorySaver()
    content = [{"type": "text", "text": "Look."}, {"type": "image", "url": "https://example.com/a"}]
    given = HumanMessage(content, id="h", name="ana", additional_kwargs={"x": [1, None]})
    made = model(calls("note", what="it"), "Done.")
    agent = create_agent(
        made,
        [note],
        middleware=[OctopusMiddleware(scopes(), session_id="s")],
        checkpointer=saver,
    )
    state = agent.invoke({"messages": [given]}, {"configurable": {"thread_id": "t"}})
    assert history(scopes().session("s").turns) == state["messages"]
    chat = scopes().session("s").messages()
    assert chat[1]["tool_calls"][0]["function"]["name"] == "note"


def test_a_run_that_fails_keeps_what_was_said(scopes: Scopes):
    with pytest.raises((StopIteration, RuntimeError)):
        Talk(scopes(), "s").say("Do not forget me.")
    assert texts(scopes(), "s") == ["Do not forget me."]


def test_a_cancelled_run_and_two_writers_lose_nothing(scopes: Scopes):
    async def story() -> None:
        waits = asyncio.Event()

        class Slow(Model):
            async def _agenerate(self, *_: Any, **__: Any) -> Any:
                waits.set()
                await asyncio.sleep(60)

        agent = create_agent(
            Slow(messages=iter(()), seen=[]),
            [],
            middleware=[OctopusMiddleware(scopes(), session_id="s")],
        )
        task = asyncio.create_task(agent.ainvoke({"messages": [HumanMessage("Remember me.")]}))
        await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert texts(scopes(), "s") == ["Remember me."]

    def talk(number: int) -> None:
        Talk(scopes(), "both").say(f"number {number}", f"answer {number}")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(talk, range(6)))
    said = texts(scopes(), "both")
    assert sorted(said) == sorted(f"{kind} {n}" for n in range(6) for kind in ("number", "answer"))


def test_the_tool_searches_this_users_memory(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    talk = Talk(scopes(), "new")
    asked = talk.say("Look it up.", calls("recall_memory", query="passport number"), "X4.")
    assert SECRET in asked.seen[-1][-1].text
    # What memory gave is not stored as words of the conversation.
    assert texts(scopes(), "new") == ["Look it up.", "", NOT_KEPT, "X4."]


def test_user_and_session_come_from_the_runs_context(kept: EpisodicMemory):
    middleware = OctopusMiddleware(
        lambda runtime: kept.scope(user=runtime.context["user"]),
        session_id=lambda runtime: runtime.context["thread"],
    )
    agent = create_agent(model("Hi Ana.", "Hi Ben."), [], middleware=[middleware])
    for user in ("ana", "ben"):
        agent.invoke(
            {"messages": [HumanMessage(f"I am {user}.")]},
            context={"user": user, "thread": f"of {user}"},
        )
    assert texts(kept.scope(user="ana"), "of ana") == ["I am ana.", "Hi Ana."]
    assert texts(kept.scope(user="ben"), "of ben") == ["I am ben.", "Hi Ben."]


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, erased: Erased):
    scope = kept.scope(user="ana")
    Talk(scope, "s").say("Remember zanzibarquark.", "Zanzibarquark, noted.")
    erased(scope)


def test_a_history_of_dicts_without_ids_is_stored_once(scopes: Scopes):
    history: list[Any] = []
    for number in range(5):
        history.append({"role": "user", "content": f"question {number}"})
        middleware = OctopusMiddleware(scopes(), session_id="s")
        agent = create_agent(model(f"answer {number}"), [], middleware=[middleware])
        agent.invoke({"messages": list(history)})
        history.append({"role": "assistant", "content": f"answer {number}"})
    assert texts(scopes(), "s") == [each["content"] for each in history]


def test_an_edit_under_the_same_id_is_stored(scopes: Scopes):
    talk = Talk(scopes(), "s")
    talk.say(HumanMessage("I like tea.", id="h"), "Good.")
    talk.say(HumanMessage("I like coffee.", id="h"), "Better.")
    assert texts(scopes(), "s") == ["I like tea.", "Good.", "I like coffee.", "Better."]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_agent_goes_on_without_its_memory(kept: EpisodicMemory, mode: str):
    talk = Talk(kept.scope(user="ana"), "s", mode)
    kept.close()
    asked = talk.say("Hi.", calls("recall_memory", query="x"), "Hello.")
    assert "cannot be searched now" in asked.seen[-1][-1].text
    strict = OctopusMiddleware(kept.scope(user="ana"), session_id="s", on_error="raise")
    with pytest.raises(MemoryClosed):
        create_agent(model("Hello."), [], middleware=[strict]).invoke(
            {"messages": [HumanMessage("Hi.")]}
        )


def test_system_blocks_keep_their_marks_for_the_cache(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    cached = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    made = model("X4.")
    middleware = OctopusMiddleware(scopes(), session_id="s")
    agent = create_agent(made, [], system_prompt=SystemMessage([cached]), middleware=[middleware])
    agent.invoke({"messages": [HumanMessage(QUESTION)]})
    first, block = made.seen[-1][0].content
    assert first == cached
    assert SECRET in block["text"]
