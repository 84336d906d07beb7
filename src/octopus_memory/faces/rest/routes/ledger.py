"""The routes of the ledger: which memories a model was shown, and where an episode was used."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query

from ....calls import ScopeCalls
from ....domain.ledger import EpisodeUses, Injection
from ....engine.scope import MemoryScope
from ..requests import NameText
from ..routing import router
from ..serving import SEES, serves

routes = router("Ledger")
_Limit = Annotated[int, Query(ge=1, le=1_000)]


@serves(routes, ScopeCalls.injections, may=SEES)
def list_injections(
    scope: MemoryScope,
    session_id: NameText,
    after: Annotated[UUID | None, Query(description="The last entry of the page before.")] = None,
    limit: _Limit = 1_000,
) -> list[Injection]:
    """Return the memories that were shown for each turn of a session, oldest first."""
    return scope.injections(session_id, after=after, limit=limit)


@serves(routes, ScopeCalls.uses, 404, may=SEES)
def episode_uses(scope: MemoryScope, episode_id: UUID, limit: _Limit = 20) -> EpisodeUses:
    """Return how often an episode was shown to a model, when last, and in which sessions."""
    return scope.uses(episode_id, limit=limit)
