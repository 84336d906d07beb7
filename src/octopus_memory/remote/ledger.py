"""The calls about the ledger, over HTTP."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ..domain.episode import Episode, Scope, check_name
from ..domain.errors import EpisodeNotFound
from ..domain.ledger import EpisodeUse, EpisodeUses, Injected, InjectedKind, Injection
from ..domain.message import Json
from . import encode
from .decode import moment, read
from .transport import Transport, segment

_MOST = 1_000


class RemoteLedger:
    """The calls of `RemoteScope` about the ledger."""

    scope: Scope
    _transport: Transport

    def injections(
        self, session_id: str, *, after: Injection | UUID | None = None, limit: int = _MOST
    ) -> list[Injection]:
        last = after if after is None or isinstance(after, UUID) else after.id
        path = f"/sessions/{segment(check_name('session_id', session_id))}/injections"
        query: dict[str, Json] = {"after": None if last is None else str(last), "limit": limit}
        return _injections(self._transport.get(path, self._ids | query))

    def uses(self, episode_id: Episode | UUID | str, *, limit: int = 20) -> EpisodeUses:
        path = f"/episodes/{encode.episode_id(episode_id)}/uses"
        try:
            return _uses(self._transport.get(path, self._ids | {"limit": limit}))
        except EpisodeNotFound as error:
            return EpisodeUses(episode_id=UUID(str(error.episode_id)))

    @property
    def _ids(self) -> dict[str, Json]:
        return {"agentId": self.scope.agent, "userId": self.scope.user}


@read
def _injections(body: Any) -> list[Injection]:
    return [
        Injection(
            id=UUID(each["id"]),
            session_id=each["sessionId"],
            at=moment(each["at"]),
            shown=tuple(map(_item, each["shown"])),
            cut=tuple(map(_item, each["cut"])),
            left_out=each["leftOut"],
            budget_tokens=each["budgetTokens"],
            block_tokens=each["blockTokens"],
            block_hash=each["blockHash"],
            query=each["query"],
            episode_id=_maybe_id(each["episodeId"]),
            ordinal=each["ordinal"],
        )
        for each in body["items"]
    ]


def _item(body: Any) -> Injected:
    return Injected(
        kind=InjectedKind(body["what"]),
        rank=body["rank"],
        score=body["score"],
        reason=body["reason"],
        episode_id=_maybe_id(body["episodeId"]),
        ordinal=body["ordinal"],
        fact_id=_maybe_id(body["factId"]),
        tokens=body["tokens"],
    )


@read
def _uses(body: Any) -> EpisodeUses:
    return EpisodeUses(
        episode_id=UUID(body["episodeId"]),
        times=body["times"],
        cut=body["cut"],
        last=None if body["last"] is None else moment(body["last"]),
        recent=tuple(
            EpisodeUse(
                injection_id=UUID(each["injectionId"]),
                session_id=each["sessionId"],
                at=moment(each["at"]),
                items=each["items"],
            )
            for each in body["recent"]
        ),
    )


def _maybe_id(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
