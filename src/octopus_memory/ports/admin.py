"""What an operator needs of a store: its state, its tenants and users, settings, API keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ..domain.episode import Scope
from ..domain.errors import InvalidSetting
from ..domain.message import Json
from .recall_rows import Backlog, WorkKind

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.episode import ScopeSearch
    from ..domain.identity import ApiKey


class StoreState(NamedTuple):
    """The records of a store about itself, as one read saw them."""

    model: str | None
    """The model of new vectors; None before the first."""
    mirror: str | None
    """The name of the mirror that this store feeds; None if there is none."""
    removals: int
    """Grows whenever rows are removed, so that caches notice an erasure by another process."""
    compacted: int
    """The value of `removals` up to which the files were rewritten."""
    owes_own_words: bool = False
    """True if turns of an earlier release may hold what memory itself gave to a model."""
    lost: int = 0
    """Messages that integrations could not store and gave up."""

    @property
    def owes_compaction(self) -> bool:
        """True if rows were removed since the files were last rewritten."""
        return self.removals > self.compacted


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Counts over the whole database."""

    product: str
    schema: str
    size_bytes: int | None
    tenants: int
    scopes: int
    sessions: int
    episodes: int
    open_episodes: int
    turns: int
    facts: int = 0
    vectors: Mapping[str, int] = field(default_factory=dict)
    """The number of vectors of each model."""
    backlog: Mapping[WorkKind, Backlog] = field(default_factory=dict)


class KeyGaps(NamedTuple):
    """Where a database and its key store do not fit together."""

    unsealed: int = 0
    """Scopes that were written without a key and are not wholly sealed yet."""
    lost: int = 0
    """Scopes whose key is missing in the key store; of the newest ones, which are missing first."""
    returned: tuple[str, ...] = ()
    """Keys of erased users that are there again, after a backup of the key store was restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseReport:
    """What a database says of itself, before a memory is opened on it."""

    stats: StoreStats
    state: StoreState
    read_only: bool
    row_security_gap: str | None
    """Why row-level security does not apply to the role; None if it does, or there is none."""
    nodes: Mapping[str, bool]
    """The nodes of a distributed database, and whether each answers."""
    key_gaps: KeyGaps


class Registry(ABC):
    """The store as a whole."""

    @property
    @abstractmethod
    def salt(self) -> bytes:
        """The database's secret, created with it, that keys hashed terms."""

    @property
    def read_only(self) -> bool:
        """True if the store was opened read-only, so that every write is refused."""
        return False

    @abstractmethod
    def state(self) -> StoreState: ...

    @abstractmethod
    def stats(self) -> StoreStats: ...

    def backlog(self) -> Mapping[WorkKind, Backlog]:
        """The items of work of each kind, claimed or not."""
        return self.stats().backlog

    def nodes(self) -> dict[str, bool]:
        """The nodes of a distributed database by `host:port`, and whether each answers.

        Empty for a single database.
        """
        return {}

    def own_words_removed(self) -> None:  # noqa: B027 - only a store that owes it has to record it
        """Record that no turn holds what memory itself gave to a model."""

    def count_lost(self, messages: int) -> None:  # noqa: B027 - a store may keep no count
        """Count messages that an integration could not store and gave up."""

    @abstractmethod
    def prune_idempotency_keys(self, *, before: datetime) -> int:
        """Delete idempotency keys used before then; returns how many."""

    @property
    def has_keys(self) -> bool:
        """True if what is written of a scope is sealed with the scope's own key."""
        return False

    def unsealed(self) -> int:
        """How many scopes were written without a key and are not wholly sealed yet."""
        return 0

    def ask_keys(self) -> bool:
        """Ask the key store for a key; False where there is no key store.

        :raises KeyUnavailable: when it does not answer
        """
        return False

    def key_gaps(self) -> KeyGaps:
        """Compare the database with its key store; nothing is missing where there is none.

        :raises KeyUnavailable: when the key store does not answer
        """
        return KeyGaps()

    def destroy_returned(self) -> int:
        """Destroy the keys of erased users that are there again; returns how many.

        :raises KeyUnavailable: when the key store does not answer
        """
        return 0

    def encrypt(self) -> Iterator[int]:
        """Seal scopes that were written without keys, in steps; yields the rows of each.

        Every step is one transaction, and can be repeated by any process. All can be read and
        written meanwhile, by processes that have the keys.

        :raises InvalidSetting: in a store without keys
        """
        raise InvalidSetting("keys", "must be local or vault, to seal a database")

    @abstractmethod
    def compact(self) -> bool:
        """Rewrite the files, so that no row removed before this call can be read from them.

        False when a concurrent user of the database or a missing right prevents it: try again
        later. Rows that are removed while it runs are still owed afterwards.
        """

    def is_being_filled(self) -> bool:
        """True if an unfinished move fills this database, so that it must not be used yet."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Release connections. Idempotent."""


