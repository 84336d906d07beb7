"""The actor that the audit log names."""

from __future__ import annotations

import getpass


def actor_of(face: str) -> str:
    """Return the name of the face and of the system's user who runs it."""
    try:
        return f"{face}:{getpass.getuser()}"
    except (OSError, KeyError):
        return face
