"""Whatever is sent to any route, the answer is one that the OpenAPI page tells of, and no 5xx."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from octopus_memory import EpisodicMemory
from octopus_memory.faces.rest.app import PREFIX, make_app
from octopus_memory.settings import ServerSettings

CASES = int(os.environ.get("OCTOPUS_TEST_CASES", "6"))
"""For each route; OCTOPUS_TEST_CASES=500 goes through tens of thousands."""


@schemathesis.serializer("application/x-ndjson")
def _lines(_: object, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


# The tests are made from the schema, so that the application is there before any of them runs.
MEMORY = EpisodicMemory.open("sqlite:///:memory:", embedder="hashing", background=False)
SERVICE = make_app(MEMORY, ServerSettings(requests_per_minute=10**9), development=True)


async def _asked_from_here(scope: Any, receive: Any, send: Any) -> None:
    """Development mode answers this machine alone, and the test's client has no address."""
    if scope["type"] == "http":
        scope["client"] = ("127.0.0.1", 50_000)
    await SERVICE(scope, receive, send)


schema = schemathesis.openapi.from_asgi(f"{PREFIX}/openapi.json", _asked_from_here)


@pytest.fixture(scope="module", autouse=True)
def _closed_at_the_end() -> Iterator[None]:
    yield
    MEMORY.close()


def _test_of(route: str) -> Callable[..., None]:
    @schema.include(name=route).parametrize()
    @settings(
        max_examples=CASES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    def no_answer_is_a_surprise(case: schemathesis.Case) -> None:
        case.call_and_validate(
            headers={"Host": "localhost"},
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )

    return no_answer_is_a_surprise


ROUTES = [found.ok().label for found in schema.get_all_operations()]
# Each has a name of its own: of tests with one name, workers that share them run one alone.
for _route in ROUTES:
    _test = _test_of(_route)
    _name = "test_" + re.sub(r"\W+", "_", _route).strip("_").lower()
    globals()[_name] = _test


def test_every_route_has_its_test(request: pytest.FixtureRequest):
    assert len(ROUTES) > 25
    tests = [name for name in vars(request.module) if name.startswith("test_")]
    assert len(tests) == len(ROUTES) + 1
