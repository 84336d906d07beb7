"""The asyncio twins of a scope and of its `with` block, embedded or behind a service.

They import no engine, so that a client of a service does not either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload
from uuid import UUID

from .calls import ScopeCalls
from .domain.episode import EndReason, Episode, Scope, Turn
from .domain.message import Json
from .episode_block import EpisodeInHand
from .flow import arun, ask, awaited

if TYPE_CHECKING:
    from .domain.facts import Fact
    from .domain.forget import ForgetPreview, ForgetReceipt


class AsyncMemoryScope:
    """`MemoryScope` or `RemoteScope` for asyncio."""

    def __init__(self, sync: ScopeCalls) -> None:
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
        """Make an `async with` block, which opens an episode and closes it."""
        return AsyncEpisodeInHand(self.sync, session_id, at=at, metadata=metadata)

    open_episode = awaited(ScopeCalls.open_episode)
    add = awaited(ScopeCalls.add)
    close_episode = awaited(ScopeCalls.close_episode)
    close_session = awaited(ScopeCalls.close_session)
    store = awaited(ScopeCalls.store)
    heartbeat = awaited(ScopeCalls.heartbeat)
    recall = awaited(ScopeCalls.recall)
    recall_turns = awaited(ScopeCalls.recall_turns)
    recent = awaited(ScopeCalls.recent)
    session = awaited(ScopeCalls.session)
    sessions = awaited(ScopeCalls.sessions)
    reset_session = awaited(ScopeCalls.reset_session)
    episodes = awaited(ScopeCalls.episodes)
    get = awaited(ScopeCalls.get)
    turn = awaited(ScopeCalls.turn)
    delete = awaited(ScopeCalls.delete)
    deleted = awaited(ScopeCalls.deleted)
    restore = awaited(ScopeCalls.restore)
    facts = awaited(ScopeCalls.facts)
    add_fact = awaited(ScopeCalls.add_fact)
    correct_fact = awaited(ScopeCalls.correct_fact)
    pin_fact = awaited(ScopeCalls.pin_fact)
    delete_fact = awaited(ScopeCalls.delete_fact)
    context = awaited(ScopeCalls.context)
    remove_turns = awaited(ScopeCalls.remove_turns)
    injections = awaited(ScopeCalls.injections)
    uses = awaited(ScopeCalls.uses)
    erase = awaited(ScopeCalls.erase)
    erase_episode = awaited(ScopeCalls.erase_episode)
    erase_session = awaited(ScopeCalls.erase_session)

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
        given: dict[str, Any] = {"turns": turns, "facts": facts, "confirm": confirm, "actor": actor}
        done: ForgetPreview | ForgetReceipt = await arun(ask(self.sync, "forget", about, **given))
        return done


class AsyncEpisodeInHand:
    """`EpisodeInHand` for asyncio: opened by its `async with` block."""

    def __init__(
        self,
        scope: ScopeCalls,
        session_id: str | None,
        *,
        at: datetime | None,
        metadata: Mapping[str, Json] | None,
    ) -> None:
        self._scope = scope
        self._opening = ask(scope, "open_episode", session_id, at=at, metadata=metadata)
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
        found: Episode = (await arun(ask(self._scope, "get", self.id))).episode
        return found

    add = awaited(EpisodeInHand.add)
    add_tool_call = awaited(EpisodeInHand.add_tool_call)
    context = awaited(EpisodeInHand.context)
    close = awaited(EpisodeInHand.close)

    async def __aenter__(self) -> Self:
        self._sync = EpisodeInHand(self._scope, await arun(self._opening))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(EndReason.USER_CLOSED if kind is None else EndReason.ERROR_CLOSED)
