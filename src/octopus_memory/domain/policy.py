"""Settings of an agent: frozen dataclasses that validate themselves.

A setting is *set* if it was passed to the constructor, whatever its value: `PrivacyConfig()` sets
nothing, `PrivacyConfig(pii="off")` sets `pii`. `Memory.configure` stores the settings that are set
and leaves the others as they are. `dataclasses.replace` on a part passes every value to the
constructor, so it sets them all; on a `MemoryConfig` it keeps what each part has set.

A value in a higher layer overrides the lower ones. From the lowest: the built-in defaults; the
settings of the installation (environment, `octopus.toml`, `EpisodicMemory.open(config=…)`); the
settings stored for the agent; the settings stored for the agent in one tenant. A layer is a table
of tables that holds only the values set, such as `{"recall": {"semantic_top_k": 5}}`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from .errors import InvalidSetting
from .message import Json

LARGEST_MESSAGE = 64 * 1024 * 1024
"""Upper bound of `max_message_bytes`: stores do not read larger messages."""
MOST_RECALLED = 1_000_000
_LONGEST_DAYS = 365 * 1_000


class Layout(StrEnum):
    """Layout of the context block."""

    DETAILED = "detailed"
    COMPACT = "compact"


class PruneStrategy(StrEnum):
    """Method of shortening a history that is too long."""

    FIFO = "fifo"
    SLIDING_WINDOW = "sliding_window"
    SUMMARIZE = "summarize"


class LedgerMode(StrEnum):
    """Content of the ledger entry for a session's block."""

    OFF = "off"
    IDS = "ids"
    """Ids of the memories in the block, and the reason for each."""
    FULL = "full"
    """Ids and reasons, and the redacted query."""


class ConfigPart:
    """A table of settings. It remembers which names were passed to its constructor."""

    __slots__ = ("_given",)
    _given: frozenset[str]

    def __new__(cls, **given: Any) -> Self:
        part = super().__new__(cls)
        object.__setattr__(part, "_given", frozenset(given))
        return part

    def overrides(self) -> dict[str, Json]:
        """Values that were set."""
        names = [each.name for each in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name in self._given}

    def __reduce__(self) -> tuple[Any, ...]:
        # Values that were not set are the defaults of the class.
        return _unpickle, (type(self), self.overrides())


