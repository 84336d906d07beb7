"""What memory gave to a model is never found again, and old databases are cleaned."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.domain import checks
from octopus_memory.domain.block.layout import recalled
from octopus_memory.domain.own_words import NOT_KEPT
from tests.support import byte_scan

FACT = "My passport number is X4-Zanzibar-77."


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[EpisodicMemory]:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as opened:
        yield opened


def searched(answer: str, *, call: str = "c1") -> list[dict[str, Any]]:
    function = {"name": "recall_memory", "arguments": '{"query": "passport number"}'}
    return [
        {"role": "user", "content": "What is my passport number?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call, "content": answer},
        {"role": "assistant", "content": "Let me read it to you."},
    ]


def test_ten_sessions_of_searching_do_not_feed_on_each_other(memory: EpisodicMemory):
    ana = memory.scope(user="ana")
    ana.store([("user", FACT)], session_id="first")
    sizes = []
    for number in range(10):
        answer = recalled(ana.recall_turns("passport number", limit=10))
        sizes.append(len(answer))
        ana.store(searched(answer), session_id=f"s{number}")
    assert "X4-Zanzibar-77" in answer
    # The questions are words of the conversation, and are found.
    assert max(sizes) < sizes[0] + 10 * 120
    ana.erase_session("first")
    assert "X4-Zanzibar-77" not in recalled(ana.recall_turns("passport number", limit=50))
    assert "X4-Zanzibar-77" not in ana.context("What is my passport number?").text


def test_the_answers_of_an_earlier_release_are_cleaned(
    memory: EpisodicMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ana = memory.scope(user="ana")
    ana.store([("user", FACT)], session_id="first")
    with monkeypatch.context() as before:
        before.setattr(checks, "without_own_words", lambda message: message)
        before.setattr(checks, "is_own", lambda message: False)
        raw = f"2025-03-14 user: {FACT}"
        ana.store(searched(raw), session_id="closed")
        ana.add("open", searched(raw))
    memory.flush()
    ana.erase_session("first")
    assert any("X4-Zanzibar-77" in hit.text for hit in ana.recall_turns("passport number"))
    memory.close()
    with sqlite3.connect(tmp_path / "memory.db") as plain:
        plain.execute("INSERT INTO octopus_meta (name, value) VALUES ('own_words', X'6F776564')")
    plain.close()
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as again:
        again.run_pending()
        ana = again.scope(user="ana")
        assert not any("X4-Zan" in hit.text for hit in ana.recall_turns("passport", limit=50))
        for session_id in ("closed", "open"):
            replay = ana.session(session_id)
            assert [turn.text for turn in replay.turns][2] == NOT_KEPT
            assert [turn.indexed for turn in replay.turns] == [True, True, False, True]
        assert all("X4-Zan" not in (e.summary or "") for e in ana.episodes().items)
        assert again.run_pending().embedded == 0
        assert again.compact()
    assert byte_scan.search(tmp_path, {"word": [b"X4-Zanzibar-77"]}) == []
