"""The statements that are shipped compiled for SQLite: as they are compiled now, and enough."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores import sql
from octopus_memory.adapters.stores.sql import lazy
from octopus_memory.adapters.stores.sqlite import compiled as compiled_statements

REMEDY = "run make texts"
CALLS = """
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
    found = getattr(import_module(f"{sql.__name__}.{module}"), function, None)
    assert found is not None, f"there is no {path} any more: {REMEDY}"
    return found(*ast.literal_eval(f"({arguments}")) if arguments else found


@pytest.mark.parametrize("key", compiled_statements.shipped(), ids=lambda key: key[0])
def test_a_text_is_what_is_compiled_now(key: tuple[str, ...]) -> None:
    name, *keys = key
    made, _ = compiled_statements.compile_statement(_named(name)(), tuple(keys))
    assert json.loads(json.dumps(made)) == list(compiled_statements.shipped()[key]), REMEDY


@pytest.mark.process
def test_common_calls_do_not_load_sqlalchemy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    EpisodicMemory.open(url, embedder="hashing", background=False).close()
    run = subprocess.run(
        [sys.executable, "-c", CALLS, url], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n", REMEDY


def test_without_the_file_statements_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for spoilt in (None, "", "[["):
        file = tmp_path / "texts.json"
        if spoilt is not None:
            file.write_text(spoilt, encoding="utf-8")
        monkeypatch.setattr(compiled_statements, "FILE", file)
        compiled_statements.shipped.cache_clear()
        try:
            assert compiled_statements.shipped() == {}
            url = f"sqlite:///{tmp_path / 'memory.db'}"
            with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
                memory.scope(user="somebody").add("first", ("user", "Which ferry goes to Naxos?"))
                assert memory.scope(user="somebody").recall("ferry")
        finally:
            compiled_statements.shipped.cache_clear()


def test_a_signal_does_not_interrupt_a_lazy_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are raised in the main thread; half a module would stay where its import was."""
    assert threading.current_thread() is threading.main_thread()
    (tmp_path / "loaded_later.py").write_text("import threading\nby = threading.current_thread()\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = lazy.load("loaded_later")
    assert module.by is not threading.main_thread()
    assert lazy.load("loaded_later") is module


def test_a_lazy_import_of_a_missing_module_raises() -> None:
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            lazy.load("no_such_module")
