"""The audit log: who did what to whom, when, and how it ended; never what was said.

Each tenant's entries form a chain: an entry's hash covers the one before it, so that none can be
changed or taken out without every later hash being wrong.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256

from .message import Json

GENESIS = bytes(32)
"""Stands for the entry before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditDraft:
    """What is to be recorded; the log gives it its place."""

    tenant: str
    """"" for what concerns the whole installation."""
    at: datetime
    actor: str
    action: str
    subject: str | None = None
    """As `subject_hash` makes it."""
    outcome: str = "done"
    detail: Mapping[str, Json] = field(default_factory=dict)
    """Counts and ids of Octopus's own making; never text of a conversation or a person's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(AuditDraft):
    """One line of the log, in its place."""

    seq: int
    """1, 2, 3… in each tenant."""
    previous: bytes
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHead:
    """The last entry of a log: its number and its hash."""

    seq: int = 0
    hash: bytes = GENESIS


def chained(draft: AuditDraft, *, seq: int, previous: bytes) -> AuditEntry:
    """The entry that follows the one whose hash is `previous`."""
    facts: list[Json] = [
        draft.tenant,
        seq,
        draft.at.astimezone(UTC).isoformat(),
        draft.actor,
        draft.action,
        draft.subject,
        draft.outcome,
        dict(draft.detail),
    ]
    body = json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    return AuditEntry(
        tenant=draft.tenant,
        at=draft.at,
        actor=draft.actor,
        action=draft.action,
        subject=draft.subject,
        outcome=draft.outcome,
        detail=draft.detail,
        seq=seq,
        previous=previous,
        hash=sha256(previous + body).digest(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheck:
    """What reading a whole log against its hashes came to."""

    entries: int
    """How many stand in order before the first break, or in all."""
    head: str
    """The hash of the last of them. Noted elsewhere, it proves later that none of them is gone."""
    broken_at: int | None = None
    """The `seq` of the first entry that is changed, missing, or out of its place."""
    knows_head: bool | None = None
    """Whether the head that was asked about is one of this log's; None when none was."""

    @property
    def is_whole(self) -> bool:
        return self.broken_at is None and self.knows_head is not False


def check(entries: Iterable[AuditEntry], *, known: str | None = None) -> AuditCheck:
    """Read a log from its first entry, up to the first break; `known` is a head noted earlier."""
    last = AuditHead()
    seen = last.hash.hex() == known
    broken: int | None = None
    for entry in entries:
        seq = last.seq + 1
        linked = chained(entry, seq=seq, previous=last.hash)
        if (entry.seq, entry.previous, entry.hash) != (seq, last.hash, linked.hash):
            broken = seq
            break
        last = AuditHead(seq=seq, hash=entry.hash)
        seen = seen or entry.hash.hex() == known
    return AuditCheck(
        entries=last.seq,
        head=last.hash.hex(),
        broken_at=broken,
        knows_head=None if known is None else seen,
    )


def check_end(found: AuditCheck, ends: AuditHead) -> AuditCheck:
    """What was found, with where the log must end: entries may be missing there, or too many."""
    if found.broken_at is not None or (found.entries, found.head) == (ends.seq, ends.hash.hex()):
        return found
    if found.entries == ends.seq:
        return replace(found, broken_at=ends.seq)
    return replace(found, broken_at=min(found.entries, ends.seq) + 1)


def subject_hash(salt: bytes, *parts: str) -> str:
    """Names a person or an episode for those who know whom to ask about, and tells nobody else."""
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    named = b"".join(len(p.encode()).to_bytes(4) + p.encode() for p in parts)
    return hmac.new(salt, named, sha256).hexdigest()
