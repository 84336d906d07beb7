"""The ledger's read side: what was injected into a session, and where an episode was used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import UUID

from ...domain.block.block import Block, Material
from ...domain.checks import check_limit, episode_id_of
from ...domain.episode import Episode, Scope, check_name
from ...domain.ids import new_id
from ...domain.policy import LedgerMode, MemoryConfig
from ..core.runtime import Runtime

if TYPE_CHECKING:
    from ...domain.ledger import EpisodeUses, Injection

_PAGE = 1_000
_RECENT_USES = 20


class LedgerCalls(ABC):
    """The part of `MemoryScope` that is about the ledger."""

    scope: Scope

    @abstractmethod
    def _reading(self, action: str) -> AbstractContextManager[Runtime]: ...

    def injections(
        self, session_id: str, *, after: Injection | UUID | None = None, limit: int = _PAGE
    ) -> list[Injection]:
        """Which memories were shown for which turn of a session, oldest first.

        Of a longer list, `after` is the last entry of the page before. A session that is unknown,
        or was held without a context, has none.
        """
        check_name("session_id", session_id)
        check_limit(limit)
        last = after if after is None or isinstance(after, UUID) else after.id
        with self._reading("injections") as runtime:
            runtime.ledger.flush()
            return runtime.store.injections(
                self.scope, session_id=session_id, after=last, limit=limit
            )

    def uses(self, episode_id: Episode | UUID | str, *, limit: int = _RECENT_USES) -> EpisodeUses:
        """Where an episode was shown to a model: how often, when last, in which sessions."""
        check_limit(limit)
        key = episode_id_of(episode_id)
        with self._reading("uses") as runtime:
            runtime.ledger.flush()
            return runtime.store.episode_uses(self.scope, key, limit=limit)


def note(
    runtime: Runtime,
    scope: Scope,
    config: MemoryConfig,
    session_id: str,
    material: Material,
    block: Block,
    *,
    budget_tokens: int,
    query: str,
) -> None:
    """Enter a block that was made for a session into the ledger, by the agent's settings."""
    mode = config.context.ledger
    if mode is LedgerMode.OFF:
        return
    from ...domain.ledger import make_injection

    kept = None
    if mode is LedgerMode.FULL:
        # Numbers of placeholders count within episodes, and a query belongs to none yet.
        kept = runtime.guard(scope, session_id=session_id, numbered=False).text(query)
    entry = make_injection(
        new_id(),
        session_id,
        runtime.clock.now(),
        material,
        block,
        budget_tokens=budget_tokens,
        query=kept,
    )
    runtime.ledger.note(scope, entry)
