"""Routes of sessions, and of the ledger: which memories a model was shown."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query

from ....calls import ScopeCalls
from ....domain.context import MemoryContext
from ....domain.episode import Page, Session, Turn
from ....domain.identity import AccessRole, Principal
from ....domain.ledger import EpisodeUses, Injection
from ....domain.replay import SessionReplay
from ....engine.memory import Memory
from ....engine.scope import MemoryScope
from ..problems import Refused
from ..requests import (
    ContextBody,
    FlushBody,
    FlushedOut,
    HeartbeatBody,
    NameText,
    RemoveTurnsBody,
    SessionAddBody,
    SessionCloseBody,
    WhoBody,
)
from ..responses import ADDED
from ..routing import router
from ..serving import SEES, WRITES, serves
from .episodes import IdempotencyKey, store_messages

routes = router("Sessions")


@serves(routes, ScopeCalls.add, 404, 409, may=WRITES, status=201, shape=ADDED)
def add_to_session(
    scope: MemoryScope,
    session_id: NameText,
    body: SessionAddBody,
    idempotency_key: IdempotencyKey = None,
) -> dict[str, Any]:
    """Add messages to a session. Starts an episode if none is open."""
    return store_messages(scope, session_id, body, idempotency_key)


@serves(routes, ScopeCalls.remove_turns, 404, 409, may=SEES)
def remove_turns(
    scope: MemoryScope, caller: Principal, session_id: NameText, body: RemoveTurnsBody
) -> list[Turn]:
    """Remove messages for good, with everything derived from them. Returns them once.

    The role `agent` takes back messages of an open episode; what was said before is the user's.
    """
    ids = body.ids
    if caller.role is AccessRole.AGENT:
        ids = _open_ones(scope, session_id, body)
    return scope.remove_turns(
        session_id, ids=ids, last=body.last, physical=body.physical, actor=caller.actor
    )


def _open_ones(scope: MemoryScope, session_id: str, body: RemoveTurnsBody) -> list[UUID] | None:
    """Return the chosen ids that are in an open episode; None if `last` chooses.

    :raises Refused: an ended episode has one of the chosen messages
    """
    if body.physical:
        raise Refused(403, "forbidden", "the role agent may not have the files rewritten")
    own: set[UUID] = set()
    for part in scope.session(session_id, last=body.last).episodes:
        there = {turn.id for turn in part.turns}
        chosen = there if body.ids is None else there.intersection(body.ids)
        if chosen and not part.episode.is_open:
            words = (
                "the role agent may remove messages of an open episode alone: delete the episode"
            )
            raise Refused(403, "forbidden", words)
        own |= chosen
    return None if body.ids is None else sorted(own)


@serves(routes, ScopeCalls.sessions, may=SEES, tag=True)
def list_sessions(
    scope: MemoryScope,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    pageSize: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Page[Session]:
    """List sessions, last seen first."""
    return scope.sessions(page, pageSize)


@serves(routes, ScopeCalls.session, 404, may=SEES, tag=True)
def get_session(
    scope: MemoryScope,
    session_id: NameText,
    last: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> SessionReplay:
    """Return a session with its messages in order, with `last` only the newest ones."""
    return scope.session(session_id, last=last)


@serves(routes, ScopeCalls.close_session, 404, may=WRITES)
def close_session(scope: MemoryScope, session_id: NameText, body: SessionCloseBody) -> Session:
    """Close the open episode of a session, if there is one."""
    return scope.close_session(session_id, body.reason)


@serves(routes, ScopeCalls.reset_session, 404, may=WRITES)
def reset_session(
    scope: MemoryScope,
    session_id: NameText,
    body: WhoBody | None = None,  # noqa: ARG001 - names the scope
) -> None:
    """Reset the replay of a session. Its messages can still be recalled."""
    scope.reset_session(session_id)


@serves(routes, ScopeCalls.heartbeat, 404, may=WRITES)
def heartbeat(scope: MemoryScope, session_id: NameText, body: HeartbeatBody) -> Session:
    """Keep an idle session open. `status` tells whether it is."""
    return scope.heartbeat(session_id, at=body.at)


@serves(routes, ("POST", "/flush"), may=WRITES, tags=["Operations"])
def flush(memory: Memory, body: FlushBody) -> FlushedOut:
    """Wait until nothing is left to embed; `done` is false where that takes longer."""
    return FlushedOut(done=memory.flush(timeout=body.seconds))


@serves(routes, ScopeCalls.context, may=SEES, tags=["Context"])
def context(scope: MemoryScope, body: ContextBody) -> MemoryContext:
    """Return the context block and the message list for the current message."""
    return scope.context(
        body.message,
        history=body.history,
        system=body.system,
        budget_tokens=body.budget_tokens,
        session_id=body.session_id,
    )


ledger = router("Ledger")
_Limit = Annotated[int, Query(ge=1, le=1_000)]


@serves(ledger, ScopeCalls.injections, may=SEES)
def list_injections(
    scope: MemoryScope,
    session_id: NameText,
    after: Annotated[UUID | None, Query(description="The last entry of the page before.")] = None,
    limit: _Limit = 1_000,
) -> list[Injection]:
    """Return the memories that were shown for each turn of a session, oldest first."""
    return scope.injections(session_id, after=after, limit=limit)


@serves(ledger, ScopeCalls.uses, 404, may=SEES)
def episode_uses(scope: MemoryScope, episode_id: UUID, limit: _Limit = 20) -> EpisodeUses:
    """Return how often an episode was shown to a model, when last, and in which sessions."""
    return scope.uses(episode_id, limit=limit)
