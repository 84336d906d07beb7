"""Retention in a SQL store: stages, holds, and who may run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from ....domain.episode import Episode, Scope
from ....ports.retention import Keeping, Lead
from ....ports.turns import Findable
from .lazy import Connection, sa, schema, sql
from .statements import holds as holds_sql
from .statements import retention
from .transactions import Every, Transactions

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft
    from ....domain.retention import Aged, Hold, Stage

_LEASE = timedelta(minutes=5)
_SKEW = timedelta(hours=1)
"""How much the clocks of two machines may differ."""


class SqlKeeping(Transactions, Keeping):
    def aged(
        self,
        stage: Stage,
        *,
        before: datetime,
        after: tuple[datetime, UUID] | None = None,
        limit: int,
        held: bool = False,
    ) -> list[Aged]:
        return self._read(
            Every.TENANT, retention.aged, stage, before=before, after=after, limit=limit, held=held
        )

    def archive(
        self,
        scope: Scope,
        episode_id: UUID,
        *,
        cold: bool = False,
        at: datetime | None = None,
        since: datetime | None = None,
    ) -> Episode:
        at = at or self._now()
        return self._write(
            scope.tenant, retention.archive, scope, episode_id, cold=cold, at=at, since=since
        )

    def delete(
        self,
        scope: Scope,
        episode_id: UUID,
        *,
        at: datetime,
        since: datetime | None = None,
        entry: AuditDraft | None = None,
    ) -> None:
        self._write(
            scope.tenant, retention.delete, scope, episode_id, at=at, since=since, entry=entry
        )

    def deleted(self, scope: Scope) -> list[Episode]:
        return self._read(scope.tenant, retention.deleted, scope)

    def restore(
        self,
        scope: Scope,
        episode_id: UUID,
        findable: list[Findable],
        *,
        at: datetime,
        entry: AuditDraft | None = None,
        epoch: int | None = None,
    ) -> Episode:
        return self._write(
            scope.tenant,
            retention.restore,
            scope,
            episode_id,
            findable,
            at=at,
            entry=entry,
            epoch=epoch,
        )

    def purge(
        self, scope: Scope, episode_id: UUID, *, since: datetime | None = None
    ) -> dict[str, int]:
        return self._write(
            scope.tenant, retention.purge, scope, episode_id, since=since, now=self._now()
        )

    def place_hold(self, hold: Hold, *, entry: AuditDraft | None = None) -> None:
        self._write(hold.tenant, holds_sql.place, hold, entry=entry)

    def lift_hold(self, tenant: str, hold_id: UUID, *, entry: AuditDraft | None = None) -> bool:
        return self._write(tenant, holds_sql.lift, tenant, hold_id, entry=entry)

    def holds(self, tenant: str) -> list[Hold]:
        return self._read(tenant, holds_sql.listed, tenant)

    @contextmanager
    def lead(self, job: str, *, owner: str) -> Iterator[Lead | None]:
        # Two runs of one owner are not the same runner.
        runner = f"{owner}/{uuid4().hex[:8]}"
        now = self._now()
        if not self._write(Every.TENANT, _take_lead, job, runner, now=now, until=now + _LEASE):
            yield None
            return
        try:
            yield _LeasedLead(self, job, runner)
        finally:
            self._write(Every.TENANT, _give_up, job, runner)

    def renew_lead(self, job: str, owner: str) -> bool:
        return self._write(Every.TENANT, _renew_lead, job, owner, until=self._now() + _LEASE)

    def last_run(self, job: str) -> datetime | None:
        return self._read(Every.TENANT, last_run, job)

    def set_last_run(self, job: str, at: datetime) -> None:
        self._write(Every.TENANT, _set_last_run, job, at)


class _LeasedLead(Lead):
    """A row says who leads, and until when."""

    def __init__(self, store: SqlKeeping, job: str, owner: str) -> None:
        self._store, self._job, self._owner = store, job, owner

    def renew(self) -> bool:
        return self._store.renew_lead(self._job, self._owner)


def _take_lead(conn: Connection, job: str, owner: str, *, now: datetime, until: datetime) -> bool:
    row = conn.execute(
        sa.select(schema.jobs.c.owner, schema.jobs.c.leads_until)
        .where(schema.jobs.c.name == job)
        .with_for_update()
    ).one_or_none()
    if row is None:
        conn.execute(sa.insert(schema.jobs).values(name=job, owner=owner, leads_until=until))
        return True
    # One that ends later than it can was taken while a clock was ahead.
    if row.owner is not None and now < row.leads_until <= until + _SKEW:
        return False
    conn.execute(
        sa.update(schema.jobs)
        .where(schema.jobs.c.name == job)
        .values(owner=owner, leads_until=until)
    )
    return True


def _renew_lead(conn: Connection, job: str, owner: str, *, until: datetime) -> bool:
    """Late is early enough, as long as nobody else has led since."""
    done = conn.execute(
        sa.update(schema.jobs)
        .where(schema.jobs.c.name == job, schema.jobs.c.owner == owner)
        .values(leads_until=until)
    )
    return done.rowcount > 0


def _give_up(conn: Connection, job: str, owner: str) -> None:
    conn.execute(
        sa.update(schema.jobs)
        .where(schema.jobs.c.name == job, schema.jobs.c.owner == owner)
        .values(owner=None, leads_until=None)
    )


@sql
def _ran() -> sa.Select[Any]:
    return sa.select(schema.jobs.c.last_run).where(schema.jobs.c.name == sa.bindparam("job_"))


def last_run(conn: Connection, job: str) -> datetime | None:
    row = conn.execute(_ran, {"job_": job}).first()
    return None if row is None else row.last_run


def _set_last_run(conn: Connection, job: str, at: datetime) -> None:
    done = conn.execute(sa.update(schema.jobs).where(schema.jobs.c.name == job).values(last_run=at))
    if not done.rowcount:
        conn.execute(sa.insert(schema.jobs).values(name=job, last_run=at))
