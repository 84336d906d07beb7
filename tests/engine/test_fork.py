"""A memory that was open when its process was forked, as servers do that load before they fork."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, MemoryClosed

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
]


def in_a_fork(do: Callable[[], object]) -> int:
    """The child's exit status: 0 unless `do` raised."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            do()
            status = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the child must end here
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_memory_opened_before_a_fork_says_what_to_do(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.add("s", ("user", "Said before the fork."))

    def use() -> None:
        for call in (
            lambda: scope.recall("Said when?"),
            lambda: scope.add("s", ("user", "Said after the fork.")),
            lambda: memory.tenant().episodes(),
            memory.flush,
        ):
            with pytest.raises(MemoryClosed, match="before this process was forked: open a new"):
                call()

    assert in_a_fork(use) == 0
    assert len(scope.session("s").turns) == 1


def test_closing_in_the_child_closes_nothing_of_its_parent(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing") as memory:
        scope = memory.scope(user="u")
        scope.add("s", ("user", "Said before the fork."))
        assert in_a_fork(memory.close) == 0
        scope.add("s", ("user", "Said after the fork."))
        assert memory.flush(timeout=60)
        assert [turn.text for turn in scope.session("s").turns][1] == "Said after the fork."


def test_a_memory_opened_after_the_fork_works_beside_its_parent(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"

    def use() -> None:
        with EpisodicMemory.open(url, embedder="hashing") as own:
            own.scope(user="u").add("child", ("user", "Said by the child."))

    # A thread that is in SQLite at that moment holds locks of SQLite's, which no fork survives.
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="u")
        scope.add("parent", ("user", "Said by the parent."))
        assert in_a_fork(use) == 0
        assert len(scope.session("child").turns) == 1
