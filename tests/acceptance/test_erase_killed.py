"""A process can be killed at any moment of an erasure: the next one finishes it.

Until then it does not look finished, and what is not erased is whole.
"""

from __future__ import annotations

import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.domain.erasure import is_genuine
from tests.support import byte_scan, child_actions, child_process, erase_child_actions
from tests.support.erase_child_actions import VICTIM

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
    ),
]
MARKS = [f"Zanzibar{number:08d}" for number in range(12)]
NEEDLES = {"words": [mark.encode() for mark in MARKS], "name": [VICTIM.encode()]}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "memory.db"
    with erase_child_actions.open_memory(f"sqlite:///{path}") as memory:
        for number, mark in enumerate(MARKS):
            scope = memory.scope(user=VICTIM, agent=f"agent {number % 2}")
            scope.store([("user", f"I went to {mark} by boat.")], idempotency_key=mark)
            memory.scope(user=f"user {number}").store([("user", "I stayed at home.")])
        memory.run_pending()
    return path


def check_after_the_kill(path: Path) -> bool:
    """Whether the erasure had begun; then it is finished here, else it is all there."""
    with erase_child_actions.open_memory(f"sqlite:///{path}") as memory:
        store, tenant = memory.runtime.store, memory.tenant()
        begun = [*tenant.receipts()]
        left = store.scopes(tenant="default", user=VICTIM)
        if not begun:
            assert len(left) == 2
            assert memory.stats().turns == 2 * len(MARKS)
            assert tenant.audit() == []
        else:
            [receipt] = begun
            assert left == []
            assert memory.stats().turns == len(MARKS)
            assert receipt.removed["turns"] == len(MARKS)
            assert tenant.audit()[0].action == "erase"
            unfinished = [erasure.id for erasure in store.erasures(unfinished=True)]
            assert unfinished == ([] if receipt.is_complete else [receipt.id])
            if receipt.is_complete:
                assert byte_scan.search(path.parent, NEEDLES) == []
            memory.run_pending()
            check_finished(memory, receipt.id)
        for number in range(len(MARKS)):
            assert len(memory.scope(user=f"user {number}").recall("home")) == 1
    if begun:
        assert byte_scan.search(path.parent, NEEDLES) == []
    check_file(path)
    return bool(begun)


def check_finished(memory: EpisodicMemory, erasure_id: object) -> None:
    tenant, store = memory.tenant(), memory.runtime.store
    [receipt] = tenant.receipts()
    assert receipt.id == erasure_id
    assert receipt.is_complete
    assert store.erasures(unfinished=True) == []
    [erased] = store.erasures("default", erasure_id=receipt.id)
    kept = erased.receipt
    assert kept is not None
    assert is_genuine(kept)
    first, *others = tenant.audit()
    assert first.detail["removed"] == receipt.removed
    assert {entry.action for entry in others} == {"erase_receipt"}
    assert others[-1].detail["sha256"] == receipt.sha256 == kept["sha256"]
    assert [entry.outcome for entry in others].count("complete") == 1
    assert tenant.verify_audit().is_whole
    again = len(tenant.audit())
    memory.run_pending()
    assert len(tenant.audit()) == again


def check_file(path: Path) -> None:
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        conn.close()


def test_killed_at_every_moment(filled: Path, tmp_path: Path):
    do = child_actions.be_killed_at_each
    with child_process.running(do, erase_child_actions.erase, str(filled), str(tmp_path)) as (
        _,
        pipe,
    ):
        ends = child_process.read_to_end(pipe)
    assert [code for _, code in ends] == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    assert len(ends) > 30
    begun = [check_after_the_kill(path) for path, _ in ends]
    # There is one moment before which nothing was erased, and after which everything was.
    assert begun == sorted(begun)
    assert begun.count(False) > 10
    assert begun.count(True) > 10


def test_an_erasure_killed_while_the_file_is_rewritten_is_finished(filled: Path, tmp_path: Path):
    """Finished by the next one from there, or from the start: the file is always whole."""
    steps = 0
    for share in (0.0, 0.2, 0.5, 0.8, 0.95):
        folder = tmp_path / f"{share}"
        folder.mkdir()
        path = folder / "memory.db"
        shutil.copy(filled, path)
        url = f"sqlite:///{path}"
        with child_process.running(erase_child_actions.be_killed_rewriting, url, share, steps) as (
            _,
            pipe,
        ):
            said = child_process.read_to_end(pipe)
        if not share:
            [steps] = said
            assert steps > 20
        else:
            assert said == []
        assert check_after_the_kill(path)
