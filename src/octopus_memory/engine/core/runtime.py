"""The adapters, settings and caches of one open memory.

Most messages follow another one to the same episode, so `OpenEpisodeCache` spares a write the read
that finds it.

A call that makes a block does not wait for the disk: the ledger's entry waits in `LedgerQueue`.
Where a memory has its background thread, that thread stores what waits about a second later; else
each entry is stored at once. Reading the ledger, exporting, erasing and closing store what waits
first. A process that is killed loses the entries that wait: the ledger explains answers, and no
other data depends on it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache, wraps
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Episode, Scope
from ...domain.errors import OctopusError, SettingsChanged
from ...domain.facts import SHARE_FACTS, TENANT_SETTINGS, FactSharing
from ...domain.forget import is_forget_wish
from ...domain.policy import (
    ConfigSource,
    Layer,
    MemoryConfig,
    PiiMode,
    SessionConfig,
    has_expired,
    resolved,
)
from ...domain.search.row_format import TermHasher, term_key
from ...domain.search.scoring import Calibration
from ...domain.search.terms import Memo
from ...ports.admin import AgentSettings
from ...ports.episodes import Ledger
from ...ports.index import RecallIndex
from ...ports.models import (
    Analyzer,
    Clock,
    Embedder,
    FactSummarizer,
    Redactor,
    Summarizer,
    TokenCounter,
)
from ...ports.privacy import Schedule
from ...ports.store import EpisodeStore
from ...ports.values import Placeholder
from .counts import Counts
from .lexicon import Lexicon
from .pii_guard import Guard, NamesHeard

if TYPE_CHECKING:
    from ...domain.ledger import Injection
    from .topic_shift import TopicWatch


P = ParamSpec("P")
T = TypeVar("T")
_MOST = 10_000
_NAMED_BY = (Episode, UUID, str)


class CachedEpisode(NamedTuple):
    """An episode that was open when this process last wrote to it."""

    session_id: str
    episode_id: UUID
    started_at: datetime
    seen_at: datetime
    """Like `started_at` never later than the stored value, so that the cache can only expire an
    episode too early."""


class OpenEpisodeCache:
    """Maps the name by which a caller wrote to the episode that was open then.

    An entry may be stale, because another process closed or erased the episode. The store refuses
    a write to it, and the caller drops the entry.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Scope, UUID | str], CachedEpisode] = {}
        self.next_is_new = False
        """True if the last session that was not cached was new: then the next one probably is."""

    def open_at(
        self, scope: Scope, where: Episode | UUID | str, at: datetime, config: SessionConfig
    ) -> CachedEpisode | None:
        """Return the cached episode, unless it may have timed out by `at`."""
        if not isinstance(where, _NAMED_BY):
            return None
        known = self._known.get((scope, _name(where)))
        if known is None or has_expired(
            started_at=known.started_at, last_seen_at=known.seen_at, at=at, config=config
        ):
            return None
        return known

    def put(self, scope: Scope, where: Episode | UUID | str, episode: CachedEpisode) -> None:
        if len(self._known) >= _MOST:
            self.clear_cache()
        self._known[scope, _name(where)] = episode

    def drop(self, scope: Scope, where: Episode | UUID | str) -> None:
        self._known.pop((scope, _name(where)), None)

    def drop_closed(self, episode: Episode) -> None:
        """Drop an episode that was closed, under its own id and its session's."""
        self.drop(episode.scope, episode.id)
        self.drop(episode.scope, episode.session_id)

    def clear_cache(self) -> None:
        self._known.clear()


def _name(where: Episode | UUID | str) -> UUID | str:
    return where.id if isinstance(where, Episode) else where


log = logging.getLogger(__name__)

_MOST_WAITING = 10_000
"""Entries that wait while the database is away; then the oldest are dropped."""
_BATCH = 200


