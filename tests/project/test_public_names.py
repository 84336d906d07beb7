"""The package from outside: its names, its errors, what an import costs, how long its files are."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import octopus_memory
from octopus_memory.domain import errors

SOURCE = Path(octopus_memory.__file__).parent
HEAVY = ["alembic", "onnxruntime", "openai", "rich", "tiktoken", "tokenizers", "typer"]
AFTER_OPENING = ["asyncio", "numpy", "pydantic", "sqlalchemy"]
LONGEST_FILE = 500


def error_classes() -> dict[str, type[Exception]]:
    return {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    }


def test_all_is_sorted_and_without_repeats():
    assert octopus_memory.__all__ == sorted(set(octopus_memory.__all__))


def test_every_name_in_all_is_there():
    for name in octopus_memory.__all__:
        assert getattr(octopus_memory, name) is not None


def test_every_name_that_is_there_is_in_all():
    there = {
        name
        for name, value in vars(octopus_memory).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert there - {"annotations", "TYPE_CHECKING"} == set(octopus_memory.__all__)


def test_lazy_names_are_those_type_checkers_see():
    tree = ast.parse(Path(octopus_memory.__file__).read_text(encoding="utf-8"))
    [shown] = [node for node in tree.body if isinstance(node, ast.If) and not node.orelse][:1]
    seen = {
        line.module: tuple(name.name for name in line.names)
        for line in shown.body
        if isinstance(line, ast.ImportFrom)
    }
    assert seen == octopus_memory._LATER


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        octopus_memory.Nothing  # noqa: B018


def test_every_error_is_public():
    assert set(error_classes()) <= set(octopus_memory.__all__)


def test_every_error_has_one_root():
    for kind in error_classes().values():
        assert issubclass(kind, errors.OctopusError)


def test_the_tree_of_errors_is_as_it_is_drawn():
    drawn = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        branch = re.match(r"^ {4}([│├└─ ]*)([A-Z]\w+)(?: +\(also an? (\w+)\))?$", line)
        if branch is None:
            continue
        depth, name, also = len(branch[1]) // 4, branch[2], branch[3]
        above[depth:] = [name]
        drawn[name] = ((above[depth - 1] if depth else "Exception"), also)
    real = {}
    for name, kind in error_classes().items():
        first, *others = kind.__bases__
        real[name] = (first.__name__, others[0].__name__ if others else None)
    assert drawn == real


def test_every_error_says_something_about_itself():
    for name, kind in error_classes().items():
        assert written_docstring(kind) or "__init__" in vars(kind), name


def run(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-B", "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
def test_an_import_loads_nothing_heavy():
    loaded = run(
        "import sys, octopus_memory; print(*{name.partition('.')[0] for name in sys.modules})"
    ).split()
    assert "octopus_memory" in loaded
    assert [name for name in [*HEAVY, *AFTER_OPENING] if name in loaded] == []


@pytest.mark.process
def test_recall_with_a_quick_embedder_loads_nothing_heavy(tmp_path: Path):
    loaded = run(
        "import sys, octopus_memory\n"
        "with octopus_memory.EpisodicMemory.open(embedder='hashing') as memory:\n"
        "    memory.scope(user='u').recall('anything')\n"
        "print(*{name.partition('.')[0] for name in sys.modules})",
        OCTOPUS_DATABASE_URL=f"sqlite:///{tmp_path / 'memory.db'}",
    ).split()
    assert "numpy" in loaded
    assert [name for name in [*HEAVY, "pydantic"] if name in loaded] == []


# Prints what the code after it writes, starts, connects to, and reads of the environment.
WATCHED = f"""
import atexit, os, sys, threading

class Watched(type(os.environ)):
    def __getitem__(self, name):
        by = sys._getframe(1)
        while by.f_code.co_filename.startswith("<frozen"):
            by = by.f_back
        ours = by.f_code.co_filename.startswith({str(SOURCE)!r})
        if ours or name.startswith(("OCTOPUS_", "OPENAI_", "XDG_")):
            print("reads", name)
        return super().__getitem__(name)

def watch(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
        print("writes", args[0])
    if event in ("os.mkdir", "socket.connect", "sqlite3.connect", "subprocess.Popen"):
        print("does", event)

os.environ.__class__ = Watched
sys.addaudithook(watch)
import octopus_memory
for thread in threading.enumerate()[1:]:
    print("runs", thread.name)
"""


@pytest.mark.process
def test_an_import_reads_no_environment_writes_nothing_and_starts_nothing(tmp_path: Path):
    seen = run(
        WATCHED,
        HOME=str(tmp_path),
        XDG_DATA_HOME=str(tmp_path / "data"),
        OCTOPUS_DATABASE_URL=f"sqlite:///{tmp_path / 'memory.db'}",
    )
    assert seen == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_opening_a_memory_is_seen_to_do_all_that(tmp_path: Path):
    """So that the test before this one cannot pass by looking away."""
    url = f"sqlite:///{tmp_path / 'new' / 'memory.db'}"
    opening = "\nwith octopus_memory.EpisodicMemory.open(embedder='hashing') as memory: pass"
    seen = run(WATCHED + opening, OCTOPUS_DATABASE_URL=url).splitlines()
    assert {"reads OCTOPUS_DATABASE_URL", "does os.mkdir", "does sqlite3.connect"} <= set(seen)
    assert (tmp_path / "new" / "memory.db").exists()


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_no_file_is_long(path: Path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("room", ["evaluation", "faces", "integrations"])
def test_no_face_asks_the_store(room: str):
    """Because a face would skip the checks, the cache and the metrics of the engine's calls."""
    asking = [
        path.name
        for path in (SOURCE / room).rglob("*.py")
        if re.search(r"\bruntime\.store\b", path.read_text(encoding="utf-8"))
    ]
    assert asking == []


def written_docstring(kind: type) -> str | None:
    """Its own, where `__doc__` may be inherited or made by `dataclass`."""
    [written] = ast.parse(inspect.getsource(kind)).body
    return ast.get_docstring(written) if isinstance(written, ast.ClassDef) else None


def test_every_public_class_has_a_docstring():
    """Enumerations and errors whose name says all are let off."""
    silent = []
    for name in octopus_memory.__all__:
        value = getattr(octopus_memory, name)
        if inspect.isclass(value) and not written_docstring(value):
            silent.append(name)
    allowed = {"EndReason", "Page", "Role", "SessionStatus"} | set(error_classes())
    assert set(silent) <= allowed
