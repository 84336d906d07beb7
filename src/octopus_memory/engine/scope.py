"""The calls inside one scope."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.checks import (
    Times,
    check_limit,
    check_place,
    episode_id_of,
    left_out_session,
    message_of,
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
)
from ..domain.errors import EpisodeNotFound, SessionNotFound
from ..domain.message import Json, MessageLike, Role
from ..domain.search.filters import filters_of
from ..episode_block import EpisodeInHand
from ..ports.values import EpisodeQuery
from .core.counts import Rate, counted
from .core.runtime import Runtime
from .facts import FactCalls
from .forget import ForgetCalls
from .read import latest, recall
from .read.ledger import LedgerCalls
from .read.recall import Ask
from .turns import TurnCalls
from .write import close, remember, target

if TYPE_CHECKING:
    from ..domain.block.block import TokenCount
    from ..domain.context import MemoryContext
    from ..domain.erasure import EraseReceipt
    from ..domain.page import Page
    from ..domain.replay import EpisodeReplay, SessionReplay
    from .memory import Memory


class MemoryScope(FactCalls, LedgerCalls, TurnCalls, ForgetCalls):
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

    def episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> EpisodeInHand:
        """Open an episode as a `with` block, which closes it, as `error_closed` if it raises."""
        opened = self.open_episode(session_id, at=at, metadata=metadata)
        return EpisodeInHand(self, opened)

    def open_episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Episode:
        """Open an episode in a session, or return the one that is open."""
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
        """Store one message or many; they are durable when this returns.

        `add("monday", "user", "Hello.")` stores one message by its role and its content.
        A session without an open episode gets one. `at` is one time for all messages or a list with
        one for each. `tokens` lists the token count of each message, if the caller knows it.

        `keys` are the caller's own ids, one for each message or None. A message whose key the
        session knows is skipped, even if it was removed since, and is not returned. With
        `index=False`, or a list with a flag for each, messages are replayed but never recalled.

        :raises EpisodeClosed: for the id of an episode that has ended
        :raises EpisodeDeleted: for a key whose episode was deleted since; nothing is stored
        :raises EpisodeNotFound: for an episode id that is not in this scope
        :raises InvalidMessage: for an invalid message; none of the messages is stored
        """
        check_place(episode_or_session_id)
        stored = remember.add(
            self._runtime,
            self.scope,
            episode_or_session_id,
            message_of(messages, content),
            idempotency_key=idempotency_key,
            at=at,
            tokens=tokens,
            keys=keys,
            index=index,
        )
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
        """Close an episode with a summary and key facts, which are made unless they are given.

        An episode that has ended is returned unchanged. A failing model never makes this fail.
        """
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
        """Close a session's open episode, if there is one, and return the session."""
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
        """Store a finished episode in one call. `at` defaults to `ended_at`, or to the current
        time.

        :raises EpisodeDeleted: for a key whose episode was deleted since; nothing is stored
        """
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
        """Keep an idle session open. The returned `status` tells whether it still is.

        :raises SessionNotFound: for a session that is not in this scope
        """
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
        """Find the episodes relevant to a query, best first, each with the signals of its score.

        `leave_out_session` names a session that is not searched, such as the current one. Without
        `min_score`, `hybrid` returns the best episodes whatever their score, and `semantic` those
        above the agent's `min_recall_score`. `include_archived` defaults to the agent's setting.

        `roles` and `sessions` keep only turns of these, and `metadata` only sessions that have all
        of these keys and values in theirs. `session_id` is the former name of `leave_out_session`.
        """
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
        """Find the turns relevant to a query, best first; the filters are those of `recall`."""
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
        """Return the last episodes, newest first by end; open ones come first.

        Their `relevance` is None, because they were not searched. `include_archived` defaults to
        the agent's setting. `session_id` is the former name of `leave_out_session`.
        """
        left_out = left_out_session(leave_out_session, session_id)
        with self._reading("recent") as runtime:
            return latest.latest(runtime, self.scope, limit, include_archived, left_out)

    def session(self, session_id: str, *, last: int | None = None) -> SessionReplay:
        """Return a whole session in order; `.messages()` is the list for a provider.

        With `last`, only so many of its newest turns are read, as an agent's loop needs.

        :raises SessionNotFound: for a session that is not in this scope
        """
        check_name("session_id", session_id)
        if last is not None:
            check_limit(last, "last")
        with self._reading("session") as runtime:
            found = runtime.store.replay(self.scope, session_id, last=last)
            if found is None:
                raise SessionNotFound(session_id)
            return found

    def sessions(self, page: int = 1, page_size: int = 20) -> Page[Session]:
        """Return a page of sessions, last seen first."""
        from ..domain.page import Page

        check_limit(page, "page")
        check_limit(page_size, "page_size")
        with self._reading("sessions") as runtime:
            items, total = runtime.store.list_sessions(
                self.scope, offset=(page - 1) * page_size, limit=page_size
            )
        return Page(items=tuple(items), total_count=total, page=page, page_size=page_size)

    def reset_session(self, session_id: str) -> None:
        """Restart the replay of a session: `session` omits the turns stored so far.

        They stay in the memory: `get` returns them, and recall finds them, even from the same
        session. An open episode stays open.

        :raises SessionNotFound: for a session that is not in this scope
        """
        self._runtime.store.reset_session(self.scope, check_name("session_id", session_id))

    def episodes(
        self, page: int = 1, page_size: int = 20, *, include_archived: bool = True
    ) -> Page[Episode]:
        """Return a page of episodes, newest first."""
        from ..domain.page import Page

        check_limit(page, "page")
        check_limit(page_size, "page_size")
        with self._reading("episodes") as runtime:
            items, total = runtime.store.list_episodes(
                EpisodeQuery(
                    of=self.scope,
                    offset=(page - 1) * page_size,
                    limit=page_size,
                    include_archived=include_archived,
                )
            )
        return Page(items=tuple(items), total_count=total, page=page, page_size=page_size)

    def get(self, episode_id: Episode | UUID | str) -> EpisodeReplay:
        """Return one episode with its turns.

        :raises EpisodeNotFound: for an id that is not in this scope
        """
        with self._reading("get") as runtime:
            episode = self._find(episode_id)
            turns = runtime.store.turns(self.scope, episode.id)
            from ..domain.replay import EpisodeReplay

            return EpisodeReplay(episode=episode, turns=tuple(turns))

    def delete(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> None:
        """Hide an episode from every read. `restore` undoes it until retention purges the episode.

        An open episode is closed first. Deleting it again changes nothing.

        :raises EpisodeNotFound: for an id that is not in this scope
        :raises LegalHold: when the episode or its user is under a hold
        """
        from .retention.restore import delete

        delete(self._runtime, self.scope, episode_id, actor=actor or self._actor)

    def deleted(self) -> list[Episode]:
        """Return the deleted episodes that are not purged yet, newest first by end."""
        with self._reading("deleted") as runtime:
            return runtime.store.list_episodes(EpisodeQuery(of=self.scope, deleted=True))[0]

    def restore(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> Episode:
        """Restore an episode that was deleted, or archived with its turns kept.

        Its retention period starts again. An episode that is neither is returned unchanged.

        :raises EpisodeNotFound: for an id that is not in this scope, or was purged
        :raises EpisodeArchived: when it was archived to its summary: the turns are gone
        """
        from .retention.restore import restore

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
        """Build the memory block and the messages for the current user message.

        `session_id` names the current session, which is left out, as is what `history` holds.
        `left_out` of the result says what was left out, and why. `count_tokens` replaces the
        configured counter. The memories that are shown for a session are recorded in the ledger:
        see `injections`.
        """
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
        """Erase everything that this agent remembers of this user, from rows, caches and files.

        Without `physical` the files are rewritten by a later `Memory.compact`; the receipt says so.

        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """
        return self._erase(None, physical, actor)

    def erase_episode(
        self, episode_id: Episode | UUID | str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        """Erase one episode as `erase` does, in any stage.

        :raises EpisodeNotFound: for an id that is not in this scope
        :raises LegalHold: when the user or the episode is under a hold; nothing is removed
        """
        return self._erase(episode_id_of(episode_id), physical, actor)

    def erase_session(
        self, session_id: str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        """Erase one session with its episodes and keys, as `erase` does.

        :raises SessionNotFound: for a session that is not in this scope
        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """
        return self._erase(None, physical, actor, check_name("session_id", session_id))

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
