"""When an episode ends by itself."""

from __future__ import annotations

from datetime import datetime, timedelta

from .policy import SessionConfig


def has_expired(
    *, started_at: datetime, last_seen_at: datetime, at: datetime, config: SessionConfig
) -> bool:
    """Whether the episode was idle, or open, for longer than its agent allows.

    All times are of one kind: the conversation's own, or the clock's.
    """
    idle = at - last_seen_at > timedelta(minutes=config.idle_timeout_minutes)
    return idle or at - started_at > timedelta(hours=config.max_session_hours)


def end_time(*, last_message_at: datetime, now: datetime, config: SessionConfig) -> datetime:
    """When an episode ended that is closed now without a time given.

    A conversation whose last message is further back than any live one can be is history that is
    being imported: it ended when it was last spoken in.
    """
    live = abs(now - last_message_at) <= timedelta(minutes=config.idle_timeout_minutes)
    return now if live else last_message_at
