"""The memory: opens scopes and tenants, and runs the pending work."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from ..domain.checks import check_limit
from ..domain.episode import Scope, check_name
from ..domain.errors import MemoryClosed, StoreCorrupt, StoreError
from ..domain.facts import TENANT_SETTINGS
from ..domain.policy import ConfigPart, MemoryConfig
from . import worker
from .core import leases
from .core.runtime import Runtime
from .scope import MemoryScope
from .work import mirror, pending
from .work.pending import PendingReport

if TYPE_CHECKING:
    from ..domain.audit import AuditCheck, AuditEntry
    from ..domain.episode import TenantOverview
    from ..domain.retention import RetentionReport
    from ..ports.admin import StoreState, StoreStats
    from ..ports.recall_rows import Backlog, WorkKind
    from .core.counts import Counts
    from .encryption import EncryptProgress
    from .inspection import Inspection
    from .privacy.api_keys import ApiKeys
    from .retention import Progress
    from .tenant import MemoryTenant
    from .work.mirror import MemoryMirror
    from .worker import WorkerState

log = logging.getLogger(__name__)

_BETWEEN_COUNTS = 1.0


class Memory:
    """Remembers conversations. Thread-safe; `close` it, or use it as a context manager."""

    def __init__(self, runtime: Runtime, *, run_in_background: bool = True) -> None:
        self._runtime = runtime
        self._worker_id = leases.new_worker_id()
        self._closed = False
        self._process = os.getpid()
        self._has_model = False
        self._next_count = 0.0
        self._worker = (
            worker.BackgroundWorker(runtime, self._worker_id) if run_in_background else None
        )
        if self._worker is not None:
            runtime.ledger.wake = self._worker.wake_for_ledger
        # A process that does no background work must not have everything embedded again only
        # because another embedder is configured for it.
        if run_in_background or runtime.store.state().model is None:
            self._use_model()
        mirror.attach(runtime)
        runtime.check_for_removals()
        if run_in_background and (pending.is_waiting(runtime) or mirror.waiting(runtime)):
            # Work of a process that died, or texts that were queued because the model changed.
            self.wake()

    def scope(
        self,
        *,
        tenant: str = "default",
        agent: str = "default",
        user: str,
        actor: str = "library",
    ) -> MemoryScope:
        """Return one user's memory with one agent. Ids are text; a UUID is converted to text.

        `actor` names the caller in the audit log, which records erasures, deletions and restores,
        and reads if the settings say so.
        """
        names = {"tenant": tenant, "agent": agent, "user": user}
        texts = {k: str(v) if isinstance(v, UUID) else v for k, v in names.items()}
        return MemoryScope(self, Scope(**texts), actor=check_name("actor", actor))

    def tenant(self, name: str = "default") -> MemoryTenant:
        """Return one tenant, across its agents and users: erasure, holds, export, the audit log."""
        # Imported here, so that a process that only reads and writes does not load export, scrub
        # and holds.
        from .tenant import MemoryTenant

        return MemoryTenant(self, str(name) if isinstance(name, UUID) else name)

    def configure(
        self,
        agent: str,
        config: MemoryConfig | ConfigPart | Mapping[str, Any],
        *,
        tenant: str | None = None,
        actor: str = "library",
    ) -> None:
        """Change an agent's settings, for one tenant or for every tenant.

        Stores the settings that `config` sets; the others keep their values. `config` is a
        `MemoryConfig`, one of its parts, or a dict such as `{"privacy": {"pii": "redact"}}`, in
        which None unsets a setting or a whole part. The change applies to every write that begins
        after this returns, in every process.

        :raises InvalidSetting: for a value that is invalid, or that conflicts with the effective
            settings
        """
        from .core import agent_configs

        agent_configs.configure(self.runtime, agent, config, tenant=tenant, actor=actor)

    def reset_config(
        self, agent: str, *, tenant: str | None = None, actor: str = "library"
    ) -> None:
        """Remove an agent's stored settings, for one tenant or for every tenant.

        Each setting then comes from the next layer: see `config_sources`.
        """
        from .core import agent_configs

        agent_configs.reset(self.runtime, agent, tenant=tenant, actor=actor)

    def compact(self, *, actor: str = "library") -> bool:
        """Rewrite the database's files, so that removed content cannot be read from them.

        Returns False if another connection blocks the rewrite: try again later.
        """
        from .privacy import erasure

        return erasure.compact(self.runtime, actor=actor)

    def config(self, agent: str, *, tenant: str | None = None) -> MemoryConfig:
        """Return an agent's effective settings."""
        from .core import agent_configs

        return agent_configs.config(self.runtime, agent, tenant=tenant)

    def config_sources(self, agent: str, *, tenant: str | None = None) -> dict[str, dict[str, str]]:
        """Return the layer of each of an agent's settings, as the name of a `ConfigSource`."""
        from .core import agent_configs

        return agent_configs.config_sources(self.runtime, agent, tenant=tenant)

    def run_pending(self) -> PendingReport:
        """Do the pending work in this thread: time-outs, summaries, vectors."""
        leases.release_dead_leases(self.runtime)
        self._use_model()
        self.runtime.ledger.flush()
        return worker.run_pending(self.runtime, self._worker_id)

    def run_retention(
        self,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        now: datetime | None = None,
        compact: bool | None = None,
        actor: str = "library",
    ) -> RetentionReport:
        """Archive, delete and purge the episodes that are due: see `MemoryRetentionJob.run`."""
        from .retention import MemoryRetentionJob

        if not dry_run:
            leases.release_dead_leases(self.runtime)
        return MemoryRetentionJob(self.runtime, self._worker_id).run(
            dry_run=dry_run, progress=progress, now=now, compact=compact, actor=actor
        )

    def next_retention(self) -> datetime | None:
        """Return the time of the next scheduled retention run; None if there is no schedule."""
        from .retention import next_run

        return next_run(self.runtime)

    def flush(self, timeout: float | None = None) -> bool:
        """Embed until nothing is left; returns False if `timeout` seconds passed first.

        :raises EmbedderFailed: when the embedder cannot be reached
        :raises StoreCorrupt: when a text is damaged; the others are embedded
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        runtime = self.runtime
        leases.release_dead_leases(runtime)
        self._use_model()
        while True:
            damaged = 0
            while (batch := pending.embed_batch(runtime, self._worker_id)).taken:
                damaged += batch.damaged
                if deadline is not None and time.monotonic() >= deadline:
                    break
            if damaged:
                raise StoreCorrupt(
                    f"{damaged} texts are damaged and cannot be read: restore a backup"
                )
            if not pending.is_waiting(runtime):
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(0.01)

    def backlog(self) -> Mapping[WorkKind, Backlog]:
        """Return how much work waits, by kind, with the age of the oldest piece."""
        return self.runtime.store.backlog()

    def scopes(self, *, limit: int = 100) -> list[Scope]:
        """Return scopes of the whole database, in the order in which they were first used."""
        return [scope for _, scope in self.runtime.store.scopes(limit=check_limit(limit))]

    def default_config(self) -> MemoryConfig:
        """Return the settings of an agent for which nothing is stored."""
        return self.runtime.defaults

    def configured_agents(self) -> list[tuple[str | None, str]]:
        """Return each tenant and agent with stored settings; None stands for every tenant."""
        stored = [whose for whose in self.runtime.store.configs() if whose[1] != TENANT_SETTINGS]
        return sorted(stored, key=lambda whose: (whose[0] or "", whose[1]))

    def audit(self, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        """Return entries of the installation's own audit log, which belongs to no tenant."""
        from .core import audit

        return self.runtime.store.audit(audit.INSTALLATION, after=after, limit=check_limit(limit))

    def verify_audit(self, *, head: str | None = None) -> AuditCheck:
        """Verify the installation's own audit log: see `MemoryTenant.verify_audit`."""
        from .core import audit

        return audit.verify(self.runtime, audit.INSTALLATION, head=head)

    def ping(self) -> None:
        """Make one round trip to the database.

        :raises StoreError: when the database does not answer
        """
        self.runtime.store.state()

    def ping_keys(self) -> bool:
        """Make one round trip to the key store; False where scope keys are off.

        :raises KeyUnavailable: when the key store does not answer
        """
        return self.runtime.store.ask_keys()

    @property
    def api_keys(self) -> ApiKeys:
        """The service's API keys, of every tenant."""
        from .privacy.api_keys import ApiKeys

        return ApiKeys(self.runtime)

    @property
    def mirror(self) -> MemoryMirror:
        """The copy of the vectors that a remote index keeps."""
        from .work.mirror import MemoryMirror

        return MemoryMirror(self.runtime)

    @property
    def counts(self) -> Counts:
        """Calls by the minute and finished work, of all processes of a service."""
        return self.runtime.counts

    @property
    def embedding_model(self) -> str:
        """Name of the model that this memory embeds with."""
        return self.runtime.embedder.model

    def inspection(self, scope: MemoryScope) -> Inspection:
        """Return what a person who looks at a user's memory needs beyond an agent's calls."""
        from .inspection import Inspection

        return Inspection(self.runtime, scope)

    def database_state(self) -> StoreState:
        """Return what the database says of itself: model, mirror, removals and rewritten files."""
        return self.runtime.store.state()

    def nodes(self) -> dict[str, bool]:
        """Return the nodes of a distributed database, and whether each answers; {} for one."""
        return self.runtime.store.nodes()

    @property
    def worker_state(self) -> WorkerState | None:
        """State of this process's background worker; None if it has none."""
        return None if self._worker is None else self._worker.state

    def encrypt(
        self, progress: Callable[[EncryptProgress], object] | None = None, *, actor: str = "library"
    ) -> EncryptProgress:
        """Seal users that were stored before keys were on; `progress` is called after each step.

        All can be read and written meanwhile, by processes that have keys on too: no other may have
        the database open. An interrupted call is continued by the next. At the end the files are
        rewritten, so that they hold nothing of what was readable.

        :raises InvalidSetting: where keys are off
        :raises KeyUnavailable: when the key store does not answer
        """
        from .encryption import encrypt

        return encrypt(self.runtime, progress, actor=actor)

    def destroy_returned_keys(self, *, actor: str = "library") -> int:
        """Destroy keys of erased users that a restored backup of the key store brought back.

        :return: how many
        :raises KeyUnavailable: when the key store does not answer
        """
        from .encryption import destroy_returned

        return destroy_returned(self.runtime, actor=actor)

    def now(self) -> datetime:
        """Return the time by this memory's clock."""
        return self.runtime.clock.now()

    def check_for_removals(self) -> None:
        """Clear the caches if another process removed rows."""
        self.runtime.check_for_removals()

    def tenants(self, *, after: str | None = None, limit: int = 100) -> list[TenantOverview]:
        """Return the tenants that have anything stored, sorted by name, after `after`."""
        return self.runtime.store.tenants(after=after, limit=check_limit(limit))

    def stats(self) -> StoreStats:
        """Return counts over the whole database."""
        return self.runtime.store.stats()

    def count_lost(self, messages: int) -> None:
        """Count messages that an integration could not store and gave up: see `database_state`."""
        self.runtime.store.count_lost(messages)

    def close(self) -> None:
        """Stop the worker and close the database. Work that is not done stays in the database."""
        if self._closed:
            return
        if self._process != os.getpid():
            # A fork's copies of connections and locks belong to the process that opened them.
            self._closed = True
            return
        if self._worker is not None:
            self._worker.stop()
        self._closed = True
        self._runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def runtime(self) -> Runtime:
        """The adapters, settings and caches of this memory.

        :raises MemoryClosed: after `close`, and in a process forked since it was opened
        """
        if self._closed:
            raise MemoryClosed
        if self._process != os.getpid():
            raise MemoryClosed("was opened before this process was forked")
        return self._runtime

    def _use_model(self) -> None:
        """Set the database's embedding model to this memory's, once.

        Only once, because two processes with two models would re-embed the database in turns.
        """
        if self._has_model:
            return
        self._has_model = True
        runtime = self._runtime
        before, model = runtime.store.state().model, runtime.embedder.model
        if before == model:
            return
        queued = runtime.store.use_model(model)
        if before is not None and runtime.store.state().model == model:
            if queued:
                log.warning(
                    "the embedding model changed from %s to %s: embedding %d texts again",
                    before,
                    model,
                    queued,
                )
            from .core import audit

            audit.record(
                runtime,
                "use_model",
                tenant=audit.INSTALLATION,
                actor="library",
                model=model,
                before=before,
                queued=queued,
            )

    def attend(self) -> None:
        """Start the worker, because the memory is in use."""
        if self._worker is not None:
            self._worker.start()

    def wake(self) -> None:
        """Tell the worker that there is work."""
        if self._worker is not None:
            self._worker.wake()

    def wake_for_others(self) -> None:
        """Wake the worker if other processes left work, because they cannot signal this process."""
        if self._worker is None or self._worker.is_working:
            return
        # An unreachable database is retried at the next call; the worker logs the error.
        with contextlib.suppress(StoreError):
            store = self.runtime.store
            if store.unindexed_turns(limit=1):
                self.wake()
            # Counting a large backlog is slow, so count at most once a second.
            elif time.monotonic() >= self._next_count:
                self._next_count = time.monotonic() + _BETWEEN_COUNTS
                if any(work.waiting for work in store.backlog().values()):
                    self.wake()
