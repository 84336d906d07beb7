"""The calls inside one scope, declared once: arguments, answer, words and route.

`MemoryScope` answers them from the store, `RemoteScope` sends the request that is declared here,
`AsyncMemoryScope` awaits either, and the service takes its paths from here.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, overload
from uuid import UUID

from .domain.checks import Times
from .domain.episode import EndReason, Episode, EpisodeSnippet, Scope, Session, Turn, TurnHit
from .domain.errors import EpisodeClosed, EpisodeNotFound, FactNotFound
from .domain.message import Json, MessageLike, Role
from .domain.wire import call
from .episode_block import EpisodeInHand
from .flow import Steps, ask, both

if TYPE_CHECKING:
    from .domain.block.layout import TokenCount
    from .domain.context import MemoryContext
    from .domain.episode import Page
    from .domain.erasure import EraseReceipt
    from .domain.facts import Fact, FactKind
    from .domain.forget import ForgetPreview, ForgetReceipt
    from .domain.ledger import EpisodeUses, Injection
    from .domain.replay import EpisodeReplay, SessionReplay


class ScopeCalls:
    """A user's memory with one agent. No call reads or changes anything outside of it."""

    scope: Scope

    def episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> EpisodeInHand:
        """Open an episode as a `with` block, which closes it, as `error_closed` if it raises."""
        return EpisodeInHand(self, self.open_episode(session_id, at=at, metadata=metadata))

    @call("POST", "/episodes")
    def open_episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Episode:
        """Open an episode in a session, or return the one that is open."""

    @call("POST", "/sessions/{session_id}/messages", inside="turns")
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

    @call("POST", "/episodes/{episode_id}/close", done=EpisodeClosed)
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

    @call("POST", "/sessions/{session_id}/close")
    def close_session(
        self, session_id: str, reason: EndReason | str = EndReason.USER_CLOSED
    ) -> Session:
        """Close a session's open episode, if there is one, and return the session."""

    @call("POST", "/episodes")
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

    @call("POST", "/sessions/{session_id}/heartbeat")
    def heartbeat(self, session_id: str, *, at: datetime | None = None) -> Session:
        """Keep an idle session open. The returned `status` tells whether it still is.

        :raises SessionNotFound: for a session that is not in this scope
        """

    @call("POST", "/episodes/search", inside="results")
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

    @call("POST", "/turns/search", inside="results")
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

    @call("GET", "/episodes/recent", inside="results")
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

    @call("GET", "/sessions/{session_id}")
    def session(self, session_id: str, *, last: int | None = None) -> SessionReplay:
        """Return a whole session in order; `.messages()` is the list for a provider.

        With `last`, only so many of its newest turns are read, as an agent's loop needs.

        :raises SessionNotFound: for a session that is not in this scope
        """

    @call("GET", "/sessions")
    def sessions(self, page: int = 1, page_size: int = 20) -> Page[Session]:
        """Return a page of sessions, last seen first."""

    # A retry would hide turns that were added after the first attempt.
    @call("POST", "/sessions/{session_id}/reset", retry=False)
    def reset_session(self, session_id: str) -> None:
        """Restart the replay of a session: `session` omits the turns stored so far.

        They stay in the memory: `get` returns them, and recall finds them, even from the same
        session. An open episode stays open.

        :raises SessionNotFound: for a session that is not in this scope
        """

    @call("GET", "/episodes")
    def episodes(
        self, page: int = 1, page_size: int = 20, *, include_archived: bool = True
    ) -> Page[Episode]:
        """Return a page of episodes, newest first."""

    @call("GET", "/episodes/{episode_id}")
    def get(self, episode_id: Episode | UUID | str) -> EpisodeReplay:
        """Return one episode with its turns.

        :raises EpisodeNotFound: for an id that is not in this scope
        """

    @call("POST", "/episodes/{episode_id}/delete", done=EpisodeNotFound)
    def delete(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> None:
        """Hide an episode from every read. `restore` undoes it until retention purges the episode.

        An open episode is closed first. Deleting it again changes nothing.

        :raises EpisodeNotFound: for an id that is not in this scope
        :raises LegalHold: when the episode or its user is under a hold
        """

    @call("GET", "/users/{user_id}/deleted", inside="items")
    def deleted(self) -> list[Episode]:
        """Return the deleted episodes that are not purged yet, newest first by end."""

    @call("POST", "/episodes/{episode_id}/restore")
    def restore(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> Episode:
        """Restore an episode that was deleted, or archived with its turns kept.

        Its retention period starts again. An episode that is neither is returned unchanged.

        :raises EpisodeNotFound: for an id that is not in this scope, or was purged
        :raises EpisodeArchived: when it was archived to its summary: the turns are gone
        """

    @call("POST", "/context")
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

    # A second erasure finds nothing: its receipt would be all zeros.
    @call("DELETE", "/users/{user_id}/episodes", retry=False)
    def erase(self, *, physical: bool = True, actor: str | None = None) -> EraseReceipt:
        """Erase everything that this agent remembers of this user, from rows, caches and files.

        Without `physical` the files are rewritten by a later `Memory.compact`; the receipt says so.

        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """

    # A second attempt would find nothing and return no receipt.
    @call("DELETE", "/episodes/{episode_id}", retry=False)
    def erase_episode(
        self, episode_id: Episode | UUID | str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        """Erase one episode as `erase` does, in any stage.

        :raises EpisodeNotFound: for an id that is not in this scope
        :raises LegalHold: when the user or the episode is under a hold; nothing is removed
        """

    # A second attempt would find nothing and return no receipt.
    @call("DELETE", "/sessions/{session_id}", retry=False)
    def erase_session(
        self, session_id: str, *, physical: bool = True, actor: str | None = None
    ) -> EraseReceipt:
        """Erase one session with its episodes and keys, as `erase` does.

        :raises SessionNotFound: for a session that is not in this scope
        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """

    @call("GET", "/users/{user_id}/facts", inside="items")
    def facts(
        self,
        *,
        as_of: datetime | None = None,
        kinds: Collection[FactKind | str] | None = None,
        history: bool = False,
    ) -> list[Fact]:
        """Return the standing facts about this user: pinned first, then by kind and time.

        With `as_of`, those known at that time. With `history`, also those that are over, and what
        ended them, all in the order in which they were said. `kinds` restricts them to these kinds.
        """

    # A retry could store it twice.
    @call("POST", "/users/{user_id}/facts", retry=False)
    def add_fact(
        self,
        text: str,
        kind: FactKind | str = "other",
        slot: str | None = None,
        *,
        pinned: bool = False,
        actor: str | None = None,
    ) -> Fact:
        """Store a standing fact about this user; it is durable when this returns.

        It replaces the fact of the same kind and `slot`. Without a slot, a name, a language or a
        home replaces the previous one, and any other fact replaces nothing. A `pinned` fact is not
        replaced by facts that are found later.

        :raises InvalidInput: naming the field that is invalid
        """

    # The corrected fact is history after the first attempt.
    @call("PATCH", "/users/{user_id}/facts/{fact_id}", retry=False)
    def correct_fact(
        self, fact_id: Fact | UUID | str, text: str, *, actor: str | None = None
    ) -> Fact:
        """Replace a fact by its correction. The old one stays as history, and a pin moves to the
        new one.

        :raises FactNotFound: for an id that is not in this scope
        """

    @call("PATCH", "/users/{user_id}/facts/{fact_id}")
    def pin_fact(
        self, fact_id: Fact | UUID | str, *, pinned: bool = True, actor: str | None = None
    ) -> Fact:
        """Pin a fact, so that facts found later do not replace it, or unpin it.

        :raises FactNotFound: for an id that is not in this scope
        """

    @call("DELETE", "/users/{user_id}/facts/{fact_id}", done=FactNotFound)
    def delete_fact(self, fact_id: Fact | UUID | str, *, actor: str | None = None) -> None:
        """Delete a fact permanently: its text is cleared, and its episode does not produce it
        again.

        Its slot stays empty until a newer fact fills it.

        :raises FactNotFound: for an id that is not in this scope, or was deleted
        :raises LegalHold: when the user or the fact's episode is under a hold
        """

    @overload
    def forget(
        self,
        about: str | None = None,
        *,
        turns: Collection[Turn | UUID | str] = (),
        facts: Collection[Fact | UUID | str] = (),
        actor: str | None = None,
    ) -> ForgetPreview: ...

    @overload
    def forget(self, *, confirm: str, actor: str | None = None) -> ForgetReceipt: ...

    @both
    def forget(
        self,
        about: str | None = None,
        *,
        turns: Collection[Turn | UUID | str] = (),
        facts: Collection[Fact | UUID | str] = (),
        confirm: str | None = None,
        actor: str | None = None,
    ) -> Steps[ForgetPreview | ForgetReceipt]:
        """Preview what the user said about something, or with `confirm` remove what was previewed.

        A preview finds the turns, sentences, facts and lines of summaries that are clearly about
        `about`, and adds the `turns` and `facts` that are named. It removes nothing. Its `token`
        can be confirmed once, within an hour, and removes exactly its items, from rows, caches and
        files. Without a clear match there is no token: `items` are then what may be meant.

        :raises NotFound: for a token, a turn or a fact that this scope does not have
        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """
        from .domain.forget import check_forget  # noqa: PLC0415 - few calls need its patterns

        check_forget(about, turns, facts, confirm)
        if confirm is not None:
            receipt: ForgetReceipt = yield from ask(self, "_forget_confirmed", confirm, actor=actor)
            return receipt
        given = (about, turns, facts)
        preview: ForgetPreview = yield from ask(self, "_forget_preview", *given, actor=actor)
        return preview

    @call("POST", "/users/{user_id}/forget")
    def _forget_preview(
        self,
        about: str | None,
        turns: Collection[Turn | UUID | str],
        facts: Collection[Fact | UUID | str],
        *,
        actor: str | None,
    ) -> ForgetPreview:
        """The part of `forget` that previews."""

    # The token is gone after the first attempt.
    @call("POST", "/users/{user_id}/forget/confirm", retry=False)
    def _forget_confirmed(self, token: str, *, actor: str | None) -> ForgetReceipt:
        """The part of `forget` that removes."""

    @call("GET", "/turns/{turn_id}", inside="turns")
    def turn(self, turn_id: Turn | UUID | str) -> Turn | None:
        """Return one turn by its id; None if this scope has no such turn.

        It reads the ids of all turns of the scope, because turns are stored by their place.
        """

    @call("POST", "/sessions/{session_id}/messages/remove", inside="turns")
    def remove_turns(
        self,
        session_id: str,
        *,
        ids: Sequence[Turn | UUID | str] | None = None,
        last: int | None = None,
        physical: bool = False,
        actor: str | None = None,
    ) -> list[Turn]:
        """Remove turns of a session permanently, in one transaction, and return them in order.

        Choose them by `ids`, of which unknown ones are ignored, or take the `last` ones of the
        replay. Their vectors, terms and facts are removed, too, and an ended episode is summarized
        again from the remaining turns. With `physical` the files are rewritten now, otherwise by
        the next retention run or `Memory.compact`.

        :raises SessionNotFound: for a session that is not in this scope
        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """

    @call("GET", "/sessions/{session_id}/injections", inside="items")
    def injections(
        self, session_id: str, *, after: Injection | UUID | None = None, limit: int = 1_000
    ) -> list[Injection]:
        """Return the memories that were shown for each turn of a session, oldest first.

        `after` is the last entry of the previous page. A session that is unknown or had no context
        has none.
        """

    @call("GET", "/episodes/{episode_id}/uses")
    def uses(self, episode_id: Episode | UUID | str, *, limit: int = 20) -> EpisodeUses:
        """Return how often, when last and in which sessions an episode was shown to a model."""


@cache
def calls() -> dict[str, Callable[..., Any]]:
    """The declared calls, by name."""
    return {
        name: each
        for name, each in vars(ScopeCalls).items()
        if "route" in getattr(each, "__dict__", ())
    }
