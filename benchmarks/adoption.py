"""Measure the cost of adoption: installed size, import time, first recall and memory.

    python -m benchmarks.adoption                           every extra, about ten minutes
    python -m benchmarks.adoption --extras client server    some of them
    python -m benchmarks.adoption --times 40                more starts for each median

The wheel is built and installed into empty virtual environments that have no pip: one for the base
package, one for the light client, and for each extra a copy of the first. Needs the extra `dev`
and a package index that pip can reach. CPU times are valid on a busy machine, too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cold import ROOT
from .jobs import size
from .report import table

BASE = "base"
LIGHT = "light client"
NOT_FOR_USERS = {"bench", "dev"}
JSON = "import json"

# Without it a process that recalls would also be measured at its shutdown.
_LEAVE = """
import os, sys
resident = "0"
if os.path.exists("/proc/self/status"):
    with open("/proc/self/status") as status:
        resident = next(line.split()[1] for line in status if line.startswith("VmRSS"))
print(resident, flush=True)
os._exit(0)
"""
_FILL = """
import sys
from octopus_memory import EpisodicMemory
with EpisodicMemory.open(sys.argv[1], embedder=sys.argv[2], background=False) as memory:
    scope = memory.scope(user="dana")
    for day in range(10):
        scope.store([
            turn
            for hour in range(5)
            for turn in (
                ("user", f"How many leave days do I have left after trip {day}.{hour} to Lisbon?"),
                ("assistant", f"You have {day + hour} days left, of which two expire in March."),
            )
        ])
    memory.flush()
"""
_RECALL = """
from octopus_memory import EpisodicMemory
memory = EpisodicMemory.open({path!r}, embedder={embedder!r}, background=False)
found = memory.scope(user="dana").recall_turns("When do my leave days expire?", limit=5)
if len(found) != 5:
    raise AssertionError(f"got {{len(found)}} turns instead of 5")
"""
_CONNECT = """
from octopus_memory import RemoteMemory
RemoteMemory("http://127.0.0.1:9", "key").scope(user="dana")
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """An installation, measured in an environment that holds nothing else."""

    name: str
    command: str
    python: Path
    megabytes: float
    distributions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A program whose process is started many times."""

    name: str
    python: Path
    code: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """Medians over the processes of one program."""

    cpu_ms: float
    resident_mb: float


def extras(pyproject: str) -> list[str]:
    """Return the extras of `pyproject.toml` that a user may install, sorted by name."""
    known = tomllib.loads(pyproject)["project"]["optional-dependencies"]
    return sorted(name for name in known if name not in NOT_FOR_USERS)


def build(folder: Path) -> Path:
    """Build the wheel."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*pip, "--wheel-dir", str(folder), str(ROOT)])
    [wheel] = folder.glob("*.whl")
    return wheel


def install(
    folder: Path,
    name: str,
    command: str,
    installs: Sequence[Sequence[str]],
    *,
    base: Path | None = None,
) -> Installed:
    """Make an empty environment or a copy of `base`, install into it, and measure what is there."""
    if base is None:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    else:
        # Hard links, because pip replaces files and never writes into them.
        shutil.copytree(base, folder, symlinks=True, copy_function=_link)
    python = folder / "bin" / "python"
    for wanted in installs:
        _run([sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *wanted])
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    return Installed(
        name=name,
        command=command,
        python=python,
        megabytes=size(packages) / 1e6,
        distributions=len(list(packages.glob("*.dist-info"))),
    )


def installations(folder: Path, wanted: Sequence[str]) -> Iterator[Installed]:
    wheel = str(build(folder / "wheel"))
    pip = "pip install"
    yield install(folder / BASE, BASE, f"{pip} octopus-memory", [[wheel]])
    alone = f"{pip} httpx; {pip} --no-deps octopus-memory"
    yield install(folder / "light", LIGHT, alone, [["httpx"], ["--no-deps", wheel]])
    for extra in wanted:
        command = f"{pip} octopus-memory[{extra}]"
        wanted_too = [[f"{wheel}[{extra}]"]]
        yield install(folder / extra, extra, command, wanted_too, base=folder / BASE)


