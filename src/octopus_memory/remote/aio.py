"""The asyncio client of the service. It waits on the event loop and needs no thread."""

from __future__ import annotations

from typing import Self

from ..async_scope import AsyncMemoryScope
from ..flow import awaited
from .memory import RemoteMemory


class AsyncRemoteMemory:
    """`RemoteMemory` for asyncio. One object serves any number of event loops."""

    def __init__(self, sync: RemoteMemory) -> None:
        self.sync = sync

    @classmethod
    def connect(
        cls, url: str, *, api_key: str | None = None, timeout: float = 30.0, retries: int = 3
    ) -> Self:
        """Connect to a service, without the engine: this needs the extra `client` alone."""
        return cls(RemoteMemory(url, api_key, timeout=timeout, retries=retries))

    def scope(
        self,
        *,
        tenant: str = "default",
        agent: str = "default",
        user: str,
        actor: str = "library",
    ) -> AsyncMemoryScope:
        """See `RemoteMemory.scope`."""
        return AsyncMemoryScope(self.sync.scope(tenant=tenant, agent=agent, user=user, actor=actor))

    config = awaited(RemoteMemory.config)
    configure = awaited(RemoteMemory.configure)
    config_sources = awaited(RemoteMemory.config_sources)
    reset_config = awaited(RemoteMemory.reset_config)
    flush = awaited(RemoteMemory.flush)
    close = awaited(RemoteMemory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
