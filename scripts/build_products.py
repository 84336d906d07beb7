"""Write what a wheel has beside the sources: compiled statements, and the list of MCP tools.

    python scripts/build_products.py [FOLDER]

`compiled_statements.json` has the statements of common calls, as SQLAlchemy compiles them for
SQLite: it makes the calls, and records what they send to the driver. `tools.json` has the tools as
`tools/list` of MCP shows them. Both go into the package, or into FOLDER. The build backend runs it
for a wheel and for an editable install, `make texts` after a change.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

# Not by PYTHONPATH, because pip hides from a build every path of an earlier editable install.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.adapters.stores.sqlite import compiled as compiled_statements
from octopus_memory.adapters.stores.sqlite.driver import prepared_statements
from octopus_memory.built import read_built
from octopus_memory.domain.facts import FactKind, FoundFact
from octopus_memory.faces.mcp import catalogue
from octopus_memory.faces.mcp.tools import TOOLS, described
from octopus_memory.testing import FakeSummarizer

MOST_PLACES = 16
"""Number of turns that one statement reads."""


def main() -> None:
    file = compiled_statements.FILE
    if len(sys.argv) == 1 and read_built(file) and read_built(catalogue.FILE):
        # pip builds an editable install twice.
        return
    # Statements of an earlier build would not be recorded.
    compiled_statements.FILE = file.with_name("none")
    _write(file, _statements())
    _write(catalogue.FILE, json.dumps([described(tool) for tool in TOOLS.values()]))


def _write(file: Path, text: str) -> None:
    """Replace a file at once, because another process may read it."""
    if len(sys.argv) > 1:
        file = Path(sys.argv[1], file.name)
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(file)


def _statements() -> str:
    asked: dict[tuple[str, ...], compiled_statements.Compiled] = {}
    with tempfile.TemporaryDirectory() as folder:
        # In the second round everything exists already.
        for _ in range(2):
            _make_calls(Path(folder, "memory.db"))
    for statement, keys in prepared_statements.named:
        made, _ = compiled_statements.compile_statement(statement(), keys)
        asked[statement.name, *keys] = made
    lines = (json.dumps([key, *made]) for key, made in sorted(asked.items()))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _make_calls(path: Path) -> None:
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        scope, store = memory.scope(user="somebody"), memory.runtime.store
        _talk(scope)
        memory.flush()
        _recall(scope)
        # Vectors that are stored after their texts.
        memory.flush()
        scope.recall("thanks")
        # The calls of the background thread.
        memory.run_pending()
        memory.next_retention()
        store.recall_block(scope.scope, seqs=[1])
        store.recall_block(scope.scope, after=1, alive=True)
        fact = FoundFact(kind=FactKind.HOME, text="Lives on Naxos.", ordinal=0)
        memory.runtime.summarizer = FakeSummarizer(facts=[fact])
        scope.store([("user", "I live on Naxos now.")])
        scope.facts()
        for count in range(1, MOST_PLACES + 1):
            store.turns_at(scope.scope, [(uuid4(), 0) for _ in range(count)])


def _talk(scope: MemoryScope) -> None:
    scope.add("first", [("user", "Which ferry goes to Naxos?"), ("assistant", "The 07:15.")])
    scope.add("first", [("user", "And back again? I live in Athens.")], idempotency_key="once")
    scope.session("first")
    scope.session("first", last=1)
    for _ in range(2):
        # Two episodes of one session.
        scope.add("second", [("user", "Where did we stay?"), ("assistant", "At the harbour.")])
        scope.close_session("second")
    scope.session("second")
    scope.store([("user", "What was it called?"), ("assistant", "Grotta.")])


def _recall(scope: MemoryScope) -> None:
    scope.recall("the ferry to Naxos")
    scope.recall_turns("the ferry to Naxos")
    scope.context("the ferry to Naxos", session_id="first")
    scope.recent()
    scope.recent(leave_out_session="first")
    scope.get(scope.episodes(page_size=1).items[0])
    # Recall makes findable what it finds still waiting.
    scope.add("first", [("user", "Thank you.")])
    scope.recall("thanks")


if __name__ == "__main__":
    main()
