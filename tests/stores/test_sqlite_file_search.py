"""What an erasure looks for in the files afterwards."""

from __future__ import annotations

from pathlib import Path

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.sqlite.file_search import FileTrace
from octopus_memory.domain.erasure import Subject

SAID = "My allergy is penicillin."


def test_it_is_what_was_said_and_never_a_run_of_one_byte(tmp_path: Path) -> None:
    """A frame may hold a text as it is, and every file holds runs of zeros."""
    path = tmp_path / "memory.db"
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        memory.scope(user="ana").store([("user", SAID), ("assistant", "Noted.")], session_id="s")
        memory.flush()
        trace = memory.runtime.store.trace(Subject(tenant="default", user="ana"))
        assert isinstance(trace, FileTrace)
        assert trace._prints[SAID.encode()] == "text"
        assert {"text", "turns", "recall"} <= set(trace._prints.values())
        assert all(len(set(piece)) > 1 for piece in trace._prints)
        assert memory.scope(user="ana").erase().is_complete
        assert trace.search().found == {}
