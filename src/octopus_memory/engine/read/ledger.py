"""The ledger's read side: what was injected into a session, and where an episode was used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import UUID

from ...domain.block.block import Block, Material
from ...domain.checks import check_limit, episode_id_of
from ...domain.episode import Episode, Scope, TurnHit, check_name
from ...domain.errors import InvalidInput
from ...domain.ids import as_id, new_id
from ...domain.policy import LedgerMode, MemoryConfig
from ..core.runtime import Runtime

if TYPE_CHECKING:
    from ...domain.ledger import EpisodeUses, Injection

_PAGE = 1_000
_RECENT_USES = 20


class LedgerCalls(ABC):
    """The calls of `MemoryScope` about the ledger."""

    scope: Scope

    @abstractmethod
    def _reading(self, action: str) -> AbstractContextManager[Runtime]: ...

    def injections(
        self, session_id: str, *, after: Injection | UUID | None = None, limit: int = _PAGE
    ) -> list[Injection]:
        """Return the memories that were shown for each turn of a session, oldest first.

        `after` is the last entry of the previous page. A session that is unknown or had no context
        has none.
        """
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

    @property
    @abstractmethod
    def _runtime(self) -> Runtime: ...

    def _note_recalled(
        self, session_id: str, query: str, hits: Sequence[TurnHit], text: str
    ) -> None:
        """Record what a model's recall tool was answered, as the block is recorded."""
        from ...domain.ledger import QUERY_LIMIT, Injected, InjectedKind, Injection, block_hash

        runtime = self._runtime
        mode = runtime.config(self.scope.tenant, self.scope.agent).context.ledger
        if mode is LedgerMode.OFF or not hits:
            return
        guard = runtime.guard(self.scope, session_id=session_id, numbered=False)
        shown = tuple(
            Injected(
                kind=InjectedKind.PASSAGE,
                rank=rank,
                score=hit.score,
                reason="recall tool",
                episode_id=hit.episode_id,
                ordinal=hit.ordinal,
            )
            for rank, hit in enumerate(hits, 1)
        )
        entry = Injection(
            id=new_id(),
            session_id=session_id,
            at=runtime.clock.now(),
            shown=shown,
            block_tokens=runtime.counter.count(text),
            block_hash=block_hash(text),
            query=guard.text(query)[:QUERY_LIMIT] if mode is LedgerMode.FULL else None,
        )
        runtime.ledger.note(self.scope, entry)

    def uses(self, episode_id: Episode | UUID | str, *, limit: int = _RECENT_USES) -> EpisodeUses:
        """Return how often, when last and in which sessions an episode was shown to a model."""
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
    """Record a session's block in the ledger, if the agent's settings say so."""
    mode = config.context.ledger
    if mode is LedgerMode.OFF:
        return
    from ...domain.ledger import make_injection

    kept = None
    if mode is LedgerMode.FULL:
        # Without numbered placeholders, because numbers count within an episode, and a query has
        # none.
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
