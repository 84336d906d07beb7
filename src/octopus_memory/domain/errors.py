"""Every error that Octopus raises.

    OctopusError
    ├── InvalidInput                 (also a ValueError)
    │   ├── InvalidMessage
    │   │   ├── MessageTooLarge
    │   │   └── ToolResultWithoutCall
    │   └── InvalidSetting
    ├── NotFound                     (also a LookupError)
    │   ├── EpisodeNotFound
    │   ├── FactNotFound
    │   └── SessionNotFound
    ├── Conflict
    │   ├── EpisodeClosed
    │   │   └── EpisodeArchived
    │   ├── EpisodeChanged
    │   ├── EpisodeDeleted
    │   ├── IdempotencyConflict
    │   ├── LegalHold
    │   └── SettingsChanged
    ├── StoreError
    │   ├── StoreBusy
    │   ├── StoreCorrupt
    │   ├── StoreFull
    │   ├── StoreReadOnly
    │   ├── StoreUnavailable
    │   │   └── StoreAnswerLost
    │   └── SchemaTooNew
    ├── ScopeKeyError
    │   ├── KeyMissing
    │   │   └── KeyDestroyed
    │   └── KeyUnavailable
    ├── IndexUnavailable
    ├── ModelError
    │   ├── EmbedderFailed
    │   └── SummarizerFailed
    ├── AccessDenied
    ├── MemoryClosed
    └── MissingExtra                 (also an ImportError)

Messages say what is wrong and what to do. They never contain the text of a conversation.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID


class OctopusError(Exception):
    """Base class: catch it to catch everything Octopus raises."""

    _is_loggable = False
    """True if the message contains no caller's text; a session id may be a person's name."""

    def for_log(self) -> str:
        """The class name, with the message if it can name no person."""
        kind = type(self).__name__
        return f"{kind}: {self}" if self._is_loggable else kind

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, unpickling calls `__init__` with the message; most of these take other values.
        return _unpickle, (type(self), self.args), self.__dict__


def for_log(error: Exception) -> str:
    """Return what a log may hold of any error: its class name, with the message if that is safe."""
    return error.for_log() if isinstance(error, OctopusError) else type(error).__name__


def _unpickle(kind: type[OctopusError], args: tuple[Any, ...]) -> OctopusError:
    return kind.__new__(kind, *args)


class InvalidInput(OctopusError, ValueError):
    """An argument is invalid. `field` names it; nothing was stored."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class InvalidMessage(InvalidInput):
    """A message is not in the chat-completion format, or not plain JSON."""


class MessageTooLarge(InvalidMessage):
    """A message is over `SessionConfig.max_message_bytes`."""


class ToolResultWithoutCall(InvalidMessage):
    """A tool result names a call that no earlier turn of the episode has open."""


class InvalidSetting(InvalidInput):
    """A setting or a policy value is out of range or unknown."""


class NotFound(OctopusError, LookupError):
    """The scope has nothing with that id."""


class EpisodeNotFound(NotFound):
    def __init__(self, episode_id: UUID | str) -> None:
        super().__init__(
            f"no episode {str(episode_id)!r} in this scope: take the id from open_episode(), "
            "episodes() or recall(), and the tenant, agent and user it belongs to"
        )
        self.episode_id = episode_id


class FactNotFound(NotFound):
    def __init__(self, fact_id: UUID | str) -> None:
        super().__init__(
            f"no fact {str(fact_id)!r} in this scope: take the id from facts(), and the tenant, "
            "agent and user it belongs to"
        )
        self.fact_id = fact_id


class SessionNotFound(NotFound):
    def __init__(self, session_id: str) -> None:
        super().__init__(f"no session {session_id!r} in this scope: open_episode() starts one")
        self.session_id = session_id


class Conflict(OctopusError):
    """The call conflicts with the current state."""


