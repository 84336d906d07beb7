"""Measure the memory of a process with the built-in embedder after its first recall."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from octopus_memory import EpisodicMemory

from .cold import resident_mb

TURNS = [
    ("user", "How many leave days do I have left this year?"),
    ("assistant", "You have twelve days left, and five of them must be taken before April."),
]


def main(folder: str) -> None:
    path = Path(folder) / "model.db"
    memory = EpisodicMemory.open(path, embedder="minilm", background=False)
    scope = memory.scope(user="somebody")
    scope.store(TURNS)
    memory.flush()
    if len(scope.recall_turns("holidays", limit=2)) != 2:
        raise AssertionError("the stored turn was not recalled")
    print(json.dumps({"resident_mb": resident_mb()}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
