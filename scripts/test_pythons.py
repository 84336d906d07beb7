"""Run the whole test suite on every installed Python that pyproject.toml allows.

    python scripts/test_pythons.py --extras dev,server [--list] [-- more arguments of pytest]

Each version gets an environment of its own in `.venvs`, which is used again the next time. Exits
with 1 if the suite fails on any of them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venvs"
_EXECUTABLE = re.compile(r"python3(\.\d+)?")
_ASK = "import sys; print(*sys.version_info[:3])"
_PYTEST = ("-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile", "-m", "not install")

Version: TypeAlias = tuple[int, ...]


def lowest() -> Version:
    """Return the lowest version that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
    if found is None:
        raise SystemExit("requires-python must have the form >=3.11")
    return tuple(map(int, found.groups()))


def candidates() -> Iterator[Path]:
    """Yield interpreters: those on the path, those of pyenv, and the one that runs this."""
    yield Path(sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if Path(folder).is_dir():
            yield from (one for one in Path(folder).iterdir() if _EXECUTABLE.fullmatch(one.name))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from pyenv.glob("versions/*/bin/python3")


def newest(found: Iterable[tuple[Version, Path]], least: Version) -> dict[Version, Path]:
    """Return the newest interpreter of each minor version from `least` on."""
    best: dict[Version, tuple[Version, Path]] = {}
    for version, python in found:
        minor = version[:2]
        if minor >= least and (minor not in best or version > best[minor][0]):
            best[minor] = version, python
    return {minor: best[minor][1] for minor in sorted(best)}


def version_of(python: Path) -> Version | None:
    """Return the version; None if it does not start, such as a shim of a missing version."""
    try:
        said = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(map(int, said.split()))


def pythons() -> dict[Version, Path]:
    """Return the interpreters to test with, by minor version."""
    asked = {python.resolve(): python for python in candidates()}.values()
    known = [(version, python) for python in asked if (version := version_of(python))]
    return newest(known, lowest())


def run(minor: Version, python: Path, extras: str, more: Sequence[str]) -> bool:
    """Return whether the whole suite passes on this Python."""
    name = ".".join(map(str, minor))
    own = ENVIRONMENTS / name
    inside = own / ("Scripts" if os.name == "nt" else "bin") / "python"
    print(f"== Python {name} ({python})", flush=True)
    steps: list[list[str | Path]] = [
        [inside, "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[{extras}]"],
        [inside, *_PYTEST, *more],
    ]
    if not inside.exists():
        steps.insert(0, [python, "-m", "venv", own])
    return all(subprocess.run(step, cwd=ROOT, check=False).returncode == 0 for step in steps)


def main() -> int:
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    words.add_argument(
        "--extras", required=True, help="extras that the tests need, separated by commas"
    )
    words.add_argument("--list", action="store_true", help="list the Pythons and exit")
    words.add_argument("more", nargs="*", help="arguments of pytest, after --")
    given = words.parse_args()
    found = pythons()
    if given.list:
        print(
            *(f"{'.'.join(map(str, minor))} {python}" for minor, python in found.items()), sep="\n"
        )
        return 0
    passed = {
        minor: run(minor, python, given.extras, given.more) for minor, python in found.items()
    }
    for minor, good in passed.items():
        print(f"Python {'.'.join(map(str, minor))}: {'passed' if good else 'FAILED'}")
    return 0 if passed and all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
