"""After turns are removed with `physical`, no file holds a byte of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.domain.facts import FactKind, FoundFact
from tests.support import byte_scan
from tests.support.fact_finder import FactFinder

GONE, STAYS = "zanzibarquark", "heliotropeumbra"


def stored_values(path: Path) -> dict[str, set[bytes]]:
    wanted = {
        "message": "SELECT message FROM octopus_turns",
        "call": "SELECT tool_calls FROM octopus_turns WHERE tool_calls IS NOT NULL",
        "id": "SELECT id FROM octopus_turns",
        "vector": "SELECT vector FROM octopus_recall WHERE vector IS NOT NULL",
        "terms": "SELECT terms FROM octopus_recall",
        "summary": "SELECT summary FROM octopus_episodes WHERE summary IS NOT NULL",
        "fact": "SELECT content FROM octopus_facts WHERE content IS NOT NULL",
    }
    with closing(sqlite3.connect(path)) as conn:
        return {
            kind: {bytes(value) for (value,) in conn.execute(text) if len(value) >= 16}
            for kind, text in wanted.items()
        }


@pytest.mark.parametrize("ended", [False, True])
def test_not_a_byte_of_a_removed_turn_is_left(tmp_path: Path, ended: bool):
    path = tmp_path / "memory.db"
    finder = FactFinder()
    finder.also = [
        FoundFact(
            kind=FactKind.PERSON,
            slot=f"{GONE} slot",
            text=f"Lives with {GONE} in a small house by the sea.",
            ordinal=1,
        )
    ]
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "find", "arguments": f'{{"thing": "{GONE} in each of the rooms"}}'},
    }
    messages = [
        {"role": "user", "content": f"I left {STAYS} on the table of the small kitchen."},
        {"role": "user", "content": f"Where is {GONE}? I asked about it when we met last week."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": f"{GONE} lies under the old sofa."},
        {"role": "assistant", "content": f"We were talking about {STAYS} and nothing else."},
    ]
    with EpisodicMemory.open(f"sqlite:///{path}", embedder="hashing", background=False) as memory:
        memory.runtime.extractive = finder
        scope = memory.scope(user="ana")
        if ended:
            scope.store(messages, session_id="s", summary=f"They looked for {GONE}, and more.")
        else:
            scope.add("s", messages)
        memory.flush()
        assert scope.recall_turns(f"Where is {GONE}?")
        before = stored_values(path)
        finder.also = []
        ids = [turn.id for turn in scope.session("s").turns[1:4]]
        assert len(scope.remove_turns("s", ids=ids, physical=True)) == 3
        memory.flush()
        after = stored_values(path)
        wanted = {kind: list(before[kind] - after[kind]) for kind in before}
        wanted["word"] = [GONE.encode()]
        assert wanted["message"]
        assert wanted["vector"]
        assert wanted["fact"]
        assert bool(wanted["summary"]) == ended
        assert byte_scan.search(tmp_path, wanted) == []
        kept = scope.recall_turns(f"Where is {STAYS}?")
        assert STAYS in kept[0].text
        assert all(GONE not in hit.text for hit in scope.recall_turns(f"Where is {GONE}?"))
    assert byte_scan.search(tmp_path, wanted) == []