MOST_READ = 200_000
"""Scopes that one call of `people` reads at most."""


class Overview(ABC):
    """The part of a store that lists who it knows."""

    @abstractmethod
    def people(
        self,
        tenant: str,
        *,
        starts: str = "",
        contains: str = "",
        agents: Collection[str] | None = None,
        user: str | None = None,
        after: Scope | None = None,
        limit: int,
        most_read: int = MOST_READ,
    ) -> ScopeSearch:
        """Scopes of a tenant with their counts, by user and agent, those above `after`.

        Of users whose id begins with `starts`, of these agents and this user only, and of users or
        agents whose id contains `contains` in any case, where they are given. Reads at most
        `most_read` scopes, so that a call is bounded however large the tenant is; `reached` says
        where to continue.
        """


class AgentSettings(NamedTuple):
    """An agent's stored settings, as one read saw them; None where there are none."""

    for_all: Mapping[str, Json] | None
    """For every tenant."""
    own: Mapping[str, Json] | None
    """For one tenant; overrides `for_all`."""
    version: str
    """Changes whenever either of them changes."""


class AgentConfigs(ABC):
    """Agents' settings."""

    @abstractmethod
    def config(self, tenant: str | None, agent: str) -> AgentSettings:
        """The agent's settings for this tenant (None for no tenant) and for every tenant."""

    @abstractmethod
    def put_config(
        self,
        tenant: str | None,
        agent: str,
        config: Mapping[str, Json] | None,
        *,
        entry: AuditDraft | None = None,
        seen: str | None = None,
    ) -> None:
        """Replace an agent's settings for one tenant, or for every tenant; None removes them.

        An `entry` for the audit log is recorded in the same transaction.

        :raises SettingsChanged: when `seen` is given and is not the current version
        """

    @abstractmethod
    def configs(self) -> dict[tuple[str | None, str], Mapping[str, Json]]:
        """Every stored setting, by tenant (None for every tenant) and agent."""


class ApiKeys(ABC):
    """Stored API keys, with hashed secrets.

    An `entry` for the audit log is recorded in the same transaction, if the key exists.
    """

    @abstractmethod
    def put_key(self, key: ApiKey, secret_hash: bytes, *, entry: AuditDraft | None = None) -> None:
        """Store a new key."""

    @abstractmethod
    def find_key(self, key_id: str) -> tuple[ApiKey, bytes] | None:
        """A key of any tenant and its secret's hash. Takes no tenant, because the key names it."""

    @abstractmethod
    def list_keys(self, tenant: str | None = None) -> list[ApiKey]:
        """The keys of one tenant or of all, oldest first, including revoked ones."""

    @abstractmethod
    def update_key(
        self,
        key_id: str,
        *,
        used_at: datetime | None = None,
        revoked_at: datetime | None = None,
        expires_at: datetime | None = None,
        entry: AuditDraft | None = None,
    ) -> bool:
        """Set the times of a key that are given; False for an unknown id.

        The first revocation stays, and an expiry is never postponed.
        """

    @abstractmethod
    def end_visit(self, visit: str, until: datetime, *, now: datetime) -> None:
        """Record that a visit of the inspector has ended, and drop records whose time is over.

        `visit` is a hash of 32 digits. `until` is the time from which on the visit would not be
        accepted anyway.
        """

    @abstractmethod
    def has_visit_ended(self, visit: str, until: datetime) -> bool:
        """True after `end_visit` with the same arguments."""
