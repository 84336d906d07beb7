"""The Claude Agent SDK: its own contracts, and its CLI against the fake server."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.integrations import outbox
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support import byte_scan
from tests.support.integrations import FACT, QUESTION, SECRET, Scopes, texts

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    ResultMessage,
    create_sdk_mcp_server,
    delete_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    query,
    tool,
)
from claude_agent_sdk.testing import run_session_store_conformance

from octopus_memory.integrations.claude_agent import OctopusSessionStore

KEY: Any = {"project_key": "-home-ana", "session_id": "one"}
NAME = "claude:-home-ana/one"
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "mcp__notes__note", "arguments": '{"what": "passport"}'},
}


@tool("note", "Note something.", {"what": str})
async def note(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"noted: {arguments['what']}"}]}


Run = Callable[..., str]


@pytest.fixture
def run(server: FakeOpenAIServer, tmp_path: Path) -> Run:
    """Runs the CLI for one prompt, and returns the id of its session."""
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    env = {
        "ANTHROPIC_BASE_URL": server.base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "any",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "config"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }

    def one(store: OctopusSessionStore, prompt: str, **more: Any) -> str:
        base = ClaudeAgentOptions(
            model="claude-sonnet-4-5",
            system_prompt="Be brief.",
            tools=[],
            setting_sources=[],
            mcp_servers={"notes": create_sdk_mcp_server("notes", tools=[note])},
            allowed_tools=["mcp__notes__note"],
            cwd=home / "work",
            env=env,
            **more,
        )

        async def ask() -> str:
            answers = [each async for each in query(prompt=prompt, options=store.options(base))]
            [result] = [each for each in answers if isinstance(each, ResultMessage)]
            assert not result.is_error, result
            return result.session_id

        return asyncio.run(ask())

    return one


def sessions(scope: Any) -> list[str]:
    return [each.id for each in scope.sessions().items]


def said(scope: Any, name: str) -> list[str]:
    """The words that can be recalled."""
    return [turn.text for turn in scope.session(name).turns if turn.indexed and turn.text]


def sent(server: FakeOpenAIServer, number: int = -1) -> str:
    return json.dumps(server.requests[number].body["messages"])


@pytest.mark.process
def test_the_second_session_is_told_what_the_first_one_heard(
    scopes: Scopes, kept: EpisodicMemory, server: FakeOpenAIServer, run: Run
):
    server.answer(None, tool_calls=[CALL])
    server.answer("I noted it.")
    run(OctopusSessionStore(scopes()), FACT)
    [first] = sessions(scopes())
    assert said(scopes(), first) == [FACT, "noted: passport", "I noted it."]
    kept.flush()
    server.answer("It is X4.")
    run(OctopusSessionStore(scopes()), QUESTION)
    assert SECRET in sent(server)
    [second] = set(sessions(scopes())) - {first}
    assert said(scopes(), second) == [QUESTION, "It is X4."]
    # The CLI wrote the block into its transcript; the session does not hold it.
    turns = scopes().session(second).turns
    assert "hook_additional_context" in repr([turn.message.body for turn in turns])
    assert SECRET not in repr([turn.message.body for turn in turns])
    server.answer("I do not know.")
    run(OctopusSessionStore(scopes("ben")), QUESTION)
    assert SECRET not in sent(server)


@pytest.mark.process
def test_a_session_is_resumed_from_the_memory_alone(
    scopes: Scopes, server: FakeOpenAIServer, run: Run, tmp_path: Path
):
    server.answer(None, tool_calls=[CALL])
    server.answer("Noted.")
    session_id = run(OctopusSessionStore(scopes()), "I like tea.")
    for transcript in (tmp_path / "home" / "config" / "projects").rglob("*.jsonl"):
        transcript.unlink()
    server.answer("Tea.")
    again = run(OctopusSessionStore(scopes()), "What do I like?", resume=session_id)
    assert again == session_id
    for words in ("I like tea.", "noted: passport", "Noted.", "What do I like?"):
        assert words in sent(server)
    [name] = sessions(scopes())
    assert said(scopes(), name) == [
        "I like tea.",
        "noted: passport",
        "Noted.",
        "What do I like?",
        "Tea.",
    ]


@pytest.mark.process
def test_the_tool_searches_this_users_memory(
    scopes: Scopes, kept: EpisodicMemory, server: FakeOpenAIServer, run: Run
):
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    asked = {"name": "mcp__octopus__recall_memory", "arguments": '{"query": "passport number"}'}
    server.answer(None, tool_calls=[{"id": "c9", "type": "function", "function": asked}])
    server.answer("X4.")
    run(OctopusSessionStore(scopes()), "Look it up.")
    assert all(
        SECRET not in str(scopes().session(each).messages())
        for each in sessions(scopes())
        if each != "old"
    )
    [result] = server.requests[-1].body["messages"][-1]["content"]
    assert result["type"] == "tool_result"
    assert SECRET in json.dumps(result)


def test_the_sdks_own_contracts(scopes: Scopes):
    numbers = itertools.count()
    asyncio.run(
        run_session_store_conformance(lambda: OctopusSessionStore(scopes(f"u{next(numbers)}")))
    )


ENTRIES: list[Any] = [
    {"type": "queue-operation", "operation": "enqueue", "content": "Hi.", "sessionId": "one"},
    {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "isSidechain": False,
        "timestamp": "2026-03-14T09:26:53.589Z",
        "message": {"role": "user", "content": "The harbour is closed."},
    },
    {
        "type": "assistant",
        "uuid": "u2",
        "parentUuid": "u1",
        "message": {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "harbour plan", "signature": "c2ln"}],
        },
    },
    {
        "type": "assistant",
        "uuid": "u3",
        "message": {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I will look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "harbour"}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {"at": "town"}},
            ],
        },
    },
    {
        "type": "user",
        "uuid": "u4",
        "message": {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "closed"},
                {"type": "tool_result", "tool_use_id": "t2", "content": [], "is_error": True},
            ],
        },
        "toolUseResult": {"stdout": "closed"},
    },
    {
        "type": "user",
        "uuid": "u5",
        "isMeta": True,
        "message": {"role": "user", "content": "harbour meta"},
    },
    {"type": "user", "uuid": "u6", "message": {"role": "king", "content": 7}},
    {"type": "attachment", "uuid": "u7", "attachment": {"type": "date", "date": "2026-11-18"}},
    {"type": "summary", "summary": "A harbour.", "leafUuid": "u4"},
    {"type": "system", "uuid": "u8", "timestamp": "yesterday", "content": "compacted"},
    {
        "type": "user",
        "uuid": "u9",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "lost", "content": "late"}],
        },
    },
]


def test_entries_come_back_exactly(scopes: Scopes, kept: EpisodicMemory):
    store = OctopusSessionStore(scopes())

    async def story() -> None:
        for entry in ENTRIES[:3]:
            await store.append(KEY, [entry])
        await store.append(KEY, ENTRIES[3:])
        assert await store.load(KEY) == ENTRIES
        sub = {**KEY, "subpath": "subagents/agent-1"}
        await store.append(sub, ENTRIES[1:2])
        assert await store.load(sub) == ENTRIES[1:2]

    asyncio.run(story())
    assert said(scopes(), NAME) == ["The harbour is closed.", "I will look.", "closed", "late"]
    assert f"{scopes().session(NAME).turns[1].at:%Y-%m-%d}" == "2026-03-14"
    kept.flush()
    found = scopes().recall_turns("harbour", limit=20)
    assert found[0].text == "The harbour is closed."
    assert {hit.text for hit in found} <= set(said(scopes(), NAME))
    assert {hit.session_id for hit in found} == {NAME}


def test_the_sdk_reads_and_deletes_what_is_stored(scopes: Scopes):
    store = OctopusSessionStore(scopes())
    session_id = "00000000-0000-4000-8000-000000000001"

    async def story(directory: str) -> None:
        key: Any = {
            "project_key": project_key_for_directory(directory),
            "session_id": session_id,
        }
        other = {**key, "session_id": "00000000-0000-4000-8000-000000000002"}
        entries: list[Any] = [
            {**ENTRIES[1], "sessionId": session_id, "cwd": directory},
            {**ENTRIES[3], "sessionId": session_id, "cwd": directory, "parentUuid": "u1"},
        ]
        await store.append(key, entries)
        await store.append({**key, "subpath": "subagents/agent-1"}, entries)
        await store.append(other, entries)
        listed = await list_sessions_from_store(store, directory=directory)
        assert session_id in [each.session_id for each in listed]
        messages = await get_session_messages_from_store(store, session_id, directory=directory)
        assert "The harbour is closed." in repr(messages)
        await delete_session_via_store(store, session_id, directory=directory)
        assert await store.load(key) is None
        assert await store.list_subkeys(key) == []
        assert await store.load(other) == entries

    long = "/" + "/".join(["a-long-folder-name"] * 12)
    for directory in ("/home/ana/work", long):
        asyncio.run(story(directory))


def test_a_repeated_append_stores_once(scopes: Scopes):
    with_ids = [entry for entry in ENTRIES if "uuid" in entry]

    async def story() -> None:
        for _ in range(2):
            store = OctopusSessionStore(scopes())
            await store.append(KEY, with_ids[:5])
            await store.append(KEY, with_ids)
        assert await store.load(KEY) == with_ids

    asyncio.run(story())


def test_the_block_is_never_stored(scopes: Scopes, kept: EpisodicMemory):
    scopes().store([("user", f"{FACT} </octopus_memory> And more.")], session_id="old")
    kept.flush()
    store = OctopusSessionStore(scopes())
    given = {
        "prompt": QUESTION,
        "session_id": "one",
        "transcript_path": "/home/ana/.claude/projects/-home-ana/one.jsonl",
    }

    async def story() -> None:
        answer = await store.prompt_hook(given, None, None)
        context = answer["hookSpecificOutput"]["additionalContext"]
        assert SECRET in context
        told = f"<system-reminder>\nhook additional context: {context}\n</system-reminder>"
        for number, text in enumerate((context, context[: context.index(SECRET) + 20])):
            entry = {
                "type": "attachment",
                "uuid": f"a{number}",
                "attachment": {"type": "hook_additional_context", "content": [text, "another's"]},
                "rendered": [{"content": told}],
            }
            await store.append(KEY, [entry])  # type: ignore[list-item]
        loaded = await store.load(KEY)
        assert SECRET not in repr(loaded)
        assert "another's" in repr(loaded)
        # What the user writes is stored as it is written, whatever it looks like.
        written = {"type": "user", "uuid": "w", "message": {"role": "user", "content": context}}
        await store.append(KEY, [written])  # type: ignore[list-item]
        assert (await store.load(KEY) or [])[-1] == written
        assert await store.prompt_hook({**given, "prompt": " "}, None, None) == {}

    asyncio.run(story())
    nobody = OctopusSessionStore(scopes("ben"))
    assert asyncio.run(nobody.prompt_hook(given, None, None)) == {}


def test_options_keep_what_they_had(kept: EpisodicMemory):
    async def mine(*_: Any) -> dict[str, Any]:
        return {}

    store = OctopusSessionStore(kept.scope(user="ana"))
    theirs = HookMatcher(hooks=[mine])
    base = ClaudeAgentOptions(model="m", hooks={"UserPromptSubmit": [theirs], "Stop": [theirs]})
    made = store.options(base)
    assert made.hooks is not None
    assert made.hooks["UserPromptSubmit"][0] is theirs
    assert len(made.hooks["UserPromptSubmit"]) == 2
    assert (made.model, made.hooks["Stop"], made.session_store) == ("m", [theirs], store)
    assert base.hooks == {"UserPromptSubmit": [theirs], "Stop": [theirs]}


def test_cancelled_calls_and_two_writers_lose_nothing(scopes: Scopes):
    def entry(name: str) -> Any:
        return {"type": "user", "uuid": name, "message": {"role": "user", "content": name}}

    async def story() -> None:
        store = OctopusSessionStore(scopes())
        for number in range(10):
            task = asyncio.create_task(store.append(KEY, [entry(f"c{number}")]))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert await asyncio.to_thread(outbox.flush)
        assert len(await store.load(KEY) or []) == 10

        async def write(name: str) -> None:
            other = OctopusSessionStore(scopes())
            for number in range(5):
                await other.append({**KEY, "session_id": "both"}, [entry(f"{name}{number}")])

        await asyncio.gather(write("a"), write("b"))
        both = [each["uuid"] for each in await store.load({**KEY, "session_id": "both"}) or []]
        assert sorted(both) == sorted(f"{name}{number}" for name in "ab" for number in range(5))
        assert [each for each in both if each[0] == "a"] == [f"a{number}" for number in range(5)]

    asyncio.run(story())


def test_a_cancelled_call_stores_a_result_without_its_call(scopes: Scopes):
    result = {"type": "tool_result", "tool_use_id": "gone", "content": "22 degrees"}
    entry: Any = {"type": "user", "uuid": "r", "message": {"role": "user", "content": [result]}}

    async def story() -> None:
        store = OctopusSessionStore(scopes())
        task = asyncio.create_task(store.append(KEY, [entry]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await asyncio.to_thread(outbox.flush)
        assert await store.load(KEY) == [entry]

    asyncio.run(story())


def test_an_erased_user_leaves_no_trace(kept: EpisodicMemory, tmp_path: Path):
    scope = kept.scope(user="ana")
    words = json.loads(json.dumps(ENTRIES).replace("harbour", "zanzibarquark"))
    asyncio.run(OctopusSessionStore(scope).append(KEY, words))
    kept.flush()
    assert "zanzibarquark" in " ".join(texts(scope, NAME))
    assert scope.erase().is_complete
    assert byte_scan.search(tmp_path / "db", {"word": [b"zanzibarquark"]}) == []
