"""The inspector's pages: who may see which, what they show, and what cannot be done to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.engine.read import trial_index
from octopus_memory.testing import FixedClock

pytest.importorskip("jinja2", reason="the extra server is not installed")
from starlette.applications import Starlette
from starlette.testclient import TestClient

from octopus_memory.faces.inspector.access import COOKIE
from octopus_memory.faces.inspector.app import _ACTIONS, _VIEWS, Inspector
from tests.support.inspector_pages import (
    SECRET,
    address,
    filled_memory,
    key,
    open_pages,
    sign_in,
)

pytestmark = pytest.mark.both_databases

ANA = {"agent": "hr", "user": "ana"}
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}"
"""Content that would do harm on a page that did not escape it."""
ROLES = ("admin", "agent", "user", "auditor")


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with filled_memory(database_url, clock) as opened:
        yield opened


@pytest.fixture
def pages(memory: EpisodicMemory) -> Iterator[TestClient]:
    with open_pages(memory) as client:
        yield client


SEEN: dict[str, str] = {
    "/": "/",
    "/timeline": address("/timeline", **ANA),
    "/replay": address("/replay", session="tuesday", **ANA),
    "/playground": address("/playground", message="allergic to what?", **ANA),
    "/playground/result": address("/playground/result", message="allergic?", **ANA),
    "/facts": address("/facts", history="on", **ANA),
    "/search": address("/search", **ANA),
    "/forget": address("/forget", **ANA),
    "/retention": address("/retention", dry="on"),
    "/erasure": "/erasure",
    "/audit": address("/audit", action="make", user="ana"),
    "/health": "/health",
    "/health/live": "/health/live",
}
HEALTH = {"/health", "/health/live"}
CONTENT = {
    "/timeline",
    "/replay",
    "/playground",
    "/playground/result",
    "/facts",
    "/search",
    "/forget",
}
MAY: dict[str, set[str]] = {
    "admin": set(SEEN),
    "agent": {"/", *CONTENT},
    "user": {"/", "/erasure", *CONTENT},
    "auditor": {"/", "/timeline", "/retention", "/erasure", "/audit", *HEALTH},
}


def test_every_page_is_looked_at():
    receipts = {f"/erasure/{part}" for part in ("progress", "steps", "receipt", "download")}
    assert set(SEEN) | receipts == set(_VIEWS)


@pytest.mark.parametrize("role", ROLES)
def test_each_role_sees_its_pages(pages: TestClient, memory: EpisodicMemory, role: str):
    sign_in(pages, memory, role)
    for path, where in SEEN.items():
        answer = pages.get(where)
        expected = 200 if path in MAY[role] else 403
        assert answer.status_code == expected, path
        if expected == 403:
            assert SECRET not in answer.text
    seen = pages.get(SEEN["/timeline"]).text
    assert (SECRET in seen) is (role != "auditor")


@pytest.mark.parametrize("path", [*SEEN, *_ACTIONS])
def test_nothing_is_shown_to_whom_nobody_knows(pages: TestClient, path: str):
    if path in _ACTIONS:
        answer = pages.post(path, data={"csrf": "x"}, follow_redirects=False)
    else:
        answer = pages.get(SEEN[path], follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")
    assert SECRET not in answer.text


@pytest.mark.parametrize("path", _ACTIONS)
def test_a_forged_form_changes_nothing(pages: TestClient, memory: EpisodicMemory, path: str):
    token = sign_in(pages, memory)
    facts = memory.scope(agent="hr", user="ana").facts()
    form = ANA | {"confirm": "ana", "text": "x", "fact": str(facts[0].id), "name": "x"}
    for data, headers in (
        (form, {}),
        (form | {"csrf": "0" * 64}, {}),
        (form | {"csrf": token}, {"Origin": "https://evil.example"}),
    ):
        answer = pages.post(path, data=data, headers=headers, follow_redirects=False)
        assert answer.status_code == 403
    assert memory.scope(agent="hr", user="ana").facts() == facts
    assert memory.tenant().receipts() == []


def test_the_cookie_is_kept_from_scripts_and_other_sites(pages: TestClient, memory: EpisodicMemory):
    answer = pages.post("/sign-in", data={"key": key(memory, "admin")}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    page = pages.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<[^>]+\s(?:on\w+|style)=", page.text)
    assert "https://" not in page.text


@pytest.mark.parametrize(
    "spoil", [lambda c: c + "0", lambda c: c.replace(".", ".1", 1), lambda c: "x"]
)
def test_a_changed_cookie_opens_nothing(pages: TestClient, memory: EpisodicMemory, spoil: Any):
    sign_in(pages, memory)
    cookie = pages.cookies[COOKIE]
    pages.cookies.clear()
    pages.cookies.set(COOKIE, spoil(cookie))
    assert pages.get("/", follow_redirects=False).status_code == 303


def test_a_visit_ends_with_its_key_and_by_signing_out(pages: TestClient, memory: EpisodicMemory):
    made = memory.api_keys.create(tenant="default", role="admin", name="x", actor="test")
    pages.post("/sign-in", data={"key": made.token})
    assert pages.get("/", follow_redirects=False).status_code == 200
    memory.api_keys.revoke(made.key.id, actor="test")
    assert pages.get("/", follow_redirects=False).status_code == 303
    token = sign_in(pages, memory)
    pages.post("/sign-out", data={"csrf": token})
    assert pages.get("/", follow_redirects=False).status_code == 303


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "x"])
def test_signing_in_leads_to_no_other_site(pages: TestClient, memory: EpisodicMemory, to: str):
    data = {"key": key(memory, "admin"), "to": to}
    answer = pages.post("/sign-in", data=data, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_signing_in_leads_back(pages: TestClient, memory: EpisodicMemory):
    first = pages.get(SEEN["/facts"], follow_redirects=False)
    [to] = parse_qs(urlsplit(first.headers["location"]).query)["to"]
    assert to == SEEN["/facts"]
    data = {"key": key(memory, "admin"), "to": to}
    assert pages.post("/sign-in", data=data, follow_redirects=False).headers["location"] == to


def test_hostile_content_is_escaped_everywhere(pages: TestClient, memory: EpisodicMemory):
    name = EVIL[:60]
    scope = memory.scope(agent=name, user=name)
    call = {"id": "c", "type": "function", "function": {"name": EVIL, "arguments": EVIL}}
    scope.store(
        [
            {"role": "user", "content": EVIL, "name": EVIL},
            {"role": "assistant", "content": EVIL, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": EVIL},
            {
                "role": "tool",
                "tool_call_id": "d",
                "function_name": EVIL,
                "arguments": {EVIL: EVIL},
                "content": EVIL,
                "is_error": True,
            },
            {
                "role": "user",
                "content": [{"type": EVIL, "text": EVIL}, {"type": "text", "text": EVIL}],
            },
        ],
        session_id=name,
        summary=EVIL,
        key_facts=[EVIL],
        metadata={EVIL: EVIL},
    )
    scope.add_fact(EVIL)
    scope.context(EVIL, session_id=name)
    scope.add(name, [("user", EVIL)])
    memory.tenant().hold(user=name, reason=EVIL, actor=EVIL[:50])
    key(memory, "agent", agents=[name])
    sign_in(pages, memory)
    who = {"agent": name, "user": name}
    for where in (
        "/",
        address("/", find=EVIL),
        address("/timeline", done=EVIL, **who),
        address("/replay", session=name, **who),
        address("/playground", message=EVIL, compare="on", **who),
        address("/facts", history="on", **who),
        "/retention",
        address("/erasure", **who),
        address("/audit", action=EVIL, actor=EVIL, user=EVIL),
        address("/audit"),
        "/health",
        address("/replay", session=EVIL, **who),
    ):
        text = pages.get(where).text
        assert "<script>alert" not in text, where
        assert "<img src=x" not in text, where
        assert "49" not in re.findall(r"\{\{7\*7\}\}|>49<", text), where


def test_a_replay_leads_with_the_conversation(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    text = pages.get(SEEN["/replay"]).text
    [entry] = memory.scope(agent="hr", user="ana").injections("tuesday")
    memories = len(entry.shown)
    line = f"<summary>{memories} memories, {entry.block_tokens} tokens</summary>"
    said, shown = text.index("What am I allergic to?</p>"), text.index(line)
    assert said < shown < text.index("Peanuts.</p>")
    assert "<details open" not in text
    assert "I am allergic to peanuts." in text
    assert entry.block_hash[:16] in text
    assert "<title>ana · session tuesday" in text
    assert "Shown to a model 1 time," in pages.get(address("/replay", session="monday", **ANA)).text


def test_a_replay_says_why_each_memory_was_shown(pages: TestClient, memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="ana")
    scope.add_fact("Is allergic to peanuts.", "constraint")
    scope.add_fact("Likes the sea.", "preference", pinned=True)
    scope.context("What am I allergic to?", session_id="friday")
    scope.add("friday", [("user", "What am I allergic to?")])
    sign_in(pages, memory)
    text = pages.get(address("/replay", session="friday", **ANA)).text
    assert "Every answer must respect it, so it is always shown." in text
    assert "It is pinned, so it is always shown." in text
    assert re.search(r"It [^<]*shares words with the message", text)
    ledger = text[text.index('class="ledger"') :]
    shown = ledger[ledger.index("<ul>") : ledger.index("</ul>")].split("<li>")[1:]
    assert len(shown) == len(scope.injections("friday")[0].shown)
    assert all(re.search(r'<p class="small">\w[^<]+\.</p>', each) for each in shown)
    ranked = [each for each in shown if "<span>passage</span>" in each]
    assert ranked
    drawn = r'class="bars".*aria-label="[^"]*fits the question [+-]'
    assert all(re.search(drawn, each) for each in ranked)


def test_a_replay_folds_a_long_list_of_memories(pages: TestClient, memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="ana")
    for number in range(20):
        scope.add_fact(f"Never eats dish number {number}.", "constraint")
    scope.context("What may I eat?", session_id="friday")
    scope.add("friday", [("user", "What may I eat?")])
    sign_in(pages, memory)
    text = pages.get(address("/replay", session="friday", **ANA)).text
    shown = len(scope.injections("friday")[0].shown)
    first, more = text[text.index('class="ledger"') :].split(
        f"<summary>{shown - 12} more</summary>"
    )
    assert first.count("<li>") == 12
    assert more[: more.index("</ul>")].count("<li>") == shown - 12


def test_the_playground_shows_the_block_and_enters_nothing(
    pages: TestClient, memory: EpisodicMemory
):
    sign_in(pages, memory)
    scope = memory.scope(agent="hr", user="ana")
    before = scope.injections("tuesday")
    where = address(
        "/playground",
        message="What am I allergic to?",
        budget="300",
        compare="on",
        budget2="0",
        **ANA,
    )
    text = pages.get(where).text
    assert "I am allergic to peanuts." in text
    assert "No block: nothing is worth its tokens." in text
    assert "scope.context(&#39;What am I allergic to?&#39;, budget_tokens=300)" in text
    assert scope.injections("tuesday") == before
    part = pages.get(where.replace("/playground?", "/playground/result?")).text
    assert "<html" not in part


def test_the_playground_names_what_is_left_out(pages: TestClient, memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="ana")
    for number in range(12):
        scope.store([("user", f"Peanuts make me sneeze, allergy note number {number}.")])
    memory.flush()
    sign_in(pages, memory)
    asked = {"message": "What am I allergic to?", "budget": "60", **ANA}
    text = pages.get(address("/playground", **asked)).text
    left_out = text[text.index("Left out, and why") : text.index("Copy as Python")]
    assert "allergy note number" in left_out
    assert "no room in the budget" in left_out
    assert 'href="/replay?agent=hr&amp;user=ana&amp;session=' in left_out
    assert "Prefers tea." in left_out
    assert "the message is not about it" in left_out


def test_the_playground_marks_what_only_one_setting_shows(
    pages: TestClient, memory: EpisodicMemory
):
    memory.scope(agent="hr", user="ana").add_fact("Never eats nuts.", "constraint")
    sign_in(pages, memory)
    asked = {"message": "What am I allergic to?", "compare": "on", "facts2": "off", **ANA}
    text = pages.get(address("/playground", **asked)).text
    first, second = text[text.index("Result A") :].split("Result B")
    assert re.search(r"<ins>[^<]*Never eats nuts\.</ins>", first)
    assert "Never eats nuts." not in second[: second.index("Copy as Python")]
    assert re.search(r"<pre [^<]*(<ins>[^<]*</ins>[^<]*)*I am allergic to peanuts\.", second)
    assert "<ins>" not in pages.get(
        address("/playground", **asked | {"facts2": "on"})
    ).text.replace("<ins>marked</ins>", "")


def test_the_playground_compares_embedders(
    pages: TestClient, memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    sign_in(pages, memory)
    asked = {"message": "What food must I avoid?", "compare": "on", **ANA}
    text = pages.get(address("/playground", embedder2="minilm", **asked)).text
    assert re.search(r'name="embedder2">.*<option value="minilm" selected>all-minilm', text)
    assert 'value="hashing"' not in text
    alone = re.findall(r'aria-label="[^"]*relevance [\d.]+"', text)
    same = pages.get(address("/playground", **asked)).text
    assert len(set(alone)) > len(set(re.findall(r'aria-label="[^"]*relevance [\d.]+"', same)))
    assert "EpisodicMemory.open(embedder=&#39;minilm&#39;)" in text
    assert "embedder=" not in same[same.index("Copy as Python") :]
    monkeypatch.setattr(trial_index, "MOST_ROWS", 1)
    text = pages.get(address("/playground", embedder2="minilm", **asked)).text
    assert "The embedder must be the memory&#39;s own" in text
    assert "<ins>" not in text.replace("<ins>marked</ins>", "")
    assert "I am allergic to peanuts." in text


def test_the_playground_traces_the_stages(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    asked = address("/playground/result", message="What am I allergic to?", **ANA)
    assert re.search(
        r'aria-label="searched in [\d.]+ ms, ranked in [\d.]+ ms, chosen in [\d.]+ ms, laid out in',
        pages.get(asked).text,
    )
    text = pages.get(address("/playground/result", message="Thanks!", **ANA)).text
    assert "small talk, for which nothing is searched" in text
    assert "searched in" not in text


def test_facts_are_added_corrected_pinned_and_deleted(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory)
    scope = memory.scope(agent="hr", user="ana")

    def act(what: str, **form: str) -> None:
        answer = pages.post(f"/facts/{what}", data=ANA | form | {"csrf": token})
        assert answer.status_code == 200

    act("add", text="Lives on Naxos.", kind="home", pinned="on")
    [home] = scope.facts(kinds=["home"])
    assert home.is_pinned
    act("correct", fact=str(home.id), text="Lives on Paros.")
    [home] = scope.facts(kinds=["home"])
    assert home.text == "Lives on Paros."
    act("pin", fact=str(home.id), pinned="off")
    assert not scope.facts(kinds=["home"])[0].is_pinned
    act("delete", fact=str(home.id))
    assert scope.facts(kinds=["home"]) == []
    assert pages.post("/facts/delete", data=ANA | {"csrf": token, "fact": "x"}).status_code == 422


def test_facts_are_grouped_by_kind_with_the_history_of_a_slot(
    pages: TestClient, memory: EpisodicMemory, clock: FixedClock
):
    sign_in(pages, memory)
    scope = memory.scope(agent="hr", user="ana")
    scope.add_fact("Plays the cello.", "other")
    vienna = scope.add_fact("Lives in Vienna.", "home")
    clock.advance(days=3)
    scope.correct_fact(vienna.id, "Lives in Graz.")
    text = pages.get(address("/facts", **ANA)).text
    assert text.index("Prefers tea.") < text.index("Lives in Graz.") < text.index("Plays the")
    assert "changed 1 time<" in text
    slot = re.search(r'<ol class="slot">(.*?)</ol>', text, re.DOTALL)
    assert slot is not None
    assert slot[1].index("Lives in Vienna.") < slot[1].index("Lives in Graz.")
    home = pages.get(address("/facts", kind="home", **ANA)).text
    assert ("Lives in Graz." in home, "Plays the cello." in home) == (True, False)
    scope.delete_fact(scope.facts(kinds=["other"])[0].id)
    assert "Plays the cello." not in pages.get(address("/facts", history="on", **ANA)).text


def test_facts_leave_out_the_end_of_what_nobody_told(pages: TestClient, memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="ana")
    scope.store([("user", "I moved to Vienna.")], session_id="moved")
    memory.flush()
    assert "I moved to Vienna." in [fact.text for fact in scope.facts(history=True)]
    sign_in(pages, memory)
    text = pages.get(address("/facts", history="on", **ANA)).text
    assert "Lives in Vienna." in text
    assert "I moved to Vienna." not in text


def test_episodes_are_deleted_and_restored(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory)
    scope = memory.scope(agent="hr", user="ana")
    [monday] = [each for each in scope.episodes() if each.session_id == "monday"]
    form = ANA | {"csrf": token, "episode": str(monday.id)}
    text = pages.post("/timeline/delete", data=form).text
    assert "can be restored" in text
    assert [each.id for each in scope.deleted()] == [monday.id]
    pages.post("/timeline/restore", data=form)
    assert scope.deleted() == []
    auditor = sign_in(pages, memory, "auditor")
    assert pages.post("/timeline/delete", data=form | {"csrf": auditor}).status_code == 403


def test_a_policy_is_changed_and_the_next_run_shown(
    pages: TestClient, memory: EpisodicMemory, clock: FixedClock
):
    token = sign_in(pages, memory)
    clock.advance(days=20)
    form = {
        "csrf": token,
        "agent": "hr",
        "active_retention_days": "10",
        "archive_retention_days": "30",
        "purge_grace_days": "1",
        "archive_mode": "cold",
        "archive_on_expiry": "on",
        "delete_after_archival_period": "on",
    }
    text = pages.post("/retention/try", data=form).text
    assert "This policy is not stored yet" in text
    assert re.search(r"would archive 1, delete 0", text)
    assert memory.config("hr", tenant="default").retention.active_retention_days == 90
    text = pages.post("/retention/policy", data=form).text
    assert re.search(r"The next run would archive [12], delete 0", text)
    assert memory.config("hr", tenant="default").retention.active_retention_days == 10
    wrong = form | {"active_retention_days": "-1"}
    assert pages.post("/retention/policy", data=wrong).status_code == 422
    pages.post("/retention/hold", data={"csrf": token, "user": "ana", "reason": "a case"})
    [hold] = memory.tenant().holds()
    assert "a case" in pages.get("/retention").text
    pages.post("/retention/lift", data={"csrf": token, "hold": str(hold.id)})
    assert memory.tenant().holds() == []


def test_a_key_for_one_agent_reaches_no_other(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory, "agent", agents=["hr"])
    first = pages.get("/").text
    assert "ana" in first
    assert "ben" not in first
    other = address("/timeline", agent="other", user="ben")
    assert pages.get(other).status_code == 403
    sign_in(pages, memory, "admin", agents=["hr"])
    assert pages.get("/health").status_code == 403
    assert pages.get("/audit").status_code == 403


def test_tenants_are_apart(pages: TestClient, memory: EpisodicMemory):
    memory.scope(tenant="acme", agent="hr", user="zoe").store([("user", "Hello.")])
    sign_in(pages, memory)
    assert "zoe" not in pages.get("/?tenant=acme").text
    with TestClient(Starlette(routes=Inspector(memory, local_token="t").routes())) as local:
        text = local.get("/?token=t").text
        assert "ana" in text
        assert "acme" in text
        assert "zoe" in local.get("/?tenant=acme").text


def test_the_token_of_the_program_becomes_a_cookie(memory: EpisodicMemory):
    with TestClient(Starlette(routes=Inspector(memory, local_token="right").routes())) as local:
        assert local.get("/?token=wrong", follow_redirects=False).status_code == 303
        answer = local.get("/?token=right", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert local.get("/", follow_redirects=False).status_code == 200


def test_the_audit_page_tells_whether_the_chain_is_whole(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    for n in range(60):
        memory.tenant().lift(memory.tenant().hold(user=f"u{n}", reason="x"))
    text = pages.get("/audit").text
    assert "✓ The chain is whole" in text
    assert "Older" in text
    following = re.search(r'rel="next" href="([^"]+)"', text)
    assert following is not None
    assert "Newest" in pages.get(following[1].replace("&amp;", "&")).text
    some = pages.get(address("/audit", action="make_key")).text
    assert "lift" not in re.sub(r"(?s)<form.*?</form>", "", some).lower()


def test_keys_are_made_rotated_and_revoked(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory)
    form = {"csrf": token, "name": "bot", "role": "agent", "agents": "hr, it"}
    text = pages.post("/health/keys/make", data=form).text
    made = re.search(r"oct_\w+_[\w-]+", text)
    assert made is not None
    assert memory.api_keys.ring().who(made[0]) is not None
    [bot] = [each for each in memory.runtime.store.list_keys("default") if each.name == "bot"]
    assert bot.agents == ("hr", "it")
    text = pages.post("/health/keys/rotate", data={"csrf": token, "key": bot.id}).text
    assert "shown this once" in text
    pages.post("/health/keys/revoke", data={"csrf": token, "key": bot.id})
    assert memory.api_keys.ring().who(made[0]) is None
    assert pages.post("/health/keys/revoke", data={"csrf": token, "key": "x"}).status_code == 422


def test_health_shows_the_rates_of_this_process(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    text = pages.get("/health").text
    # The fixture stored five messages and asked for one block.
    assert "Messages stored by the minute: 5 in the last hour" in text
    assert "Recalls and blocks by the minute: 1 in the last hour" in text
    assert "Errors by the minute: 0 in the last hour" in text
    assert "None: another process must do the background work" in text
    part = pages.get("/health/live").text
    assert "<html" not in part
    assert re.search(r'<th scope="row"><time[^<]+</time></th><td class="number">\d', part)


def test_health_shows_a_tenant_its_own_rates(pages: TestClient, memory: EpisodicMemory):
    memory.scope(tenant="acme", agent="hr", user="zoe").store([("user", "Hello.")] * 7)
    sign_in(pages, memory)
    text = pages.get("/health").text
    assert "Messages stored by the minute: 5 in the last hour" in text
    assert "tenants</span>" not in text
    with TestClient(Starlette(routes=Inspector(memory, local_token="t").routes())) as local:
        local.get("/?token=t")
        assert "Messages stored by the minute: 12 in" in local.get("/health").text


def test_lists_are_paged(pages: TestClient, memory: EpisodicMemory):
    for n in range(30):
        memory.scope(agent="hr", user=f"p{n:02}").store([("user", "Hello.")])
    scope = memory.scope(agent="hr", user="many")
    for n in range(30):
        scope.store([("user", "Hello.")], session_id=f"s{n:02}", summary="Hello.")
        scope.add_fact(f"Fact {n}.")
    sign_in(pages, memory)
    text = pages.get("/?find=P").text
    assert "p24" in text
    assert "p25" not in text
    following = re.search(r'rel="next" href="([^"]+)"', text)
    assert following is not None
    assert "p25" in pages.get(following[1].replace("&amp;", "&")).text
    who = {"agent": "hr", "user": "many"}
    first, second = (pages.get(address("/timeline", page=n, **who)).text for n in "12")
    assert ("page 1 of 2" in first, "page 2 of 2" in second) == (True, True)
    assert first.count('class="card" id="episode-') == 25
    assert second.count('class="card" id="episode-') == 5


def test_users_are_found_by_any_part_of_an_id(pages: TestClient, memory: EpisodicMemory):
    memory.scope(agent="Travel", user="Zoé").store([("user", "Hello.")])
    sign_in(pages, memory)
    assert ">Zoé</a>" in pages.get(address("/", find="OÉ")).text
    assert ">Zoé</a>" in pages.get(address("/", find="rave")).text
    assert "No id contains “nobody”." in pages.get("/?find=nobody").text
    sign_in(pages, memory, "agent", agents=["hr"])
    assert ">Zoé</a>" not in pages.get(address("/", find="o")).text


def test_tenants_are_paged(memory: EpisodicMemory):
    for number in range(52):
        memory.scope(tenant=f"t{number:02}", agent="hr", user="zoe").add_fact("Prefers tea.")
    with TestClient(Starlette(routes=Inspector(memory, local_token="t").routes())) as local:
        first = local.get("/?token=t").text
        assert "t48" in first
        assert "t49" not in first
        later = local.get(address("/", after_tenant="t48")).text
        assert ("t49" in later, "t51" in later, "t48" in later) == (True, True, False)


def test_a_part_that_is_not_there_is_said(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    assert pages.get(address("/replay", session="nothing", **ANA)).status_code == 404
    assert pages.get("/timeline").status_code == 422
    assert pages.get(address("/erasure/receipt", id="x")).status_code == 422
    assert pages.get("/inspector/../app.py").status_code == 404
    assert pages.get("/inspector/inspector.css").headers["content-type"].startswith("text/css")


def test_a_missing_thing_leads_on(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory)
    missing = pages.get(address("/replay", session="nothing", **ANA))
    fact = pages.post("/facts/pin", data=ANA | {"csrf": token, "fact": str(uuid4())})
    forged = pages.post("/facts/pin", data=ANA)
    for answer in (missing, fact, forged, pages.get("/timeline")):
        assert answer.status_code >= 400
        assert 'aria-label="Sections"' in answer.text
        assert "()" not in answer.text
    assert "This user has no session “nothing”." in missing.text
    for answer in (missing, fact):
        assert 'aria-label="This user"' in answer.text
        assert address("/timeline", **ANA).replace("&", "&amp;") in answer.text


def test_an_address_that_leads_nowhere_leads_on(memory: EpisodicMemory):
    with TestClient(Inspector(memory, local_token="t").app()) as local:
        local.get("/?token=t")
        answer = local.get("/timelines")
        assert answer.status_code == 404
        assert "There is no such page." in answer.text
        assert 'aria-label="Sections"' in answer.text
        assert local.get("/inspector/inspector.css").status_code == 200


def test_a_problem_tells_nobody_of_users_out_of_reach(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory, "agent", agents=["hr"])
    answer = pages.get(address("/timeline", agent="other", user="ben"))
    assert answer.status_code == 403
    assert 'aria-label="This user"' not in answer.text


def test_an_empty_page_gives_the_next_command(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    who = {"agent": "hr", "user": "o'neill"}
    text = unescape(pages.get(address("/timeline", **who)).text)
    assert "--tenant default --agent hr --user 'o'\"'\"'neill'" in text
    assert "octopus facts add" in pages.get(address("/facts", **who)).text
    assert "No legal holds." in pages.get("/retention").text


def test_a_command_names_the_file_that_is_shown(memory: EpisodicMemory):
    app = Inspector(memory, local_token="t", file="my memory.db").app()
    with TestClient(app) as local:
        local.get("/?token=t")
        for path in ("/timeline", "/facts"):
            text = unescape(local.get(address(path, agent="hr", user="new")).text)
            assert "--user new --db 'my memory.db'</pre>" in text


def test_only_who_signed_in_can_sign_out(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    assert "Sign out" in pages.get("/").text
    with TestClient(Starlette(routes=Inspector(memory, local_token="t").routes())) as local:
        text = local.get("/?token=t").text
        assert 'aria-label="Sections"' in text
        assert "Sign out" not in text
