"""Entries of the audit log and their hash chain.

An entry records actor, action, subject, time and outcome, never the text of a conversation. Each
tenant's entries form a chain: an entry's hash covers the one before it, so changing or removing
one invalidates every later hash.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256

from .ids import length_prefixed
from .message import Json

GENESIS = bytes(32)
"""Previous hash of the first entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditDraft:
    """An entry before the log has numbered and chained it."""

    tenant: str
    """Empty for an action on the whole installation."""
    at: datetime
    actor: str
    action: str
    subject: str | None = None
    """Made by `subject_hash`."""
    outcome: str = "done"
    detail: Mapping[str, Json] = field(default_factory=dict)
    """Counts and ids that Octopus made; never text of a conversation or a person's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(AuditDraft):
    """A numbered and chained entry."""

    seq: int
    """Number of the entry, from 1 in each tenant."""
    previous: bytes
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHead:
    """Number and hash of a log's last entry."""

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
    """Result of verifying a log's hash chain."""

    entries: int
    """Number of valid entries before the first break."""
    head: str
    """Hash of the last valid entry. Noted outside, it proves later that no entry is missing."""
    broken_at: int | None = None
    """The `seq` of the first entry that is changed, missing or out of order."""
    knows_head: bool | None = None
    """True if the log contains the head given to `check`; None if none was given."""

    @property
    def is_whole(self) -> bool:
        return self.broken_at is None and self.knows_head is not False


def check(entries: Iterable[AuditEntry], *, known: str | None = None) -> AuditCheck:
    """Verify a log from its first entry to the first break; `known` is a head noted earlier."""
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
    """Add to `found` a break at the end, if the log does not end at the stored head."""
    if found.broken_at is not None or (found.entries, found.head) == (ends.seq, ends.hash.hex()):
        return found
    if found.entries == ends.seq:
        return replace(found, broken_at=ends.seq)
    return replace(found, broken_at=min(found.entries, ends.seq) + 1)


def subject_hash(salt: bytes, *parts: str) -> str:
    """Keyed hash of a person or an episode; a caller that knows the name can search for it."""
    return hmac.new(salt, length_prefixed(*parts), sha256).hexdigest()
