"""Every error Octopus raises.

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
    ├── IndexUnavailable
    ├── ModelError
    │   ├── EmbedderFailed
    │   └── SummarizerFailed
    ├── AccessDenied
    ├── MemoryClosed
    └── MissingExtra                 (also an ImportError)

Messages say what is wrong and what to do, and never hold a message's text.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID


class OctopusError(Exception):
    """The root: catch this to catch everything Octopus raises."""

    _is_loggable = False
    """Whether its words can only be ours: a session's name may be a person's."""

    def for_log(self) -> str:
        """What it is, and its words where they name nobody."""
        kind = type(self).__name__
        return f"{kind}: {self}" if self._is_loggable else kind

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is unpickled by its message alone, which most of these are not made of.
        return _as_it_was, (type(self), self.args), self.__dict__


def _as_it_was(kind: type[OctopusError], args: tuple[Any, ...]) -> OctopusError:
    return kind.__new__(kind, *args)


class InvalidInput(OctopusError, ValueError):
    """An argument is not acceptable. `field` names it; nothing was stored."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class InvalidMessage(InvalidInput):
    """A message is not in the chat-completion form, or not plain JSON."""


class MessageTooLarge(InvalidMessage):
    """A message is over `SessionConfig.max_message_bytes`."""


class ToolResultWithoutCall(InvalidMessage):
    """A tool result names a call that no earlier turn of the episode has open."""


class InvalidSetting(InvalidInput):
    """A setting or a policy value is out of range or unknown."""


class NotFound(OctopusError, LookupError):
    """Nothing of that id in this scope."""


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
    """The call does not fit the present state."""


class EpisodeClosed(Conflict):
    def __init__(self, episode_id: UUID) -> None:
        super().__init__(
            f"episode {episode_id} is closed: add to its session id to start a new episode, "
            "or turn on SessionConfig.allow_resume"
        )
        self.episode_id = episode_id


class EpisodeArchived(EpisodeClosed):
    """The call needs turns that archiving took away."""

    def __init__(self, episode_id: UUID) -> None:
        Conflict.__init__(
            self,
            f"episode {episode_id} is archived: add to its session id to start a new episode; "
            "restore() brings it back where its turns were kept (ArchiveMode.COLD)",
        )
        self.episode_id = episode_id


class EpisodeChanged(Conflict):
    """Another caller changed the session between a read and the write; read again and retry."""

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
    """A call is repeated whose episode was deleted since: nothing is stored again."""

    def __init__(self, episode_id: UUID) -> None:
        super().__init__(
            f"the call was stored in episode {episode_id}, which was deleted since: restore() "
            "brings it back, and a new idempotency_key stores it again"
        )
        self.episode_id = episode_id


class LegalHold(Conflict):
    """A hold stands on the user or the episode: nothing of it may be archived or erased."""

    def __init__(self, hold_id: UUID) -> None:
        super().__init__(f"legal hold {hold_id} stands against this: lift it first")
        self.hold_id = hold_id


class SettingsChanged(Conflict):
    """The agent's settings were changed between a decision and its write; decide again."""

    def __init__(self, message: str = "the agent's settings were changed: try again") -> None:
        super().__init__(message)


class StoreError(OctopusError):
    """The database answered with an error; what was acknowledged before is safe."""

    _is_loggable = True


class StoreBusy(StoreError):
    """Another process holds the database's write lock for too long; try again."""


class StoreCorrupt(StoreError):
    """What was read is not what was written; restore from a backup."""


class StoreFull(StoreError):
    """The disk or the database's size limit is full; the call stored nothing."""


class StoreReadOnly(StoreError):
    """The database cannot be written; recall still works."""


class StoreUnavailable(StoreError):
    """The database cannot be opened or reached."""


class StoreAnswerLost(StoreUnavailable):
    """The connection was lost when the call was sent: it may have been stored, or not."""


class SchemaTooNew(StoreError):
    """The database was made by a newer Octopus; upgrade the package."""


class IndexUnavailable(OctopusError):
    """The remote index cannot be reached; the store has everything, and recall goes on."""

    _is_loggable = True


class ModelError(OctopusError):
    """A model did not do its part; nothing stored is lost, and the work stays to be done."""

    _is_loggable = True


class EmbedderFailed(ModelError):
    """The embedder could not be reached or answered with an error."""


class SummarizerFailed(ModelError):
    """The summarizer's model timed out, refused or answered nonsense."""


class AccessDenied(OctopusError):
    """The service does not take this credential, or not for this call."""


class MemoryClosed(OctopusError):
    def __init__(self, why: str = "is closed") -> None:
        super().__init__(f"this memory {why}: open a new one with EpisodicMemory.open()")


class MissingExtra(OctopusError, ImportError):
    """An optional library is not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an extra: pip install 'octopus-memory[{extra}]'")
        self.extra = extra
