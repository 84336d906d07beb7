"""Compare Octopus, the floor and the installed peers.

    make bench          installs the peers and measures everything, up to a million turns; an hour
    make bench-quick    two minutes: 1,000 and 10,000 turns, and the peers that are there already

Results go to `benchmarks/results`; a full run also rewrites `docs/reference/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import report, venvs
from .cold import ROOT
from .subjects import NAMES

RESULTS = Path(__file__).with_name("results")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
LARGEST = {"octopus": 1_000_000, "mem0": 10_000}
"""Largest number of turns. Peers get 100,000, for which mem0 takes hours."""
PEERS_LARGEST = 100_000
QUICK_LARGEST = {"mem0": 1_000}
QUICK_SECONDS = 110
"""Seconds for all subjects, Octopus first. Subjects for which no time is left are skipped."""
FULL_SECONDS = 3 * 3600
"""Seconds for each subject."""


class Run:
    """A run: its results, and what it skipped and why."""

    def __init__(
        self, folder: Path, environments: Path, *, quick: bool, largest: int, seconds: float
    ) -> None:
        self.folder = folder
        self.environments = environments
        self.quick = quick
        self.largest = largest
        self.seconds = seconds
        self.began = time.monotonic()
        self.measured: dict[str, dict[str, Any]] = {}
        self.left_out: dict[str, str] = {}

    def install(self, names: list[str]) -> None:
        blocks = venvs.requirements(venvs.PEERS.read_text(encoding="utf-8"))
        for name in names:
            wanted = ["."] if name == "octopus" else blocks[name]
            print(f"installing {name} …", flush=True)
            try:
                venvs.install(self.environments / name, wanted, anew=name == "octopus")
            except subprocess.CalledProcessError as error:
                self.left_out[name] = f"pip could not install it ({error.returncode})"

    def measure(self, name: str) -> None:
        folder = self.environments / name
        if name != "octopus" and not venvs.is_there(folder):
            self.left_out.setdefault(name, "not installed")
            return
        spent = time.monotonic() - self.began if self.quick else 0.0
        seconds = self.seconds - spent
        if seconds <= 5:
            self.left_out[name] = "no time was left in a quick run"
            return
        # Octopus itself is measured from this checkout.
        python = Path(sys.executable) if name == "octopus" else venvs.python_of(folder)
        out = self.folder / f"{name}.json"
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            broken = self._side(python, name, Path(work), out, seconds)
        if out.exists():
            self.measured[name] = json.loads(out.read_text(encoding="utf-8"))
            self.measured[name]["installed_mb"] = venvs.size_mb(folder)
        if broken:
            self.left_out[name] = broken

    def _side(self, python: Path, name: str, work: Path, out: Path, seconds: float) -> str:
        out.unlink(missing_ok=True)
        largest = min(self.largest, LARGEST.get(name, PEERS_LARGEST))
        if self.quick:
            largest = min(largest, QUICK_LARGEST.get(name, 10_000))
        sizes = ",".join(str(size) for size in SIZES if size <= largest)
        command = [str(python), "-m", "benchmarks.side", name, "--folder", str(work)]
        command += ["--out", str(out), "--sizes", sizes]
        command += ["--quick"] if self.quick else []
        if not self.quick or name == "octopus":
            command += ["--calls", "500" if self.quick else "10000"]
        try:
            subprocess.run(command, check=True, cwd=ROOT, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"stopped after {seconds:.0f} seconds; what it had by then is shown"
        except subprocess.CalledProcessError as error:
            return f"broke off ({error.returncode}); what it had by then is shown"
        return ""

    def result(self) -> dict[str, Any]:
        return {
            "at": datetime.now(UTC).isoformat(timespec="minutes"),
            "quick": self.quick,
            "machine": {
                "processor": platform.machine(),
                "cores": os.cpu_count(),
                "system": platform.system(),
                "python": platform.python_version(),
                "load": round(os.getloadavg()[0], 1),
            },
            "subjects": self.measured,
            "left_out": self.left_out,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "subjects", nargs="*", default=NAMES[1:], help="what to measure. Default: all"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="largest number of turns")
    parser.add_argument("--seconds", type=float, help="duration of a quick run, or of each subject")
    parser.add_argument("--venvs", type=Path, default=RESULTS / "venvs")
    parser.add_argument("--no-page", action="store_true", help="do not write the page in docs/")
    given = parser.parse_args()
    folder = RESULTS / ("quick" if given.quick else "full")
    folder.mkdir(parents=True, exist_ok=True)
    seconds = given.seconds or (QUICK_SECONDS if given.quick else FULL_SECONDS)
    run = Run(folder, given.venvs, quick=given.quick, largest=given.largest, seconds=seconds)
    names = [name for name in NAMES[1:] if name in given.subjects]
    if not given.quick:
        run.install(names)
    for name in names:
        run.measure(name)
    result = run.result()
    (folder / "result.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    page = report.write(result, folder)
    print(page.read_text(encoding="utf-8"))
    if not given.quick and not given.no_page:
        shutil.copy(page, ROOT / "docs" / "reference" / "benchmarks.md")


if __name__ == "__main__":
    main()
