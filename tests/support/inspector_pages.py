"""A filled memory and the inspector's pages for it, as tests visit them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
from starlette.applications import Starlette
from starlette.testclient import TestClient

from octopus_memory import ContextConfig, EpisodicMemory
from octopus_memory.faces.inspector.app import Inspector
from octopus_memory.testing import FixedClock

SECRET = "zsecretzcontent"


@contextmanager
def filled_memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        database_url, embedder="hashing", clock=clock, background=False
    ) as opened:
        opened.configure("hr", ContextConfig(ledger="full"))  # type: ignore[arg-type]
        scope = opened.scope(agent="hr", user="ana")
        scope.store(
            [("user", f"I am allergic to peanuts. {SECRET}"), ("assistant", "Noted.")],
            session_id="monday",
            summary=f"Allergies. {SECRET}",
            key_facts=[f"peanuts {SECRET}"],
        )
        scope.add_fact(f"Prefers tea. {SECRET}", "preference")
        opened.flush()
        scope.context(f"What am I allergic to? {SECRET}", session_id="tuesday")
        scope.add("tuesday", [("user", "What am I allergic to?"), ("assistant", "Peanuts.")])
        opened.scope(agent="other", user="ben").store([("user", f"Hello. {SECRET}")])
        yield opened


@contextmanager
def open_pages(memory: EpisodicMemory) -> Iterator[TestClient]:
    with TestClient(
        Starlette(routes=Inspector(memory).routes()), base_url="http://127.0.0.1"
    ) as client:
        yield client


def key(memory: EpisodicMemory, role: str, **more: Any) -> str:
    if role == "user":
        more.setdefault("user", "ana")
    return memory.api_keys.create(
        tenant="default", role=role, name=role, actor="test", **more
    ).token


def sign_in(pages: TestClient, memory: EpisodicMemory, role: str = "admin", **more: Any) -> str:
    """Sign in with a new key of a role; returns the visit's token against forged requests."""
    answer = pages.post("/sign-in", data={"key": key(memory, role, **more)}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return csrf(pages.get("/"))


def csrf(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None
    return found[1]


def address(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"
