"""Facts of one user across the agents of a tenant, if the tenant's settings share them.

Nothing is copied: a context reads the facts of the other agents where they are stored, so that an
erased, deleted or corrected fact is gone or corrected for every agent at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from ..domain.episode import Scope
from ..domain.errors import SettingsChanged
from ..domain.facts import SHARE_FACTS, TENANT_SETTINGS, Fact, FactKind, FactSharing, current
from .core import audit
from .core.runtime import Runtime

_ATTEMPTS = 20


def shared(runtime: Runtime, scope: Scope, *, until: datetime | None = None) -> list[Fact]:
    """Return the current facts that other agents share with this scope, without their source.

    The agent's own privacy settings apply to them.
    """
    sharing = runtime.fact_sharing(scope.tenant)
    others = () if sharing is None else sharing.others(scope.agent)
    if sharing is None or not others:
        return []
    found = [
        replace(fact, episode_id=None, turn_id=None, ordinal=None, until=None, replaces=None)
        for agent in others
        for fact in current(
            runtime.store.facts(replace(scope, agent=agent), until=until), as_of=until
        )
        if fact.kind in sharing.kinds
    ]
    if not found:
        return []
    guard = runtime.guard(scope, numbered=False)
    if not guard.redacts:
        return found
    return [replace(fact, text=guard.text(fact.text)) for fact in found]


def share(
    runtime: Runtime,
    tenant: str,
    kinds: Collection[FactKind | str],
    agents: Collection[str],
    *,
    actor: str,
) -> FactSharing:
    """Store that these agents share facts of these kinds, in place of what was shared before."""
    sharing = FactSharing.of(kinds, agents)
    _put(runtime, tenant, sharing, actor=actor)
    return sharing


def stop(runtime: Runtime, tenant: str, *, actor: str) -> None:
    """Store that no agent shares facts."""
    _put(runtime, tenant, None, actor=actor)


def _put(runtime: Runtime, tenant: str, sharing: FactSharing | None, *, actor: str) -> None:
    given = None if sharing is None else sharing.to_dict()
    for _ in range(_ATTEMPTS):
        stored = runtime.store.config(tenant, TENANT_SETTINGS)
        new = {**(stored.own or {}), SHARE_FACTS: given}
        new = {name: value for name, value in new.items() if value is not None}
        about = {"kinds": [], "agents": []} if given is None else given
        entry = audit.draft(runtime, SHARE_FACTS, tenant=tenant, actor=actor, **about)
        try:
            runtime.store.put_config(
                tenant, TENANT_SETTINGS, new or None, entry=entry, seen=stored.version
            )
        except SettingsChanged:
            continue
        finally:
            runtime.clear_config_cache()
        return
    raise SettingsChanged
