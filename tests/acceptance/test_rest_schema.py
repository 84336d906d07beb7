"""Whatever is sent to any route, the answer is one that the OpenAPI page tells of, and no 5xx."""

from __future__ import annotations

import os
from collections.abc import Iterator

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
schema = schemathesis.openapi.from_asgi(
    f"{PREFIX}/openapi.json",
    make_app(MEMORY, ServerSettings(requests_per_minute=10**9), development=True),
)


@pytest.fixture(scope="module", autouse=True)
def _closed_at_the_end() -> Iterator[None]:
    yield
    MEMORY.close()


@schema.parametrize()
@settings(
    max_examples=CASES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_no_answer_is_a_surprise(case: schemathesis.Case):
    case.call_and_validate(
        headers={"Host": "localhost"},
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )
