"""The tools of a model: what they answer, and what they never do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from octopus_memory import EpisodicMemory, StoreUnavailable
from octopus_memory.domain.own_words import FORGET_TOOL, RECALL_TOOL
from octopus_memory.engine.scope import MemoryScope
from octopus_memory.integrations.core import Conversation
from octopus_memory.integrations.tools import MemoryTools, span

MARCH = datetime(2025, 3, 14, 9, tzinfo=UTC)
MAY = datetime(2025, 5, 2, 9, tzinfo=UTC)


@pytest.fixture
def tools(kept: EpisodicMemory) -> MemoryTools:
    scope = kept.scope(user="ana")
    said = {"role": "user", "name": "Ana", "content": "My passport number is X4-Zanzibar-77."}
    scope.store([said], session_id="march", at=MARCH)
    scope.store([("user", "My passport number is now Y5.")], session_id="may", at=MAY)
    scope.add("now", [("user", "What is my passport number?")])
    kept.flush()
    return MemoryTools(Conversation(scope, "now"))


def test_lines_have_date_session_and_the_speakers_name(tools: MemoryTools):
    answer = tools.recall("passport number")
    assert "Date: 2025-03-14, session march" in answer
    assert 'Said: Ana: "My passport number is X4-Zanzibar-77."' in answer
    assert "What is my passport number?" not in answer
    assert answer == asyncio.run(tools.arecall("passport number"))


@pytest.mark.parametrize(
    ("arguments", "found", "not_found"),
    [
        ({"time": "2025-03"}, "X4", "Y5"),
        ({"time": "2025-05-02"}, "Y5", "X4"),
        ({"time": "2025-04-01/2025-12-31"}, "Y5", "X4"),
        ({"session": "march"}, "X4", "Y5"),
    ],
)
def test_a_time_or_a_session_can_be_named(
    tools: MemoryTools, arguments: dict[str, str], found: str, not_found: str
):
    answer = tools.call(RECALL_TOOL, {"query": "passport number", **arguments})
    assert found in answer
    assert not_found not in answer


@pytest.mark.parametrize(
    ("when", "first", "last"),
    [
        ("2024", "2024-01-01T00:00", "2024-12-31T23:59"),
        ("2024-02", "2024-02-01T00:00", "2024-02-29T23:59"),
        ("2024-02-03", "2024-02-03T00:00", "2024-02-03T23:59"),
        ("2024-02-03/2024-03", "2024-02-03T00:00", "2024-03-31T23:59"),
        ("last week", None, None),
        ("2024-13", None, None),
        ("", None, None),
    ],
)
def test_spans(when: str, first: str | None, last: str | None):
    since, until = span(when)
    assert (since and since.isoformat()[:16]) == first
    assert (until and until.isoformat()[:16]) == last


@pytest.mark.parametrize("arguments", [None, [], "x", {"query": 7}, {"query": ""}, {"q": "x"}])
def test_arguments_that_make_no_sense_find_nothing(tools: MemoryTools, arguments: object):
    assert "Nothing was found." in tools.call(RECALL_TOOL, arguments)


def test_an_error_of_the_memory_is_words_for_the_model(
    tools: MemoryTools, monkeypatch: pytest.MonkeyPatch
):
    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(MemoryScope, "recall_turns", away)
    assert "cannot be searched now" in tools.recall("passport")
    assert "cannot be searched now" in asyncio.run(tools.arecall("passport"))
    monkeypatch.setattr(MemoryScope, "forget", away)
    assert "nothing was removed" in tools.forget("passport")


def test_forgetting_shows_first_and_removes_for_the_token(tools: MemoryTools, kept: EpisodicMemory):
    shown = tools.call(FORGET_TOOL, {"about": "passport number X4"})
    assert "Nothing is removed yet" in shown
    assert "X4-Zanzibar-77" in shown
    assert shown.startswith("[Past Conversations]")
    assert "X4" in tools.recall("passport number")

    token = shown.partition("Token: ")[2].split()[0]
    assert "Removed: " in tools.call(FORGET_TOOL, {"token": token})

    kept.flush()
    assert "X4" not in tools.recall("passport number")
    assert "Ask the user what to forget" in tools.call(FORGET_TOOL, {})


def test_a_token_that_was_never_given_removes_nothing(tools: MemoryTools):
    answer = asyncio.run(tools.acall(FORGET_TOOL, {"token": "made-up"}))
    assert "nothing was removed" in answer
    assert "X4" in tools.recall("passport number")


def test_what_fits_nothing_cannot_be_confirmed(kept: EpisodicMemory):
    tools = MemoryTools(Conversation(kept.scope(user="nobody"), "s"))
    answer = tools.forget("passport")
    assert "more precisely" in answer
    assert "Token" not in answer


def test_what_the_tool_showed_is_in_the_ledger(tools: MemoryTools, kept: EpisodicMemory):
    tools.recall("passport number")
    [entry] = kept.scope(user="ana").injections("now")
    assert {item.reason for item in entry.shown} == {"recall tool"}
    found = kept.scope(user="ana").recall_turns("passport number", leave_out_session="now")
    assert {item.episode_id for item in entry.shown} == {hit.episode_id for hit in found}
