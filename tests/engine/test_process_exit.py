"""A process that ends without closing its memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory

pytestmark = pytest.mark.process

_UNCLOSED = """
import sys, threading, time
from pathlib import Path
from octopus_memory import EpisodicMemory
from octopus_memory.adapters.embedders.hashing import HashingEmbedder

class Slow(HashingEmbedder):
    begun = threading.Event()

    def embed(self, texts):
        self.begun.set()
        time.sleep(0.3)
        return super().embed(texts)

memory = EpisodicMemory.open(Path(sys.argv[1]), embedder=Slow())
memory.scope(user="ana").add("s", ("user", "The kettle leaks."))
assert Slow.begun.wait(30)
"""


def test_the_current_batch_is_finished_at_exit(tmp_path: Path):
    """A thread that is cut off while a model is at work would abort the process."""
    path = tmp_path / "m.db"
    done = subprocess.run(
        [sys.executable, "-c", _UNCLOSED, path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        assert sum(memory.stats().vectors.values()) == 1
