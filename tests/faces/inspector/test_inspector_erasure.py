"""The inspector's pages of erasure: the typed name, the steps, the receipt, and who sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.engine.privacy import erasure
from octopus_memory.testing import FixedClock

pytest.importorskip("jinja2", reason="the extra server is not installed")
from starlette.testclient import TestClient

from tests.support.inspector_pages import address, filled_memory, open_pages, sign_in

pytestmark = pytest.mark.both_databases


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with filled_memory(database_url, clock) as opened:
        yield opened


@pytest.fixture
def pages(memory: EpisodicMemory) -> Iterator[TestClient]:
    with open_pages(memory) as client:
        yield client


def test_a_user_is_erased_only_when_the_name_is_typed(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory)
    form = {"csrf": token, "user": "ana", "verify": "on"}
    assert pages.post("/erasure/erase", data=form | {"confirm": "Ana"}).status_code == 422
    assert memory.scope(agent="hr", user="ana").episodes().total_count == 2
    answer = pages.post("/erasure/erase", data=form | {"confirm": "ana"}, follow_redirects=False)
    assert memory.scope(agent="hr", user="ana").episodes().total_count == 0
    [receipt] = memory.tenant().receipts()
    assert answer.headers["location"] == address("/erasure/progress", id=str(receipt.id))
    text = pages.get(answer.headers["location"]).text
    if receipt.is_complete:
        assert "Everything of this user is erased." in text
        assert "data-poll" not in text
    else:
        # A role that does not own the tables cannot rewrite them.
        assert "octopus compact" in text
        assert "data-poll" in text
    part = pages.get(address("/erasure/steps", id=str(receipt.id))).text
    assert "<html" not in part
    assert "Read the receipt" in part
    kept = pages.get(address("/erasure/download", id=str(receipt.id)))
    assert "attachment" in kept.headers["content-disposition"]
    assert json.loads(kept.text)["sha256"] == receipt.sha256
    assert "✓ matches" in pages.get(address("/erasure/receipt", id=str(receipt.id))).text
    sign_in(pages, memory, "agent")
    for part in ("progress", "steps", "receipt", "download"):
        assert pages.get(address(f"/erasure/{part}", id=str(receipt.id))).status_code == 403


def test_an_erasure_shows_its_pending_steps(
    pages: TestClient, memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    token = sign_in(pages, memory)
    # As if the process died after the rows were removed.
    with monkeypatch.context() as dying:
        dying.setattr(erasure, "complete", lambda *_: None)
        form = {"csrf": token, "user": "ana", "confirm": "ana"}
        text = pages.post("/erasure/erase", data=form).text
    assert "data-poll" in text
    assert text.count('class="step pending"') == 2
    assert memory.scope(agent="hr", user="ana").episodes().total_count == 0
    [receipt] = memory.tenant().receipts()
    assert "See the progress" in pages.get(address("/erasure/receipt", id=str(receipt.id))).text
    memory.run_pending()
    text = pages.get(address("/erasure/progress", id=str(receipt.id))).text
    is_complete = memory.tenant().receipt(receipt.id).is_complete
    assert ("Everything of this user is erased." in text) is is_complete
    assert ('class="step pending"' not in text) is is_complete
    assert "Working…" not in text


def test_an_address_claims_nothing_about_the_files(pages: TestClient, memory: EpisodicMemory):
    sign_in(pages, memory)
    receipt = memory.tenant().erase_user("ana")
    text = pages.get(address("/erasure/receipt", id=str(receipt.id), files="no byte is left")).text
    assert "no byte is left" not in text


def test_a_held_user_is_not_erased(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory)
    memory.tenant().hold(user="ana", reason="a case")
    form = {"csrf": token, "user": "ana", "confirm": "ana"}
    assert pages.post("/erasure/erase", data=form).status_code == 409
    assert memory.scope(agent="hr", user="ana").episodes().total_count == 2


def test_a_user_erases_themselves_and_nobody_else(pages: TestClient, memory: EpisodicMemory):
    token = sign_in(pages, memory, "user")
    other = {"csrf": token, "user": "ben", "confirm": "ben"}
    assert pages.post("/erasure/erase", data=other).status_code == 403
    own = {"csrf": token, "user": "ana", "confirm": "ana"}
    answer = pages.post("/erasure/erase", data=own)
    assert "Receipt of an erasure" in answer.text
    [receipt] = memory.tenant().receipts()
    assert receipt.sha256 in answer.text
    # The key of an erased user ends.
    assert pages.get("/", follow_redirects=False).status_code == 303
    assert memory.scope(agent="other", user="ben").episodes().total_count == 1
    assert memory.scope(agent="hr", user="ana").episodes().total_count == 0


def test_a_receipt_is_shown_to_its_subject_and_to_watchers_alone(
    pages: TestClient, memory: EpisodicMemory
):
    theirs = memory.tenant().erase_user("ana")
    others = memory.tenant().erase_user("ben")
    sign_in(pages, memory, "user")
    for part in ("progress", "steps", "receipt", "download"):
        assert pages.get(address(f"/erasure/{part}", id=str(theirs.id))).status_code == 200
        assert pages.get(address(f"/erasure/{part}", id=str(others.id))).status_code == 403
    sign_in(pages, memory, "admin", agents=["hr"])
    assert pages.get(address("/erasure/receipt", id=str(theirs.id))).status_code == 403
    sign_in(pages, memory, "auditor")
    assert pages.get(address("/erasure/receipt", id=str(theirs.id))).status_code == 200
    for wrong in ("0" * 32, "f" * 32):
        assert pages.get(address("/erasure/progress", id=wrong)).status_code == 404
