"""A store on any SQL database, by SQLAlchemy Core. Each dialect adds what is its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from ....domain.episode import Episode, Scope, Turn
from ....domain.errors import InvalidSetting, KeyMissing
from ....domain.facts import Fact
from ....ports.models import Clock
from ....ports.privacy import Lead
from ....ports.recall_rows import Removal, UnindexedTurns, Work
from ....ports.store import EpisodeStore, SharedDatabase
from ....ports.values import Append, IndexEntry
from . import migrate, statements
from .binding import (
    of_all,
    of_its_tenant,
    of_scope,
    of_tenant,
    of_tenant_or_all,
    of_user,
    reads,
    writes,
    writes_now,
)
from .key_calls import KeyCalls
from .lazy import Connection, sa
from .transactions import Every, Person, Reach

if TYPE_CHECKING:
    from ....domain.ledger import Injection
    from ....ports.admin import StoreStats
    from ....ports.privacy import TurnRemoval
    from ....ports.values import EpisodeQuery, ImportedEpisode, StoredEpisode
    from .key_ring import KeyRing

T = TypeVar("T")
_LEASE = timedelta(minutes=5)


def _of_write(write: Append) -> Reach:
    return of_scope(write.scope)


def _of_imported(imported: ImportedEpisode) -> Reach:
    return of_scope(imported.kept.episode.scope)


def _of_stored(was: StoredEpisode, **_: Any) -> Reach:
    return of_scope(was.episode.scope)


def _of_named_tenant(*_: Any, tenant: str | None = None, **__: Any) -> Reach:
    return Every.TENANT if tenant is None else tenant


def _of_removals(removals: Sequence[TurnRemoval], **_: Any) -> Reach:
    return of_scope(removals[0].was.episode.scope) if removals else Every.TENANT


def _of_scope_or_all(scope: Scope | None = None, **_: Any) -> Reach:
    return Every.TENANT if scope is None else of_scope(scope)


def reach_of(people: Iterable[Person | None]) -> Reach:
    """The one user or the one tenant of a batch, else every tenant; None is of any tenant."""
    found = set(people)
    if None in found or not found:
        return Every.TENANT
    tenants = {person.tenant for person in found if person is not None}
    if len(tenants) > 1:
        return Every.TENANT
    return found.pop() or Every.TENANT if len(found) == 1 else tenants.pop()


def _person(item: Any) -> Person | None:
    """The user of an item of a batch; None for a removal, which names none."""
    scope = item if isinstance(item, Scope) else getattr(item, "scope", None)
    return None if scope is None else Person(scope.tenant, scope.user)


def _first_person(item: Sequence[Any]) -> Person | None:
    return _person(item[0])


def _of_config(tenant: str | None, *_: Any, **__: Any) -> Reach:
    return statements.agent_configs.FOR_ALL if tenant is None else tenant


class SqlStore(KeyCalls, EpisodeStore, SharedDatabase):
    """Everything that the dialects share: statements, and transactions around them."""

    def __init__(
        self,
        make_engine: Callable[[], sa.Engine],
        *,
        clock: Clock | None = None,
        ring: KeyRing | None = None,
    ) -> None:
        super().__init__(make_engine, clock=clock, ring=ring)
        try:
            self._prepare_schema()
            meta = statements.meta
            kept = self._read(Every.TENANT, meta.keys)
            self._check_keys(kept)
            salt = kept.get(meta.SALT)
            if salt is None and not self.read_only:
                salt = self._write(Every.TENANT, meta.make_salt)
            self._salt = salt if salt is None or ring is None else ring.open_salt(salt)
        except BaseException:
            self.close()
            raise

    def _check_keys(self, kept: Mapping[str, bytes]) -> None:
        """Check that this database is sealed with these keys, or with none yet.

        :raises InvalidSetting: when it is sealed, and keys are off
        :raises KeyMissing: when it is sealed with another key store's keys
        """
        meta, ring = statements.meta, self._ring
        used = kept.get(meta.KEYS)
        if ring is None:
            if used is not None:
                raise InvalidSetting(
                    "keys", "must be local or vault, because this database is sealed with keys"
                )
            return
        if used is None:
            if self.read_only:
                return
            # Not for a sealed one: a new key store in place of a lost one would hide the loss.
            ring.begin()
            kept = self._write(Every.TENANT, meta.begin_sealing, ring.fingerprint())
        if kept[meta.KEYS] != ring.fingerprint():
            raise KeyMissing(
                "the key store is not the one that this database was sealed with: restore it from "
                "its backup, or correct keys_path, keys_master_file or vault_url"
            )
        ring.is_all_sealed = meta.SEALED in kept

    def _prepare_schema(self) -> None:
        with self._translated():
            migrate.ensure_current(self._engine, self._reader, read_only=self.read_only)

    @abstractmethod
    def size_bytes(self) -> int | None:
        """The size of the database; None where it is not known."""

    @abstractmethod
    def _rewrite(self) -> bool:
        """Rewrite every file that a removed row may have left bytes in; False if it cannot now."""

    @property
    def salt(self) -> bytes:
        return self._salt or b""

    @property
    def read_only(self) -> bool:
        return False

    def close(self) -> None:
        if self._made_engine is not None:
            self._made_engine.dispose()
        if self._ring is not None:
            self._ring.keys.close()

    # Episodes
    append = writes(statements.append.append, _of_write)
    repeated = reads(statements.idempotency.repeated)
    close_episode = writes_now(statements.close.close_episode)
    put_summary = writes_now(statements.close.put_summary)
    touch = writes(statements.append.touch)
    session = reads(statements.episodes.session)
    replay = reads(statements.episodes.replay)
    message_keys = reads(statements.message_keys.known)
    reset_session = writes(statements.sessions.reset)
    list_sessions = reads(statements.sessions.page)
    episode_ids = reads(statements.episodes.episode_ids)
    stored_episode = reads(statements.scrub.stored_episode)
    turns = reads(statements.episodes.turns)
    episodes_and_turns = reads(statements.episodes.episodes_and_turns)
    placeholders = reads(statements.placeholders.of_episode)
    open_episodes = reads(statements.listing.open_episodes, of_all)
    locate = reads(statements.listing.locate, _of_named_tenant)
    scopes = reads(statements.listing.scopes, _of_named_tenant)

    def list_episodes(self, query: EpisodeQuery) -> tuple[list[Episode], int]:
        scope, limit, listing = query.of, query.limit, statements.listing
        if query.deleted or limit is None or not isinstance(scope, Scope):
            reach = of_scope(scope) if isinstance(scope, Scope) else scope.tenant
            return self._read(reach, listing.any_page, query)
        if query.count:
            return self._read(of_scope(scope), listing.scope_page_and_count, scope, query, limit)
        found = self._read(of_scope(scope), listing.scope_page, scope, query, limit)
        return found, len(found)

    # Rows that recall reads
    recall_state = reads(statements.recall_rows.state)
    recall_block = reads(statements.recall_rows.block)
    unindexed_turns = reads(statements.index_turns.unindexed_turns, _of_scope_or_all)

    def turns_of(self, waiting: Sequence[UnindexedTurns | Work]) -> list[Turn]:
        work = [each for each in waiting if isinstance(each, Work)]
        found = [each for each in waiting if isinstance(each, UnindexedTurns)]
        turns: list[Turn] = []
        for reach, some in self._parts(work, _person):
            turns += self._read(reach, statements.work.turns, some)
        for reach, those in self._parts(found, _person):
            turns += self._read(reach, statements.index_turns.turns, those)
        return turns

    def index_turns(
        self,
        done: Sequence[tuple[UnindexedTurns, Sequence[IndexEntry]]],
        *,
        patience: float | None = None,  # noqa: ARG002 - for a store that has but one writer
    ) -> int:
        index = statements.index_turns.index_turns
        return sum(
            self._write(reach, index, some, now=self._now())
            for reach, some in self._parts(done, _first_person)
        )

    # Work
    def _parts(
        self, items: Sequence[T], person: Callable[[T], Person | None]
    ) -> Iterable[tuple[Reach, Sequence[T]]]:
        """The transactions of a batch, each with its reach; one for all unless it is empty."""
        return [(reach_of(map(person, items)), items)] if items else []

    def finish(
        self, work: Sequence[Work | Removal], *, told: Mapping[int, int] | None = None
    ) -> None:
        for reach, some in self._parts(work, _person):
            self._write(reach, statements.work.finish, some, told=told)

    def postpone(
        self, work: Sequence[Work | Removal], *, until: datetime, worker_id: str | None = None
    ) -> None:
        do = statements.work.postpone
        for reach, some in self._parts(work, _person):
            self._write(reach, do, some, until=until, worker_id=worker_id)

    waiting_rows = reads(statements.work.waiting_rows)
    backlog = reads(statements.work.backlog, of_all)

    def release_leases(
        self, is_gone: Callable[[str], bool], *, now: datetime, latest: datetime
    ) -> int:
        # Nearly always there is nothing to release, and a read blocks no other writer.
        workers, has_stale = self._read(Every.TENANT, statements.work.leases, latest)
        gone = [worker_id for worker_id in workers if is_gone(worker_id)]
        if not gone and not has_stale:
            return 0
        do = statements.work.release_leases
        return self._write(Every.TENANT, do, gone, now=now, latest=latest)

    # The type of the items goes by the kind: see the port.
    def claim(
        self, kind: Any, *, worker_id: str, limit: int, now: datetime, until: datetime
    ) -> Any:
        lease: dict[str, Any] = {"worker_id": worker_id, "limit": limit, "now": now, "until": until}
        return self._write(Every.TENANT, statements.work.claim, kind, **lease)

    def put_vectors(self, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
        for reach, some in self._parts(done, _first_person):
            self._write(reach, statements.vectors.put, model, some, now=self._now())

    def put_vectors_and(
        self,
        model: str,
        done: Sequence[tuple[Work, bytes]],
        also: Callable[[Any, Sequence[tuple[Work, bytes]]], object],
    ) -> None:
        for reach, some in self._parts(done, _first_person):
            self._write(reach, _put_vectors_and, model, some, also, now=self._now())

    def inside(
        self, scope: Scope | None, do: Callable[..., T], *args: Any, writes: bool = False
    ) -> T:
        run = self._write if writes else self._read
        return run(_of_scope_or_all(scope), do, *args)

    # The model in use, and the mirror
    state = reads(statements.meta.state, of_all)
    count_lost = writes(statements.meta.count_lost, of_all)
    own_words_removed = writes(statements.meta.own_words_removed, of_all)
    waiting_removals = reads(statements.mirror.waiting_removals, of_its_tenant)
    queue_for_mirror = writes_now(statements.mirror.queue_all, of_all)

    def use_model(self, model: str) -> int:
        if self.read_only or self.state().model == model:
            return 0
        return self._write(Every.TENANT, statements.vectors.use_model, model, now=self._now())

    def use_mirror(self, name: str | None) -> None:
        if not self.read_only and self.state().mirror != name:
            self._write(Every.TENANT, statements.mirror.use, name, now=self._now())

    # Retention
    aged = reads(statements.retention.aged, of_all)
    archive = writes_now(statements.retention.archive)
    delete = writes(statements.retention.delete)
    restore = writes(statements.retention.restore)
    purge = writes_now(statements.retention.purge)
    place_hold = writes(statements.holds.place, of_user)
    lift_hold = writes(statements.holds.lift, of_tenant)
    holds = reads(statements.holds.list_holds, of_tenant)
    last_run = reads(statements.jobs.last_run, of_all)
    record_run = writes(statements.jobs.record_run, of_all)

    @contextmanager
    def lead(self, job: str, *, worker_id: str) -> Iterator[Lead | None]:
        # Two runs of one worker are two leaders.
        leader = f"{worker_id}/{uuid4().hex[:8]}"
        now = self._now()
        take, give_up = statements.jobs.take_lead, statements.jobs.give_up_lead
        if not self._write(Every.TENANT, take, job, leader, now=now, until=now + _LEASE):
            yield None
            return
        try:
            yield _LeasedLead(self, job, leader)
        finally:
            self._write(Every.TENANT, give_up, job, leader)

    def renew_lead(self, job: str, leader: str) -> bool:
        until = self._now() + _LEASE
        return self._write(Every.TENANT, statements.jobs.renew_lead, job, leader, until=until)

    # Erasure and the audit log
    left_of = reads(statements.erasure.left_of, of_its_tenant)
    erasures = reads(statements.erasure.erasures, of_tenant_or_all)
    keep_receipt = writes(statements.erasure.keep_receipt, of_its_tenant)
    record = writes(statements.audit.append, of_its_tenant)
    audit = reads(statements.audit.entries, of_tenant_or_all)
    audit_head = reads(statements.audit.head, of_tenant_or_all)

    def compact(self) -> bool:
        # The rewrite may miss rows that are removed from here on, so they stay owed.
        made = self.state().removals
        with self._translated():
            if not self._rewrite():
                return False
        self._write(Every.TENANT, statements.meta.raise_to, statements.meta.COMPACTED, made)
        return True

    # Scrubbing, export and import
    rewrite = writes(statements.scrub.rewrite, _of_stored)
    rewrite_scope = writes(statements.scrub.rewrite_scope)
    remove_turns = writes(statements.turn_removal.remove, _of_removals)
    keep_preview = writes(statements.forget.keep_preview)
    preview = reads(statements.forget.preview)
    prune_previews = writes(statements.forget.prune_previews, of_all)
    forget = writes(statements.forget.forget)
    sessions = reads(statements.transfer.sessions)
    import_episode = writes(statements.transfer.import_episode, _of_imported)
    import_keys = writes(statements.message_keys.bring_in)

    # Standing facts
    def facts(
        self, scope: Scope, *, until: datetime | None = None, given: bool = False
    ) -> list[Fact]:
        do = statements.facts.given if given else statements.facts.newest
        return self._read(of_scope(scope), do, scope, until)

    add_facts = writes(statements.facts.add)
    pin_fact = writes(statements.facts.pin)
    delete_fact = writes(statements.facts.delete)

    # Who is known
    tenants = reads(statements.overview.tenants, of_all)
    agents = reads(statements.overview.agents, of_tenant)
    people = reads(statements.overview.people, of_tenant)

    # The ledger of injections
    def record_injections(self, tenant: str, entries: Sequence[tuple[Scope, Injection]]) -> int:
        return sum(
            self._write(reach, statements.ledger.record, tenant, some)
            for reach, some in self._parts(entries, _first_person)
        )

    injections = reads(statements.ledger.injections)
    episode_uses = reads(statements.ledger.episode_uses)

    # Agents' settings, API keys, upkeep
    config = reads(statements.agent_configs.config, _of_config)
    put_config = writes(statements.agent_configs.put, _of_config)
    configs = reads(statements.agent_configs.configs, of_all)
    put_key = writes(statements.api_keys.put, of_its_tenant)
    find_key = reads(statements.api_keys.find, of_all)
    list_keys = reads(statements.api_keys.listed, of_tenant_or_all)
    update_key = writes(statements.api_keys.update, of_all)
    end_visit = writes(statements.api_keys.end_visit, of_all)
    has_visit_ended = reads(statements.api_keys.has_visit_ended, of_all)
    prune_idempotency_keys = writes(statements.idempotency.prune, of_all)

    def stats(self) -> StoreStats:
        return self._read(Every.TENANT, statements.stats.stats, self.size_bytes())

    # One end of a move
    is_being_filled = reads(statements.move.is_being_filled, of_all)
    table_page = reads(statements.move.page, of_all)
    row_count = reads(statements.move.row_count, of_all)
    meta_values = reads(statements.move.meta_values, of_all)
    numbers_given = reads(statements.move.numbers_given, of_all)
    begin_filling = writes(statements.move.begin, of_all)
    fill = writes(statements.move.fill, of_all)
    end_filling = writes(statements.move.end, of_all)


class JobLead(Lead):
    """A lead of a job whose runs the database records."""

    def __init__(self, store: SqlStore, job: str) -> None:
        self._store, self._job = store, job

    def ran(self, at: datetime) -> None:
        self._store.record_run(self._job, at)


class _LeasedLead(JobLead):
    """A lead that a row of the database records, with its end."""

    def __init__(self, store: SqlStore, job: str, leader: str) -> None:
        super().__init__(store, job)
        self._leader = leader

    def renew(self) -> bool:
        return self._store.renew_lead(self._job, self._leader)


def _put_vectors_and(
    conn: Connection,
    model: str,
    done: Sequence[tuple[Work, bytes]],
    also: Callable[[Any, Sequence[tuple[Work, bytes]]], object],
    *,
    now: datetime,
) -> None:
    if statements.vectors.put(conn, model, done, now=now):
        also(conn, done)
