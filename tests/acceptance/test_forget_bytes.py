"""After something is forgotten, no file holds a byte of it, whenever a process was killed."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.domain.facts import FactKind, FoundFact
from tests.support import byte_scan, child_actions, child_process, forget_child_actions
from tests.support.fact_finder import FactFinder

GONE, STAYS = "zanzibarquark", "heliotropeumbra"
ABOUT = f"my mum's {GONE}"
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "find", "arguments": f'{{"thing": "the {GONE} of mum in the rooms"}}'},
}
MESSAGES = [
    {"role": "user", "content": f"I left {STAYS} on the table of the small kitchen."},
    {"role": "user", "content": f"Where is mum's {GONE}? I bought {STAYS} when we met last week."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": f"{GONE} of mother is under the old sofa."},
    {"role": "assistant", "content": f"Your mother's {GONE} is under the sofa."},
]
_STORED = {
    "message": "SELECT message FROM octopus_turns UNION SELECT message FROM octopus_turns_archive",
    "call": "SELECT tool_calls FROM octopus_turns WHERE tool_calls IS NOT NULL",
    "vector": "SELECT vector FROM octopus_recall WHERE vector IS NOT NULL",
    "terms": "SELECT terms FROM octopus_recall",
    "summary": "SELECT summary FROM octopus_episodes WHERE summary IS NOT NULL",
    "fact": "SELECT content FROM octopus_facts WHERE content IS NOT NULL",
    "query": "SELECT query FROM octopus_injections WHERE query IS NOT NULL",
    "preview": "SELECT CAST(chosen AS BLOB) FROM octopus_forget_previews",
}


def stored_values(path: Path) -> dict[str, set[bytes]]:
    with closing(sqlite3.connect(path)) as conn:
        return {
            kind: {bytes(value) for (value,) in conn.execute(text) if len(value) >= 16}
            for kind, text in _STORED.items()
        }


def fill(memory: EpisodicMemory) -> MemoryScope:
    """What is to be forgotten, in every place and stage that can hold it."""
    finder = memory.runtime.extractive = FactFinder()
    finder.also = [
        FoundFact(
            kind=FactKind.PERSON,
            slot=f"mother {GONE}",
            text=f"The {GONE} of the user's mother is in a small house by the sea.",
            ordinal=1,
        )
    ]
    memory.configure("default", {"context": {"ledger": "full"}})
    scope = memory.scope(user="ana")
    scope.store(MESSAGES, session_id="ended", summary=f"They looked for mum's {GONE}, and more.")
    finder.also = []
    cold = scope.store(MESSAGES[:2], session_id="cold")
    memory.runtime.store.archive(scope.scope, cold.id, cold=True)
    cleared = scope.store(MESSAGES[:2], session_id="cleared")
    memory.runtime.store.archive(scope.scope, cleared.id, cold=False)
    deleted = scope.store(MESSAGES[:2], session_id="deleted")
    scope.delete(deleted.id)
    scope.add_fact(f"Mother keeps her {GONE} in a box of wood and tin.", pinned=True)
    scope.add("open", MESSAGES)
    scope.context(f"Where is the {GONE} of my mum, which I asked about?", session_id="open")
    memory.run_pending()
    memory.flush()
    return scope


def test_not_a_byte_of_what_is_forgotten_is_left(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    url = f"sqlite:///{path}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        scope = fill(memory)
        preview = scope.forget(ABOUT)
        before = stored_values(path)
        assert all(before.values())
        receipt = scope.forget(confirm=preview.token)
        assert receipt.is_complete
        after = stored_values(path)
        wanted = {kind: list(before[kind] - after[kind]) for kind in before}
        assert all(wanted.values())
        wanted["word"] = [GONE.encode()]
        assert byte_scan.search(tmp_path, wanted) == []
        memory.run_pending()
        memory.flush()
        assert all(GONE not in hit.text for hit in scope.recall_turns(f"mum's {GONE}"))
        assert GONE not in scope.context(f"Where is mum's {GONE}?").text
        assert STAYS in scope.recall_turns(f"Where is {STAYS}?")[0].text
    assert byte_scan.search(tmp_path, {"word": [GONE.encode()]}) == []


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_at_every_moment(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    path = ready / "memory.db"
    with forget_child_actions.open_memory(f"sqlite:///{path}") as memory:
        scope = memory.scope(user="ana")
        for number in range(3):
            scope.store(MESSAGES, session_id=f"s{number}")
        memory.run_pending()
    folder = tmp_path / "killed"
    folder.mkdir()
    do = child_actions.be_killed_at_each
    with child_process.running(do, forget_child_actions.forget, str(path), str(folder)) as (
        _,
        pipe,
    ):
        ends = child_process.read_to_end(pipe)
    assert [code for _, code in ends] == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    begun = [_is_begun(each) for each, _ in ends]
    # There is one moment before which nothing was removed, and after which everything was.
    assert begun == sorted(begun)
    assert begun.count(False) > 10
    assert begun.count(True) > 10


def _is_begun(path: Path) -> bool:
    """Whether the removal had begun; then it is finished here, else it is all there."""
    with forget_child_actions.open_memory(f"sqlite:///{path}") as memory:
        scope = memory.scope(user="ana")
        said = [turn.text for number in range(3) for turn in scope.session(f"s{number}").turns]
        receipts = memory.tenant().receipts()
        if not receipts:
            assert sum(GONE in text for text in said) == 9
            # The preview is there as well, and another one can be confirmed.
            assert scope.forget(confirm=scope.forget(ABOUT).token).is_complete
        else:
            assert all(GONE not in text for text in said)
        memory.run_pending()
        assert [each.is_complete for each in memory.tenant().receipts()] == [True]
        assert memory.runtime.store.erasures(unfinished=True) == []
        assert memory.tenant().verify_audit().is_whole
    assert byte_scan.search(path.parent, {"word": [GONE.encode()]}) == []
    return bool(receipts)


@pytest.mark.process
@pytest.mark.both_databases
def test_two_processes_confirm_one_token(database_url: str) -> None:
    with forget_child_actions.open_memory(database_url) as memory:
        scope = memory.scope(user="ana")
        scope.store([("user", f"This is mum's {GONE}.")], session_id="s")
        token = scope.forget(ABOUT).token
        barrier = child_process.CONTEXT.Barrier(2)
        do = forget_child_actions.confirm
        started = [child_process.running(do, database_url, token, barrier) for _ in range(2)]
        with started[0] as (_, first), started[1] as (_, second):
            outcomes = [first.recv(), second.recv()]
        assert sorted(outcomes, key=str) == [1, None]
        assert len(memory.tenant().receipts()) == 1


@pytest.mark.process
@pytest.mark.both_databases
def test_two_processes_that_forget_do_not_restore_what_the_other_removed(database_url: str) -> None:
    topics = [f"topic{letter}{letter}quark" for letter in "abcdefgh"]
    with forget_child_actions.open_memory(database_url) as memory:
        scope = memory.scope(user="ana")
        said = " ".join(f"One sentence has {topic}." for topic in topics)
        scope.store([("user", f"{said} The rest stays."), ("assistant", said)], session_id="s")
        barrier = child_process.CONTEXT.Barrier(2)
        do = forget_child_actions.forget_topics
        started = [
            child_process.running(do, database_url, some, barrier)
            for some in (topics[::2], topics[1::2])
        ]
        with started[0] as (_, first), started[1] as (_, second):
            assert [first.recv(), second.recv()] == ["done", "done"]
        assert [turn.text for turn in scope.session("s").turns] == ["The rest stays."]
        [episode] = scope.episodes().items
        assert "quark" not in f"{episode.summary} {episode.key_facts}"
