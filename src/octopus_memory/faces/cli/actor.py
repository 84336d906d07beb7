"""Who runs the command, for the audit log."""

from __future__ import annotations

import getpass


def actor() -> str:
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError):
        return "cli"
