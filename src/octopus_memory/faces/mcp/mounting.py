"""Puts the Model Context Protocol into another face's application."""

from __future__ import annotations

from ..exchange import Exchange, Reply


def answer_mcp(request: Exchange) -> Reply:
    """Answer a POST. The protocol is imported when the first one comes."""
    from .http import exchange

    return exchange(request)
