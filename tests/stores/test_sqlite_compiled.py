"""The statements that are shipped compiled for SQLite: as they are compiled now, and enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory import built as built_files
from octopus_memory.adapters.stores.sql import lazy
from octopus_memory.adapters.stores.sqlite import compiled as compiled_statements
from octopus_memory.faces.mcp import tools
from tests.support.paths import ROOT

CALLS = """
import sys
from pathlib import Path
from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.sqlite import compiled
compiled.FILE = Path(sys.argv[2])
compiled.read_built = lambda file: file.read_bytes() if file.exists() else None
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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what a wheel's build makes."""
    folder = tmp_path_factory.mktemp("built")
    script = ROOT / "scripts" / "build_products.py"
    subprocess.run([sys.executable, str(script), str(folder)], check=True)
    return folder


@pytest.mark.process
@pytest.mark.slow
def test_common_calls_do_not_load_sqlalchemy(built: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    EpisodicMemory.open(url, embedder="hashing", background=False).close()
    for folder, loads in ((built, False), (tmp_path, True)):
        command = [sys.executable, "-c", CALLS, url, str(folder / "compiled_statements.json")]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout == f"{loads}\n", "scripts/build_products.py must make the call, too"


@pytest.mark.process
@pytest.mark.slow
def test_the_tools_that_are_built_are_those_that_are_made(built: Path) -> None:
    made = [tools.described(tool) for tool in tools.TOOLS.values()]
    assert json.loads((built / "tools.json").read_bytes()) == json.loads(json.dumps(made))


def test_what_was_built_before_a_change_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    product, module = package / "made.json", package / "module.py"
    monkeypatch.setattr(built_files, "_PACKAGE", package)
    assert built_files.read_built(product) is None
    for file, at in ((product, 2), (module, 1)):
        file.write_text("[]", encoding="utf-8")
        os.utime(file, (at, at))
    assert built_files.read_built(product) == b"[]"
    os.utime(module, (3, 3))
    # Installed from a wheel, whose files are as old as pip likes.
    assert built_files.read_built(product) == b"[]"
    (tmp_path / "pyproject.toml").touch()
    assert built_files.read_built(product) is None


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
