"""A store on any SQL database, by SQLAlchemy Core. Each dialect adds what is its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ....domain.episode import Episode, Scope, Session, Turn
from ....domain.errors import SessionNotFound
from ....domain.message import Json
from ....ports.models import Clock
from ....ports.store import (
    AgentSettings,
    Append,
    Closing,
    EpisodeStore,
    Idempotency,
    NewSummary,
    OpenEpisode,
    Placeholder,
    RecallBlock,
    RecallState,
    SessionState,
)
from . import migrate
from .api_keys import SqlKeys
from .erasure import SqlForgetting
from .facts import SqlFacts
from .lazy import Connection, sa, schema
from .move import SqlMoving
from .retention import SqlKeeping
from .scrub import SqlScrubbing
from .statements import (
    agent_configs,
    listing,
    meta,
    placeholders,
    recall_rows,
    work,
)
from .statements import (
    append as append_sql,
)
from .statements import (
    close as close_sql,
)
from .statements import (
    episodes as episodes_sql,
)
from .statements import (
    idempotency as idempotency_sql,
)
from .tenant import SqlTenantReads
from .transactions import Every
from .transfer import SqlPortable
from .turn_removal import SqlTurnRemovals
from .work import SqlWork

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft
    from ....domain.replay import SessionReplay
    from ....ports.stats import StoreStats


class SqlStore(
    SqlWork,
    SqlKeeping,
    SqlForgetting,
    SqlScrubbing,
    SqlPortable,
    SqlMoving,
    SqlTenantReads,
    SqlKeys,
    SqlFacts,
    SqlTurnRemovals,
    EpisodeStore,
):
    """What the dialects share: every statement, and transactions around them."""

    def __init__(self, make_engine: Callable[[], sa.Engine], *, clock: Clock | None = None) -> None:
        super().__init__(make_engine, clock=clock)
        try:
            self._prepare_schema()
            salt = self._read(Every.TENANT, meta.get, meta.SALT)
            if salt is None and not self.read_only:
                salt = self._write(Every.TENANT, meta.make_salt)
            self._salt = salt
        except BaseException:
            self.close()
            raise

    def _prepare_schema(self) -> None:
        with self._translated():
            migrate.ensure_current(self._engine, self._reader, read_only=self.read_only)

    @abstractmethod
    def size_bytes(self) -> int | None: ...

    @property
    def salt(self) -> bytes:
        return self._salt or b""

    def close(self) -> None:
        if self._made_engine is not None:
            self._made_engine.dispose()

    def append(self, write: Append) -> list[Turn]:
        return self._write(write.scope.tenant, append_sql.append, write)

    def repeated(self, scope: Scope, idempotency: Idempotency) -> list[Turn] | None:
        return self._read(scope.tenant, idempotency_sql.stored_before, scope, idempotency)

    def close_episode(
        self, scope: Scope, episode_id: UUID, closing: Closing, *, expect_messages: int
    ) -> Episode:
        return self._write(
            scope.tenant,
            close_sql.close_episode,
            scope,
            episode_id,
            closing,
            expect_messages=expect_messages,
            now=self._now(),
        )

    def put_summary(
        self,
        scope: Scope,
        episode_id: UUID,
        summary: NewSummary,
        *,
        replacing: int | None = None,
    ) -> None:
        self._write(
            scope.tenant,
            close_sql.put_summary,
            scope,
            episode_id,
            summary,
            replacing=replacing,
            now=self._now(),
        )

    def touch(
        self,
        scope: Scope,
        session_id: str,
        *,
        seen_at: datetime,
        now: datetime,
        metadata: Mapping[str, Json] | None = None,
        placeholders: Sequence[Placeholder] = (),
        settings: str | None = None,
    ) -> Session:
        self._write(
            scope.tenant,
            append_sql.touch,
            scope,
            session_id,
            seen_at=seen_at,
            now=now,
            metadata=metadata,
            numbers=placeholders,
            settings=settings,
        )
        state = self.session(scope, session_id)
        if state is None:
            raise SessionNotFound(session_id)
        return state.session

    def session(self, scope: Scope, session_id: str) -> SessionState | None:
        return self._read(scope.tenant, episodes_sql.session, scope, session_id)

    def replay(
        self, scope: Scope, session_id: str, *, last: int | None = None
    ) -> SessionReplay | None:
        return self._read(scope.tenant, episodes_sql.replay, scope, session_id, last)

    def episodes(self, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, Episode]:
        return self._read(scope.tenant, episodes_sql.episodes, scope, ids) if ids else {}

    def session_episodes(self, scope: Scope, session_id: str) -> list[UUID]:
        return self._read(scope.tenant, episodes_sql.session_episodes, scope, session_id)

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
        leave_out_sessions: Sequence[str] = (),
        count: bool = True,
    ) -> tuple[list[Episode], int]:
        wanted = listing.Wanted(
            since=since,
            until=until,
            include_archived=include_archived,
            include_open=include_open,
            leave_out_sessions=leave_out_sessions,
        )
        if count:
            return self._read(scope.tenant, listing.page_and_count, scope, wanted, offset, limit)
        found = self._read(scope.tenant, listing.page, scope, wanted, offset, limit)
        return found, len(found)

    def turns(
        self, scope: Scope, episode_id: UUID, *, start: int = 0, stop: int | None = None
    ) -> list[Turn]:
        return self._read(scope.tenant, episodes_sql.turns, scope, episode_id, start, stop)

    def turns_at(self, scope: Scope, places: Sequence[tuple[UUID, int]]) -> list[Turn]:
        return self._read(scope.tenant, episodes_sql.turns_at, scope, places) if places else []

    def episodes_and_turns(
        self, scope: Scope, ids: Sequence[UUID], places: Sequence[tuple[UUID, int]]
    ) -> tuple[dict[UUID, Episode], list[Turn]]:
        if not ids and not places:
            return {}, []
        return self._read(scope.tenant, episodes_sql.episodes_and_turns, scope, ids, places)

    def recall_state(self, scope: Scope) -> RecallState | None:
        return self._read(scope.tenant, recall_rows.state, scope)

    def recall_block(
        self,
        scope: Scope,
        *,
        after: int,
        up_to: int | None = None,
        late: Sequence[int] = (),
        model: str = "",
        alive: bool = False,
    ) -> tuple[RecallState, RecallBlock]:
        return self._read(scope.tenant, recall_rows.block, scope, after, up_to, late, model, alive)

    def recall_block_at(self, scope: Scope, seqs: Sequence[int]) -> RecallBlock:
        return self._read(scope.tenant, recall_rows.block_at, scope, seqs)

    def placeholders(self, scope: Scope, episode_id: UUID) -> list[Placeholder]:
        return self._read(scope.tenant, placeholders.of_episode, scope, episode_id)

    def open_episodes(
        self,
        *,
        touched_before: datetime,
        opened_before: datetime,
        after: UUID | None = None,
        limit: int,
    ) -> list[OpenEpisode]:
        return self._read(
            Every.TENANT,
            listing.open_episodes,
            touched_before=touched_before,
            opened_before=opened_before,
            after=after,
            limit=limit,
        )

    def config(self, tenant: str | None, agent: str) -> AgentSettings:
        whose = agent_configs.FOR_ALL if tenant is None else tenant
        return self._read(whose, agent_configs.config, whose, agent)

    def put_config(
        self,
        tenant: str | None,
        agent: str,
        config: Mapping[str, Json] | None,
        *,
        entry: AuditDraft | None = None,
        seen: str | None = None,
    ) -> None:
        whose = agent_configs.FOR_ALL if tenant is None else tenant
        self._write(whose, agent_configs.put, whose, agent, config, entry, seen)

    def configs(self) -> dict[tuple[str | None, str], Mapping[str, Json]]:
        return self._read(Every.TENANT, agent_configs.configs)

    def prune_idempotency(self, *, before: datetime) -> int:
        return self._write(Every.TENANT, _prune_idempotency, before)

    def stats(self) -> StoreStats:
        return self._read(Every.TENANT, self._count)

    def _count(self, conn: Connection) -> StoreStats:
        from ....ports.stats import StoreStats

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
            product=conn.product,
            schema=migrate.HEAD,
            size_bytes=self.size_bytes(),
            tenants=count(scopes.c.tenant.distinct()),
            scopes=count(scopes.c.id),
            sessions=count(schema.conversations.c.scope_id),
            episodes=count(episodes.c.id),
            open_episodes=count(episodes.c.id, episodes.c.ended_at.is_(None)),
            turns=count(schema.turns.c.row),
            facts=count(schema.facts.c.id, schema.facts.c.deleted_at.is_(None)),
            vectors={row[0]: row[1] for row in vectors},
            backlog=work.backlog(conn),
        )


def _prune_idempotency(conn: Connection, before: datetime) -> int:
    keys = schema.idempotency
    return conn.execute(sa.delete(keys).where(keys.c.used_at < before)).rowcount
