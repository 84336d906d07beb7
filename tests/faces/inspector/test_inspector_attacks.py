"""Hostile visitors of the inspector: strange values, other tenants' ids, forged messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.testing import FixedClock

pytest.importorskip("jinja2", reason="the extra server is not installed")
from starlette.applications import Starlette
from starlette.testclient import TestClient

from octopus_memory.faces.inspector.access import COOKIE
from octopus_memory.faces.inspector.app import _ACTIONS, _VIEWS, Inspector

pytestmark = pytest.mark.both_databases

SECRET = "zsecretzcontent"
ROLES = ("admin", "agent", "user", "auditor")
STRANGE = (
    *("", " ", "0", "-1", "1e308", "nan", "inf", "9" * 30, "9" * 1_000, "1.5", "٣", "on"),
    *(
        "\0",
        "a\0b",
        "\ud7ff\uffff",
        "'; DROP TABLE octopus_turns; --",
        "%",
        "_",
        "../../etc",
        "x" * 300,
    ),
    *("{{7*7}}", "{% raw %}", "<script>alert(1)</script>", "\r\nSet-Cookie: a=b", str(uuid4())),
)
FIELDS = (
    *("agent", "user", "session", "page", "last", "before", "find", "after_user", "after_agent"),
    *("after_tenant", "tenant", "message", "budget", "threshold", "layout", "compare", "history"),
    *("dry", "action", "actor", "verify", "id", "done", "seal", "token", "episode", "fact", "text"),
    *(
        "kind",
        "pinned",
        "words",
        "since",
        "until",
        "facts",
        "hold",
        "reason",
        "key",
        "name",
        "role",
        "agents",
        "confirm",
    ),
    *("active_retention_days", "archive_retention_days", "purge_grace_days", "archive_mode"),
)


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        database_url, embedder="hashing", clock=clock, background=False
    ) as opened:
        for tenant in ("default", "acme"):
            scope = opened.scope(tenant=tenant, agent="hr", user="ana")
            scope.store(
                [("user", f"I am allergic to peanuts. {SECRET}")],
                session_id="monday",
                summary=f"Allergies. {SECRET}",
                key_facts=[SECRET],
                metadata={"note": SECRET},
            )
            scope.add_fact(f"Prefers tea. {SECRET}")
            scope.context(f"What? {SECRET}", session_id="tuesday")
            scope.add("tuesday", [("user", SECRET)])
            opened.tenant(tenant).hold(user="held", reason=SECRET)
        yield opened


@pytest.fixture
def pages(memory: EpisodicMemory) -> Iterator[TestClient]:
    with TestClient(
        Starlette(routes=Inspector(memory).routes()), base_url="http://127.0.0.1"
    ) as client:
        yield client


def sign_in(pages: TestClient, memory: EpisodicMemory, role: str = "admin", **more: Any) -> str:
    """Sign in as a role of the tenant `default`; returns the token against forged requests."""
    if role == "user":
        more.setdefault("user", "ana")
    made = memory.api_keys.create(tenant="default", role=role, name=role, actor="test", **more)
    pages.cookies.clear()
    pages.post("/sign-in", data={"key": made.token})
    found = re.search(r'name="csrf" value="(\w+)"', pages.get("/").text)
    assert found is not None
    return found[1]


def everything_of(memory: EpisodicMemory, tenant: str) -> object:
    scope = memory.scope(tenant=tenant, agent="hr", user="ana")
    held = memory.tenant(tenant)
    return (
        [each.id for each in scope.episodes(1, 50)],
        [(fact.id, fact.text, fact.is_pinned, fact.until) for fact in scope.facts(history=True)],
        held.holds(),
        held.receipts(),
        memory.runtime.store.list_keys(tenant),
        memory.config("hr", tenant=tenant),
    )


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_strange_values_are_answered(pages: TestClient, memory: EpisodicMemory, role: str):
    """Without an error of the server, and as markup nowhere."""
    token = sign_in(pages, memory, role)
    known = {"agent": "hr", "user": "ana", "session": "tuesday"}
    for place, value in enumerate(STRANGE):
        # The scope is right in every other round, so that the later fields are read too.
        query = dict.fromkeys(FIELDS, value) | (known if place % 2 else {})
        query.pop("token")
        for path in _VIEWS:
            answer = pages.get(f"{path}?{urlencode(query, errors='replace')}")
            assert answer.status_code in (200, 403, 404, 422), (path, value)
            assert "<script>alert" not in answer.text
        form = query | {"csrf": token}
        for path in _ACTIONS:
            if path == "/erasure/erase" and known["user"] == form["confirm"]:
                continue
            answer = pages.post(path, data=form, follow_redirects=False)
            assert answer.status_code in (200, 303, 403, 404, 409, 422), (path, value)
            assert "set-cookie" not in answer.headers
            location = answer.headers.get("location", "/")
            assert location.startswith("/")
            assert not location.startswith("//")
    # Python refuses to read a number of so many digits.
    assert pages.get(f"/timeline?agent=hr&user=ana&page={'9' * 5_000}").status_code == 200
    assert memory.scope(agent="hr", user="ana").episodes().total_count == 2


@pytest.mark.parametrize("role", ROLES)
def test_no_id_of_another_tenant_is_reached(pages: TestClient, memory: EpisodicMemory, role: str):
    theirs = memory.scope(tenant="acme", agent="hr", user="ana")
    receipt = memory.tenant("acme").erase_user("nobody")
    [hold] = memory.tenant("acme").holds()
    key = memory.api_keys.create(tenant="acme", role="admin", name="k", actor="test").key
    before = everything_of(memory, "acme")
    token = sign_in(pages, memory, role)
    for episode in theirs.episodes(1, 50):
        form = {
            "csrf": token,
            "tenant": "acme",
            "agent": "hr",
            "user": "ana",
            "episode": str(episode.id),
            "fact": str(theirs.facts()[0].id),
            "text": "changed",
            "hold": str(hold.id),
            "key": key.id,
            "id": str(receipt.id),
            "reason": "x",
        }
        for path in ("/timeline/delete", "/timeline/restore", "/facts/correct", "/facts/pin"):
            assert pages.post(path, data=form).status_code in (403, 404), path
        for path in ("/facts/delete", "/retention/lift", "/health/keys/rotate"):
            assert pages.post(path, data=form).status_code in (403, 404, 422), path
        assert pages.post("/health/keys/revoke", data=form).status_code in (403, 422)
        held = form | {"user": ""}
        assert pages.post("/retention/hold", data=held).status_code in (403, 404)
    for part in ("progress", "steps", "receipt", "download"):
        answer = pages.get(f"/erasure/{part}?id={receipt.id}&tenant=acme")
        assert answer.status_code in (403, 404)
    assert everything_of(memory, "acme") == before


def test_keys_of_other_tenants_cannot_be_told_from_none(pages: TestClient, memory: EpisodicMemory):
    other = memory.api_keys.create(tenant="acme", role="admin", name="k", actor="t").key
    token = sign_in(pages, memory)
    answers = [
        pages.post("/health/keys/revoke", data={"csrf": token, "key": key})
        for key in (other.id, "0" * 16)
    ]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert answers[0].text == answers[1].text


def test_an_auditor_reads_no_content_anywhere(pages: TestClient, memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="ana")
    scope.delete(scope.episodes(1, 50).items[0])
    memory.tenant().erase_user("nobody")
    sign_in(pages, memory, "auditor")
    [receipt] = memory.tenant().receipts()
    query = {
        "agent": "hr",
        "user": "ana",
        "session": "tuesday",
        "message": "peanuts",
        "history": "on",
        "dry": "on",
        "verify": "on",
        "id": str(receipt.id),
    }
    seen = 0
    for path in _VIEWS:
        answer = pages.get(f"{path}?{urlencode(query)}")
        assert SECRET not in answer.text, path
        assert "peanuts." not in answer.text, path
        seen += answer.status_code == 200
    assert seen >= 8


def test_an_auditor_changes_nothing(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory, "auditor")
    before = everything_of(memory, "default")
    scope = memory.scope(agent="hr", user="ana")
    [hold] = memory.tenant().holds()
    form = {
        "csrf": token,
        "agent": "hr",
        "user": "ana",
        "confirm": "ana",
        "episode": str(scope.episodes(1, 50).items[0].id),
        "fact": str(scope.facts()[0].id),
        "text": "changed",
        "hold": str(hold.id),
        "key": memory.runtime.store.list_keys("default")[0].id,
        "role": "admin",
        "name": "mine",
        "reason": "x",
        "active_retention_days": "1",
        "archive_retention_days": "2",
        "purge_grace_days": "0",
        "archive_mode": "cold",
    }
    for path in _ACTIONS:
        assert pages.post(path, data=form).status_code == 403, path
    assert everything_of(memory, "default") == before


def test_a_message_in_an_address_is_shown_only_if_the_server_wrote_it(
    pages: TestClient, memory: EpisodicMemory
):
    token = sign_in(pages, memory)
    assert "Call 555" not in pages.get("/?done=Call+555").text
    assert "Call 555" not in pages.get(f"/?done=Call+555&seal={'0' * 32}").text
    form = {"csrf": token, "agent": "hr", "user": "ana", "text": "Likes jazz."}
    answer = pages.post("/facts/add", data=form, follow_redirects=False)
    where = answer.headers["location"]
    assert "The fact is stored." in pages.get(where).text
    # Another visitor's seal is worth nothing.
    sign_in(pages, memory, "agent")
    assert "The fact is stored." not in pages.get(where).text


def test_two_programs_on_one_machine_keep_their_visits(memory: EpisodicMemory):
    one, other = (Inspector(memory, local_token=name) for name in ("one", "other"))
    with (
        TestClient(Starlette(routes=one.routes())) as first,
        TestClient(Starlette(routes=other.routes())) as second,
    ):
        first.get("/?token=one")
        second.get("/?token=other")
        # A browser sends the cookies of one port to every other.
        for name, value in second.cookies.items():
            first.cookies.set(name, value)
        assert first.get("/", follow_redirects=False).status_code == 200
        assert COOKIE not in first.cookies
        stolen = TestClient(Starlette(routes=one.routes()), cookies=dict(second.cookies))
        assert stolen.get("/", follow_redirects=False).status_code == 303


def test_guessers_share_the_network_of_a_subscriber(memory: EpisodicMemory):
    app = Starlette(routes=Inspector(memory).routes())
    for number in range(10):
        guesser = TestClient(app, client=(f"2001:db8::{number + 1}", 50_000))
        assert guesser.post("/sign-in", data={"key": "oct_x_y"}).status_code == 401
    guesser = TestClient(app, client=("2001:db8::ffff", 50_000))
    assert guesser.post("/sign-in", data={"key": "oct_x_y"}).status_code == 429
    neighbour = TestClient(app, client=("2001:db8:0:1::1", 50_000))
    assert neighbour.post("/sign-in", data={"key": "oct_x_y"}).status_code == 401


def test_a_key_that_no_database_can_store_is_wrong(pages: TestClient):
    for wrong in ("oct_\0_x", "oct_a\0_x\0", "\0"):
        assert pages.post("/sign-in", data={"key": wrong}).status_code == 401


def test_a_database_that_fails_is_said(
    pages: TestClient, memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    token = sign_in(pages, memory)

    def fail(*_: object) -> None:
        raise StoreUnavailable(f"gone {SECRET}")

    monkeypatch.setattr(type(memory.runtime.store), "find_key", fail)
    for answer in (
        pages.get("/"),
        pages.post("/facts/add", data={"csrf": token}),
        pages.post("/sign-in", data={"key": "oct_x_y"}),
        pages.post("/sign-out", data={"csrf": token}),
    ):
        assert answer.status_code == 503
        assert "does not answer" in answer.text
        assert SECRET not in answer.text


def test_pages_beyond_the_last_lead_back(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    for path in ("/timeline", "/facts"):
        text = pages.get(f"{path}?agent=hr&user=ana&page=999999").text
        assert "There is no such page." in text
        assert "page=1" in text
        assert SECRET not in text


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://127.0.0.1.evil.example"])
def test_signing_in_and_out_takes_no_form_of_another_site(
    pages: TestClient, memory: EpisodicMemory, origin: str
):
    token = sign_in(pages, memory)
    headers = {"Origin": origin}
    assert pages.post("/sign-in", data={"key": "x"}, headers=headers).status_code == 403
    assert pages.post("/sign-out", data={"csrf": token}, headers=headers).status_code == 403
    assert pages.get("/", follow_redirects=False).status_code == 200


def test_signing_out_ends_the_visit_in_every_process(
    pages: TestClient, memory: EpisodicMemory, database_url: str, clock: FixedClock
):
    token = sign_in(pages, memory)
    kept, other = dict(pages.cookies), sign_in_elsewhere(memory)
    assert pages.post("/sign-out", data={"csrf": token}).status_code == 200
    with EpisodicMemory.open(
        database_url, embedder="hashing", clock=clock, background=False
    ) as second:
        for each in (memory, second):
            routes = Inspector(each).routes()
            stolen = TestClient(Starlette(routes=routes), cookies=kept)
            assert stolen.get("/", follow_redirects=False).status_code == 303
            # Another visit with the same rights goes on.
            stays = TestClient(Starlette(routes=routes), cookies=other)
            assert stays.get("/", follow_redirects=False).status_code == 200


def sign_in_elsewhere(memory: EpisodicMemory) -> dict[str, str]:
    app = Starlette(routes=Inspector(memory).routes())
    with TestClient(app, base_url="http://127.0.0.1") as other:
        sign_in(other, memory)
        return dict(other.cookies)


def test_records_of_ended_visits_are_dropped_after_their_time(
    memory: EpisodicMemory, clock: FixedClock
):
    keys, now = memory.api_keys, clock.now()
    keys.end_visit("a" * 32, now + timedelta(hours=12))
    assert keys.has_visit_ended("a" * 32, now + timedelta(hours=12))
    assert not keys.has_visit_ended("b" * 32, now + timedelta(hours=12))
    clock.advance(hours=13)
    keys.end_visit("b" * 32, now + timedelta(hours=24))
    keys.end_visit("b" * 32, now + timedelta(hours=24))
    assert keys.has_visit_ended("b" * 32, now + timedelta(hours=24))
    assert not keys.has_visit_ended("a" * 32, now + timedelta(hours=12))


def test_a_stranger_at_the_same_address_keeps_nobody_out(pages: TestClient, memory: EpisodicMemory):
    for _ in range(12):
        wrong = pages.post("/sign-in", data={"key": "oct_x_y"})
    assert wrong.status_code == 429
    sign_in(pages, memory)


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "http://a]b"])
def test_a_malformed_origin_is_another_site(pages: TestClient, origin: str):
    answer = pages.post("/sign-in", data={"key": "oct_x_y"}, headers={"Origin": origin})
    assert answer.status_code == 403


@pytest.mark.parametrize("token", ["%C3%A9", "%00", "%FF", "%ED%A0%BD"])
def test_a_token_that_is_not_ascii_is_wrong(memory: EpisodicMemory, token: str):
    with TestClient(Starlette(routes=Inspector(memory, local_token="right").routes())) as local:
        assert local.get(f"/?token={token}", follow_redirects=False).status_code == 303
