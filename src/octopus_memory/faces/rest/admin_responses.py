"""Bodies of responses about retention, erasure, audit, import and settings."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, RootModel

from ...domain.audit import AuditEntry
from ...domain.erasure import EraseReceipt
from ...domain.policy import MemoryConfig
from ...domain.retention import Hold
from ...domain.transfer.export_format import ImportReport
from .requests import Wire


class ReceiptOut(BaseModel):
    """A receipt of an erasure. Its SHA-256 covers the names of the fields, too."""

    model_config = ConfigDict(extra="forbid")

    id: UUID
    at: str
    tenant: str
    subject: str
    removed: dict[str, int]
    left: dict[str, int]
    physical: bool
    pending: list[str]
    complete: bool
    sha256: str

    @classmethod
    def of(cls, receipt: EraseReceipt) -> ReceiptOut:
        return cls.model_validate(receipt.to_dict())


class ReceiptList(Wire):
    items: list[ReceiptOut]


class ImportOut(Wire):
    source: str
    episodes: int
    turns: int
    facts: int
    injections: int
    passed_over: int
    given_new_ids: int
    left_out: int
    overdue: int
    warnings: list[str]

    @classmethod
    def of(cls, report: ImportReport) -> ImportOut:
        return cls(**asdict(report), warnings=list(report.warnings))


class ConfigOut(RootModel[dict[str, dict[str, Any]]]):
    """The settings of an agent by part. `sources`, if asked for, has the same parts."""

    @classmethod
    def of(
        cls, config: MemoryConfig, sources: dict[str, dict[str, str]] | None = None
    ) -> ConfigOut:
        return cls(config.to_dict() | ({} if sources is None else {"sources": sources}))


class HoldOut(Wire):
    id: UUID
    user_id: str | None
    episode_id: UUID | None
    reason: str
    placed_at: datetime
    placed_by: str

    @classmethod
    def of(cls, hold: Hold) -> HoldOut:
        return cls(
            id=hold.id,
            user_id=hold.user,
            episode_id=hold.episode_id,
            reason=hold.reason,
            placed_at=hold.placed_at,
            placed_by=hold.placed_by,
        )


class HoldList(Wire):
    items: list[HoldOut]


class AuditOut(Wire):
    seq: int
    at: datetime
    actor: str
    action: str
    subject: str | None
    outcome: str
    detail: dict[str, Any]
    previous: str
    hash: str

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditOut:
        return cls(
            seq=entry.seq,
            at=entry.at,
            actor=entry.actor,
            action=entry.action,
            subject=entry.subject,
            outcome=entry.outcome,
            detail=dict(entry.detail),
            previous=entry.previous.hex(),
            hash=entry.hash.hex(),
        )


class AuditList(Wire):
    items: list[AuditOut]