def starts(base: Installed, light: Installed, folder: Path) -> list[Start]:
    """Return the programs to start. Writes the databases that two of them read."""

    def start(name: str, code: str, where: Installed = base) -> Start:
        return Start(name=name, python=where.python, code=code)

    recalls = []
    for embedder, named in (("hashing", "no model"), ("minilm", "built-in model")):
        path = str(folder / f"{embedder}.db")
        _run([str(base.python), "-I", "-c", _FILL, path, embedder])
        code = _RECALL.format(path=path, embedder=embedder)
        recalls.append(start(f"open a database of 100 turns and recall, {named}", code))
    return [
        start("bare interpreter", ""),
        start(f"`{JSON}`", JSON),
        start("`import numpy`", "import numpy"),
        start("`import httpx`", "import httpx", light),
        start("`import octopus_memory`", "import octopus_memory"),
        start(
            "`from octopus_memory import EpisodicMemory`",
            "from octopus_memory import EpisodicMemory",
        ),
        start(
            "light client: `from octopus_memory import RemoteMemory`",
            "from octopus_memory import RemoteMemory",
            light,
        ),
        start("light client: `RemoteMemory(…).scope(…)`", _CONNECT, light),
        *recalls,
    ]


def measure(
    programs: Sequence[Start], times: int, run: Callable[[Start], tuple[float, float]]
) -> list[Started]:
    """Run the programs in turns, so that a busy moment affects all, and return medians.

    The first round is not counted, because it compiles sources.
    """
    rounds = [[run(program) for program in programs] for _ in range(times + 1)][1:]
    return [
        Started(
            cpu_ms=statistics.median(cpu for cpu, _ in runs),
            resident_mb=statistics.median(resident for _, resident in runs),
        )
        for runs in zip(*rounds, strict=True)
    ]


def start_once(program: Start) -> tuple[float, float]:
    """Return CPU milliseconds and resident megabytes of one process."""
    command = [str(program.python), "-I", "-c", program.code + _LEAVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise RuntimeError("the pipe to the process is missing")
        said = process.stdout.read()
        # The usage of this one child; that of all children has the resolution of a clock tick.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{program.name} failed with status {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1e3, int(said) / 1024


def sizes_table(measured: Sequence[Installed]) -> str:
    base = next(found for found in measured if found.name == BASE)
    return table(
        ["installed by", "MB", "beside the base", "distributions"],
        [
            [
                f"`{found.command}`",
                f"{found.megabytes:.0f}",
                "" if found is base else f"{found.megabytes - base.megabytes:+.0f}",
                f"{found.distributions}",
            ]
            for found in measured
        ],
    )


def starts_table(programs: Sequence[Start], measured: Sequence[Started]) -> str:
    known = dict(zip((program.name for program in programs), measured, strict=True))
    unit = known[f"`{JSON}`"].cpu_ms
    return table(
        ["process", "CPU, ms", f"× `{JSON}`", "resident, MB"],
        [
            [name, f"{took.cpu_ms:.0f}", f"{took.cpu_ms / unit:.1f}", f"{took.resident_mb:.0f}"]
            for name, took in known.items()
        ],
    )


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _run(command: Sequence[str]) -> None:
    """Run a command outside of the repository's own paths."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    known = extras((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--extras", nargs="*", choices=known, default=known, metavar="EXTRA")
    parser.add_argument("--times", type=int, default=20, help="starts of each program")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured = []
        for found in installations(folder, given.extras):
            print(f"{found.name}: {found.megabytes:.0f} MB", file=sys.stderr, flush=True)
            measured.append(found)
        print(sizes_table(measured))
        programs = starts(measured[0], measured[1], folder)
        print(starts_table(programs, measure(programs, given.times, start_once)))


if __name__ == "__main__":
    main()
