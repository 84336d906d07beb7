"""`octopus mcp`: run the MCP server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import MissingExtra
from ..given import actor_of, as_url
from ..options import Agent, Db, Tenant, User

if TYPE_CHECKING:
    from ...engine.scope import MemoryScope
    from ...remote import RemoteScope


def mcp(
    *,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Use a running REST service instead of a database. Its key is the setting api_key "
            "(OCTOPUS_API_KEY), which also decides the tenant.",
        ),
    ] = None,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
) -> None:
    """Run an MCP server on standard input and output: memory as tools for a model.

    An MCP client starts it: octopus mcp --agent desktop --user ana
    """
    if server is not None and db is not None:
        raise typer.BadParameter("give --db or --server, not both")
    if find_spec("pydantic") is None:
        raise MissingExtra("mcp", "the MCP server")
    from .server import serve

    if server is None:
        serve(_local(db, tenant=tenant, agent=agent, user=user))
        return
    with _remote(server, tenant=tenant, agent=agent, user=user) as scope:
        serve(nullcontext(scope))


@contextmanager
def _local(db: str | None, *, tenant: str, agent: str, user: str) -> Iterator[MemoryScope]:
    from ...wiring import EpisodicMemory

    with EpisodicMemory.open(as_url(db)) as memory:
        yield memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("mcp"))


@contextmanager
def _remote(server: str, *, tenant: str, agent: str, user: str) -> Iterator[RemoteScope]:
    from ...remote import RemoteMemory
    from ...settings import load

    key = load().api_key
    secret = None if key is None else key.get_secret_value()
    with RemoteMemory(server, secret) as remote:
        yield remote.scope(tenant=tenant, agent=agent, user=user)