class EpisodeClosed(Conflict):
    def __init__(self, episode_id: UUID) -> None:
        super().__init__(
            f"episode {episode_id} is closed: add to its session id to start a new episode, "
            "or turn on SessionConfig.allow_resume"
        )
        self.episode_id = episode_id


class EpisodeArchived(EpisodeClosed):
    """The call needs turns that archiving removed."""

    def __init__(self, episode_id: UUID) -> None:
        Conflict.__init__(
            self,
            f"episode {episode_id} is archived: add to its session id to start a new episode; "
            "restore() brings it back where its turns were kept (ArchiveMode.COLD)",
        )
        self.episode_id = episode_id


class EpisodeChanged(Conflict):
    """Another caller changed the session between a read and the write: read again and retry."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id!r} was changed by another caller: try again")
        self.session_id = session_id


class IdempotencyConflict(Conflict):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"idempotency_key {key!r} was used for other messages, or in another session: use a "
            "new key for each call"
        )
        self.key = key


class EpisodeDeleted(Conflict):
    """A repeated call's episode was deleted in the meantime: nothing is stored again."""

    def __init__(self, episode_id: UUID) -> None:
        super().__init__(
            f"the call was stored in episode {episode_id}, which was deleted since: restore() "
            "brings it back, and a new idempotency_key stores it again"
        )
        self.episode_id = episode_id


class LegalHold(Conflict):
    """The user or the episode is under a legal hold: nothing may be archived or erased."""

    def __init__(self, hold_id: UUID) -> None:
        super().__init__(f"legal hold {hold_id} forbids this: lift it first")
        self.hold_id = hold_id


class SettingsChanged(Conflict):
    """The agent's settings changed between a decision and its write: decide again."""

    def __init__(self, message: str = "the agent's settings were changed: try again") -> None:
        super().__init__(message)


class StoreError(OctopusError):
    """The database failed; everything acknowledged before is safe."""

    _is_loggable = True


class StoreBusy(StoreError):
    """Another process held the database's write lock for too long: retry."""


class StoreCorrupt(StoreError):
    """The database returned damaged data: restore from a backup."""


class StoreFull(StoreError):
    """The disk is full or the database reached its size limit; the call stored nothing."""


class StoreReadOnly(StoreError):
    """The database cannot be written; recall still works."""


class StoreUnavailable(StoreError):
    """The database cannot be opened or reached."""


class StoreAnswerLost(StoreUnavailable):
    """The connection was lost after the call was sent: it may or may not have been stored."""


class SchemaTooNew(StoreError):
    """A newer Octopus made the database: upgrade the package."""


class ScopeKeyError(OctopusError):
    """What is stored of a scope cannot be read or written without its key; nothing was lost."""

    _is_loggable = True


class KeyUnavailable(ScopeKeyError):
    """The key store does not answer, or refuses: retry when it does."""


class KeyMissing(ScopeKeyError):
    """The key store answers and has no such key: what is sealed with it cannot be read."""


class KeyDestroyed(KeyMissing):
    """The key was destroyed by an erasure; no copy of the database can be read without it."""


class IndexUnavailable(OctopusError):
    """The remote index is unreachable; recall continues with the store's own vectors."""

    _is_loggable = True


class ModelError(OctopusError):
    """A model failed; nothing stored is lost, and the work is retried later."""

    _is_loggable = True


class EmbedderFailed(ModelError):
    """The embedder was unreachable or returned an error."""


class SummarizerFailed(ModelError):
    """The summarizer's model timed out, refused or returned an unusable answer."""


class AccessDenied(OctopusError):
    """The credential is invalid, or does not permit this call."""


class MemoryClosed(OctopusError):
    def __init__(self, why: str = "is closed") -> None:
        super().__init__(f"this memory {why}: open a new one with EpisodicMemory.open()")


class MissingExtra(OctopusError, ImportError):
    """An optional library is not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'octopus-memory[{extra}]'")
        self.extra = extra
