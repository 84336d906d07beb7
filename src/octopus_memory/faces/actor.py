"""Who uses a face, for the audit log."""

from __future__ import annotations

import getpass


def actor_of(face: str) -> str:
    """The face, and who runs it on this machine."""
    try:
        return f"{face}:{getpass.getuser()}"
    except (OSError, KeyError):
        return face
