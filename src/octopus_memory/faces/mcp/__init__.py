"""The MCP server: the memory of one user as tools that a model calls."""

from __future__ import annotations

from ..exchange import Exchange, Reply


def answer_mcp(request: Exchange) -> Reply:
    """Answer a POST to another face's application. The protocol is imported at the first one."""
    from .http import exchange

    return exchange(request)
