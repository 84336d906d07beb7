"""Erasure: whose data goes, and the receipt that says what went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Self
from uuid import UUID

from .message import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whose data: a user with one agent or with all, or one episode of a scope."""

    tenant: str
    user: str
    agent: str | None = None
    episode_id: UUID | None = None
    """Given, the subject is this one episode, and `agent` is given too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReceipt:
    """What an erasure removed, from where, and what a search for the rest found."""

    id: UUID
    at: datetime
    tenant: str
    subject: str
    """A keyed hash: it names nobody, and can be made again by who knows the name."""
    removed: Mapping[str, int]
    """How many rows, by place."""
    left: Mapping[str, int] = field(default_factory=dict)
    """What the search afterwards found, by place: all zero, or the erasure is not complete."""
    physical: bool = False
    """Whether the files were rewritten, so that no erased byte can be read from them."""
    pending: tuple[str, ...] = ()
    """What could not be reached and is still to be done, such as a remote index."""

    @property
    def is_complete(self) -> bool:
        return self.physical and not self.pending and not any(self.left.values())

    def to_dict(self) -> dict[str, Json]:
        """The receipt as JSON, with the SHA-256 of everything else in it."""
        body: dict[str, Any] = asdict(self) | {
            "id": str(self.id),
            "at": self.at.astimezone(UTC).isoformat(),
            "pending": list(self.pending),
            "complete": self.is_complete,
        }
        return body | {"sha256": _digest(body)}

    @property
    def sha256(self) -> str:
        return str(self.to_dict()["sha256"])

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """What `to_dict` gave, taken back."""
        return cls(
            id=UUID(kept["id"]),
            at=datetime.fromisoformat(kept["at"]),
            tenant=kept["tenant"],
            subject=kept["subject"],
            removed=kept["removed"],
            left=kept["left"],
            physical=kept["physical"],
            pending=tuple(kept["pending"]),
        )


def is_genuine(receipt: Mapping[str, Any]) -> bool:
    """Whether a receipt's SHA-256 is that of its other fields."""
    body = {name: value for name, value in receipt.items() if name != "sha256"}
    return _digest(body) == receipt.get("sha256")


def _digest(body: Mapping[str, Any]) -> str:
    return sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure that has begun: its rows are gone, the rest of its work is known. Names nobody."""

    id: UUID
    tenant: str
    at: datetime
    subject: str
    """As `domain.audit.subject_hash` makes it."""
    removed: Mapping[str, int] = field(default_factory=dict)
    scope_ids: tuple[int, ...] = ()
    episode_id: UUID | None = None
    """Given, only this episode of the scope was erased."""
    actor: str = "library"
    physical: bool = True
    """Whether it is finished only when the files were rewritten by its own hand."""
    number: int = 0
    """Which removal of `removals_made` it was; `compacted` tells whether the files lost it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """What a search through the files for something that was erased came to."""

    files: Mapping[str, int]
    """The bytes that were read, by file."""
    sought: int
    """How many different byte strings were looked for."""
    found: Mapping[str, int] = field(default_factory=dict)
    """How many of them are in a file and in no row, by what they are of."""
