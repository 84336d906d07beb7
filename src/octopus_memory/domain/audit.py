"""The audit log: who did what to whom, when, and how it ended; never what was said.

Each tenant's entries form a chain: an entry's hash covers the one before it, so that none can be
changed or taken out without every later hash being wrong.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
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
    seq: int
    """1, 2, 3… in each tenant."""
    previous: bytes
    hash: bytes


def chained(draft: AuditDraft, *, seq: int, previous: bytes) -> AuditEntry:
    """The entry that follows the one whose hash is `previous`."""
    facts: list[Json] = [
        draft.tenant,
        seq,
        draft.at.isoformat(),
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


def first_break(entries: Iterable[AuditEntry]) -> int | None:
    """The `seq` of the first entry that is not what was written; None if the chain is whole."""
    previous = GENESIS
    for seq, entry in enumerate(entries, start=1):
        if entry.seq != seq or chained(entry, seq=seq, previous=previous).hash != entry.hash:
            return seq
        previous = entry.hash
    return None


def subject_hash(salt: bytes, *parts: str) -> str:
    """Names a person or an episode for those who know whom to ask about, and tells nobody else."""
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    named = b"".join(len(p.encode()).to_bytes(4) + p.encode() for p in parts)
    return hmac.new(salt, named, sha256).hexdigest()