class LedgerQueue:
    """Entries that are to be stored. Thread-safe."""

    def __init__(self, ledger: Ledger, *, read_only: bool) -> None:
        self._ledger = ledger
        self._read_only = read_only
        self._waiting: deque[tuple[Scope, Injection]] = deque(maxlen=_MOST_WAITING)
        self._writing = threading.Lock()
        self.wake: Callable[[], None] | None = None
        """Tells the background thread to call `flush`; without one, `note` calls it."""

    def note(self, scope: Scope, entry: Injection) -> None:
        """Take an entry; a failure to store it is logged, and never raised."""
        if self._read_only:
            return
        if entry.query is not None and is_forget_wish(entry.query):
            # The wish repeats what is to be forgotten.
            entry = replace(entry, query=None)
        self._waiting.append((scope, entry))
        if self.wake is None or len(self._waiting) >= _BATCH:
            self.flush()
        else:
            self.wake()

    def flush(self) -> None:
        """Store what waits. A batch that fails waits on, for the next call."""
        if not self._waiting:
            return
        with self._writing:
            while batch := [self._waiting[i] for i in range(min(_BATCH, len(self._waiting)))]:
                try:
                    self._store_batch(batch)
                except OctopusError as error:
                    log.warning("the ledger is not written now: %s", error.for_log())
                    return
                for _ in batch:
                    self._waiting.popleft()

    def _store_batch(self, batch: list[tuple[Scope, Injection]]) -> None:
        # Row-level security lets a transaction write for one tenant alone.
        for tenant in dict.fromkeys(scope.tenant for scope, _ in batch):
            self._ledger.record_injections(
                tenant, [(scope, entry) for scope, entry in batch if scope.tenant == tenant]
            )


_MOST_CONFIGS = 10_000
_MOST_QUERIES = 256
_MOST_VECTORS = 10_000
_CHANGES = 20
"""Attempts of a write whose agent's settings change again and again."""
_CONFIG_SECONDS = 2.0
"""Seconds that settings are cached, so another process's change is seen that late."""


class TrialVectors:
    """Vectors by an embedder that the memory does not use, for comparisons. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], NDArray[np.float32]] = {}
        self._embedding = threading.Lock()

    def of(self, embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text; those that were asked for before are not embedded again."""
        keys = [(embedder.model, _digest(text)) for text in texts]
        with self._embedding:
            if len(self._known) > _MOST_VECTORS:
                self._known.clear()
            new = {
                key: text for key, text in zip(keys, texts, strict=True) if key not in self._known
            }
            if new:
                self._known |= dict(zip(new, embedder.embed([*new.values()]), strict=True))
            return np.stack([self._known[key] for key in keys])

    def clear_cache(self) -> None:
        with self._embedding:
            self._known.clear()


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


class Timeouts(NamedTuple):
    """Seconds that the engine waits for a summarizer's model."""

    at_close: float = 8.0
    in_background: float = 60.0


class InForce(NamedTuple):
    """An agent's effective settings, and the stored ones they were resolved from."""

    config: MemoryConfig
    stored: AgentSettings


