"""The asynchronous client: its requests wait on the event loop, and on no thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import httpx
import pytest

from octopus_memory import (
    AsyncEpisodicMemory,
    AsyncRemoteMemory,
    EpisodeClosed,
    EpisodicMemory,
    MemoryClosed,
    RemoteMemory,
    SessionNotFound,
    StoreUnavailable,
    flow,
)
from octopus_memory.engine.memory import Memory
from tests.support import rest_server

TALK = [("user", "How many leave days do I have left?"), ("assistant", "Twelve.")]


def pool_threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("octopus-aio")]


@pytest.mark.both_databases
def test_every_kind_of_call_is_answered(memory: EpisodicMemory):
    async def story(url: str, key: str) -> None:
        flow.threads().shutdown()
        flow.threads.cache_clear()
        async with AsyncEpisodicMemory.connect(url, api_key=key) as remote:
            ana = remote.scope(agent="hr", user="ana", actor="somebody")
            stored = await ana.add("s", TALK, keys=["a", "b"])
            assert [turn.text for turn in stored] == [text for _, text in TALK]
            assert await ana.add("s", TALK, keys=["a", "b"]) == []
            assert (await ana.session("s")).turns == tuple(stored)
            opened = await ana.open_episode()
            assert (await ana.get(opened.id)).episode == opened
            closed = await ana.close_episode(opened, summary="Nothing.")
            with pytest.raises(EpisodeClosed):
                await ana.add(closed.id, ("user", "late"))
            with pytest.raises(SessionNotFound):
                await ana.session("nowhere")
            # The service has threads in this process; the client needed none.
            assert not pool_threads()
            assert await remote.flush(timeout=30)
            assert (await ana.recall("leave days"))[0].session_id == "s"
            fact = await ana.add_fact("Prefers tea.", actor="somebody")
            await ana.delete_fact(fact, actor="somebody")
            assert (await remote.config("hr")).session.idle_timeout_minutes > 0
            assert (await ana.erase(actor="somebody")).removed["turns"] == 2
        with pytest.raises(MemoryClosed):
            await ana.session("s")

    with rest_server.serving(memory) as url:
        asyncio.run(story(url, rest_server.token(memory, "admin")))


def test_the_connections_of_a_loop_end_with_it(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        remote = AsyncEpisodicMemory.connect(url, api_key=rest_server.token(memory, "admin"))
        ana = remote.scope(agent="hr", user="ana")

        async def all_at_once() -> None:
            await asyncio.gather(*(ana.add("s", TALK, keys=[f"{n} a", f"{n} b"]) for n in range(8)))

        asyncio.run(all_at_once())
        assert not remote.sync._transport._loops
        remote.sync.close()


def test_one_client_serves_one_loop_after_the_other(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        remote = AsyncEpisodicMemory.connect(url, api_key=rest_server.token(memory, "admin"))
        ana = remote.scope(agent="hr", user="ana")

        async def add(number: int) -> None:
            await ana.add("s", ("user", f"number {number}"))
            if number == 1:
                await remote.close()

        for number in range(2):
            asyncio.run(add(number))
    turns = memory.scope(agent="hr", user="ana").session("s").turns
    assert [turn.text for turn in turns] == ["number 0", "number 1"]


def test_what_fails_on_the_way_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    tried: list[str] = []

    async def request(self: Any, method: str, url: str, **_: Any) -> httpx.Response:
        tried.append(url)
        if len(tried) < 3:
            return httpx.Response(503, headers={"retry-after": "0"})
        if len(tried) < 4:
            raise httpx.ReadError("gone")
        return httpx.Response(200, json={"results": []})

    monkeypatch.setattr(httpx.AsyncClient, "request", request)

    async def story(retries: int) -> Any:
        async with AsyncEpisodicMemory.connect("http://127.0.0.1:9", retries=retries) as remote:
            return await remote.scope(user="ana").recall("anything")

    assert asyncio.run(story(3)) == []
    assert len(tried) == 4
    tried.clear()
    with pytest.raises(StoreUnavailable):
        asyncio.run(story(1))


def test_a_call_of_the_embedded_memory_leaves_the_loops_threads_alone(memory: EpisodicMemory):
    async def story() -> set[str]:
        loop = asyncio.get_running_loop()
        names = set()
        scope = AsyncEpisodicMemory(memory).scope(user="ana")

        def note(*_: object, **__: object) -> None:
            names.add(threading.current_thread().name)

        scope.sync.heartbeat = note
        await asyncio.gather(*(scope.heartbeat("s") for _ in range(100)))
        assert loop._default_executor is None
        return names

    names = asyncio.run(story())
    assert names
    assert all(name.startswith("octopus-aio") for name in names)


def test_the_memories_share_their_calls_and_arguments():
    def parameters(method: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(method).parameters.values()
        return [(each.name, each.kind, each.default) for each in found]

    for name in ("scope", "flush", "close"):
        assert parameters(getattr(Memory, name)) == parameters(getattr(RemoteMemory, name)), name
        assert parameters(getattr(RemoteMemory, name)) == parameters(
            getattr(AsyncRemoteMemory, name)
        )
