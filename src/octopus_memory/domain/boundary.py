"""Rules for when an episode times out, and when it counts as ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from .policy import SessionConfig


def has_expired(
    *, started_at: datetime, last_seen_at: datetime, at: datetime, config: SessionConfig
) -> bool:
    """True if the episode was idle or open for longer than its agent allows.

    All times must be message times, or all must be clock times.
    """
    idle = at - last_seen_at > timedelta(minutes=config.idle_timeout_minutes)
    return idle or at - started_at > timedelta(hours=config.max_session_hours)


def end_time(*, last_message_at: datetime, now: datetime, config: SessionConfig) -> datetime:
    """End of an episode that is closed now without an explicit time.

    If the last message is older than the idle timeout, the conversation is imported history, and
    ended with that message.
    """
    live = abs(now - last_message_at) <= timedelta(minutes=config.idle_timeout_minutes)
    return now if live else last_message_at
