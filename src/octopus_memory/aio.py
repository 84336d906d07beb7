"""The asyncio API: the same calls, with no logic of its own.

Each call of an embedded memory runs on a thread, one hop a call. A call to a service is a request
that the event loop waits for (`remote/memory.py`).

A memory is bound to no event loop, so one object serves any number of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path
from typing import Self
from uuid import UUID

from .async_scope import AsyncEpisodeInHand, AsyncMemoryScope
from .domain.policy import MemoryConfig
from .engine.memory import Memory
from .engine.tenant import MemoryTenant
from .flow import awaited, on_thread
from .ports.models import Clock, Embedder, Redactor, Summarizer, TokenCounter
from .remote.memory import AsyncRemoteMemory
from .wiring import EpisodicMemory

__all__ = [
    "AsyncEpisodeInHand",
    "AsyncEpisodicMemory",
    "AsyncMemoryScope",
    "AsyncMemoryTenant",
    "AsyncRemoteMemory",
]


class AsyncEpisodicMemory:
    """`EpisodicMemory` for asyncio."""

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
        sync = await on_thread(
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

    configure = awaited(Memory.configure)
    compact = awaited(Memory.compact)
    config = awaited(Memory.config)
    config_sources = awaited(Memory.config_sources)
    reset_config = awaited(Memory.reset_config)
    run_pending = awaited(Memory.run_pending)
    run_retention = awaited(Memory.run_retention)
    next_retention = awaited(Memory.next_retention)
    flush = awaited(Memory.flush)
    stats = awaited(Memory.stats)
    count_lost = awaited(Memory.count_lost)
    backlog = awaited(Memory.backlog)
    database_state = awaited(Memory.database_state)
    nodes = awaited(Memory.nodes)
    scopes = awaited(Memory.scopes)
    default_config = awaited(Memory.default_config)
    configured_agents = awaited(Memory.configured_agents)
    audit = awaited(Memory.audit)
    verify_audit = awaited(Memory.verify_audit)
    ping = awaited(Memory.ping)
    ping_keys = awaited(Memory.ping_keys)
    encrypt = awaited(Memory.encrypt)
    destroy_returned_keys = awaited(Memory.destroy_returned_keys)
    tenants = awaited(Memory.tenants)
    close = awaited(Memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncMemoryTenant:
    """`MemoryTenant` for asyncio."""

    def __init__(self, sync: MemoryTenant) -> None:
        self.sync = sync

    @property
    def tenant(self) -> str:
        return self.sync.tenant

    async def locate(
        self, episode_id: UUID, *, include_deleted: bool = False, actor: str = "library"
    ) -> AsyncMemoryScope | None:
        """See `MemoryTenant.locate`."""
        found = await on_thread(
            self.sync.locate, episode_id, include_deleted=include_deleted, actor=actor
        )
        return None if found is None else AsyncMemoryScope(found)

    async def export_user(
        self, user: str, *, agent: str | None = None, actor: str = "library"
    ) -> AsyncIterator[str]:
        """Export lines for `async for`: see `MemoryTenant.export_user`."""
        lines = self.sync.export_user(user, agent=agent, actor=actor)
        # In batches, because a thread switch costs more than a line.
        while some := await on_thread(lambda: list(islice(lines, 100))):
            for line in some:
                yield line

    import_user = awaited(MemoryTenant.import_user)
    episodes = awaited(MemoryTenant.episodes)
    agents = awaited(MemoryTenant.agents)
    people = awaited(MemoryTenant.people)
    search_people = awaited(MemoryTenant.search_people)
    search = awaited(MemoryTenant.search)
    preview_retention = awaited(MemoryTenant.preview_retention)
    hold = awaited(MemoryTenant.hold)
    holds = awaited(MemoryTenant.holds)
    lift = awaited(MemoryTenant.lift)
    erase_user = awaited(MemoryTenant.erase_user)
    begin_erasing = awaited(MemoryTenant.begin_erasing)
    finish_erasing = awaited(MemoryTenant.finish_erasing)
    erasing = awaited(MemoryTenant.erasing)
    share_facts = awaited(MemoryTenant.share_facts)
    stop_sharing_facts = awaited(MemoryTenant.stop_sharing_facts)
    shared_facts = awaited(MemoryTenant.shared_facts)
    scrub = awaited(MemoryTenant.scrub)
    erasable = awaited(MemoryTenant.erasable)
    trace = awaited(MemoryTenant.trace)
    receipt = awaited(MemoryTenant.receipt)
    receipts = awaited(MemoryTenant.receipts)
    audit = awaited(MemoryTenant.audit)
    verify_audit = awaited(MemoryTenant.verify_audit)
    audit_head = awaited(MemoryTenant.audit_head)
    subject = awaited(MemoryTenant.subject)
