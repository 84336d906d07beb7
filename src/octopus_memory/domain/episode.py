"""Core values: scope, session, episode, turn, the results of recall, pages and counts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, TypeVar
from uuid import UUID

from .errors import InvalidInput
from .message import Json, Message, Role, ToolCall

if TYPE_CHECKING:
    from .facts import FoundFact


MOST_FACTS = 100
SUMMARY_LIMIT = 2_000
"""Maximum length of a summary, in characters."""

SAYS = " — "
"""Separates a speaker from the quote, in summaries and key facts.

Not a colon, because "User:" in a prompt looks like a turn and would be neutralized there.
"""


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


class EndReason(StrEnum):
    USER_CLOSED = "user_closed"
    AGENT_CLOSED = "agent_closed"
    TIMEOUT = "timeout"
    ERROR_CLOSED = "error_closed"
    TOPIC_SHIFT = "topic_shift"

    @classmethod
    def _missing_(cls, value: object) -> EndReason | None:
        """Accept PascalCase names, as in the design documents."""
        return next((one for one in cls if _pascal(one.value) == value), None)


class SessionStatus(StrEnum):
    ACTIVE = "active"
    ENDED = "ended"
    TIMED_OUT = "timed_out"
    ERROR = "error"

    @classmethod
    def after(cls, reason: EndReason) -> SessionStatus:
        """Status of a session whose last episode ended for this reason."""
        match reason:
            case EndReason.TIMEOUT:
                return cls.TIMED_OUT
            case EndReason.ERROR_CLOSED:
                return cls.ERROR
            case EndReason.TOPIC_SHIFT:
                return cls.ACTIVE
            case _:
                return cls.ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Tenant, agent and user. Every read and write happens inside one scope."""

    tenant: str
    agent: str
    user: str

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant, longest=100)
        check_name("agent", self.agent)
        check_name("user", self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation, under the id that the client chose."""

    id: str
    scope: Scope
    status: SessionStatus
    metadata: Mapping[str, Json] = field(default_factory=dict)
    created_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A bounded part of a session: its turns, and a summary once it is closed."""

    id: UUID
    scope: Scope
    session_id: str
    started_at: datetime
    last_message_at: datetime
    ended_at: datetime | None = None
    end_reason: EndReason | None = None
    message_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    summary: str | None = None
    key_facts: tuple[str, ...] = ()
    summarized_by: str | None = None
    is_archived: bool = False
    archived_at: datetime | None = None
    is_cold: bool = False
    """True for an archived episode whose turns are kept, so that `restore` can bring them back."""
    metadata: Mapping[str, Json] = field(default_factory=dict, compare=False)
    """Metadata of its session. Not compared, because a later call may replace it."""

    @property
    def is_open(self) -> bool:
        return self.ended_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A stored message, with its tool calls."""

    id: UUID
    episode_id: UUID
    session_id: str
    ordinal: int
    message: Message
    tokens: int
    at: datetime
    has_pii: bool = False
    embedding_ref: str | None = None
    indexed: bool = True
    """False for a turn that is replayed and never recalled."""

    @property
    def role(self) -> Role:
        return self.message.role

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def agent(self) -> str | None:
        return self.message.agent

    @property
    def tool_call(self) -> ToolCall | None:
        return self.message.tool_call


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of an episode, made when it is closed."""

    text: str
    key_facts: tuple[str, ...] = ()
    facts: tuple[FoundFact, ...] = ()
    """Standing facts about the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalShare:
    """A signal's contribution to a score."""

    signal: str
    value: float
    contribution: float
    words: str


Explain: TypeAlias = Callable[[], tuple[SignalShare, ...]]


class Explained:
    """Base of recall results: computes `signals` on first access, because most callers never do."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        slot = vars(cls).get("signals")
        # A dataclass with slots is made twice, at first without.
        if isinstance(slot, MemberDescriptorType):
            setattr(cls, "signals", property(partial(_signals_in, slot), slot.__set__))  # noqa: B010 - the field's type stays

    def explained_by(self, explain: Explain) -> Self:
        """Have `signals` computed by `explain`, and return this object, just made by the caller."""
        object.__setattr__(self, "signals", explain)
        return self


def _signals_in(slot: MemberDescriptorType, result: Explained) -> tuple[SignalShare, ...]:
    found: tuple[SignalShare, ...] | Explain = slot.__get__(result)
    if not isinstance(found, tuple):
        found = found()
        slot.__set__(result, found)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHit(Explained):
    """A turn that recall found."""

    id: UUID
    episode_id: UUID
    session_id: str
    ordinal: int
    role: Role
    text: str
    at: datetime
    score: float | None
    """None for a turn of a recent episode, which was not searched."""
    name: str | None = None
    message: Message | None = None
    """The whole message, as it was added."""
    signals: tuple[SignalShare, ...] = ()

    @property
    def metadata(self) -> Mapping[str, Json]:
        """The message's own `metadata`; empty where it has none."""
        given = None if self.message is None else self.message.body.get("metadata")
        return given if isinstance(given, Mapping) else {}

    def explain(self) -> str:
        """Explain why this turn was returned, one line per signal."""
        return explain(self.score, self.signals)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSnippet(Explained):
    """An episode that recall found, with its best turns."""

    episode_id: UUID
    session_id: str
    date: datetime
    summary: str
    key_facts: tuple[str, ...] = ()
    relevance: float | None
    """None for a recent episode, which was not searched."""
    is_archived: bool = False
    turns: tuple[TurnHit, ...] = ()
    signals: tuple[SignalShare, ...] = ()

    def explain(self) -> str:
        """Explain why this episode was returned, one line per signal."""
        return explain(self.relevance, self.signals)


def explain(score: float | None, signals: tuple[SignalShare, ...]) -> str:
    """Return one line for the relevance and one per signal, whose log odds add up to it."""
    if score is None:
        return "not scored: one of the latest"
    lines = [f"relevance {score:.2f}"]
    if signals:
        total = sum(share.contribution for share in signals)
        lines[0] += f" = 1 / (1 + e^-({total:+.2f})), the sum of"
    lines += [f"  {s.contribution:+.2f}  {s.signal}: {s.words}" for s in signals]
    return "\n".join(lines)


def check_name(field_name: str, value: str, *, longest: int = 256) -> str:
    """Return `value` if it is text of 1 to `longest` characters.

    :raises InvalidInput: otherwise
    """
    if not isinstance(value, str):
        raise InvalidInput(field_name, f"must be text, not {type(value).__name__}")
    if not 1 <= len(value) <= longest:
        raise InvalidInput(
            field_name, f"must have 1 to {longest} characters, and has {len(value):,}"
        )
    return check_text(field_name, value)


def check_text(field_name: str, value: str) -> str:
    """Return `value` if it is text that UTF-8 can encode.

    :raises InvalidInput: otherwise
    """
    if not isinstance(value, str):
        raise InvalidInput(field_name, f"must be text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            field_name, "must be valid text: it contains half a surrogate pair"
        ) from error
    return value


def check_time(field_name: str, value: datetime) -> datetime:
    """Return an aware time as UTC.

    :raises InvalidInput: for a naive time, or one out of range
    """
    if not isinstance(value, datetime):
        raise InvalidInput(field_name, f"must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidInput(
            field_name, "must have a time zone: use datetime(..., tzinfo=UTC) or .astimezone()"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(field_name, "is out of range as UTC") from error


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    total_count: int
    page: int
    page_size: int

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantOverview:
    """A tenant, and how many users with an agent each it has."""

    tenant: str
    scopes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeOverview:
    """Counts of one user with one agent. Deleted episodes are not among them."""

    scope: Scope
    episodes: int = 0
    open_episodes: int = 0
    archived_episodes: int = 0
    messages: int = 0
    tokens: int = 0
    """Tokens of the messages, as counted when they were stored."""
    facts: int = 0
    last_message_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeSearch:
    """A page of a search over the ids of users and agents."""

    found: tuple[ScopeOverview, ...]
    reached: Scope | None
    """Scope to continue after; None if the search read the whole tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSearch:
    """Turns that a search across users found, the most relevant first."""

    found: tuple[tuple[Scope, TurnHit], ...]
    searched: int
    """Number of users with an agent each that were searched."""
    reached: Scope | None
    """Scope to continue after; None if the search reached the tenant's last."""