@dataclass(kw_only=True, eq=False)
class Runtime:
    """The adapters, settings and caches of one memory. Built by `wiring`, or by a test."""

    store: EpisodeStore
    index: RecallIndex
    embedder: Embedder
    analyzer: Analyzer
    counter: TokenCounter
    clock: Clock
    extractive: FactSummarizer
    summarizer: Summarizer | None = None
    calibration: Calibration = field(default_factory=Calibration.default)
    defaults: MemoryConfig = field(default_factory=MemoryConfig)
    timeouts: Timeouts = field(default_factory=Timeouts)
    audit_reads: bool = False
    """True records reads in the audit log, besides erasures, exports and changes."""
    made: ExitStack = field(default_factory=ExitStack)
    """Adapters to close with this memory. Those that the caller passed in stay open."""
    schedule: Schedule | None = None
    """The schedule of retention; None if it runs only when it is called."""
    compact_after_retention: bool = True
    make_redactor: Callable[[], Redactor] | None = None
    """Called when an agent first needs personal data found, because loading patterns is slow."""
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._hasher = lru_cache(maxsize=4096)(self._new_hasher)
        self._configs: dict[tuple[str | None, str], tuple[float, InForce]] = {}
        self._sharing: dict[str, tuple[float, FactSharing | None]] = {}
        # Agents often ask the same question twice: for the block and for a search.
        self._queries = Memo(self._embedded, most=_MOST_QUERIES)
        self._removals = _Removals(self)
        self.heard = NamesHeard()
        self.warned: set[tuple[str, str]] = set()
        """Tenants and agents whose retention policy a warning was logged for."""
        self.open_episodes = OpenEpisodeCache()
        self.trial_vectors = TrialVectors()
        self.ledger = LedgerQueue(self.store, read_only=self.store.read_only)
        self.lexicon = Lexicon(self.analyzer, self.hasher)

    @cached_property
    def topics(self) -> TopicWatch:
        from .topic_shift import TopicWatch

        return TopicWatch(self.store, self.embedder, self.analyzer, self.clock)

    def hasher(self, scope: Scope) -> TermHasher:
        known: TermHasher = self._hasher(scope)
        return known

    def _new_hasher(self, scope: Scope) -> TermHasher:
        return TermHasher(term_key(self.store.salt, scope))

    def config(self, tenant: str | None, agent: str) -> MemoryConfig:
        """Return the agent's effective settings."""
        return self.in_force(tenant, agent).config

    def in_force(self, tenant: str | None, agent: str) -> InForce:
        """Return the agent's effective settings, cached for a few seconds, and their version.

        A write names the version that it was decided by. The store refuses it if that is stale.
        """
        key, now = (tenant, agent), time.monotonic()
        known = self._configs.get(key)
        if known is not None and now - known[0] < _CONFIG_SECONDS:
            return known[1]
        stored = self.store.config(tenant, agent)
        found = InForce(resolved([*self.layers(stored).values()]), stored)
        if len(self._configs) >= _MOST_CONFIGS:
            self._configs.clear()
        self._configs[key] = (now, found)
        return found

    def fact_sharing(self, tenant: str) -> FactSharing | None:
        """Return which facts the tenant's agents share, cached as `in_force` does."""
        now = time.monotonic()
        known = self._sharing.get(tenant)
        if known is not None and now - known[0] < _CONFIG_SECONDS:
            return known[1]
        own = self.store.config(tenant, TENANT_SETTINGS).own or {}
        found = FactSharing.from_dict(own[SHARE_FACTS]) if SHARE_FACTS in own else None
        if len(self._sharing) >= _MOST_CONFIGS:
            self._sharing.clear()
        self._sharing[tenant] = (now, found)
        return found

    def layers(self, stored: AgentSettings) -> dict[ConfigSource, Layer]:
        """Return the layers of settings above the built-in defaults, lowest first."""
        return {
            ConfigSource.SETTINGS: self.defaults.overrides(),
            ConfigSource.AGENT: stored.for_all or {},
            ConfigSource.TENANT: stored.own or {},
        }

    def guard(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        known: Sequence[Placeholder] = (),
        numbered: bool = True,
    ) -> Guard:
        """Make the guard that applies the agent's privacy settings during one call.

        With `numbered=False` placeholders get no numbers, whatever the settings say.
        """
        config, stored = self.in_force(scope.tenant, scope.agent)
        privacy, version = config.privacy, stored.version
        if not numbered:
            privacy = replace(privacy, numbered=False)
        if privacy.pii is PiiMode.OFF or self.make_redactor is None:
            return Guard(privacy, None, salt=self.store.salt, scope=scope, settings=version)
        return Guard(
            privacy,
            self.make_redactor(),
            salt=self.store.salt,
            scope=scope,
            known=known,
            names=self.heard.of(scope, session_id),
            settings=version,
        )

    def clear_config_cache(self) -> None:
        self._configs.clear()
        self._sharing.clear()

    def clear_caches(self) -> None:
        """Clear every cache that may hold content that was removed from the store."""
        self.topics.clear_cache()
        self.trial_vectors.clear_cache()
        self.heard.clear_cache()
        self.open_episodes.clear_cache()
        self.lexicon.clear_cache()
        self._queries.clear()
        self._hasher.cache_clear()
        for part in (self.index, self.analyzer, self.embedder, self.summarizer):
            clear_cache: Any = getattr(part, "clear_cache", None)
            if clear_cache is not None:
                clear_cache()

    def check_for_removals(self, *, every: float = 0.0) -> None:
        """Clear the caches if another process removed rows; at most once in `every` seconds."""
        self._removals.check(every)

    def _embedded(self, text: str) -> NDArray[np.float32]:
        return np.asarray(self.embedder.embed([text])[0])

    def query_vector(self, text: str) -> NDArray[np.float32]:
        return self._queries[text]

    def close(self) -> None:
        self.ledger.flush()
        self.made.close()


class _Removals:
    """Clears the caches when the store's removal counter differs from the last one seen."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen: int | None = None
        self._next = 0.0

    def check(self, every: float) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + every
        made = self._runtime.store.state().removals
        if self._seen not in (None, made):
            self._runtime.clear_caches()
        self._seen = made


def retry_on_settings_change(
    write: Callable[Concatenate[Runtime, P], T],
) -> Callable[Concatenate[Runtime, P], T]:
    """Run `write` again with the current settings when the store refuses stale ones.

    A process caches settings for two seconds. A write names the version of the settings that it was
    decided by, and the store refuses it, without storing anything, if that version is stale.
    """

    @wraps(write)
    def run(runtime: Runtime, /, *args: P.args, **named: P.kwargs) -> T:
        for _ in range(_CHANGES - 1):
            try:
                return write(runtime, *args, **named)
            except SettingsChanged:
                runtime.clear_config_cache()
        return write(runtime, *args, **named)

    return run
