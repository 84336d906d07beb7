"""Types and texts that the tests of the integrations share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Scopes = Callable[..., Any]
"""Makes the scope of a user."""
Erased = Callable[[Any], None]
"""Erases the user of a scope, and searches the files for what was said."""
FACT = "My passport number is X4-Zanzibar-77."
SECRET = "X4-Zanzibar-77"
QUESTION = "What is my passport number?"


def texts(scope: Any, session_id: str) -> list[str]:
    return [turn.text for turn in scope.session(session_id).turns]
