"""What is recorded of a call: who made it, about whom, and how it ended."""

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
from ...domain.message import Json
from .runtime import Runtime

INSTALLATION = ""
"""The log of what concerns every tenant."""
_SUBJECT = "subject"
_PAGE = 1_000


def subject_of(runtime: Runtime, tenant: str, user: str) -> str:
    """Stands for a person in the log; the same for all of the tenant's agents."""
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
    """`detail` holds counts and ids that Octopus made, and nothing that a person wrote."""
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
    """Record a read, where reads are recorded: that it was made, never what was asked or found."""
    return reading_across(runtime, action, tenant=scope.tenant, user=scope.user, actor=actor)


def reading_across(
    runtime: Runtime, action: str, *, tenant: str, user: str | None, actor: str
) -> AbstractContextManager[Runtime]:
    """Record a read of one user's episodes with every agent, or of everybody's."""
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
    """Record a call that is refused; the block records the one that is not."""
    try:
        yield
    except (Conflict, NotFound) as error:
        outcome = type(error).__name__
        record(runtime, action, tenant=tenant, actor=actor, user=user, outcome=outcome, **detail)
        raise


def episode_detail(episode_id: UUID | None) -> dict[str, Json]:
    return {} if episode_id is None else {"episode": str(episode_id)}


def _unnamed(actor: str, user: str | None) -> str:
    """A person who acts on their own memory is not named either."""
    if user is None:
        return actor
    if actor == user:
        return _SUBJECT
    kind, colon, name = actor.partition(":")
    return f"{kind}{colon}{_SUBJECT}" if name == user else actor


def verify(runtime: Runtime, tenant: str, *, head: str | None = None) -> AuditCheck:
    """Read a log from its beginning, page by page, against its hashes and its end."""
    log = _Log(runtime, tenant)
    return check_end(check(log, known=head), log.ends)


class _Log:
    """All entries of a log that others may go on writing to, and where it ended then."""

    def __init__(self, runtime: Runtime, tenant: str) -> None:
        self._runtime, self._tenant = runtime, tenant
        self.ends = AuditHead()

    def __iter__(self) -> Iterator[AuditEntry]:
        store, after = self._runtime.store, 0
        while True:
            while page := store.audit(self._tenant, after=after, limit=_PAGE):
                yield from page
                after = page[-1].seq
            # Asked for after the entries, so that there can be none that it does not know of.
            self.ends = store.audit_head(self._tenant)
            if self.ends.seq <= after or not store.audit(self._tenant, after=after, limit=1):
                return
