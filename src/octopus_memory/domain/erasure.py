"""Erasure of a person's data or of one episode, and the receipt of what was removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from .message import Json

if TYPE_CHECKING:
    from .forget import Chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Data to erase: a user's with one agent or with all, or one session or episode of a scope."""

    tenant: str
    user: str
    agent: str | None = None
    episode_id: UUID | None = None
    """If given, the subject is this one episode, and `agent` must be given too."""
    session_id: str | None = None
    """If given, the subject is this one session, and `agent` must be given too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedCopies:
    """What became of older copies of the database, such as backups, where scopes have keys."""

    unreadable_since: datetime | None = None
    """The keys were destroyed then. None if copies still hold it, and the scope's key opens them:
    only a part of a scope was erased, or the scope had no key yet."""
    keys_kept_until: datetime | None = None
    """The last backup of the key store that holds the keys expires then; None if there is none."""


def copies_in_words(copies: ErasedCopies) -> str:
    """Say what became of older copies of the database, for a person who reads a receipt."""
    if copies.unreadable_since is None:
        return "made before still hold it, and can be read until the whole user is erased"
    since = f"made before cannot be read since {copies.unreadable_since:%Y-%m-%d %H:%M:%S} UTC"
    if copies.keys_kept_until is None:
        return since
    return (
        f"{since}; a backup of the key store may open them until {copies.keys_kept_until:%Y-%m-%d}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReceipt:
    """Proof of an erasure: what it removed from where, and what a search afterwards found."""

    id: UUID
    at: datetime
    tenant: str
    subject: str
    """Keyed hash of the subject: anonymous, but a caller that knows the name can recompute it."""
    removed: Mapping[str, int]
    """Removed rows by table."""
    left: Mapping[str, int] = field(default_factory=dict)
    """Rows found afterwards, by table. The erasure is complete only if all are zero."""
    physical: bool = False
    """True if the files were rewritten, so that no erased byte can be read from them."""
    pending: tuple[str, ...] = ()
    """Work that is still to be done because its target was unreachable, such as a remote index."""
    nodes: tuple[str, ...] = ()
    """The nodes of a distributed database whose files were rewritten; none of a single one."""
    copies: ErasedCopies | None = None
    """None where scopes have no keys: older copies of the database hold what was erased."""

    @property
    def is_complete(self) -> bool:
        return self.physical and not self.pending and not any(self.left.values())

    def to_dict(self) -> dict[str, Json]:
        """The receipt as JSON, with the SHA-256 of everything else in it."""
        body: dict[str, Any] = asdict(self) | {
            "id": str(self.id),
            "at": self.at.astimezone(UTC).isoformat(),
            "pending": list(self.pending),
            "nodes": list(self.nodes),
            "complete": self.is_complete,
        }
        if not self.nodes:
            del body["nodes"]
        del body["copies"]
        if self.copies is not None:
            body["copies"] = {
                name: None if at is None else at.astimezone(UTC).isoformat()
                for name, at in asdict(self.copies).items()
            }
        return body | {"sha256": _digest(body)}

    @property
    def sha256(self) -> str:
        return str(self.to_dict()["sha256"])

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Reverse of `to_dict`."""
        return cls(
            id=UUID(kept["id"]),
            at=datetime.fromisoformat(kept["at"]),
            tenant=kept["tenant"],
            subject=kept["subject"],
            removed=kept["removed"],
            left=kept["left"],
            physical=kept["physical"],
            pending=tuple(kept["pending"]),
            nodes=tuple(kept.get("nodes", ())),
            copies=_copies(kept.get("copies")),
        )


def _copies(kept: Mapping[str, Any] | None) -> ErasedCopies | None:
    if kept is None:
        return None
    times = {name: at if at is None else datetime.fromisoformat(at) for name, at in kept.items()}
    return ErasedCopies(**times)


def is_genuine(receipt: Mapping[str, Any]) -> bool:
    """True if a receipt's SHA-256 matches its other fields."""
    body = {name: value for name, value in receipt.items() if name != "sha256"}
    return _digest(body) == receipt.get("sha256")


def _digest(body: Mapping[str, Any]) -> str:
    return sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure in progress: its rows are removed, the rest of its work is recorded. Anonymous."""

    id: UUID
    tenant: str
    at: datetime
    subject: str
    """Made by `domain.audit.subject_hash`."""
    removed: Mapping[str, int] = field(default_factory=dict)
    scope_ids: tuple[int, ...] = ()
    episode_id: UUID | None = None
    """If given, only this episode of the scope was erased."""
    episode_ids: tuple[UUID, ...] = ()
    """If given, only these episodes of the scope were erased: those of one session."""
    chosen: Chosen | None = None
    """If given, only these items of the scope were removed. The store keeps them by their ids."""
    actor: str = "library"
    physical: bool = True
    """True if it must rewrite the files itself before it is finished."""
    key_refs: tuple[str, ...] = ()
    """The keys that it destroys. Without them no copy of the erased scopes can be read."""
    kept_user: str | None = None
    """The user's name as the rows have it, a keyed hash; only if the scopes have keys."""
    was_sealed: bool = True
    """False if some of it was not sealed yet, so that copies hold it in the clear."""
    keeps_rows: bool = False
    """True until its rows are removed, which comes after the keys."""
    number: int = 0
    """Its number in `removals_made`; compared with `compacted` to see if files were rewritten."""
    receipt: Mapping[str, Json] | None = field(default=None, compare=False)
    """The receipt that was stored last; None before the first."""


class StepState(StrEnum):
    """State of one step of an erasure."""

    DONE = "done"
    PENDING = "pending"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseProgress:
    """Steps of an erasure, as the database records them. Every process sees the same."""

    erasure: Erasure
    receipt: EraseReceipt
    rows: StepState
    vectors: StepState
    mirror: StepState
    """Removal from a remote index."""
    files: StepState
    """Rewrite of the database files."""
    verification: StepState
    """Search for rows that are left, with the receipt of its result."""

    @property
    def is_over(self) -> bool:
        """True if no step is pending."""
        steps = (self.rows, self.vectors, self.mirror, self.files, self.verification)
        return StepState.PENDING not in steps


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """Result of searching the database files for erased bytes."""

    files: Mapping[str, int]
    """Bytes read, by file."""
    sought: int
    """Number of different byte strings searched for."""
    found: Mapping[str, int] = field(default_factory=dict)
    """Number of them that are in a file but in no row, by the table they came from."""
