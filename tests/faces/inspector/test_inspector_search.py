"""The inspector's search in what was said: who finds what, in which time, and that it is logged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.testing import FixedClock

pytest.importorskip("jinja2", reason="the extra server is not installed")
from starlette.testclient import TestClient

from tests.support.inspector_pages import address, filled_memory, open_pages, sign_in

ANA = {"agent": "hr", "user": "ana"}


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with filled_memory(database_url, clock) as opened:
        opened.scope(agent="other", user="ben").store(
            [("user", "Peanuts are my favourite snack.")], session_id="snacks"
        )
        opened.flush()
        yield opened


@pytest.fixture
def pages(memory: EpisodicMemory) -> Iterator[TestClient]:
    with open_pages(memory) as client:
        yield client


@pytest.mark.parametrize("role", ["admin", "agent", "user"])
def test_what_a_user_said_is_found(pages: TestClient, memory: EpisodicMemory, role: str):
    form = ANA | {"csrf": sign_in(pages, memory, role), "words": "allergic to peanuts"}
    text = pages.post("/search/find", data=form).text
    assert "I am allergic to peanuts." in text
    assert "favourite snack" not in text
    assert "/replay?agent=hr&amp;user=ana&amp;session=monday" in text


def test_an_administrator_searches_all_users(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory)
    assert "Search what was said" in pages.get("/").text
    text = pages.post("/search/find", data={"csrf": token, "words": "peanuts"}).text
    assert "I am allergic to peanuts." in text
    assert "Peanuts are my favourite snack." in text
    nothing = pages.post("/search/find", data={"csrf": token, "words": "submarines"}).text
    assert "Nothing was found of 2 users" in nothing


@pytest.mark.parametrize(
    ("role", "more"), [("agent", {"agents": ["hr"]}), ("user", {"user": "ana"})]
)
def test_a_search_stays_within_the_credential(
    pages: TestClient, memory: EpisodicMemory, role: str, more: dict[str, object]
):
    token = sign_in(pages, memory, role, **more)
    text = pages.post("/search/find", data={"csrf": token, "words": "peanuts"}).text
    assert "I am allergic to peanuts." in text
    assert "favourite snack" not in text
    other = {"csrf": token, "words": "peanuts", "agent": "other", "user": "ben"}
    assert pages.post("/search/find", data=other).status_code == 403
    half = {"csrf": token, "words": "peanuts", "agent": "other"}
    assert pages.post("/search/find", data=half).status_code == 422


def test_a_tenant_is_never_searched_from_another(pages: TestClient, memory: EpisodicMemory):
    memory.scope(tenant="acme", agent="hr", user="zoe").store([("user", "Peanuts by the ton.")])
    memory.flush()
    token = sign_in(pages, memory)
    form = {"csrf": token, "words": "peanuts", "tenant": "acme"}
    assert "by the ton" not in pages.post("/search/find", data=form).text


def test_an_auditor_searches_nothing(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory, "auditor")
    assert pages.get(address("/search", **ANA)).status_code == 403
    form = ANA | {"csrf": token, "words": "peanuts"}
    assert pages.post("/search/find", data=form).status_code == 403
    assert "Search what was said" not in pages.get("/").text


def test_a_search_keeps_to_its_time(pages: TestClient, memory: EpisodicMemory, clock: FixedClock):
    first = clock.now()
    clock.advance(days=10)
    memory.scope(**ANA).store([("user", "Peanuts again, and I sneezed.")], session_id="later")
    memory.flush()
    form = ANA | {"csrf": sign_in(pages, memory), "words": "peanuts"}
    day = f"{first:%Y-%m-%d}"
    early = pages.post("/search/find", data=form | {"until": day}).text
    assert ("allergic to peanuts" in early, "I sneezed" in early) == (True, False)
    late = pages.post("/search/find", data=form | {"since": f"{clock.now():%Y-%m-%d}"}).text
    assert ("allergic to peanuts" in late, "I sneezed" in late) == (False, True)
    assert pages.post("/search/find", data=form | {"since": "monday"}).status_code == 422
    assert pages.post("/search/find", data=form | {"words": " "}).status_code == 422


def test_every_search_is_in_the_audit_log_without_its_words(
    pages: TestClient, memory: EpisodicMemory
):
    token = sign_in(pages, memory)
    pages.post("/search/find", data=ANA | {"csrf": token, "words": "peanuts"})
    pages.post("/search/find", data={"csrf": token, "words": "peanuts"})
    tenant = memory.tenant()
    one, everyone = [entry for entry in tenant.audit() if entry.action == "search"]
    assert one.subject == tenant.subject("ana")
    assert everyone.subject is None
    assert everyone.detail == {"users": 2}
    assert all("peanuts" not in str(entry) for entry in tenant.audit())


def test_a_search_over_many_users_goes_on(pages: TestClient, memory: EpisodicMemory):
    for number in range(26):
        memory.scope(agent="hr", user=f"p{number:02}").store(
            [("user", f"Marmalade number {number}.")]
        )
    memory.flush()
    token = sign_in(pages, memory)
    form = {"csrf": token, "words": "marmalade"}
    first = pages.post("/search/find", data=form).text
    assert "Marmalade number 22." in first
    assert "Marmalade number 25." not in first
    assert 'name="after_user" value="p22"' in first
    rest = pages.post("/search/find", data=form | {"after_user": "p22", "after_agent": "hr"}).text
    assert "Marmalade number 25." in rest
    assert "Search the next" not in rest
