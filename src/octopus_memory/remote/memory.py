"""The remote memory: scopes with the calls of the embedded one."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID, uuid4

from ..domain.checks import (
    Times,
    check_limit,
    check_metadata,
    check_place,
    left_out_session,
    listed,
    session_id_of,
    turn_choice,
)
from ..domain.config_layers import change_of
from ..domain.context import MemoryContext
from ..domain.episode import (
    EndReason,
    Episode,
    EpisodeSnippet,
    Page,
    Scope,
    Session,
    Turn,
    TurnHit,
    check_name,
)
from ..domain.erasure import EraseReceipt
from ..domain.errors import EpisodeClosed, EpisodeNotFound, InvalidInput
from ..domain.ids import as_id
from ..domain.message import Json, MessageLike, Role
from ..domain.policy import ConfigPart, MemoryConfig
from ..domain.replay import EpisodeReplay, SessionReplay
from ..episode_block import EpisodeInHand
from . import decode, encode
from .facts import RemoteFacts
from .forget import RemoteForget
from .ledger import RemoteLedger
from .transport import Transport, segment

if TYPE_CHECKING:
    import httpx

    from ..domain.block.layout import TokenCount

_TENANT, _LIBRARY = "default", "library"
_LONGEST_QUERY = 10_000
_FLUSH_SECONDS = 20.0
"""Longest wait of the service in one request."""


class RemoteMemory:
    """A memory behind a service. Thread-safe; `close` it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 3,
        client: httpx.Client | None = None,
    ) -> None:
        self._transport = Transport(url, api_key, timeout=timeout, retries=retries, client=client)
        self._timeout = timeout

    def _over(self, transport: Transport) -> Self:
        """The same memory, asked over other connections."""
        other = object.__new__(type(self))
        other._transport, other._timeout = transport, self._timeout
        return other

    def scope(
        self,
        *,
        tenant: str = _TENANT,
        agent: str = "default",
        user: str,
        actor: str = _LIBRARY,
    ) -> RemoteScope:
        """Return one user's memory with one agent, in the API key's tenant.

        The service's audit log records the credential, and after it the `actor` if one is given.
        """
        if tenant != _TENANT:
            raise InvalidInput("tenant", "must not be given: the API key determines it")
        names = {"tenant": tenant, "agent": agent, "user": user}
        texts = {k: str(v) if isinstance(v, UUID) else v for k, v in names.items()}
        named = None if actor == _LIBRARY else actor
        return RemoteScope(self._transport, Scope(**texts), actor=named)

    def config(self, agent: str) -> MemoryConfig:
        """Return an agent's effective settings."""
        check_name("agent", agent)
        return MemoryConfig.from_dict(
            self._transport.get(f"/agents/{segment(agent)}/memory-config")
        )

    def configure(self, agent: str, config: MemoryConfig | ConfigPart | Mapping[str, Any]) -> None:
        """Change an agent's settings for the API key's tenant: see `Memory.configure`."""
        check_name("agent", agent)
        self._transport.send(
            "PUT", f"/agents/{segment(agent)}/memory-config", body=change_of(config), safe=True
        )

    def config_sources(self, agent: str) -> dict[str, dict[str, str]]:
        """Return the layer of each of an agent's settings: see `Memory.config_sources`."""
        check_name("agent", agent)
        found: dict[str, dict[str, str]] = self._transport.get(
            f"/agents/{segment(agent)}/memory-config", {"sources": "true"}
        )["sources"]
        return found

    def reset_config(self, agent: str) -> None:
        """Remove an agent's stored settings for the API key's tenant."""
        check_name("agent", agent)
        self._transport.send("DELETE", f"/agents/{segment(agent)}/memory-config", safe=True)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the service has nothing left to embed; False where that takes longer.

        Without a `timeout` it asks again until it is done.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _FLUSH_SECONDS if until is None else until - time.monotonic()
            seconds = max(0.0, min(left, _FLUSH_SECONDS))
            if self._transport.post("/flush", {"seconds": seconds})["done"]:
                return True
            if until is not None and time.monotonic() >= until:
                return False

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteScope(RemoteFacts, RemoteForget, RemoteLedger):
    """`MemoryScope`, over HTTP."""

    def __init__(self, transport: Transport, scope: Scope, *, actor: str | None = None) -> None:
        self._actor = actor
        self._transport = transport.acting(actor)
        self.scope = scope

    def _over(self, transport: Transport) -> Self:
        """The same scope, asked over other connections."""
        return type(self)(transport, self.scope, actor=self._actor)

    def __repr__(self) -> str:
        return f"RemoteScope({self.scope})"

    @property
    def _who(self) -> dict[str, Json]:
        return {"agentId": self.scope.agent, "userId": self.scope.user}

    def episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> EpisodeInHand:
        return EpisodeInHand(self, self.open_episode(session_id, at=at, metadata=metadata))

    def open_episode(
        self,
        session_id: str | None = None,
        *,
        at: datetime | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Episode:
        check_metadata(metadata)
        # The client makes the session id, so that the call can be retried.
        body = self._who | {
            "sessionId": session_id_of(session_id),
            "at": encode.time("at", at),
            "metadata": None if metadata is None else dict(metadata),
        }
        made = self._transport.post("/episodes", body)
        return decode.episode(made, self.scope.tenant)

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
        turns = encode.parts(messages, content)
        lists = listed(turns, at=at, tokens=tokens, keys=keys, index=index, now=encode.NEVER)
        body = self._who | {
            "messages": [dict(message.body) for message in turns.messages],
            "at": encode.times(at, turns),
            "tokens": lists.tokens,
            "keys": lists.keys,
            "index": None if all(lists.indexed) else lists.indexed,
        }
        if isinstance(episode_or_session_id, str):
            path = f"/sessions/{segment(episode_or_session_id)}/messages"
        else:
            path = f"/episodes/{encode.episode_id(episode_or_session_id)}/messages"
        return decode.stored(self._stored(path, body, idempotency_key), turns.messages)

    def close_episode(
        self,
        episode_id: Episode | UUID | str,
        reason: EndReason | str = EndReason.USER_CLOSED,
        summary: str | None = None,
        key_facts: Sequence[str] | None = None,
        *,
        at: datetime | None = None,
    ) -> Episode:
        body = self._who | {
            "reason": reason,
            "summary": summary,
            "keyFacts": None if key_facts is None else encode.texts("key_facts", key_facts),
            "at": encode.time("at", at),
        }
        path = f"/episodes/{encode.episode_id(episode_id)}/close"
        closed = self._transport.post(path, body, done=EpisodeClosed)
        if closed is None:
            return self.get(episode_id).episode
        return decode.episode(closed, self.scope.tenant)

    def close_session(
        self, session_id: str, reason: EndReason | str = EndReason.USER_CLOSED
    ) -> Session:
        path = f"/sessions/{segment(check_name('session_id', session_id))}/close"
        closed = self._transport.post(path, self._who | {"reason": reason})
        return decode.session(closed, self.scope.tenant)

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
        turns = encode.parts(messages)
        times = encode.times(at, turns)
        body = self._who | {
            "sessionId": session_id,
            "messages": [dict(message.body) for message in turns.messages],
            "at": None if isinstance(times, list) else times,
            "times": times if isinstance(times, list) else None,
            "metadata": None if metadata is None else dict(metadata),
            "inputTokens": input_tokens,
            "outputTokens": output_tokens,
            "close": {
                "reason": reason,
                "summary": summary,
                "keyFacts": None if key_facts is None else encode.texts("key_facts", key_facts),
                "at": encode.time("ended_at", ended_at),
            },
        }
        return decode.episode(self._stored("/episodes", body, idempotency_key), self.scope.tenant)

    def _stored(self, path: str, body: Json, key: str | None) -> Any:
        """Send a write with an idempotency key, so that it can be retried."""
        given = str(uuid4()) if key is None else check_name("idempotency_key", key)
        # A header takes ASCII only.
        header = given if given.isascii() and given.isprintable() else segment(given)
        return self._transport.post(path, body, headers={"Idempotency-Key": header})

    def heartbeat(self, session_id: str, *, at: datetime | None = None) -> Session:
        path = f"/sessions/{segment(check_name('session_id', session_id))}/heartbeat"
        answer = self._transport.post(path, self._who | {"at": encode.time("at", at)})
        return decode.session(answer, self.scope.tenant)

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
        left_out = left_out_session(leave_out_session, session_id)
        body = self._ask(query, mode, limit, min_score, since, until, left_out)
        body |= encode.filters(roles, sessions, metadata)
        body["includeArchived"] = include_archived
        if not body["query"]:
            return []
        return decode.snippets(self._transport.post("/episodes/search", body))

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
        left_out = left_out_session(leave_out_session, session_id)
        body = self._ask(query, mode, limit, min_score, since, until, left_out)
        body |= encode.filters(roles, sessions, metadata)
        if not body["query"]:
            return []
        return decode.hits(self._transport.post("/turns/search", body))

    def _ask(
        self,
        query: str,
        mode: str,
        limit: int,
        min_score: float | None,
        since: datetime | None,
        until: datetime | None,
        left_out: str | None,
    ) -> dict[str, Json]:
        if not isinstance(query, str):
            raise InvalidInput("query", f"must be text, not {type(query).__name__}")
        return self._who | {
            "query": query.replace("\0", " ")[:_LONGEST_QUERY],
            "mode": mode,
            "topK": limit,
            "minScore": min_score,
            "since": encode.time("since", since),
            "until": encode.time("until", until),
            "sessionId": left_out,
        }

    def recent(
        self,
        limit: int = 5,
        *,
        include_archived: bool | None = None,
        leave_out_session: str | None = None,
        session_id: str | None = None,
    ) -> list[EpisodeSnippet]:
        query = self._who | {
            "limit": limit,
            "includeArchived": include_archived,
            "sessionId": left_out_session(leave_out_session, session_id),
        }
        return decode.snippets(self._transport.get("/episodes/recent", query))

    def session(self, session_id: str, *, last: int | None = None) -> SessionReplay:
        path = f"/sessions/{segment(check_name('session_id', session_id))}"
        query = self._who | {"last": None if last is None else check_limit(last, "last")}
        return decode.session_replay(self._transport.get(path, query), self.scope.tenant)

    def sessions(self, page: int = 1, page_size: int = 20) -> Page[Session]:
        query = self._who | {"page": page, "pageSize": page_size}
        return decode.session_page(self._transport.get("/sessions", query), self.scope.tenant)

    def reset_session(self, session_id: str) -> None:
        path = f"/sessions/{segment(check_name('session_id', session_id))}/reset"
        # Not retried, because a retry would hide turns that were added after the first attempt.
        self._transport.send("POST", path, body=self._who, safe=False)

    def episodes(
        self, page: int = 1, page_size: int = 20, *, include_archived: bool = True
    ) -> Page[Episode]:
        query = self._who | {
            "page": page,
            "pageSize": page_size,
            "includeArchived": include_archived,
        }
        return decode.page(self._transport.get("/episodes", query), self.scope.tenant)

    def get(self, episode_id: Episode | UUID | str) -> EpisodeReplay:
        path = f"/episodes/{encode.episode_id(episode_id)}"
        return decode.replay(self._transport.get(path, self._who), self.scope.tenant)

    def turn(self, turn_id: Turn | UUID | str) -> Turn | None:
        found = as_id("turn_id", turn_id, Turn)
        if found is None:
            return None
        turns = decode.turns(self._transport.get(f"/turns/{found}", self._who))
        return turns[0] if turns else None

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
        if count_tokens is not None:
            raise InvalidInput("count_tokens", "must not be given: the service counts for itself")
        past = [dict(each.body) for each in encode.messages(history)] if history else []
        said = message if isinstance(message, str) else encode.messages(message)[0].body
        body = self._who | {
            "message": said if isinstance(said, str) else dict(said),
            "history": past,
            "system": system,
            "budgetTokens": budget_tokens,
            "sessionId": session_id,
        }
        return decode.context(self._transport.post("/context", body))

    def delete(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> None:
        path = f"/episodes/{encode.episode_id(episode_id)}/delete"
        self._transport.acting(actor).post(path, self._who, done=EpisodeNotFound)

    def deleted(self) -> list[Episode]:
        path = f"/users/{segment(self.scope.user)}/deleted"
        found = self._transport.get(path, {"agentId": self.scope.agent})
        return decode.episodes(found, self.scope.tenant)

    def restore(self, episode_id: Episode | UUID | str, *, actor: str | None = None) -> Episode:
        path = f"/episodes/{encode.episode_id(episode_id)}/restore"
        return decode.episode(
            self._transport.acting(actor).post(path, self._who), self.scope.tenant
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
        chosen = turn_choice(ids, last)
        body = self._who | {
            "ids": None if ids is None else sorted(map(str, chosen)),
            "last": last,
            "physical": physical,
        }
        path = f"/sessions/{segment(check_name('session_id', session_id))}/messages/remove"
        # After the first attempt the last turns are others, so only named ones are retried.
        removed = self._transport.acting(actor).send("POST", path, body=body, safe=ids is not None)
        return decode.turns(removed)

    def erase(self, *, physical: bool = True, actor: str | None = None) -> EraseReceipt:
        query = {"agentId": self.scope.agent, "physical": physical}
        path = f"/users/{segment(self.scope.user)}/episodes"
        # Not retried, because the receipt of a second erasure would be all zeros.
        return decode.receipt(self._transport.acting(actor).delete(path, query, safe=False))

    def erase_episode(
        self,
        episode_id: Episode | UUID | str,
        *,
        physical: bool = True,
        actor: str | None = None,
    ) -> EraseReceipt:
        path = f"/episodes/{encode.episode_id(episode_id)}"
        query = self._who | {"physical": physical}
        # Not retried, because a second attempt would find nothing and return no receipt.
        return decode.receipt(self._transport.acting(actor).delete(path, query, safe=False))

    def erase_session(
        self,
        session_id: str,
        *,
        physical: bool = True,
        actor: str | None = None,
    ) -> EraseReceipt:
        path = f"/sessions/{segment(check_name('session_id', session_id))}"
        query = self._who | {"physical": physical}
        # Not retried, because a second attempt would find nothing and return no receipt.
        return decode.receipt(self._transport.acting(actor).delete(path, query, safe=False))
