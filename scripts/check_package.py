"""Build wheel and sdist, check them, and use the wheel as a new user would.

    python scripts/check_package.py [--this-python]

Needs the extra `dev`, and a package index that pip can reach. The wheel is built from the sdist,
and installed into an empty environment for each Python from 3.11 on that the machine has: there
the example of the README runs, and mypy and pyright check its types. Exits with 1 at the first
failure.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NEEDED = (
    "octopus_memory/py.typed",
    "octopus_memory/adapters/embedders/all-minilm-l6-v2-int8/model.onnx",
    "octopus_memory/adapters/embedders/all-minilm-l6-v2-int8/LICENSE",
    "octopus_memory/adapters/stores/sql/data/turns-v1.zdict",
)
_BUILT = (
    "octopus_memory/adapters/stores/sqlite/compiled_statements.json",
    "octopus_memory/faces/mcp/tools.json",
)
_LICENSES = ("licenses/LICENSE", "licenses/NOTICE", "METADATA", "entry_points.txt")
_UNWANTED = re.compile(
    r"(^|/)(tests|benchmarks|__pycache__|\.git|\.venv|\.ci|build)(/|$)|\.(pyc|db|db-wal|db-shm)$"
)


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; returns wheel and sdist."""
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def check_metadata(files: Sequence[Path]) -> None:
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])


def names_in(archive: Path) -> list[str]:
    """The files of a wheel or an sdist; those of an sdist without its top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.namelist()
    with tarfile.open(archive) as sdist:
        return [member.name.partition("/")[2] for member in sdist if member.isfile()]


def problems_of_wheel(names: Iterable[str]) -> Iterator[str]:
    """Return files that a wheel has but must not have, and those that it lacks."""
    names = list(names)
    yield from unwanted(names)
    for name in names:
        if not re.match(r"octopus_memory(/|-[^/]+\.dist-info/)", name):
            yield f"{name} is outside of the package"
    for needed in (*_NEEDED, *_BUILT):
        if needed not in names:
            yield f"{needed} is missing"
    for notice in _LICENSES:
        if not any(name.endswith(f".dist-info/{notice}") for name in names):
            yield f"{notice} is missing"


def problems_of_sdist(names: Iterable[str]) -> Iterator[str]:
    names = list(names)
    yield from unwanted(names)
    for needed in ("LICENSE", "NOTICE", "README.md", "pyproject.toml", "docs/README.md"):
        if needed not in names:
            yield f"{needed} is missing"
    for needed in _NEEDED:
        if f"src/{needed}" not in names:
            yield f"src/{needed} is missing"
    for built in _BUILT:
        if f"src/{built}" in names:
            yield f"src/{built} must not be shipped, because the wheel's build makes it"


def unwanted(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if _UNWANTED.search(name):
            yield f"{name} must not be shipped"


def install(python: Path | str, wheel: Path, folder: Path) -> Path:
    """Install the wheel into a new environment; returns its interpreter."""
    run([str(python), "-m", "venv", str(folder)])
    inside = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run([str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)])
    return inside


def example() -> str:
    """The first example of the README."""
    found = _EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit("README.md must have a Python example")
    return found[1]


def run_example(inside: Path, folder: Path) -> str:
    """Run the README's example in an empty folder; returns what it printed."""
    folder.mkdir()
    script = folder / "example.py"
    script.write_text(example(), encoding="utf-8")
    return run([str(inside), "-W", "error", str(script)], cwd=folder)


def print_version(inside: Path) -> str:
    return run([str(inside.with_name("octopus")), "--version"])


def check_types(inside: Path, script: Path) -> None:
    """Check the script with mypy and pyright against the installed package, from its py.typed."""
    folder = script.parent
    strictly = ["--strict", "--no-incremental", "--python-executable", str(inside)]
    run([sys.executable, "-m", "mypy", *strictly, str(script)], cwd=folder)
    run([sys.executable, "-m", "pyright", "--pythonpath", str(inside), str(script)], cwd=folder)


def run(command: list[str], cwd: Path | None = None) -> str:
    """Run a command outside of the repository's own paths; returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


def main(arguments: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        wheel, sdist = build(folder / "dist")
        check_metadata([wheel, sdist])
        found = [*problems_of_wheel(names_in(wheel)), *problems_of_sdist(names_in(sdist))]
        if found:
            raise SystemExit("\n".join(found))
        for archive in (wheel, sdist):
            files, size = len(names_in(archive)), archive.stat().st_size / 1e6
            print(f"{archive.name}: {files} files, {size:.1f} MB")
        here = {sys.version_info[:2]: Path(sys.executable)}
        every = runpy.run_path(str(ROOT / "scripts" / "test_pythons.py"))["pythons"]
        for version, python in (here if "--this-python" in arguments else every()).items():
            name = ".".join(map(str, version))
            inside = install(python, wheel, folder / f"env-{name}")
            printed = run_example(inside, folder / f"run-{name}")
            if "12 days" not in printed:
                raise SystemExit(f"the example did not remember:\n{printed}")
            check_types(inside, folder / f"run-{name}" / "example.py")
            print(f"Python {name}: {print_version(inside).strip()}, example and types are fine")


if __name__ == "__main__":
    main(sys.argv[1:])
