"""The shipped texts of SQLite's hot statements: as they are compiled now, and enough."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters import stores
from octopus_memory.adapters.stores.sqlite import texts
from octopus_memory.adapters.stores.sqlite.compiling import compiled

REMEDY = "run make texts"
HOT = """
import sys
from octopus_memory import EpisodicMemory
with EpisodicMemory.open(sys.argv[1], embedder="hashing", background=False) as memory:
    scope = memory.scope(user="somebody")
    scope.add("first", [("user", "Which ferry goes to Naxos?")])
    assert scope.recall("ferry")
    assert scope.recall_turns("ferry")
    assert scope.session("first").messages()
    assert scope.recent()
    assert memory.flush()
    print("sqlalchemy" in sys.modules)
"""


def _named(name: str) -> Any:
    path, _, arguments = name.partition("(")
    module, _, function = path.rpartition(".")
    found = getattr(import_module(f"{stores.__name__}.{module}"), function, None)
    assert found is not None, f"there is no {path} any more: {REMEDY}"
    return found(*ast.literal_eval(f"({arguments}")) if arguments else found


@pytest.mark.parametrize("key", texts.shipped(), ids=lambda key: key[0])
def test_a_text_is_what_is_compiled_now(key: tuple[str, ...]) -> None:
    name, *keys = key
    made = compiled(_named(name)(), keys)
    assert json.loads(json.dumps(made)) == list(texts.shipped()[key]), REMEDY


def test_hot_calls_do_not_load_sqlalchemy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    EpisodicMemory.open(url, embedder="hashing", background=False).close()
    run = subprocess.run(
        [sys.executable, "-c", HOT, url], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n", REMEDY
