"""The queue of a SQL store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from ....domain.episode import Scope, Turn
from ....ports.turns import Findable
from ....ports.work import Backlog, Removal, Unfindable, Work, WorkKind, WorkList
from .lazy import Connection, sa
from .statements import index_turns, meta, mirror
from .statements import work as work_sql
from .transactions import Every, Reach, Transactions

T = TypeVar("T")
Also: TypeAlias = "Callable[[sa.Connection], object]"


class SqlWork(Transactions, WorkList):
    def model(self) -> str | None:
        name = self._read(Every.TENANT, meta.get, meta.MODEL)
        return None if name is None else name.decode()

    def use_model(self, model: str) -> int:
        if self.read_only or self.model() == model:
            return 0
        return self._write(Every.TENANT, _switch_model, model, now=self._now())

    def mirror(self) -> str | None:
        return self._read(Every.TENANT, mirror.name)

    def use_mirror(self, name: str | None) -> None:
        if not self.read_only and self.mirror() != name:
            self._write(Every.TENANT, mirror.use, name, now=self._now())

    def unfindable(
        self, scope: Scope | None = None, *, episode_id: UUID | None = None, limit: int
    ) -> list[Unfindable]:
        reach = Every.TENANT if scope is None else scope.tenant
        return self._read(reach, index_turns.waiting, scope, episode_id, limit)

    def unfindable_turns(self, found: Sequence[Unfindable]) -> list[Turn]:
        return self._read(_reach(found), index_turns.turns, found)

    def make_findable(
        self,
        done: Sequence[tuple[Unfindable, Sequence[Findable]]],
        *,
        patience: float | None = None,  # noqa: ARG002 - for a store that has but one writer
    ) -> int:
        reach = _reach([found for found, _ in done])
        return self._write(reach, index_turns.make, done, now=self._now()) if done else 0

    def put_vectors(
        self, model: str, done: Sequence[tuple[Work, bytes]], *, also: Also | None = None
    ) -> None:
        """`also` is done in the same transaction, where the vectors are kept."""
        if not done:
            return
        if also is None:
            self._write(Every.TENANT, put_vectors, model, done, now=self._now())
        else:
            self._write(Every.TENANT, _put_vectors_with, model, done, also, now=self._now())

    def inside(
        self, tenant: str | None, do: Callable[..., T], *args: Any, writes: bool = False
    ) -> T:
        """Run statements of an index that lives in the same database, for one tenant or for all.

        `do` gets a SQLAlchemy connection first, and may be run again where a race was lost.
        """
        run = self._write if writes else self._read
        reach = Every.TENANT if tenant is None else tenant
        return run(reach, lambda conn: do(conn.core, *args))

    def claim(
        self, kind: WorkKind, *, owner: str, limit: int, now: datetime, until: datetime
    ) -> list[Work]:
        return self._write(
            Every.TENANT, work_sql.claim, kind, owner=owner, limit=limit, now=now, until=until
        )

    def turns_of(self, work: Sequence[Work]) -> list[Turn]:
        return self._read(Every.TENANT, work_sql.turns, work)

    def claim_removals(
        self, *, owner: str, limit: int, now: datetime, until: datetime
    ) -> list[Removal]:
        return self._write(
            Every.TENANT, mirror.claim_removals, owner=owner, limit=limit, now=now, until=until
        )

    def queue_index(self, scope_id: int | None = None) -> int:
        return self._write(Every.TENANT, mirror.queue_all, scope_id, now=self._now())

    def unindexed(self, scope: Scope, *, limit: int) -> list[int]:
        return self._read(scope.tenant, mirror.unindexed, scope, limit)

    def scopes(self, *, after: int = 0, limit: int) -> list[tuple[int, Scope]]:
        return self._read(Every.TENANT, mirror.scopes, after, limit)

    def finish(self, work: Sequence[Work | Removal]) -> None:
        self._write(Every.TENANT, work_sql.finish, work)

    def postpone(
        self, work: Sequence[Work | Removal], *, until: datetime, owner: str | None = None
    ) -> None:
        self._write(Every.TENANT, work_sql.postpone, work, until=until, owner=owner)

    def owners(self) -> list[str]:
        return self._read(Every.TENANT, work_sql.owners)

    def release(self, owner: str) -> None:
        self._write(Every.TENANT, work_sql.release, owner)

    def release_stale(self, *, now: datetime, latest: datetime) -> int:
        # Nearly always there is none: a read keeps no other writer waiting.
        if not self._read(Every.TENANT, work_sql.has_stale, latest):
            return 0
        return self._write(Every.TENANT, work_sql.release_stale, now=now, latest=latest)

    def backlog(self) -> dict[WorkKind, Backlog]:
        return self._read(Every.TENANT, work_sql.backlog)


def _reach(found: Sequence[Unfindable]) -> Reach:
    tenants = {each.scope.tenant for each in found}
    return tenants.pop() if len(tenants) == 1 else Every.TENANT


def _switch_model(conn: Connection, model: str, *, now: datetime) -> int:
    meta.put(conn, meta.MODEL, model.encode())
    return work_sql.use_model(conn, model, now=now)


def put_vectors(
    conn: Connection, model: str, done: Sequence[tuple[Work, bytes]], *, now: datetime
) -> bool:
    """Whether they are of the model that is in use."""
    # A worker that began before the model changed ends after it: its work stays, for the new one.
    if meta.get(conn, meta.MODEL, keep=True) not in (None, model.encode()):
        return False
    work_sql.put_vectors(conn, model, done)
    mirror.follow(conn, [work for work, _ in done], now=now)
    return True


def _put_vectors_with(
    conn: Connection,
    model: str,
    done: Sequence[tuple[Work, bytes]],
    also: Also,
    *,
    now: datetime,
) -> None:
    if put_vectors(conn, model, done, now=now):
        also(conn.core)
