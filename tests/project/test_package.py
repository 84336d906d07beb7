"""The wheel and the sdist: what is in them, and whether a new user can use them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from octopus_memory import __version__
from tests.support.paths import ROOT

_TOOLS = ("build", "hatchling", "twine", "mypy", "pyright")

pytestmark = [
    pytest.mark.process,
    pytest.mark.install,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in _TOOLS),
        reason="the extra dev is not installed whole",
    ),
]


@pytest.fixture(scope="module")
def package() -> ModuleType:
    path = ROOT / "scripts" / "check_package.py"
    spec = importlib.util.spec_from_file_location("check_package", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(package: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return package.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def inside(
    package: ModuleType, built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The interpreter of an empty environment that the wheel was installed into."""
    return package.install(sys.executable, built[0], tmp_path_factory.mktemp("user") / "env")


def test_the_metadata_is_what_an_index_takes(package: ModuleType, built: tuple[Path, Path]):
    package.check_metadata(built)


def test_what_is_shipped(package: ModuleType, built: tuple[Path, Path]):
    wheel, sdist = map(package.names_in, built)
    assert list(package.problems_of_wheel(wheel)) == []
    assert list(package.problems_of_sdist(sdist)) == []


def test_what_must_not_be_shipped_is_noticed(package: ModuleType, built: tuple[Path, Path]):
    wheel = package.names_in(built[0])
    extra = ["octopus_memory/tests/data/x.json", "octopus_memory/x.pyc", "other/__init__.py"]
    assert len(list(package.problems_of_wheel([*wheel, *extra]))) >= len(extra)
    without = [name for name in wheel if not name.endswith(("py.typed", "/NOTICE"))]
    assert len(list(package.problems_of_wheel(without))) == 2


def test_a_new_user_runs_the_example(package: ModuleType, inside: Path, tmp_path: Path):
    printed = package.run_example(inside, tmp_path / "run")
    assert "[Past Conversations]" in printed
    assert "12 days" in printed
    package.check_types(inside, tmp_path / "run" / "example.py")


def test_the_command_is_installed(package: ModuleType, inside: Path):
    assert package.print_version(inside) == f"octopus {__version__}\n"
