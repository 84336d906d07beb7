"""Jobs that one process runs at a time: the leader, its lease, and the last run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ..lazy import Connection, sa, schema, sql, without_snapshot

_SKEW = timedelta(hours=1)
"""The largest accepted difference between the clocks of two machines."""


def take_lead(conn: Connection, job: str, owner: str, *, now: datetime, until: datetime) -> bool:
    row = conn.execute(
        sa.select(schema.jobs.c.owner, schema.jobs.c.leads_until)
        .where(schema.jobs.c.name == job)
        .with_for_update()
    ).one_or_none()
    if row is None:
        conn.execute(sa.insert(schema.jobs).values(name=job, owner=owner, leads_until=until))
        return True
    # A lease beyond its longest term was taken while a clock was ahead.
    if row.owner is not None and now < row.leads_until <= until + _SKEW:
        return False
    conn.execute(
        sa.update(schema.jobs)
        .where(schema.jobs.c.name == job)
        .values(owner=owner, leads_until=until)
    )
    return True


def renew_lead(conn: Connection, job: str, owner: str, *, until: datetime) -> bool:
    """Extend a lease, even an expired one, unless another process has led since."""
    done = conn.execute(
        sa.update(schema.jobs)
        .where(schema.jobs.c.name == job, schema.jobs.c.owner == owner)
        .values(leads_until=until)
    )
    return done.rowcount > 0


def give_up_lead(conn: Connection, job: str, owner: str) -> None:
    conn.execute(
        sa.update(schema.jobs)
        .where(schema.jobs.c.name == job, schema.jobs.c.owner == owner)
        .values(owner=None, leads_until=None)
    )


@sql
def _ran() -> sa.Select[Any]:
    return sa.select(schema.jobs.c.last_run).where(schema.jobs.c.name == sa.bindparam("job_"))


@without_snapshot
def last_run(conn: Connection, job: str) -> datetime | None:
    row = conn.execute(_ran, {"job_": job}).first()
    return None if row is None else row.last_run


def record_run(conn: Connection, job: str, at: datetime) -> None:
    done = conn.execute(sa.update(schema.jobs).where(schema.jobs.c.name == job).values(last_run=at))
    if not done.rowcount:
        conn.execute(sa.insert(schema.jobs).values(name=job, last_run=at))
