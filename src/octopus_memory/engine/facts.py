"""Standing facts: found when turns are indexed or an episode closes, or given by a caller.

Agents of a tenant may share them: what one knows of a user is then known to the others.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from ..domain.checks import check_flag, fact_id_of, kinds_of
from ..domain.episode import Scope
from ..domain.errors import FactNotFound, SettingsChanged
from ..domain.facts import (
    SHARE_FACTS,
    TENANT_SETTINGS,
    Fact,
    FactKind,
    FactOrigin,
    FactSharing,
    check_fact_text,
    check_given_slot,
    check_kind,
    consolidate,
    current,
    slot_for,
)
from ..domain.ids import new_id
from .core import audit
from .core.pii_guard import Guard, cut, guarded_slot
from .core.runtime import Runtime, retry_on_settings_change
from .write import index_turns

_MICROSECOND = timedelta(microseconds=1)


def listed(
    runtime: Runtime,
    scope: Scope,
    *,
    as_of: datetime | None,
    kinds: Collection[FactKind | str] | None,
    history: bool,
    with_shared: bool = True,
) -> list[Fact]:
    """Return the current facts, or with `history` all of them, oldest first.

    With `with_shared`, also those that other agents share with this one. Turns that the worker has
    not indexed yet are indexed first, so that what was said is known.
    """
    wanted = kinds_of(kinds)
    index_turns.catch_up_if_possible(runtime, scope)
    stored, now = runtime.store.facts(scope, until=as_of), runtime.clock.now()
    if with_shared:
        stored += shared(runtime, scope, until=as_of)
    if history:
        settled = consolidate(stored, as_of=as_of, now=now)
        facts = [fact for fact in settled if not fact.is_deleted]
    else:
        facts = current(stored, as_of=as_of, now=now)
    return facts if wanted is None else [fact for fact in facts if fact.kind in wanted]


@retry_on_settings_change
def add(
    runtime: Runtime,
    scope: Scope,
    text: str,
    *,
    kind: FactKind | str,
    slot: str | None,
    pinned: bool,
    actor: str,
) -> Fact:
    """Store a caller's fact."""
    text, fact_kind = check_fact_text("text", text), check_kind(kind)
    check_flag("pinned", pinned)
    slot = check_given_slot(slot)
    guard = _guard(runtime, scope)
    kept = cut(guard.text(text))
    own = slot_for(fact_kind, kept) if slot is None else guarded_slot(guard, slot)
    fact = Fact(
        id=new_id(),
        kind=fact_kind,
        text=kept,
        slot=own,
        since=runtime.clock.now(),
        origin=FactOrigin.CALLER,
        is_pinned=pinned,
    )
    return _store(runtime, scope, fact, guard, "fact_add", actor=actor)


@retry_on_settings_change
def correct(
    runtime: Runtime, scope: Scope, given: Fact | UUID | str, text: str, *, actor: str
) -> Fact:
    """Store a correction, which replaces the given fact.

    The old fact stays as history, and a pin moves to the new one.
    """
    fact_id, text = fact_id_of(given), check_fact_text("text", text)
    about = {"fact": str(fact_id)}
    names = {"tenant": scope.tenant, "user": scope.user, "actor": actor}
    with audit.refusals(runtime, "fact_correct", **names, **about):
        stored = runtime.store.facts(scope)
        old = next((fact for fact in stored if fact.id == fact_id and not fact.is_deleted), None)
        if old is None:
            raise FactNotFound(fact_id)
    # The newest fact wins, and the conversation's clock may be ahead of this one.
    beside = [fact.since for fact in stored if (fact.kind, fact.slot) == (old.kind, old.slot)]
    guard = _guard(runtime, scope)
    fact = Fact(
        id=new_id(),
        kind=old.kind,
        text=cut(guard.text(text)),
        slot=old.slot,
        since=max(runtime.clock.now(), max(beside) + _MICROSECOND),
        origin=FactOrigin.CALLER,
        is_pinned=old.is_pinned,
    )
    return _store(runtime, scope, fact, guard, "fact_correct", actor=actor, corrected=str(old.id))


def pin(
    runtime: Runtime, scope: Scope, given: Fact | UUID | str, *, pinned: bool, actor: str
) -> Fact:
    """Pin or unpin a fact."""
    check_flag("pinned", pinned)
    fact_id = fact_id_of(given)
    action, about = "fact_pin" if pinned else "fact_unpin", {"fact": str(fact_id)}
    names = {"tenant": scope.tenant, "user": scope.user, "actor": actor}
    with audit.refusals(runtime, action, **names, **about):
        entry = audit.draft(runtime, action, **names, **about)
        runtime.store.pin_fact(scope, fact_id, pinned=pinned, entry=entry)
    return _settled(runtime, scope, fact_id)


def delete(runtime: Runtime, scope: Scope, given: Fact | UUID | str, *, actor: str) -> None:
    """Clear a fact's text permanently."""
    fact_id = fact_id_of(given)
    about = {"fact": str(fact_id)}
    names = {"tenant": scope.tenant, "user": scope.user, "actor": actor}
    with audit.refusals(runtime, "fact_delete", **names, **about):
        entry = audit.draft(runtime, "fact_delete", **names, **about)
        runtime.store.delete_fact(scope, fact_id, at=entry.at, entry=entry)


def _store(
    runtime: Runtime,
    scope: Scope,
    fact: Fact,
    guard: Guard,
    action: str,
    *,
    actor: str,
    **about: str,
) -> Fact:
    """Store a guarded fact; the write names the version of the guard's settings."""
    entry = audit.draft(
        runtime,
        action,
        tenant=scope.tenant,
        actor=actor,
        user=scope.user,
        fact=str(fact.id),
        kind=fact.kind.value,
        **about,
    )
    runtime.store.add_facts(scope, [fact], settings=guard.settings, entry=entry)
    return _settled(runtime, scope, fact.id, fact)


def _settled(runtime: Runtime, scope: Scope, fact_id: UUID, known: Fact | None = None) -> Fact:
    """Return the fact with the one that it replaces or that replaced it."""
    for fact in consolidate(runtime.store.facts(scope), now=runtime.clock.now()):
        if fact.id == fact_id:
            return fact
    if known is None:
        # Another caller removed it since it was stored.
        raise FactNotFound(fact_id)
    return known


def _guard(runtime: Runtime, scope: Scope) -> Guard:
    """Make a guard without numbered placeholders, because numbers count within an episode."""
    return runtime.guard(scope, numbered=False)


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
