"""The awaited twins: the same calls, with the same parameters, on any event loop."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    AsyncEpisodicMemory,
    AsyncMemoryScope,
    AsyncMemoryTenant,
    EndReason,
    EpisodeClosed,
    EpisodeInHand,
    EpisodicMemory,
    InvalidSetting,
    MemoryConfig,
    MemoryScope,
    MemoryTenant,
    SessionConfig,
)
from octopus_memory.aio import AsyncEpisodeInHand, AsyncRemoteMemory
from octopus_memory.remote import RemoteMemory

TWINS = [
    (EpisodicMemory, AsyncEpisodicMemory),
    (MemoryScope, AsyncMemoryScope),
    (MemoryTenant, AsyncMemoryTenant),
    (RemoteMemory, AsyncRemoteMemory),
    (EpisodeInHand, AsyncEpisodeInHand),
]
INSIDE = {
    *("runtime", "attend", "wake", "wake_for_others"),
    *("api_keys", "mirror", "counts", "now", "check_for_removals"),
    *("inspection", "embedding_model", "worker_state"),
}
"""What the engine's own classes and the faces use, and the operator's services."""
AT_ONCE = {"scope", "tenant", "episode", "connect", "export_user"}
"""These only make an object, and wait for nothing."""
OWN = {"scope", "tenant", "connect"}
"""What a scope and a tenant say they are, and how a memory behind a service is made."""
AWAITED_PROPERTIES = {(EpisodeInHand, "episode")}
"""A property that reads the store: its twin is a call, which can be awaited."""


def public(kind: type) -> dict[str, Any]:
    return {
        name: inspect.getattr_static(kind, name)
        for name in dir(kind)
        if not name.startswith("_") and name not in INSIDE
    }


def parameters(method: Any) -> list[tuple[str, Any, Any]]:
    function = method.__func__ if isinstance(method, classmethod) else method
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in found]


@pytest.mark.parametrize(("sync", "twin"), TWINS)
def test_the_twins_have_the_same_public_names(sync: type, twin: type):
    # These are set where the object is made, so not every class has them.
    assert set(public(twin)) - {"sync", *OWN} == set(public(sync)) - OWN
    assert hasattr(twin, "__aenter__") == hasattr(sync, "__enter__")
    assert hasattr(twin, "__aexit__") == hasattr(sync, "__exit__")


@pytest.mark.parametrize(("sync", "twin"), TWINS)
def test_the_twins_take_the_same_parameters(sync: type, twin: type):
    twins = public(twin)
    for name, method in public(sync).items():
        if isinstance(method, property):
            awaited = (sync, name) in AWAITED_PROPERTIES
            assert inspect.iscoroutinefunction(twins[name]) == awaited
            assert isinstance(twins[name], property) != awaited
            continue
        assert parameters(twins[name]) == parameters(method), name
        call = getattr(twin, name)
        assert inspect.iscoroutinefunction(call) == (name not in AT_ONCE), name
        assert call.__doc__ is not None or name in {*AT_ONCE, "close"}


def open_memory(path: Path) -> Any:
    return AsyncEpisodicMemory.open(f"sqlite:///{path}", embedder="hashing")


def test_a_conversation_that_is_remembered(tmp_path: Path):
    async def first() -> None:
        async with await open_memory(tmp_path / "memory.db") as memory:
            scope = memory.scope(tenant="acme", agent="hr", user="user-17")
            async with scope.episode(session_id="s-1", metadata={"channel": "web"}) as ep:
                await ep.add("user", "How many leave days do I have left? Please be formal.")
                await ep.add_tool_call("days", {}, 12, tool_call_id="c")
                await ep.add("assistant", "You have 12 days remaining.")
                assert (await ep.episode()).is_open
                assert ep.session_id == "s-1"
                assert "Be formal." in (await ep.context("and then?")).text
            assert (await scope.get(ep.id)).episode.end_reason is EndReason.USER_CLOSED
            [snippet] = await scope.recall("annual leave days", limit=3)
            assert snippet.episode_id == ep.id
            assert "12 days" in " ".join(snippet.key_facts)
            context = await scope.context(
                "Can I take five days in June?", system="You are Aria.", budget_tokens=800
            )
            assert "12 days" in context.text
            assert [m["role"] for m in context.messages] == ["system", "system", "user"]
            assert await memory.flush()

    asyncio.run(first())


def test_every_call_returns_its_answer(tmp_path: Path):  # noqa: PLR0915 - each call once
    async def everything() -> set[str]:  # noqa: PLR0915 - each call once
        used = set()

        async def said(owner: Any, name: str, *args: Any, **named: Any) -> Any:
            used.add(f"{type(owner).__name__}.{name}")
            return await getattr(owner, name)(*args, **named)

        memory = await open_memory(tmp_path / "memory.db")
        scope = memory.scope(user="u")
        opened = await said(scope, "open_episode", "s")
        [turn] = await said(scope, "add", opened, ("user", "about my leave days"))
        assert turn.episode_id == opened.id
        assert (await said(scope, "heartbeat", "s")).status == "active"
        assert (await said(scope, "close_episode", opened)).summary
        assert (await said(scope, "close_session", "s")).status == "ended"
        stored = await said(scope, "store", [("user", "about my leave days")])
        assert {s.episode_id for s in await said(scope, "recent")} == {opened.id, stored.id}
        assert len(await said(scope, "recall", "leave days")) == 2
        assert len(await said(scope, "recall_turns", "leave days")) == 2
        assert (await said(scope, "session", "s")).turns[0].id == turn.id
        assert (await said(scope, "episodes")).total_count == 2
        assert (await said(scope, "turn", turn.id)).text == turn.text
        assert (await said(scope, "get", stored.id)).episode == stored
        assert (await said(scope, "context", "leave days", session_id="now")).messages
        assert len(await said(scope, "injections", "now")) == 1
        assert (await said(scope, "uses", opened.id)).times == 1
        tea = await said(scope, "add_fact", "Prefers tea.")
        milk = await said(scope, "correct_fact", tea, "Prefers milk.")
        assert (await said(scope, "pin_fact", milk)).is_pinned
        assert [fact.text for fact in await said(scope, "facts")] == ["Prefers milk."]
        await said(scope, "delete_fact", milk)
        config = MemoryConfig(session=SessionConfig(idle_timeout_minutes=5))
        await said(memory, "configure", "default", config)
        assert await said(memory, "config", "default") == config
        sources = await said(memory, "config_sources", "default")
        assert sources["session"]["idle_timeout_minutes"] == "agent"
        await said(memory, "reset_config", "default")
        assert await said(memory, "run_pending")
        assert await said(memory, "flush", timeout=30)
        await said(memory, "count_lost", 1)
        assert (await said(memory, "stats")).turns == 2
        assert (await said(memory, "backlog"))["embed"].waiting == 0
        assert (await said(memory, "database_state")).model == "hashing-256"
        assert await said(memory, "nodes") == {}
        assert await said(memory, "scopes") == [scope.sync.scope]
        assert await said(memory, "configured_agents") == []
        assert await said(memory, "default_config") == MemoryConfig()
        assert len(await said(memory, "audit")) == (await said(memory, "verify_audit")).entries == 2
        await said(memory, "ping")
        assert await said(memory, "ping_keys") is False
        assert await said(memory, "destroy_returned_keys") == 0
        with pytest.raises(InvalidSetting, match="keys: must be local or vault"):
            await said(memory, "encrypt")
        assert [each.tenant for each in await said(memory, "tenants")] == ["default"]
        await said(scope, "delete", stored.id)
        assert [episode.id for episode in await said(scope, "deleted")] == [stored.id]
        assert (await said(scope, "restore", stored.id)).id == stored.id
        assert (await said(memory, "run_retention")).complete
        await said(memory, "next_retention")
        assert [turn.id] == [each.id for each in await said(scope, "remove_turns", "s", last=1)]
        await said(scope, "add", "s", ("user", "My cat Mirabelle eats salmon."))
        preview = await said(scope, "forget", "Mirabelle")
        assert (await said(scope, "forget", confirm=preview.token)).removed["turns"] == 1
        assert (await said(scope, "sessions")).total_count == 2
        await said(scope, "reset_session", stored.session_id)
        assert (await said(scope, "erase_episode", stored.id)).is_complete
        assert (await said(scope, "erase_session", "s")).is_complete
        await said(scope, "add", "s", ("user", "about something else"))
        assert (await said(scope, "erase")).removed["turns"] == 1
        assert await said(memory, "compact")
        await said(memory, "close")
        return used

    used = asyncio.run(everything())
    for twin in (AsyncEpisodicMemory, AsyncMemoryScope):
        calls = {name for name, call in public(twin).items() if inspect.iscoroutinefunction(call)}
        assert {f"{twin.__name__}.{name}" for name in calls} == used & {
            f"{twin.__name__}.{name}" for name in public(twin)
        }


def test_a_block_that_raises_is_error_closed(tmp_path: Path):
    async def go_wrong(ep: AsyncEpisodeInHand) -> None:
        async with ep:
            await ep.add("user", "this will go wrong")
            raise ZeroDivisionError

    async def broken() -> None:
        async with await open_memory(tmp_path / "memory.db") as memory:
            scope = memory.scope(user="u")
            ep = scope.episode(session_id="s")
            with pytest.raises(ZeroDivisionError):
                await go_wrong(ep)
            assert (await scope.get(ep.id)).episode.end_reason is EndReason.ERROR_CLOSED
            with pytest.raises(EpisodeClosed):
                await scope.add(ep.id, ("user", "too late"))

    asyncio.run(broken())


def test_an_episode_is_opened_by_its_block(tmp_path: Path):
    async def unopened() -> None:
        async with await open_memory(tmp_path / "memory.db") as memory:
            scope = memory.scope(user="u")
            ep = scope.episode(session_id="s")
            with pytest.raises(RuntimeError, match="async with"):
                await ep.add("user", "too early")
            assert (await scope.episodes()).total_count == 0

    asyncio.run(unopened())


def test_one_memory_on_two_event_loops(tmp_path: Path):
    memory = asyncio.run(open_memory(tmp_path / "memory.db"))
    scope = memory.scope(user="u")
    for number in range(2):
        [turn] = asyncio.run(scope.add("s", ("user", f"from the loop of number {number}")))
        assert turn.ordinal == number
    assert asyncio.run(scope.recall_turns("the loop of number 0"))
    asyncio.run(memory.close())


def test_fifty_concurrent_adds_are_all_stored(tmp_path: Path):
    async def all_at_once() -> None:
        async with await open_memory(tmp_path / "memory.db") as memory:
            scope = memory.scope(user="u")
            words = [f"what number {number} says" for number in range(50)]
            stored = await asyncio.gather(*(scope.add("s", ("user", said)) for said in words))
            [episode] = (await scope.session("s")).episodes
            assert [turn.ordinal for turn in episode.turns] == list(range(50))
            assert sorted(turn.text for turn in episode.turns) == sorted(words)
            assert {turn.id for turn in episode.turns} == {turn.id for [turn] in stored}
            assert await memory.flush(timeout=60)

    asyncio.run(all_at_once())


def test_a_waiting_call_does_not_block_the_event_loop(tmp_path: Path):
    async def ticking() -> int:
        async with await open_memory(tmp_path / "memory.db") as memory:
            scope = memory.scope(user="u")
            ticks = 0
            adding = asyncio.ensure_future(
                scope.store([("user", f"what number {n} says") for n in range(500)])
            )
            while not adding.done():
                await asyncio.sleep(0.001)
                ticks += 1
            await adding
            return ticks

    assert asyncio.run(ticking()) > 1
