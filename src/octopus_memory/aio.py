"""The asyncio API: the same calls, with no logic of its own.

Each call of an embedded memory runs on a thread, one hop a call. A call to a service is a request
that the event loop waits for.

A memory is bound to no event loop, so one object serves any number of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload
from uuid import UUID

from .domain.episode import EndReason, Episode, Scope, Turn
from .domain.facts import Fact
from .domain.forget import ForgetPreview, ForgetReceipt
from .domain.message import Json
from .domain.policy import MemoryConfig
from .engine.memory import Memory
from .engine.scope import MemoryScope
from .engine.tenant import MemoryTenant
from .episode_block import EpisodeInHand
from .ports.models import Clock, Embedder, Redactor, Summarizer, TokenCounter
from .remote import RemoteMemory, RemoteScope
from .remote.async_transport import AsyncTransport
from .remote.transport import Transport
from .wiring import EpisodicMemory

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


_THREADS = 32
"""Calls of embedded memories that run at once; the loop's own threads stay the application's."""


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="octopus-aio")


# A forked child has the pool without its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)


async def _on_thread(do: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> T:
    """Run a call on a thread of Octopus's own, in the context of the caller."""
    call = functools.partial(contextvars.copy_context().run, do, *args, **named)
    return await asyncio.get_running_loop().run_in_executor(_threads(), call)


