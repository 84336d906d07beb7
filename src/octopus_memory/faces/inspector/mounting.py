"""Puts the inspector's pages into another face's application."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ...domain.identity import Credential
from ...engine.memory import Memory

if TYPE_CHECKING:
    from starlette.routing import Route
    from starlette.types import Scope


def inspector_routes(
    memory: Memory,
    check_local: Callable[[Scope], None] | None,
    read_token: Callable[[str], Credential | None] | None = None,
) -> list[Route]:
    """Routes of the inspector; none if its packages are not installed.

    `check_local` is called for each request in place of signing in, if it is given. `read_token`
    verifies the JWTs that people sign in with.
    """
    if find_spec("jinja2") is None:
        return []
    from .app import Inspector

    return Inspector(memory, check_local=check_local, read_token=read_token).routes()
