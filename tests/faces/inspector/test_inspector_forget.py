"""The inspector's pages of forgetting: from a few words, a turn or a fact to the receipt."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.testing import FixedClock

pytest.importorskip("jinja2", reason="the extra server is not installed")
from starlette.testclient import TestClient

from tests.support.inspector_pages import SECRET, address, filled_memory, open_pages, sign_in

ANA = {"agent": "hr", "user": "ana"}


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with filled_memory(database_url, clock) as opened:
        yield opened


@pytest.fixture
def pages(memory: EpisodicMemory) -> Iterator[TestClient]:
    with open_pages(memory) as client:
        yield client


def _token(text: str) -> str:
    found = re.search(r'name="token" value="(\w+)"', text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("role", ["admin", "agent", "user"])
def test_what_was_said_is_shown_and_then_removed(
    pages: TestClient, memory: EpisodicMemory, role: str
) -> None:
    form = ANA | {"csrf": sign_in(pages, memory, role, agents=["hr"])}
    page = pages.get(address("/forget", **ANA))
    assert "What to forget" in page.text
    shown = pages.post("/forget/preview", data=form | {"about": "peanuts"})
    assert shown.status_code == 200
    assert "I am allergic to peanuts." in shown.text
    assert "says it" in shown.text
    done = pages.post("/forget/confirm", data=form | {"token": _token(shown.text)})
    assert "Complete: nothing of the subject is left." in done.text
    scope = memory.scope(agent="hr", user="ana")
    said = " ".join(turn.text for turn in scope.session("monday").turns)
    assert "peanuts" not in said
    assert SECRET in said
    again = pages.post("/forget/confirm", data=form | {"token": _token(shown.text)})
    assert again.status_code == 404


def test_it_begins_at_a_turn_or_a_fact(pages: TestClient, memory: EpisodicMemory) -> None:
    form = ANA | {"csrf": sign_in(pages, memory)}
    scope = memory.scope(agent="hr", user="ana")
    turn = scope.session("tuesday").turns[1]
    fact = next(each for each in scope.facts() if "tea" in each.text)
    replay = pages.get(address("/replay", session="tuesday", **ANA)).text
    assert f'name="turn" value="{turn.id}"' in replay
    assert f'name="fact" value="{fact.id}"' in pages.get(address("/facts", **ANA)).text
    of_turn = pages.post("/forget/preview", data=form | {"turn": str(turn.id)})
    pages.post("/forget/confirm", data=form | {"token": _token(of_turn.text)})
    assert [each.text for each in scope.session("tuesday").turns] == ["What am I allergic to?"]
    of_fact = pages.post("/forget/preview", data=form | {"fact": str(fact.id)})
    pages.post("/forget/confirm", data=form | {"token": _token(of_fact.text)})
    assert all("tea" not in each.text for each in scope.facts())


def test_what_is_not_clear_can_only_be_chosen(pages: TestClient, memory: EpisodicMemory) -> None:
    form = ANA | {"csrf": sign_in(pages, memory)}
    text = pages.post("/forget/preview", data=form | {"about": "my sister's allergic cat"}).text
    assert "Nothing is clearly about it" in text
    assert 'name="token"' not in text
    assert "This, too" in text


def test_others_may_not(pages: TestClient, memory: EpisodicMemory) -> None:
    for role, more in (
        ("auditor", {}),
        ("agent", {"agents": ["other"]}),
        ("user", {"user": "ben"}),
    ):
        form = ANA | {"csrf": sign_in(pages, memory, role, **more)}
        assert pages.get(address("/forget", **ANA)).status_code == 403
        for path in ("/forget/preview", "/forget/confirm"):
            assert pages.post(path, data=form | {"about": "x", "token": "y"}).status_code == 403
    assert pages.post("/forget/preview", data=ANA | {"about": "x"}).status_code == 403