def _awaited(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """Wrap a method of the synchronous class in a coroutine that runs it on a thread."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
        # By name, because the synchronous object may be a remote one.
        name = method.__name__
        if self._transport is None:
            return await _on_thread(getattr(self.sync, name), *args, **named)
        found: T = await self._transport.run(
            lambda transport: getattr(self._over(transport), name)(*args, **named)
        )
        return found

    return call


class AsyncEpisodicMemory:
    """`EpisodicMemory` for asyncio."""

    _transport = None

    def __init__(self, sync: Memory) -> None:
        self.sync = sync

    @classmethod
    def connect(
        cls, url: str, *, api_key: str | None = None, timeout: float = 30.0, retries: int = 3
    ) -> AsyncRemoteMemory:
        """See `EpisodicMemory.connect`."""
        return AsyncRemoteMemory(
            EpisodicMemory.connect(url, api_key=api_key, timeout=timeout, retries=retries)
        )

    @classmethod
    async def open(
        cls,
        url: str | Path | None = None,
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | str | None = None,
        redactor: Redactor | None = None,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
        config: MemoryConfig | None = None,
        background: bool | None = None,
    ) -> Self:
        """See `EpisodicMemory.open`."""
        sync = await _on_thread(
            EpisodicMemory.open,
            url,
            embedder=embedder,
            summarizer=summarizer,
            redactor=redactor,
            counter=counter,
            clock=clock,
            config=config,
            background=background,
        )
        return cls(sync)

    def scope(
        self,
        *,
        tenant: str = "default",
        agent: str = "default",
        user: str,
        actor: str = "library",
    ) -> AsyncMemoryScope:
        return AsyncMemoryScope(self.sync.scope(tenant=tenant, agent=agent, user=user, actor=actor))

    def tenant(self, name: str = "default") -> AsyncMemoryTenant:
        return AsyncMemoryTenant(self.sync.tenant(name))

    configure = _awaited(Memory.configure)
    compact = _awaited(Memory.compact)
    config = _awaited(Memory.config)
    config_sources = _awaited(Memory.config_sources)
    reset_config = _awaited(Memory.reset_config)
    run_pending = _awaited(Memory.run_pending)
    run_retention = _awaited(Memory.run_retention)
    next_retention = _awaited(Memory.next_retention)
    flush = _awaited(Memory.flush)
    stats = _awaited(Memory.stats)
    count_lost = _awaited(Memory.count_lost)
    backlog = _awaited(Memory.backlog)
    database_state = _awaited(Memory.database_state)
    scopes = _awaited(Memory.scopes)
    default_config = _awaited(Memory.default_config)
    configured_agents = _awaited(Memory.configured_agents)
    audit = _awaited(Memory.audit)
    verify_audit = _awaited(Memory.verify_audit)
    ping = _awaited(Memory.ping)
    tenants = _awaited(Memory.tenants)
    close = _awaited(Memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncRemoteMemory:
    """`RemoteMemory` for asyncio."""

    def __init__(self, sync: RemoteMemory) -> None:
        self.sync = sync
        self._transport = AsyncTransport(sync)

    def _over(self, transport: Transport) -> RemoteMemory:
        return self.sync._over(transport)  # noqa: SLF001 - its twin

    def scope(
        self,
        *,
        tenant: str = "default",
        agent: str = "default",
        user: str,
        actor: str = "library",
    ) -> AsyncMemoryScope:
        twin = self.sync.scope(tenant=tenant, agent=agent, user=user, actor=actor)
        return AsyncMemoryScope(twin, self._transport)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as its twin
        """See `RemoteMemory.flush`."""
        return await _on_thread(self.sync.flush, timeout)

    async def close(self) -> None:
        """Close the connections of this event loop, and those of the twin."""
        await self._transport.close()
        self.sync.close()

    config = _awaited(RemoteMemory.config)
    configure = _awaited(RemoteMemory.configure)
    config_sources = _awaited(RemoteMemory.config_sources)
    reset_config = _awaited(RemoteMemory.reset_config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


_forget: Callable[..., Awaitable[Any]] = _awaited(MemoryScope.forget)


class AsyncMemoryScope:
    """`MemoryScope` for asyncio."""

    def __init__(
        self, sync: MemoryScope | RemoteScope, transport: AsyncTransport | None = None
    ) -> None:
        self.sync = sync
        self._transport = transport

    def _over(self, transport: Transport) -> RemoteScope:
        assert isinstance(self.sync, RemoteScope)
        return self.sync._over(transport)  # noqa: SLF001 - its twin

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
        """Make an `async with` block, which opens an episode and closes it."""
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
    sessions = _awaited(MemoryScope.sessions)
    reset_session = _awaited(MemoryScope.reset_session)
    episodes = _awaited(MemoryScope.episodes)
    get = _awaited(MemoryScope.get)
    turn = _awaited(MemoryScope.turn)
    delete = _awaited(MemoryScope.delete)
    deleted = _awaited(MemoryScope.deleted)
    restore = _awaited(MemoryScope.restore)
    facts = _awaited(MemoryScope.facts)
    add_fact = _awaited(MemoryScope.add_fact)
    correct_fact = _awaited(MemoryScope.correct_fact)
    pin_fact = _awaited(MemoryScope.pin_fact)
    delete_fact = _awaited(MemoryScope.delete_fact)
    context = _awaited(MemoryScope.context)
    remove_turns = _awaited(MemoryScope.remove_turns)
    injections = _awaited(MemoryScope.injections)
    uses = _awaited(MemoryScope.uses)

    @overload
    async def forget(
        self,
        about: str | None = None,
        *,
        turns: Collection[Turn | UUID | str] = (),
        facts: Collection[Fact | UUID | str] = (),
        actor: str | None = None,
    ) -> ForgetPreview: ...

    @overload
    async def forget(self, *, confirm: str, actor: str | None = None) -> ForgetReceipt: ...

    async def forget(
        self,
        about: str | None = None,
        *,
        turns: Collection[Turn | UUID | str] = (),
        facts: Collection[Fact | UUID | str] = (),
        confirm: str | None = None,
        actor: str | None = None,
    ) -> ForgetPreview | ForgetReceipt:
        """See `MemoryScope.forget`."""
        given = {"turns": turns, "facts": facts, "confirm": confirm, "actor": actor}
        done: ForgetPreview | ForgetReceipt = await _forget(self, about, **given)
        return done

    erase = _awaited(MemoryScope.erase)
    erase_episode = _awaited(MemoryScope.erase_episode)
    erase_session = _awaited(MemoryScope.erase_session)


class AsyncMemoryTenant:
    """`MemoryTenant` for asyncio."""

    _transport = None

    def __init__(self, sync: MemoryTenant) -> None:
        self.sync = sync

    @property
    def tenant(self) -> str:
        return self.sync.tenant

    async def locate(
        self, episode_id: UUID, *, include_deleted: bool = False, actor: str = "library"
    ) -> AsyncMemoryScope | None:
        """See `MemoryTenant.locate`."""
        found = await _on_thread(
            self.sync.locate, episode_id, include_deleted=include_deleted, actor=actor
        )
        return None if found is None else AsyncMemoryScope(found)

    async def export_user(
        self, user: str, *, agent: str | None = None, actor: str = "library"
    ) -> AsyncIterator[str]:
        """Export lines for `async for`: see `MemoryTenant.export_user`."""
        lines = self.sync.export_user(user, agent=agent, actor=actor)
        # In batches, because a thread switch costs more than a line.
        while some := await _on_thread(lambda: list(islice(lines, 100))):
            for line in some:
                yield line

    import_user = _awaited(MemoryTenant.import_user)
    episodes = _awaited(MemoryTenant.episodes)
    agents = _awaited(MemoryTenant.agents)
    people = _awaited(MemoryTenant.people)
    search_people = _awaited(MemoryTenant.search_people)
    search = _awaited(MemoryTenant.search)
    preview_retention = _awaited(MemoryTenant.preview_retention)
    hold = _awaited(MemoryTenant.hold)
    holds = _awaited(MemoryTenant.holds)
    lift = _awaited(MemoryTenant.lift)
    erase_user = _awaited(MemoryTenant.erase_user)
    begin_erasing = _awaited(MemoryTenant.begin_erasing)
    finish_erasing = _awaited(MemoryTenant.finish_erasing)
    erasing = _awaited(MemoryTenant.erasing)
    share_facts = _awaited(MemoryTenant.share_facts)
    stop_sharing_facts = _awaited(MemoryTenant.stop_sharing_facts)
    shared_facts = _awaited(MemoryTenant.shared_facts)
    scrub = _awaited(MemoryTenant.scrub)
    erasable = _awaited(MemoryTenant.erasable)
    trace = _awaited(MemoryTenant.trace)
    receipt = _awaited(MemoryTenant.receipt)
    receipts = _awaited(MemoryTenant.receipts)
    audit = _awaited(MemoryTenant.audit)
    verify_audit = _awaited(MemoryTenant.verify_audit)
    audit_head = _awaited(MemoryTenant.audit_head)
    subject = _awaited(MemoryTenant.subject)


class AsyncEpisodeInHand:
    """`EpisodeInHand` for asyncio: opened by its `async with` block."""

    _transport = None

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
        """Read the stored episode."""
        return await _on_thread(lambda: self.sync.episode)

    add = _awaited(EpisodeInHand.add)
    add_tool_call = _awaited(EpisodeInHand.add_tool_call)
    context = _awaited(EpisodeInHand.context)
    close = _awaited(EpisodeInHand.close)

    async def __aenter__(self) -> Self:
        self._sync = await _on_thread(self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(EndReason.USER_CLOSED if kind is None else EndReason.ERROR_CLOSED)
