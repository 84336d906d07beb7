"""The ledger in exports: entries follow a scope's sessions, because they name their episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from ...domain.episode import Scope
from ...domain.ledger import Injected, Injection
from ...domain.message import Json
from ...domain.transfer.export_format import id_beside
from ...domain.transfer.ledger_lines import injection_line
from ..core.runtime import Runtime

_PAGE = 500


def lines(runtime: Runtime, scope: Scope) -> Iterator[dict[str, Json]]:
    after: UUID | None = None
    while page := runtime.store.injections(scope, after=after, limit=_PAGE):
        yield from map(injection_line, page)
        after = page[-1].id


def bring_in(runtime: Runtime, scope: Scope, entry: Injection) -> int:
    """Store an entry of an export; returns 1, or 0 if it exists or names no stored episode.

    An episode whose id exists in another scope was imported with another id, and so is its entry.
    """
    names = (scope.tenant, scope.agent, scope.user)
    beside = {own: id_beside(own, *names) for own in entry.episode_ids}
    holders = runtime.store.locate([*beside, *beside.values()])
    ids = {own: own if holders.get(own) == scope else beside[own] for own in beside}

    def here(items: tuple[Injected, ...]) -> tuple[Injected, ...]:
        return tuple(
            item if item.episode_id is None else replace(item, episode_id=ids[item.episode_id])
            for item in items
        )

    query = None
    if entry.query is not None:
        query = runtime.guard(scope, numbered=False).text(entry.query)
    arrived = replace(entry, shown=here(entry.shown), cut=here(entry.cut), query=query)
    return runtime.store.record_injections(scope.tenant, [(scope, arrived)])
