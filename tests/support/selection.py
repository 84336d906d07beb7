"""Markers that say what a test needs, of which `make test-fast` makes its selection."""

from __future__ import annotations

import pytest

MARKERS = (
    "server: needs a database server; set where a test asks for its fixture or names its product",
    "process: starts a process, which a test without this mark or `server` cannot",
    "slow: takes seconds of a processor, or waits for a clock",
    "qdrant: tests an optional index in the client's local mode, which takes long to load and fill",
)
_SERVER_FIXTURES = {"postgres_programs", "postgres", "postgres_15", "sqlserver"}
_SERVERS = {"postgresql", "sqlserver"}


def mark_servers(items: list[pytest.Item]) -> None:
    """Mark every test with `server` that asks for a server, by a fixture or by a parameter."""
    for item in items:
        if isinstance(item, pytest.Function) and _needs_server(item):
            item.add_marker(pytest.mark.server)


def may_start_processes(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("process", "server"))


def _needs_server(item: pytest.Function) -> bool:
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(isinstance(value, str) and value in _SERVERS for value in given) or not (
        _SERVER_FIXTURES.isdisjoint(item.fixturenames)
    )
