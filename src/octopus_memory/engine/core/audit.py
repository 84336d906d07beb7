"""The audit log: records who made a call, about whom, and its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from uuid import UUID

from ...domain.audit import (
    AuditCheck,
    AuditDraft,
    AuditEntry,
    AuditHead,
    check,
    check_end,
    subject_hash,
)
from ...domain.episode import Scope, check_name
from ...domain.errors import Conflict, NotFound
from ...domain.identity import ACTING_AS
from ...domain.message import Json
from .runtime import Runtime

INSTALLATION = ""
"""The name of the log for events that concern every tenant."""
_SUBJECT = "subject"
_PAGE = 1_000


def subject_of(runtime: Runtime, tenant: str, user: str) -> str:
    """Return the keyed hash that stands for a user in a tenant's log."""
    return subject_hash(runtime.store.salt, "user", tenant, user)


def draft(
    runtime: Runtime,
    action: str,
    *,
    tenant: str,
    actor: str,
    user: str | None = None,
    outcome: str = "done",
    **detail: Json,
) -> AuditDraft:
    """Make an entry. `detail` may hold counts and ids that Octopus made, never a user's text."""
    return AuditDraft(
        tenant=tenant,
        at=runtime.clock.now(),
        actor=_unnamed(check_name("actor", actor), user),
        action=action,
        subject=None if user is None else subject_of(runtime, tenant, user),
        outcome=outcome,
        detail=detail,
    )


def record(
    runtime: Runtime,
    action: str,
    *,
    tenant: str,
    actor: str,
    user: str | None = None,
    outcome: str = "done",
    **detail: Json,
) -> AuditEntry:
    """Append one entry to a tenant's log, or to the installation's own."""
    return runtime.store.record(
        draft(runtime, action, tenant=tenant, actor=actor, user=user, outcome=outcome, **detail)
    )


def reading(
    runtime: Runtime, action: str, scope: Scope, *, actor: str
) -> AbstractContextManager[Runtime]:
    """Record a read if the settings say so: that it happened, never its query or result."""
    return reading_across(runtime, action, tenant=scope.tenant, user=scope.user, actor=actor)


def reading_across(
    runtime: Runtime, action: str, *, tenant: str, user: str | None, actor: str
) -> AbstractContextManager[Runtime]:
    """Record a read across agents, of one user or of all."""
    if not runtime.audit_reads:
        return nullcontext(runtime)
    return _recorded(runtime, action, tenant=tenant, user=user, actor=actor)


@contextmanager
def _recorded(
    runtime: Runtime, action: str, *, tenant: str, user: str | None, actor: str
) -> Iterator[Runtime]:
    with refusals(runtime, action, tenant=tenant, user=user, actor=actor):
        yield runtime
    record(runtime, action, tenant=tenant, user=user, actor=actor)


@contextmanager
def refusals(
    runtime: Runtime,
    action: str,
    *,
    tenant: str,
    actor: str,
    user: str | None = None,
    **detail: Json,
) -> Iterator[None]:
    """Record the call if it is refused. The block itself records a success."""
    try:
        yield
    except (Conflict, NotFound) as error:
        outcome = type(error).__name__
        record(runtime, action, tenant=tenant, actor=actor, user=user, outcome=outcome, **detail)
        raise


def episode_detail(episode_id: UUID | None) -> dict[str, Json]:
    return {} if episode_id is None else {"episode": str(episode_id)}


def _unnamed(actor: str, user: str | None) -> str:
    """Replace an actor who is the subject, because the log must not name a user."""
    if user is None:
        return actor
    if actor == user:
        return _SUBJECT
    credential, acting, named = actor.partition(ACTING_AS)
    if acting:
        return f"{_unnamed(credential, user)}{acting}{_unnamed(named, user)}"
    kind, colon, name = actor.partition(":")
    return f"{kind}{colon}{_SUBJECT}" if name == user else actor


def verify(runtime: Runtime, tenant: str, *, head: str | None = None) -> AuditCheck:
    """Verify a log's hash chain from its beginning, and its stored end."""
    log = _Log(runtime, tenant)
    return check_end(check(log, known=head), log.ends)


class _Log:
    """Iterates over a log that other processes may append to, and keeps the end it reached."""

    def __init__(self, runtime: Runtime, tenant: str) -> None:
        self._runtime, self._tenant = runtime, tenant
        self.ends = AuditHead()

    def __iter__(self) -> Iterator[AuditEntry]:
        store, after = self._runtime.store, 0
        while True:
            while page := store.audit(self._tenant, after=after, limit=_PAGE):
                yield from page
                after = page[-1].seq
            # Read after the entries, so that it cannot be older than any of them.
            self.ends = store.audit_head(self._tenant)
            if self.ends.seq <= after or not store.audit(self._tenant, after=after, limit=1):
                return
