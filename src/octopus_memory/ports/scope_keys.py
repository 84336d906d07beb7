"""Keys of scopes: what is written of a scope is sealed with its key, and unreadable without it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

KEY_BYTES = 32


class Key(bytes):
    """A key, which neither a log nor a traceback that shows values can print by mistake."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Key(…)"

    __str__ = __repr__


class Destroyed(NamedTuple):
    """When keys were destroyed, and how long a copy of the key store may still hold them."""

    at: datetime
    """The last of them was destroyed then; no process of the installation can read it again."""
    copies_until: datetime | None
    """The last backup of the key store that holds one expires then; None if there are none."""


class KeyStoreState(NamedTuple):
    """What a key store says of itself, for `octopus doctor` and `octopus scope-keys`."""

    place: str
    """Where the keys are: a file, or the address of a service."""
    master: str
    """What protects them there: a file, the environment, a key of a KMS, or the service."""
    keys: int | None
    """Of scopes; None where they cannot be counted."""
    destroyed: int | None
    problems: Sequence[str] = ()
    """What is unsafe or does not work, each with its remedy."""
    is_usable: bool = True
    """False if keys cannot be read, or some of them."""


class ScopeKeys(ABC):
    """Keys of scopes, kept outside the database and outside its backups.

    `ref` is a scope's random id, of letters, digits and hyphens; it never names a person. A key has
    `KEY_BYTES` bytes and never changes. Methods may be called by many threads and processes.

    :raises KeyUnavailable: by every method, when the key store does not answer; nothing is lost
    """

    @abstractmethod
    def name_key(self) -> bytes:
        """The installation's own key, made at the first call: it finds users by an HMAC."""

    @abstractmethod
    def create(self, ref: str) -> bytes:
        """The scope's key, made durable before it is returned; an existing one stays.

        :raises KeyDestroyed: when it was destroyed, because a destroyed key never comes back
        """

    @abstractmethod
    def get(self, refs: Sequence[str]) -> Mapping[str, bytes]:
        """The keys that exist; destroyed and unknown ones are missing from the answer."""

    @abstractmethod
    def destroy(self, refs: Sequence[str]) -> Destroyed:
        """Destroy keys durably: none can be created or read again, here or by another process.

        A key that is unknown is destroyed all the same, so that no other process creates it. A
        repeated call changes nothing and returns the time of the first.
        """

    @abstractmethod
    def destroyed(self, refs: Sequence[str]) -> Mapping[str, datetime]:
        """When those of the keys that were destroyed were."""

    @abstractmethod
    def check(self) -> KeyStoreState:
        """Try the key store, and say what is wrong with it in place of raising."""

    @abstractmethod
    def close(self) -> None:
        """Forget every key that is held in memory. May be called again."""


class MasterKey(ABC):
    """A key of a KMS, which never leaves it: wraps the master key of a local key store.

    :raises KeyUnavailable: by both methods, when the KMS does not answer or refuses
    """

    name: str
    """What the KMS calls it."""

    @abstractmethod
    def wrap(self, master: bytes) -> bytes:
        """The master key, encrypted."""

    @abstractmethod
    def unwrap(self, wrapped: bytes) -> bytes:
        """The master key that `wrap` was given."""
