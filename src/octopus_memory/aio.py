"""The same calls, awaited: each runs on a worker thread, one hop a call, with no logic of its own.

A memory is bound to no event loop, so one object serves any number of them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from uuid import UUID

from .domain.episode import EndReason, Episode, Scope
from .domain.message import Json
from .domain.policy import MemoryConfig
from .engine.hand import EpisodeInHand
from .engine.memory import Memory
from .engine.scope import MemoryScope
from .ports.seams import Clock, Embedder, Summarizer, TokenCounter
from .wiring import EpisodicMemory

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def _awaited(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """The method of the synchronous twin, run on a thread."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.sync, *args, **named)

    return call


class AsyncEpisodicMemory:
    """`EpisodicMemory` for asyncio."""

    def __init__(self, sync: Memory) -> None:
        self.sync = sync

    @classmethod
    async def open(
        cls,
        url: str | Path | None = None,
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | str | None = None,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
        config: MemoryConfig | None = None,
        background: bool | None = None,
    ) -> Self:
        """See `EpisodicMemory.open`."""
        sync = await asyncio.to_thread(
            EpisodicMemory.open,
            url,
            embedder=embedder,
            summarizer=summarizer,
            counter=counter,
            clock=clock,
            config=config,
            background=background,
        )
        return cls(sync)

    def scope(
        self, *, tenant: str = "default", agent: str = "default", user: str
    ) -> AsyncMemoryScope:
        return AsyncMemoryScope(self.sync.scope(tenant=tenant, agent=agent, user=user))

    configure = _awaited(Memory.configure)
    config = _awaited(Memory.config)
    run_pending = _awaited(Memory.run_pending)
    flush = _awaited(Memory.flush)
    stats = _awaited(Memory.stats)
    close = _awaited(Memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncMemoryScope:
    """`MemoryScope` for asyncio."""

    def __init__(self, sync: MemoryScope) -> None:
        self.sync = sync

    @property
    def scope(self) -> Scope:
        return self.sync.scope

    def episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> AsyncEpisodeInHand:
        """An episode as an `async with` block, which opens it."""
        return AsyncEpisodeInHand(
            functools.partial(self.sync.episode, session_id, at=at, metadata=metadata)
        )

    open_episode = _awaited(MemoryScope.open_episode)
    add = _awaited(MemoryScope.add)
    close_episode = _awaited(MemoryScope.close_episode)
    close_session = _awaited(MemoryScope.close_session)
    store = _awaited(MemoryScope.store)
    heartbeat = _awaited(MemoryScope.heartbeat)
    recall = _awaited(MemoryScope.recall)
    recall_turns = _awaited(MemoryScope.recall_turns)
    recent = _awaited(MemoryScope.recent)
    session = _awaited(MemoryScope.session)
    episodes = _awaited(MemoryScope.episodes)
    get = _awaited(MemoryScope.get)
    context = _awaited(MemoryScope.context)


class AsyncEpisodeInHand:
    """`EpisodeInHand` for asyncio: opened by its `async with` block."""

    def __init__(self, begin: Callable[[], EpisodeInHand]) -> None:
        self._begin = begin
        self._sync: EpisodeInHand | None = None

    @property
    def sync(self) -> EpisodeInHand:
        if self._sync is None:
            raise RuntimeError("the episode is not open yet: use it inside `async with`")
        return self._sync

    @property
    def id(self) -> UUID:
        return self.sync.id

    @property
    def session_id(self) -> str:
        return self.sync.session_id

    async def episode(self) -> Episode:
        """The episode as it is stored now."""
        return await asyncio.to_thread(lambda: self.sync.episode)

    add = _awaited(EpisodeInHand.add)
    add_tool_call = _awaited(EpisodeInHand.add_tool_call)
    context = _awaited(EpisodeInHand.context)
    close = _awaited(EpisodeInHand.close)

    async def __aenter__(self) -> Self:
        self._sync = await asyncio.to_thread(self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(EndReason.USER_CLOSED if kind is None else EndReason.ERROR_CLOSED)
