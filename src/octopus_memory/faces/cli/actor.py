"""Who runs the command, for the audit log."""

from __future__ import annotations

from ..actor import actor_of


def actor() -> str:
    return actor_of("cli")
