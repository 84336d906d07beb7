"""The verbs inside one scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.checks import Times, check_limit, episode_id_of
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
from ..domain.message import Json, MessageLike
from ..episode_block import EpisodeInHand
from .core.runtime import Runtime
from .facts import FactCalls
from .read import latest, recall
from .read.ledger import LedgerCalls
from .read.recall import Ask
from .write import close, remember, target

if TYPE_CHECKING:
    from ..domain.block.block import TokenCount
    from ..domain.context import MemoryContext
    from ..domain.erasure import EraseReceipt
    from ..domain.page import Page
    from ..domain.replay import EpisodeReplay, SessionReplay
    from .memory import Memory


class MemoryScope(FactCalls, LedgerCalls):
    """One user's memory with one agent: nothing outside it can be seen or touched."""

    def __init__(self, memory: Memory, scope: Scope, *, actor: str = "library") -> None:
        self._memory = memory
        self.scope = scope
        self._actor = actor

    def __repr__(self) -> str:
        return f"MemoryScope({self.scope})"

    @property
    def _runtime(self) -> Runtime:
        return self._memory.runtime

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
        """An episode as a `with` block: closed at its end, `error_closed` if the block raises."""
        opened = self.open_episode(session_id, at=at, metadata=metadata)
        return EpisodeInHand(self, opened)

    def open_episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Episode:
        """Open an episode in a session, new or known. One that is open already is returned."""
        return remember.open_episode(
            self._runtime, self.scope, session_id, at=at, metadata=metadata
        )

    def add(
        self,
        episode_or_session_id: Episode | UUID | str,
        messages: MessageLike | Sequence[MessageLike],
        *,
        idempotency_key: str | None = None,
        at: Times = None,
        tokens: Sequence[int] | None = None,
        keys: Sequence[str | None] | None = None,
        index: bool | Sequence[bool] = True,
    ) -> list[Turn]:
        """Store one message or many; durable when it returns.

        A session that is new, or has no open episode, gets one. `at` is one time for all or a
        list with one for each; `tokens` likewise, where the caller has counted.

        `keys` are ids of the caller's own, one for each message or None: a message whose key the
        session knows is skipped, even where it was removed since, and is not in the answer. With
        `index=False`, or a list with a flag for each, messages are replayed and never recalled.

        :raises EpisodeClosed: for the id of an episode that has ended
        :raises EpisodeDeleted: for a key whose episode was deleted since; nothing is stored again
        :raises EpisodeNotFound: for an episode id that is not in this scope
        :raises InvalidMessage: for a message that cannot be stored; then none of them is
        """
        stored = remember.add(
            self._runtime,
            self.scope,
            episode_or_session_id,
            messages,
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
        """End an episode: makes its summary and key facts, unless they are given.

        One that has ended already is returned as it is. Never fails because a model did.
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
        """End a session's open episode, if it has one; the session as it is then."""
        state = self._runtime.store.session(self.scope, check_name("session_id", session_id))
        if state is None:
            raise SessionNotFound(session_id)
        if state.episode is not None and state.episode.is_open:
            self.close_episode(state.episode, reason)
            state = self._runtime.store.session(self.scope, session_id) or state
        return state.session

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
        """Store a finished episode in one call; without `at` all was said at `ended_at`, else now.

        :raises EpisodeDeleted: for a key whose episode was deleted since; nothing is stored again
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
        """Keep an idle session open; the answer's `status` says whether it still is.

        :raises SessionNotFound: for a session that is not in this scope
        """
        return remember.heartbeat(self._runtime, self.scope, session_id, at=at)

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
        session_id: str | None = None,
    ) -> list[EpisodeSnippet]:
        """Episodes relevant to a query, best first, each with why.

        `session_id` names the current session, which is left out. Without `min_score`, `hybrid`
        returns the best there is and `semantic` none under the agent's `min_recall_score`; without
        `include_archived`, the agent's setting of that name decides.
        """
        ask = Ask(
            query=query,
            mode=recall.recall_mode(mode),
            limit=limit,
            min_score=min_score,
            since=since,
            until=until,
            include_archived=recall.archived_wanted(self._runtime, self.scope, include_archived),
            leave_out_session=session_id,
        )
        with self._reading("recall") as runtime:
            return recall.recall(runtime, self.scope, ask)

    def recall_turns(
        self,
        query: str,
        *,
        mode: str = "hybrid",
        limit: int = 10,
        min_score: float | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        session_id: str | None = None,
    ) -> list[TurnHit]:
        """Single turns relevant to a query, best first."""
        ask = Ask(
            query=query,
            mode=recall.recall_mode(mode),
            limit=limit,
            min_score=min_score,
            since=since,
            until=until,
            leave_out_session=session_id,
        )
        with self._reading("recall") as runtime:
            return recall.recall_turns(runtime, self.scope, ask)

    def recent(
        self,
        limit: int = 5,
        *,
        include_archived: bool | None = None,
        session_id: str | None = None,
    ) -> list[EpisodeSnippet]:
        """The last episodes, newest first by end; an open one counts as now.

        They were not searched for, so their `relevance` is None. Without `include_archived`, the
        agent's setting of that name decides.
        """
        with self._reading("recent") as runtime:
            return latest.latest(runtime, self.scope, limit, include_archived, session_id)

    def session(self, session_id: str, *, last: int | None = None) -> SessionReplay:
        """One session, whole and in order; `.messages()` is the list a provider takes.

        `last` is for an agent's loop: only so many of its turns are read, the newest.

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
        """A page of sessions, last seen first."""
        from ..domain.page import Page

        check_limit(page, "page")
        check_limit(page_size, "page_size")
        with self._reading("sessions") as runtime:
            items, total = runtime.store.list_sessions(
                self.scope, offset=(page - 1) * page_size, limit=page_size
            )
        return Page(items=tuple(items), total_count=total, page=page, page_size=page_size)

    def reset_session(self, session_id: str) -> None:
        """Begin the replay of a session anew: `session` leaves out the turns that it has by now.

        They stay in the memory: `get` gives them, and recall finds them, also from within the same
        session. The episode that is open stays open.

        :raises SessionNotFound: for a session that is not in this scope
        """
        self._runtime.store.reset_session(self.scope, check_name("session_id", session_id))

    def episodes(
        self, page: int = 1, page_size: int = 20, *, include_archived: bool = True
    ) -> Page[Episode]:
        """A page of episodes, newest first."""
        from ..domain.page import Page

        check_limit(page, "page")
        check_limit(page_size, "page_size")
        with self._reading("episodes") as runtime:
            items, total = runtime.store.list_episodes(
                self.scope,
                offset=(page - 1) * page_size,
                limit=page_size,
                include_archived=include_archived,
            )
        return Page(items=tuple(items), total_count=total, page=page, page_size=page_size)

    def get(self, episode_id: Episode | UUID | str) -> EpisodeReplay:
        """One episode with its turns.

        :raises EpisodeNotFound: for an id that is not in this scope
        """
        with self._reading("get") as runtime:
            episode = self._find(episode_id)
            turns = runtime.store.turns(self.scope, episode.id)
            from ..domain.replay import EpisodeReplay

            return EpisodeReplay(episode=episode, turns=tuple(turns))

    def delete(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> None:
        """Take an episode out of every read; `restore` undoes it until retention purges it.

        An open one is closed first. Deleting it again changes nothing.

        :raises EpisodeNotFound: for an id that is not in this scope
        :raises LegalHold: when a hold stands on it or on its user
        """
        from .retention.restore import delete

        delete(self._runtime, self.scope, episode_id, actor=actor or self._actor)

    def deleted(self) -> list[Episode]:
        """The episodes that are deleted and not purged yet, newest first by end."""
        with self._reading("deleted") as runtime:
            return runtime.store.deleted_episodes(self.scope)

    def restore(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> Episode:
        """Bring back an episode that was deleted, or archived with its turns kept.

        Its days count anew. An episode that is neither is returned as it is.

        :raises EpisodeNotFound: for an id that is not in this scope, or was purged
        :raises EpisodeArchived: when it was archived to its summary: the turns are gone
        """
        from .retention.restore import restore

        restored = restore(self._runtime, self.scope, episode_id, actor=actor or self._actor)
        self._memory.wake()
        return restored

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
        """What the model should see for the current user message.

        `session_id` names the current session, which is left out; without it, every episode that
        is still open is. `count_tokens` counts as the model at hand does, in place of the
        configured counter. What is shown for a session is entered in the ledger: see `injections`.
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

    def remove_turns(
        self,
        session_id: str,
        *,
        ids: Sequence[Turn | UUID | str] | None = None,
        last: int | None = None,
        physical: bool = False,
        actor: str | None = None,
    ) -> list[Turn]:
        """Remove turns of a session for good, in one transaction; returns them in order.

        Choose them by `ids`, where ids that the session does not have are ignored, or the `last`
        ones of its replay. Vectors, terms, facts and the summary that were made of them go too: an
        episode that has ended is summarized again from the turns that are left. With `physical`
        the files are rewritten now, else by the next retention run or `Memory.compact`.

        :raises SessionNotFound: for a session that is not in this scope
        :raises LegalHold: when a hold stands on the user or one of the episodes; nothing is gone
        """
        from .privacy import remove_turns

        removed = remove_turns.remove_turns(
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

    def erase(self, *, physical: bool = True, actor: str | None = None) -> EraseReceipt:
        """Remove everything that this agent remembers of this user, from rows, caches and files.

        Without `physical` the files are left to a later `Memory.compact`, and the receipt says so.

        :raises LegalHold: when a hold stands on the user or one of the episodes; nothing is gone
        """
        return self._erase(None, physical, actor)

    def erase_episode(
        self, episode_id: Episode | UUID | str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        """Remove one episode, as `erase` does; open, archived and deleted ones too.

        :raises EpisodeNotFound: for an id that is not in this scope
        :raises LegalHold: when a hold stands on the user or the episode; nothing is gone
        """
        return self._erase(episode_id_of(episode_id), physical, actor)

    def erase_session(
        self, session_id: str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        """Remove one session with every episode of it and its keys, as `erase` does.

        :raises SessionNotFound: for a session that is not in this scope
        :raises LegalHold: when a hold stands on the user or one of the episodes; nothing is gone
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
