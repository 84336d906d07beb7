"""The calls inside one scope."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..calls import ScopeCalls
from ..domain.checks import (
    Times,
    check_flag,
    check_limit,
    check_place,
    episode_id_of,
    filters_of,
    left_out_session,
    message_of,
    offset_of,
)
from ..domain.episode import (
    EndReason,
    Episode,
    EpisodeSnippet,
    Scope,
    Session,
    Turn,
    TurnHit,
    check_name,
    check_time,
)
from ..domain.errors import EpisodeNotFound, InvalidInput, SessionNotFound
from ..domain.ids import as_id
from ..domain.message import Json, MessageLike, Role
from ..ports.values import EpisodeQuery
from . import facts
from .core.counts import Rate, counted
from .core.runtime import Runtime
from .read import ledger, recall
from .read.recall import Ask
from .write import add, close, remember, target

if TYPE_CHECKING:
    from ..domain.block.block import TokenCount
    from ..domain.context import MemoryContext
    from ..domain.episode import Page
    from ..domain.erasure import EraseReceipt
    from ..domain.facts import Fact, FactKind
    from ..domain.forget import ForgetPreview, ForgetReceipt
    from ..domain.ledger import EpisodeUses, Injection
    from ..domain.replay import EpisodeReplay, SessionReplay
    from .memory import Memory


class MemoryScope(ScopeCalls):
    """A user's memory with one agent. No call reads or changes anything outside of it."""

    def __init__(self, memory: Memory, scope: Scope, *, actor: str = "library") -> None:
        self._memory = memory
        self.scope = scope
        self._actor = actor

    def __repr__(self) -> str:
        return f"MemoryScope({self.scope})"

    @property
    def _runtime(self) -> Runtime:
        return self._memory.runtime

    def _count(self, rate: Rate, number: int) -> None:
        self._runtime.counts.count(self.scope.tenant, rate, number)

    def _reading(self, action: str) -> AbstractContextManager[Runtime]:
        self._memory.attend()
        runtime = self._runtime
        if not runtime.audit_reads:
            return nullcontext(runtime)
        from .core import audit

        return audit.reading(runtime, action, self.scope, actor=self._actor)

    def open_episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Episode:
        return remember.open_episode(
            self._runtime, self.scope, session_id, at=at, metadata=metadata
        )

    @counted(Rate.MESSAGES, len)
    def add(
        self,
        episode_or_session_id: Episode | UUID | str,
        messages: str | MessageLike | Sequence[MessageLike],
        content: Json = None,
        *,
        idempotency_key: str | None = None,
        at: Times = None,
        tokens: Sequence[int] | None = None,
        keys: Sequence[str | None] | None = None,
        index: bool | Sequence[bool] = True,
    ) -> list[Turn]:
        check_place(episode_or_session_id)
        asked = add.Addition(
            where=episode_or_session_id,
            messages=message_of(messages, content),
            idempotency_key=idempotency_key,
            at=at,
            tokens=tokens,
            keys=keys,
            index=index,
        )
        stored = add.add(self._runtime, self.scope, asked)
        self._memory.wake()
        return stored

    def close_episode(
        self,
        episode_id: Episode | UUID | str,
        reason: EndReason | str = EndReason.USER_CLOSED,
        summary: str | None = None,
        key_facts: Sequence[str] | None = None,
        *,
        at: datetime | None = None,
    ) -> Episode:
        closed = close.close(
            self._runtime,
            self.scope,
            self._find(episode_id).id,
            reason=close.end_reason(reason),
            summary=summary,
            key_facts=key_facts,
            at=at,
        )
        self._memory.wake()
        return closed

    def close_session(
        self, session_id: str, reason: EndReason | str = EndReason.USER_CLOSED
    ) -> Session:
        state = self._runtime.store.session(self.scope, check_name("session_id", session_id))
        if state is None:
            raise SessionNotFound(session_id)
        if state.episode is not None and state.episode.is_open:
            self.close_episode(state.episode, reason)
            state = self._runtime.store.session(self.scope, session_id) or state
        return state.session

    @counted(Rate.MESSAGES, lambda episode: episode.message_count)
    def store(
        self,
        messages: Sequence[MessageLike],
        *,
        session_id: str | None = None,
        at: Times = None,
        ended_at: datetime | None = None,
        reason: EndReason | str = EndReason.USER_CLOSED,
        summary: str | None = None,
        key_facts: Sequence[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        idempotency_key: str | None = None,
    ) -> Episode:
        stored = remember.store(
            self._runtime,
            self.scope,
            messages,
            session_id=session_id,
            at=at,
            ended_at=ended_at,
            reason=close.end_reason(reason),
            summary=summary,
            key_facts=key_facts,
            metadata=metadata,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            idempotency_key=idempotency_key,
        )
        self._memory.wake()
        return stored

    def heartbeat(self, session_id: str, *, at: datetime | None = None) -> Session:
        return remember.heartbeat(self._runtime, self.scope, session_id, at=at)

    @counted(Rate.RECALLS)
    def recall(
        self,
        query: str,
        *,
        mode: str = "hybrid",
        limit: int = 5,
        min_score: float | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        include_archived: bool | None = None,
        leave_out_session: str | None = None,
        session_id: str | None = None,
        roles: Collection[Role | str] | None = None,
        sessions: Collection[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> list[EpisodeSnippet]:
        ask = Ask(
            query=query,
            mode=recall.recall_mode(mode),
            limit=limit,
            min_score=min_score,
            since=since,
            until=until,
            include_archived=recall.archived_wanted(self._runtime, self.scope, include_archived),
            leave_out_session=left_out_session(leave_out_session, session_id),
            filters=filters_of(roles=roles, sessions=sessions, metadata=metadata),
        )
        with self._reading("recall") as runtime:
            return recall.recall(runtime, self.scope, ask)

    @counted(Rate.RECALLS)
    def recall_turns(
        self,
        query: str,
        *,
        mode: str = "hybrid",
        limit: int = 10,
        min_score: float | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        leave_out_session: str | None = None,
        session_id: str | None = None,
        roles: Collection[Role | str] | None = None,
        sessions: Collection[str] | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> list[TurnHit]:
        ask = Ask(
            query=query,
            mode=recall.recall_mode(mode),
            limit=limit,
            min_score=min_score,
            since=since,
            until=until,
            leave_out_session=left_out_session(leave_out_session, session_id),
            filters=filters_of(roles=roles, sessions=sessions, metadata=metadata),
        )
        with self._reading("recall") as runtime:
            return recall.recall_turns(runtime, self.scope, ask)

    def recent(
        self,
        limit: int = 5,
        *,
        include_archived: bool | None = None,
        leave_out_session: str | None = None,
        session_id: str | None = None,
    ) -> list[EpisodeSnippet]:
        left_out = left_out_session(leave_out_session, session_id)
        with self._reading("recent") as runtime:
            return recall.latest(runtime, self.scope, limit, include_archived, left_out)

    def session(self, session_id: str, *, last: int | None = None) -> SessionReplay:
        check_name("session_id", session_id)
        if last is not None:
            check_limit(last, "last")
        with self._reading("session") as runtime:
            found = runtime.store.replay(self.scope, session_id, last=last)
            if found is None:
                raise SessionNotFound(session_id)
            return found

    def sessions(self, page: int = 1, page_size: int = 20) -> Page[Session]:
        from ..domain.episode import Page

        first = offset_of(page, page_size)
        with self._reading("sessions") as runtime:
            items, total = runtime.store.list_sessions(self.scope, offset=first, limit=page_size)
        return Page(items=tuple(items), total_count=total, page=page, page_size=page_size)

    def reset_session(self, session_id: str) -> None:
        self._runtime.store.reset_session(self.scope, check_name("session_id", session_id))

    def episodes(
        self, page: int = 1, page_size: int = 20, *, include_archived: bool = True
    ) -> Page[Episode]:
        from ..domain.episode import Page

        wanted = EpisodeQuery(
            of=self.scope,
            offset=offset_of(page, page_size),
            limit=page_size,
            include_archived=include_archived,
        )
        with self._reading("episodes") as runtime:
            items, total = runtime.store.list_episodes(wanted)
        return Page(items=tuple(items), total_count=total, page=page, page_size=page_size)

    def get(self, episode_id: Episode | UUID | str) -> EpisodeReplay:
        with self._reading("get") as runtime:
            episode = self._find(episode_id)
            turns = runtime.store.turns(self.scope, episode.id)
            from ..domain.replay import EpisodeReplay

            return EpisodeReplay(episode=episode, turns=tuple(turns))

    def delete(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> None:
        from .holds import delete

        delete(self._runtime, self.scope, episode_id, actor=actor or self._actor)

    def deleted(self) -> list[Episode]:
        with self._reading("deleted") as runtime:
            return runtime.store.list_episodes(EpisodeQuery(of=self.scope, deleted=True))[0]

    def restore(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> Episode:
        from .holds import restore

        restored = restore(self._runtime, self.scope, episode_id, actor=actor or self._actor)
        self._memory.wake()
        return restored

    @counted(Rate.RECALLS)
    def context(
        self,
        message: str | MessageLike,
        *,
        history: Sequence[MessageLike] = (),
        system: str | None = None,
        budget_tokens: int | None = None,
        session_id: str | None = None,
        count_tokens: TokenCount | None = None,
    ) -> MemoryContext:
        from .read.context import MemoryOrchestrator

        with self._reading("context") as runtime:
            return MemoryOrchestrator(runtime, self.scope).context(
                message,
                history=history,
                system=system,
                budget_tokens=budget_tokens,
                session_id=session_id,
                count_tokens=count_tokens,
            )

    def erase(self, *, physical: bool = True, actor: str | None = None) -> EraseReceipt:
        return self._erase(None, physical, actor)

    def erase_episode(
        self, episode_id: Episode | UUID | str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        return self._erase(episode_id_of(episode_id), physical, actor)

    def erase_session(
        self, session_id: str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        return self._erase(None, physical, actor, check_name("session_id", session_id))

    def facts(
        self,
        *,
        as_of: datetime | None = None,
        kinds: Collection[FactKind | str] | None = None,
        history: bool = False,
    ) -> list[Fact]:
        moment = None if as_of is None else check_time("as_of", as_of)
        check_flag("history", history)
        with self._reading("facts") as runtime:
            return facts.listed(
                runtime, self.scope, as_of=moment, kinds=kinds, history=history, with_shared=False
            )

    def add_fact(
        self,
        text: str,
        kind: FactKind | str = "other",
        slot: str | None = None,
        *,
        pinned: bool = False,
        actor: str | None = None,
    ) -> Fact:
        return facts.add(
            self._runtime,
            self.scope,
            text,
            kind=kind,
            slot=slot,
            pinned=pinned,
            actor=actor or self._actor,
        )

    def correct_fact(
        self, fact_id: Fact | UUID | str, text: str, *, actor: str | None = None
    ) -> Fact:
        return facts.correct(self._runtime, self.scope, fact_id, text, actor=actor or self._actor)

    def pin_fact(
        self, fact_id: Fact | UUID | str, *, pinned: bool = True, actor: str | None = None
    ) -> Fact:
        return facts.pin(
            self._runtime, self.scope, fact_id, pinned=pinned, actor=actor or self._actor
        )

    def delete_fact(self, fact_id: Fact | UUID | str, *, actor: str | None = None) -> None:
        facts.delete(self._runtime, self.scope, fact_id, actor=actor or self._actor)

    def _forget_preview(
        self,
        about: str | None,
        turns: Collection[Turn | UUID | str],
        facts: Collection[Fact | UUID | str],
        *,
        actor: str | None,  # noqa: ARG002 - reads are recorded under the scope's own actor
    ) -> ForgetPreview:
        from .privacy import forget

        with self._reading("forget") as runtime:
            return forget.preview(runtime, self.scope, about, turns=turns, facts=facts)

    def _forget_confirmed(self, token: str, *, actor: str | None) -> ForgetReceipt:
        from .privacy import forget

        receipt = forget.confirm(self._runtime, self.scope, token, actor=actor or self._actor)
        self._memory.wake()
        return receipt

    def turn(self, turn_id: Turn | UUID | str) -> Turn | None:
        found = as_id("turn_id", turn_id, Turn)
        with self._reading("turn") as runtime:
            return None if found is None else runtime.store.turn(self.scope, found)

    def remove_turns(
        self,
        session_id: str,
        *,
        ids: Sequence[Turn | UUID | str] | None = None,
        last: int | None = None,
        physical: bool = False,
        actor: str | None = None,
    ) -> list[Turn]:
        from .privacy import stored_turns

        removed = stored_turns.remove_turns(
            self._runtime,
            self.scope,
            session_id,
            ids=ids,
            last=last,
            physical=physical,
            actor=actor or self._actor,
        )
        self._memory.wake()
        return removed

    def injections(
        self, session_id: str, *, after: Injection | UUID | None = None, limit: int = 1_000
    ) -> list[Injection]:
        check_name("session_id", session_id)
        check_limit(limit)
        last = None if after is None else as_id("after", getattr(after, "id", after))
        if last is None and after is not None:
            raise InvalidInput("after", "must be an entry of the ledger or its id")
        with self._reading("injections") as runtime:
            runtime.ledger.flush()
            return runtime.store.injections(
                self.scope, session_id=session_id, after=last, limit=limit
            )

    def _note_recalled(
        self, session_id: str, query: str, hits: Sequence[TurnHit], text: str
    ) -> None:
        ledger.note_recalled(self._runtime, self.scope, session_id, query, hits, text)

    def uses(self, episode_id: Episode | UUID | str, *, limit: int = 20) -> EpisodeUses:
        check_limit(limit)
        key = episode_id_of(episode_id)
        with self._reading("uses") as runtime:
            runtime.ledger.flush()
            return runtime.store.episode_uses(self.scope, key, limit=limit)

    def _erase(
        self,
        episode_id: UUID | None,
        physical: bool,
        actor: str | None,
        session_id: str | None = None,
    ) -> EraseReceipt:
        from ..domain.erasure import Subject
        from .privacy import erasure

        names = {"tenant": self.scope.tenant, "agent": self.scope.agent, "user": self.scope.user}
        subject = Subject(**names, episode_id=episode_id, session_id=session_id)
        return erasure.erase(self._runtime, subject, actor=actor or self._actor, physical=physical)

    def _find(self, episode_id: Episode | UUID | str) -> Episode:
        found = target.find_episode(self._runtime, self.scope, episode_id)
        if found is None:
            raise EpisodeNotFound(episode_id.id if isinstance(episode_id, Episode) else episode_id)
        return found
