"""Bodies of responses about forgetting."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from typing_extensions import TypedDict

from ...domain.forget import ForgetItem, ForgetPreview
from .responses import exact


@exact
class ForgetItemOut(TypedDict):
    what: str
    text: str
    date: datetime
    reason: str
    episodeId: UUID | None
    sessionId: str | None
    turnId: UUID | None
    factId: UUID | None
    role: str | None


@exact
class ForgetPreviewOut(TypedDict):
    token: str
    expiresAt: datetime
    isClear: bool
    items: list[ForgetItemOut]
    related: list[ForgetItemOut]


def forget_preview_out(preview: ForgetPreview) -> ForgetPreviewOut:
    return {
        "token": preview.token,
        "expiresAt": preview.expires_at,
        "isClear": preview.is_clear,
        "items": [_forget_item_out(item) for item in preview.items],
        "related": [_forget_item_out(item) for item in preview.related],
    }


def _forget_item_out(item: ForgetItem) -> ForgetItemOut:
    return {
        "what": item.what,
        "text": item.text,
        "date": item.date,
        "reason": item.reason,
        "episodeId": item.episode_id,
        "sessionId": item.session_id,
        "turnId": item.turn_id,
        "factId": item.fact_id,
        "role": item.role,
    }