def _unpickle(kind: type[ConfigPart], given: dict[str, Any]) -> ConfigPart:
    return kind(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodicRecallConfig(ConfigPart):
    """Settings of recall and injection."""

    enabled: bool = True
    recent_sessions_to_inject: int = 2
    semantic_top_k: int = 3
    min_recall_score: float = 0.65
    use_session_summaries: bool = True
    include_archived: bool = True

    def __post_init__(self) -> None:
        _check_kinds(self, "recall")
        counts = {"recent_sessions_to_inject": MOST_RECALLED, "semantic_top_k": MOST_RECALLED}
        _check_at_least(self, "recall", 0, *counts, "min_recall_score")
        _check_at_most(self, "recall", min_recall_score=1, **counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig(ConfigPart):
    """Settings of episode boundaries and messages."""

    idle_timeout_minutes: float = 30
    max_session_hours: float = 8
    allow_resume: bool = False
    topic_shift: bool = False
    max_message_bytes: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        _check_kinds(self, "session")
        _check_above_zero(self, "session", "idle_timeout_minutes", "max_session_hours")
        _check_at_least(self, "session", 1, "max_message_bytes")
        _check_at_most(
            self,
            "session",
            idle_timeout_minutes=_LONGEST_DAYS * 24 * 60,
            max_session_hours=_LONGEST_DAYS * 24,
            max_message_bytes=LARGEST_MESSAGE,
        )


class ArchiveMode(StrEnum):
    """Treatment of an episode's turns when it is archived."""

    SUMMARY = "summary"
    """Turns are removed; the summary, the key facts and their vector stay."""
    COLD = "cold"
    """Turns are moved, compressed, to a table from which `restore` brings them back."""


class PiiMode(StrEnum):
    """Treatment of personal data in messages."""

    OFF = "off"
    FLAG = "flag"
    """Store the message unchanged and mark the turn."""
    REDACT = "redact"
    """Replace personal data by typed placeholders before anything is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodicRetentionPolicy(ConfigPart):
    """Settings of retention, in days since an episode ended.

    Standing facts are not bound to these days: a current one stays as long as the user has another
    episode with the agent, a pinned one until it is deleted or the user is erased.
    """

    active_retention_days: float = 90
    archive_retention_days: float = 365
    archive_on_expiry: bool = True
    """False deletes an episode at the end of its active days."""
    delete_after_archival_period: bool = True
    """False keeps archived episodes forever."""
    archive_mode: ArchiveMode = ArchiveMode.COLD
    purge_grace_days: float = 7
    """Days between deletion and physical removal; until then `restore` undoes it."""

    def __post_init__(self) -> None:
        _check_kinds(self, "retention")
        _check_above_zero(self, "retention", "active_retention_days", "archive_retention_days")
        _check_at_least(self, "retention", 0, "purge_grace_days")
        _check_at_most(
            self,
            "retention",
            active_retention_days=_LONGEST_DAYS,
            archive_retention_days=_LONGEST_DAYS,
            purge_grace_days=_LONGEST_DAYS,
        )
        is_used = self.archive_on_expiry and self.delete_after_archival_period
        if is_used and self.archive_retention_days < self.active_retention_days:
            raise InvalidSetting(
                "retention.archive_retention_days",
                "must not be less than active_retention_days: both count from an episode's end",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyConfig(ConfigPart):
    """Settings of the treatment of personal data before storing, indexing or summarizing."""

    pii: PiiMode = PiiMode.OFF
    numbered: bool = False
    """True numbers placeholders per episode, so that people stay distinct: `[PERSON_NAME_1]`."""

    def __post_init__(self) -> None:
        _check_kinds(self, "privacy")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingConfig(ConfigPart):
    """Settings of which turns are embedded. Every turn can be found by its words in any case."""

    min_chars: int = 8
    system_turns: bool = False
    tool_turns: bool = False

    def __post_init__(self) -> None:
        _check_kinds(self, "embedding")
        _check_at_least(self, "embedding", 0, "min_chars")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextConfig(ConfigPart):
    """Settings of the model's context: the memory block and the history beside it."""

    layout: Layout = Layout.DETAILED
    budget_tokens: int = 3200
    single_system_message: bool = False
    max_working_memory_tokens: int = 100_000
    output_reserve: int = 4_096
    prune: PruneStrategy = PruneStrategy.FIFO
    sliding_window_turns: int = 20
    min_history_turns: int = 3
    ledger: LedgerMode = LedgerMode.IDS

    def __post_init__(self) -> None:
        _check_kinds(self, "context")
        _check_at_least(self, "context", 0, "budget_tokens", "output_reserve", "min_history_turns")
        _check_at_least(self, "context", 1, "max_working_memory_tokens", "sliding_window_turns")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """All settings of one agent."""

    recall: EpisodicRecallConfig = field(default_factory=EpisodicRecallConfig)
    session: SessionConfig = field(default_factory=SessionConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    context: ContextConfig = field(default_factory=ContextConfig)
    retention: EpisodicRetentionPolicy = field(default_factory=EpisodicRetentionPolicy)
    privacy: PrivacyConfig = field(default_factory=PrivacyConfig)

    def __post_init__(self) -> None:
        for part in dataclasses.fields(self):
            given, kind = getattr(self, part.name), part.default_factory
            if not isinstance(given, kind):  # type: ignore[arg-type]
                raise InvalidSetting(
                    part.name, f"must be {part.type}(...), not {type(given).__name__}"
                )

    def to_dict(self) -> dict[str, Json]:
        """All values, set or not."""
        return dataclasses.asdict(self)

    def overrides(self) -> dict[str, dict[str, Json]]:
        """Values that were set, by part."""
        parts: dict[str, ConfigPart] = {
            part.name: getattr(self, part.name) for part in dataclasses.fields(self)
        }
        return {name: values for name, part in parts.items() if (values := part.overrides())}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Reverse of `to_dict`; missing parts and fields are not set.

        :raises InvalidSetting: for an unknown name or a value out of range
        """
        parts = {part.name: part.default_factory for part in dataclasses.fields(cls)}
        if not isinstance(given, Mapping):
            raise InvalidSetting("config", f"must be tables of settings: {', '.join(parts)}")
        built = {}
        for name, values in given.items():
            if name not in parts:
                raise InvalidSetting(name, f"is unknown; there are {', '.join(parts)}")
            built[name] = _part(parts[name], name, values)
        return cls(**built)


def _part(kind: Any, name: str, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise InvalidSetting(name, "must be a table of settings")
    known = [each.name for each in dataclasses.fields(kind)]
    for key in values:
        if key not in known:
            raise InvalidSetting(f"{name}.{key}", f"is unknown; there are {', '.join(known)}")
    return kind(**values)


_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
}


def _check_kinds(config: object, part: str) -> None:
    """Check the type of each value; turn the text of an enum field into its member."""
    for each in dataclasses.fields(config):  # type: ignore[arg-type]
        value, field_name = getattr(config, each.name), f"{part}.{each.name}"
        if isinstance(each.default, StrEnum):
            chosen = _choice(type(each.default), field_name, value)
            object.__setattr__(config, each.name, chosen)
            continue
        wanted, words = _KINDS[str(each.type)]
        # In Python, a bool is an int.
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise InvalidSetting(field_name, f"must be {words}, not {type(value).__name__}")


def _choice(kind: type[StrEnum], field_name: str, value: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidSetting(field_name, f"must be one of {', '.join(kind)}") from error


def _check_at_least(config: object, part: str, least: int, *names: str) -> None:
    for name in names:
        if not getattr(config, name) >= least:
            raise InvalidSetting(f"{part}.{name}", f"must be at least {least}")


def _check_at_most(config: object, part: str, **most: int) -> None:
    for name, limit in most.items():
        if not getattr(config, name) <= limit:
            raise InvalidSetting(f"{part}.{name}", f"must be at most {limit:,}")


def _check_above_zero(config: object, part: str, *names: str) -> None:
    for name in names:
        if not getattr(config, name) > 0:
            raise InvalidSetting(f"{part}.{name}", "must be above zero")


def has_expired(
    *, started_at: datetime, last_seen_at: datetime, at: datetime, config: SessionConfig
) -> bool:
    """True if the episode was idle or open for longer than its agent allows.

    All times must be message times, or all must be clock times.
    """
    idle = at - last_seen_at > timedelta(minutes=config.idle_timeout_minutes)
    return idle or at - started_at > timedelta(hours=config.max_session_hours)


def end_time(*, last_message_at: datetime, now: datetime, config: SessionConfig) -> datetime:
    """End of an episode that is closed now without an explicit time.

    If the last message is older than the idle timeout, the conversation is imported history, and
    ended with that message.
    """
    live = abs(now - last_message_at) <= timedelta(minutes=config.idle_timeout_minutes)
    return now if live else last_message_at


Layer = Mapping[str, Any]


class ConfigSource(StrEnum):
    """The layer that a setting's value comes from."""

    DEFAULT = "default"
    """Built-in default."""
    SETTINGS = "settings"
    """The environment, `octopus.toml`, or `EpisodicMemory.open(config=…)`."""
    AGENT = "agent"
    """Stored for the agent in every tenant."""
    TENANT = "tenant"
    """Stored for the agent in this tenant."""


def resolved(layers: Sequence[Layer]) -> MemoryConfig:
    """Effective settings; layers are given lowest first.

    :raises InvalidSetting: for an unknown name, or values that contradict each other
    """
    whole: dict[str, Any] = MemoryConfig().to_dict()
    for layer in layers:
        whole = _over(whole, layer)
    return MemoryConfig.from_dict(whole)


def sources(layers: Mapping[ConfigSource, Layer]) -> dict[str, dict[str, str]]:
    """Name of the layer that each value comes from; layers are given lowest first."""
    found: dict[str, dict[str, str]] = {
        part: dict.fromkeys(values, ConfigSource.DEFAULT.value)
        for part, values in _tables(MemoryConfig().to_dict()).items()
    }
    for source, layer in layers.items():
        for part, values in layer.items():
            found[part] |= dict.fromkeys(values, source.value)
    return found


def change_of(given: MemoryConfig | ConfigPart | Mapping[str, Any]) -> dict[str, Any]:
    """A caller's change as a layer; None instead of a value or a part unsets it.

    :raises InvalidSetting: for anything but settings, and for an unknown name
    """
    if isinstance(given, MemoryConfig):
        return dict(given.overrides())
    if isinstance(given, ConfigPart):
        return {_name_of(given): given.overrides()}
    if not isinstance(given, Mapping):
        raise InvalidSetting(
            "config",
            "must be a MemoryConfig, one of its parts, or tables of settings, not "
            f"{type(given).__name__}",
        )
    change = {}
    for part, values in given.items():
        if isinstance(values, ConfigPart):
            if part != _name_of(values):
                raise InvalidSetting(str(part), f"must not be {type(values).__name__}(...)")
            change[part] = values.overrides()
        else:
            change[part] = dict(values) if isinstance(values, Mapping) else values
    _check_names(change)
    return change


def _check_names(change: Mapping[str, Any]) -> None:
    """Check names only: values are checked later, together with those of the other layers."""
    known = _tables(MemoryConfig().to_dict())
    for part, values in change.items():
        given = {} if values is None else values
        if isinstance(given, dict):
            given = {name: known.get(part, {}).get(name) for name in given}
        MemoryConfig.from_dict({part: given})


def changed(stored: Layer, change: Mapping[str, Any]) -> dict[str, Json]:
    """A stored layer after a change; values that the change does not name stay."""
    result: dict[str, Any] = {part: dict(values) for part, values in stored.items()}
    for part, values in change.items():
        if values is None:
            result.pop(part, None)
            continue
        table = {**result.get(part, {}), **values}
        result[part] = {name: value for name, value in table.items() if value is not None}
    return {part: values for part, values in result.items() if values}


def _over(below: Layer, above: Layer) -> dict[str, Any]:
    both = dict(below)
    for part, values in above.items():
        known = both.get(part)
        tables = isinstance(known, Mapping) and isinstance(values, Mapping)
        both[part] = {**known, **values} if tables else values  # type: ignore[dict-item]
    return both


def _tables(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {part: dict(values) for part, values in config.items()}


def _name_of(part: ConfigPart) -> str:
    for each in dataclasses.fields(MemoryConfig):
        if each.default_factory is type(part):
            return each.name
    raise InvalidSetting("config", f"{type(part).__name__} is not a part of MemoryConfig")
