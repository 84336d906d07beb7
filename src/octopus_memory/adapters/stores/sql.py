"""A store on any SQL database, by SQLAlchemy Core. Each dialect adds what is its own."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from ...domain.episode import Episode, Scope, Session, Turn
from ...domain.errors import SessionNotFound, StoreCorrupt, StoreError
from ...domain.message import Json
from ...ports.seams import Clock
from ...ports.store import (
    Append,
    Backlog,
    Closing,
    EpisodeStore,
    NewSummary,
    OpenEpisode,
    RecallRow,
    RecallState,
    SessionState,
    StoreStats,
    Work,
    WorkKind,
)
from . import ending, migrate, queue, reads, rows, schema, writes

T = TypeVar("T")
READING = "octopus_reading"
"""The execution option of connections that only read."""
_SALT, _MODEL = "salt", "embedding_model"
_EVERY_TENANT = ""
"""The tenant of settings that hold for every tenant without its own; no real one is empty."""


class SqlStore(EpisodeStore):
    """What the dialects share: every statement, and transactions around them."""

    def __init__(self, engine: sa.Engine, *, clock: Clock | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._reader = engine.execution_options(**{READING: True})
        try:
            with self._translated():
                migrate.ensure_current(engine, self._reader, read_only=self.read_only)
            self._salt = self._read(_meta, _SALT) if self.read_only else self._write(_make_salt)
        except BaseException:
            engine.dispose()
            raise

    @property
    def read_only(self) -> bool:
        return False

    @abstractmethod
    def translate(self, error: sa.exc.DBAPIError) -> StoreError:
        """The vendor's error as one of ours."""

    @abstractmethod
    def size_bytes(self) -> int | None: ...

    def _now(self) -> datetime:
        """By the clock that work is claimed by, else it could wait for a time that never comes."""
        return datetime.now(UTC) if self._clock is None else self._clock.now()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise self.translate(error) from error
        except UnicodeDecodeError as error:
            # A damaged file can make the driver fail over its own message.
            raise StoreCorrupt(schema.DAMAGED) from error

    def _write(self, do: Callable[..., T], *args: Any, **named: Any) -> T:
        with self._translated(), self._engine.begin() as conn:
            return do(conn, *args, **named)

    def _read(self, do: Callable[..., T], *args: Any, **named: Any) -> T:
        with self._translated(), self._reader.connect() as conn:
            return do(conn, *args, **named)

    @property
    def salt(self) -> bytes:
        return self._salt or b""

    def close(self) -> None:
        self._engine.dispose()

    def append(self, write: Append) -> list[Turn]:
        return self._write(writes.append, write)

    def close_episode(
        self, scope: Scope, episode_id: UUID, closing: Closing, *, expect_messages: int
    ) -> Episode:
        return self._write(
            ending.close_episode,
            scope,
            episode_id,
            closing,
            expect_messages=expect_messages,
            now=self._now(),
        )

    def put_summary(self, scope: Scope, episode_id: UUID, summary: NewSummary) -> None:
        self._write(ending.put_summary, scope, episode_id, summary, now=self._now())

    def archive(self, scope: Scope, episode_id: UUID) -> Episode:
        return self._write(ending.archive, scope, episode_id)

    def touch(self, scope: Scope, session_id: str, *, seen_at: datetime, now: datetime) -> Session:
        self._write(writes.touch, scope, session_id, seen_at=seen_at, now=now)
        state = self.session(scope, session_id)
        if state is None:
            raise SessionNotFound(session_id)
        return state.session

    def session(self, scope: Scope, session_id: str) -> SessionState | None:
        return self._read(reads.session, scope, session_id)

    def episodes(self, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, Episode]:
        return self._read(reads.episodes, scope, ids) if ids else {}

    def session_episodes(self, scope: Scope, session_id: str) -> list[Episode]:
        return self._read(reads.session_episodes, scope, session_id)

    def list_episodes(
        self,
        scope: Scope,
        *,
        offset: int,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
        include_archived: bool = True,
        include_open: bool = True,
        leave_out_session: str | None = None,
    ) -> tuple[list[Episode], int]:
        return self._read(
            reads.list_episodes,
            scope,
            offset=offset,
            limit=limit,
            since=since,
            until=until,
            include_archived=include_archived,
            include_open=include_open,
            leave_out_session=leave_out_session,
        )

    def turns(
        self, scope: Scope, episode_id: UUID, *, start: int = 0, stop: int | None = None
    ) -> list[Turn]:
        return self._read(reads.turns, scope, episode_id, start, stop)

    def turns_at(self, scope: Scope, places: Sequence[tuple[UUID, int]]) -> list[Turn]:
        return self._read(reads.turns_at, scope, places) if places else []

    def recall_state(self, scope: Scope) -> RecallState | None:
        return self._read(reads.recall_state, scope)

    def recall_rows(self, scope: Scope, *, after: int) -> tuple[RecallState, list[RecallRow]]:
        return self._read(reads.recall_rows, scope, after)

    def model(self) -> str | None:
        name = self._read(_meta, _MODEL)
        return None if name is None else name.decode()

    def use_model(self, model: str) -> int:
        if self.read_only or self.model() == model:
            return 0
        return self._write(_switch_model, model, now=self._now())

    def put_vectors(self, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
        if done:
            self._write(_put_vectors, model, done)

    def claim(
        self, kind: WorkKind, *, owner: str, limit: int, now: datetime, until: datetime
    ) -> list[Work]:
        return self._write(
            queue.claim,
            kind,
            owner=owner,
            limit=limit,
            now=now,
            until=until,
        )

    def finish(self, work: Sequence[Work]) -> None:
        self._write(queue.finish, work)

    def postpone(self, work: Sequence[Work], *, until: datetime) -> None:
        self._write(queue.postpone, work, until=until)

    def owners(self) -> list[str]:
        return self._read(queue.owners)

    def release(self, owner: str) -> None:
        self._write(queue.release, owner)

    def backlog(self) -> dict[WorkKind, Backlog]:
        return self._read(queue.backlog)

    def open_episodes(
        self,
        *,
        touched_before: datetime,
        opened_before: datetime,
        after: UUID | None = None,
        limit: int,
    ) -> list[OpenEpisode]:
        return self._read(
            reads.open_episodes,
            touched_before=touched_before,
            opened_before=opened_before,
            after=after,
            limit=limit,
        )

    def config(self, tenant: str, agent: str) -> Mapping[str, Json] | None:
        return self._read(_config, tenant, agent)

    def put_config(self, tenant: str | None, agent: str, config: Mapping[str, Json]) -> None:
        self._write(_put_config, _EVERY_TENANT if tenant is None else tenant, agent, config)

    def configs(self) -> list[Mapping[str, Json]]:
        return self._read(_configs)

    def prune_idempotency(self, *, before: datetime) -> int:
        return self._write(_prune_idempotency, before)

    def stats(self) -> StoreStats:
        return self._read(self._count)

    def _count(self, conn: sa.Connection) -> StoreStats:
        def count(what: Any, *where: sa.ColumnElement[bool]) -> int:
            return int(conn.execute(sa.select(sa.func.count(what)).where(*where)).scalar_one())

        recall, models = schema.recall, schema.models
        vectors = conn.execute(
            sa.select(models.c.name, sa.func.count())
            .join(recall, recall.c.model_id == models.c.id)
            .group_by(models.c.name)
        )
        scopes, episodes = schema.scopes, schema.episodes
        return StoreStats(
            product=self._engine.dialect.name,
            schema=migrate.HEAD,
            size_bytes=self.size_bytes(),
            tenants=count(scopes.c.tenant.distinct()),
            scopes=count(scopes.c.id),
            sessions=count(schema.conversations.c.scope_id),
            episodes=count(episodes.c.id),
            open_episodes=count(episodes.c.id, episodes.c.ended_at.is_(None)),
            turns=count(schema.turns.c.row),
            vectors={row[0]: row[1] for row in vectors},
            backlog=queue.backlog(conn),
        )


def _meta(conn: sa.Connection, name: str) -> bytes | None:
    return conn.execute(sa.select(schema.meta.c.value).where(schema.meta.c.name == name)).scalar()


def _set_meta(conn: sa.Connection, name: str, value: bytes) -> None:
    meta = schema.meta
    done = conn.execute(sa.update(meta).where(meta.c.name == name).values(value=value))
    if not done.rowcount:
        conn.execute(sa.insert(meta).values(name=name, value=value))


def _make_salt(conn: sa.Connection) -> bytes:
    salt = _meta(conn, _SALT)
    if salt is None:
        salt = os.urandom(32)
        _set_meta(conn, _SALT, salt)
    return salt


def _switch_model(conn: sa.Connection, model: str, *, now: datetime) -> int:
    _set_meta(conn, _MODEL, model.encode())
    return queue.use_model(conn, model, now=now)


def _put_vectors(conn: sa.Connection, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
    # A worker that began before the model changed ends after it: its work stays, for the new one.
    if _meta(conn, _MODEL) in (None, model.encode()):
        queue.put_vectors(conn, model, done)


def _config(conn: sa.Connection, tenant: str, agent: str) -> Mapping[str, Json] | None:
    agents = schema.agents
    # The empty tenant sorts before every other, so the tenant's own comes first.
    found = conn.execute(
        sa.select(agents.c.config)
        .where(agents.c.agent == agent, agents.c.tenant.in_([tenant, _EVERY_TENANT]))
        .order_by(agents.c.tenant.desc())
        .limit(1)
    ).scalar()
    return None if found is None else rows.load_json(found)


def _put_config(conn: sa.Connection, tenant: str, agent: str, config: Mapping[str, Json]) -> None:
    agents, text = schema.agents, rows.dump_json(config)
    done = conn.execute(
        sa.update(agents)
        .where(agents.c.tenant == tenant, agents.c.agent == agent)
        .values(config=text)
    )
    if not done.rowcount:
        conn.execute(sa.insert(agents).values(tenant=tenant, agent=agent, config=text))


def _configs(conn: sa.Connection) -> list[Mapping[str, Json]]:
    found = conn.execute(sa.select(schema.agents.c.config)).scalars()
    return [rows.load_json(text) for text in found]


def _prune_idempotency(conn: sa.Connection, before: datetime) -> int:
    keys = schema.idempotency
    return conn.execute(sa.delete(keys).where(keys.c.used_at < before)).rowcount
