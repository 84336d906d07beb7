"""A scrub can be killed at any moment: the next run finishes it, with every name it had to know."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, MemoryScope
from tests.support import byte_scan, child_process, scrub_child_actions
from tests.support.retention_child_actions import open_memory

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
    ),
]
NAME, MAIL = "Zyxwora Quuxleyson", "zyxwora.q@example.com"
SECRETS = {"name": [b"Quuxleyson"], "mail": [MAIL.encode()], "other": [b"198.51.100.77"]}
SESSION, COLD, MARKED = "talk", "cold", "marked"


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only the first episode of the session says that it is a name."""
    path = tmp_path_factory.mktemp("scrub") / "ready.db"
    with open_memory(f"sqlite:///{path}") as memory:
        scope, store = memory.scope(user="u"), memory.runtime.store
        scope.store(
            [("user", f"My name is {NAME}."), ("assistant", "Good morning to you.")],
            session_id=SESSION,
            metadata={"note": f"about {NAME}"},
        )
        scope.store([("assistant", f"It rained on {NAME} all day.")], session_id=SESSION)
        scope.add(SESSION, [("user", f"{NAME} has {MAIL}"), ("user", "It rains.")])
        cold = scope.store([("user", f"I wrote to {MAIL} and {MAIL}.")], session_id=COLD)
        store.archive(scope.scope, cold.id, cold=True)
        marked = scope.store([("user", "I am at 198.51.100.77, I think.")], session_id=MARKED)
        scope.delete(marked.id)
        memory.scope(user="bystander").store([("user", "It rains here too.")], session_id="b")
        memory.flush()
        assert store.compact()
    return path


def episodes(scope: MemoryScope) -> list[Any]:
    store = scope._memory.runtime.store
    return [
        store.stored_episode(scope.scope, episode_id)
        for session in (SESSION, COLD, MARKED)
        for episode_id in store.episode_ids(scope.scope, session, deleted=True)
    ]


def is_redacted(stored: Any) -> bool:
    """One or the other, and in each part alike."""
    texts = [turn.text for turn in stored.turns] + [stored.episode.summary or ""]
    old = [any(word.decode() in t for words in SECRETS.values() for word in words) for t in texts]
    new = ["_1]" in text for text in texts]
    assert not (any(old) and any(new))
    assert bool(stored.placeholders) == any(new)
    return any(new)


def readable(scope: MemoryScope) -> list[Any]:
    """What was said, without what differs from run to run."""
    return [
        (
            [(t.id, t.ordinal, t.message, t.tokens, t.at, t.has_pii) for t in each.turns],
            each.episode,
            each.metadata,
            each.placeholders,
        )
        for each in episodes(scope)
    ]


def check_rows(memory: EpisodicMemory) -> None:
    """Everything that can be found has one row, and waits for its vector or has it."""
    scope, store = memory.scope(user="u"), memory.runtime.store
    rows = store.recall_rows(scope.scope, after=0)[1]
    expected = {
        (each.episode.id, ordinal)
        for each in episodes(scope)
        if not each.is_deleted
        for ordinal in (
            *(() if each.episode.is_archived else (t.ordinal for t in each.turns)),
            *(() if each.episode.is_open else (-1,)),
        )
    }
    assert len(rows) == len(expected)
    assert {(row.episode_id, row.ordinal) for row in rows} == expected
    assert memory.flush()
    for row in store.recall_rows(scope.scope, after=0)[1]:
        assert (row.vector is None) == (row.model == "")


def check_file(path: Path) -> None:
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        conn.close()


def test_killed_at_every_moment(ready: Path, tmp_path: Path):
    with open_memory(f"sqlite:///{ready}") as memory:
        bystander = repr(memory.scope(user="bystander").session("b"))
    # The search finds what is there.
    assert {hit.kind for hit in byte_scan.search(ready.parent, SECRETS)} == set(SECRETS)
    do = scrub_child_actions.be_killed_at_each
    with child_process.running(do, str(ready), str(tmp_path)) as (_, pipe):
        ends = child_process.read_to_end(pipe)
    assert [code for _, code in ends] == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    assert len(ends) > 60
    with open_memory(f"sqlite:///{ends[-1][0]}") as memory:
        whole = readable(memory.scope(user="u"))
    assert byte_scan.search(Path(ends[-1][0]).parent, SECRETS) == []
    seen = []
    for file, _ in ends:
        path = Path(file)
        with open_memory(f"sqlite:///{path}") as memory:
            scope = memory.scope(user="u")
            done = [is_redacted(each) for each in episodes(scope)]
            owed = memory.runtime.store.state().owes_compaction
            if all(done) and not owed:
                # What looks finished is.
                assert byte_scan.search(path.parent, SECRETS) == []
            if seen and (done, owed) == seen[-1]:
                continue
            seen.append((done, owed))
            check_rows(memory)
            report = memory.tenant().scrub(numbered=True)
            assert report.is_complete
            assert report.changed_episodes == done.count(False)
            assert readable(scope) == whole
            check_rows(memory)
            assert not memory.tenant().scrub(numbered=True).changed_episodes
            assert repr(memory.scope(user="bystander").session("b")) == bystander
            assert memory.tenant().verify_audit().is_whole
        assert byte_scan.search(path.parent, SECRETS) == []
        check_file(path)
    # Each of the five in its own transaction: the last of a session first, for the names' sake.
    states = [done for done, _ in seen]
    assert [state.count(True) for state in states] == [0, 1, 2, 3, 4, 5, 5]
    assert [False, False, True] in [state[:3] for state in states]
    assert [False, True, True] in [state[:3] for state in states]
    assert [True, False, False] not in [state[:3] for state in states]
    assert seen[-1] == ([True] * 5, False)
