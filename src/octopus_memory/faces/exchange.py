"""An exchange of the Model Context Protocol over HTTP, between the faces `rest` and `mcp`.

`rest` knows the credential, the limits and the scope; `mcp` knows the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from ..domain.message import Json

if TYPE_CHECKING:
    from ..domain.identity import AccessRole
    from ..engine.scope import MemoryScope

MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request that is authenticated, and within the limits on its body."""

    scope: MemoryScope
    role: AccessRole
    session_id: str | None
    """The session that the configuration of the client names, if it names one."""
    headers: Sequence[tuple[str, str]]
    """Names in lower case."""
    message: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer. A `body` of None is an empty one."""

    status: int
    body: Json = None
    headers: dict[str, str] = field(default_factory=dict)


AnswerMcp: TypeAlias = "Callable[[Exchange], Reply]"
