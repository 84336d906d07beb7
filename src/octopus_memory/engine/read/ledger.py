"""The ledger's read side: what was injected into a session, and where an episode was used."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.block.block import Block, Material
from ...domain.episode import Scope, TurnHit
from ...domain.ids import new_id
from ...domain.policy import LedgerMode, MemoryConfig
from ..core.runtime import Runtime


def note_recalled(
    runtime: Runtime,
    scope: Scope,
    session_id: str,
    query: str,
    hits: Sequence[TurnHit],
    text: str,
) -> None:
    """Record what a model's recall tool was answered, as the block is recorded."""
    from ...domain.ledger import (
        QUERY_LIMIT,
        Injected,
        InjectedKind,
        Injection,
        block_hash,
        contributions,
    )

    mode = runtime.config(scope.tenant, scope.agent).context.ledger
    if mode is LedgerMode.OFF or not hits:
        return
    guard = runtime.guard(scope, session_id=session_id, numbered=False)
    shown = tuple(
        Injected(
            kind=InjectedKind.PASSAGE,
            rank=rank,
            score=hit.score,
            reason="recall tool",
            episode_id=hit.episode_id,
            ordinal=hit.ordinal,
            contributions=contributions(hit.signals),
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
    runtime.ledger.note(scope, entry)


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
