"""Cold start of a subject: its import, and a new process up to its first recall.

The process that is measured runs this module as `python -m benchmarks.cold` and has imported
nothing but the subject.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .subjects import subject

if TYPE_CHECKING:
    from .data import Query

ROOT = Path(__file__).resolve().parent.parent
STATUS = Path("/proc/self/status")


def import_seconds(python: Path, statement: str, times: int = 5) -> dict[str, float]:
    """Measure the import of a subject in a new interpreter. Returns the best of several runs.

    What is compiled only once is compiled before.
    """
    taken = [_run([str(python), "-c", statement]) for _ in range(times + 1)][1:]
    return {
        "seconds": min(wall for wall, _, _ in taken),
        "cpu_seconds": min(cpu for _, cpu, _ in taken),
    }


def first_recall(
    python: Path, name: str, folder: Path, query: Query, times: int = 5
) -> dict[str, float]:
    """Measure a new process that opens a database and recalls once. Returns the best of several."""
    import numpy as np

    asked = folder.parent / f"{folder.name}-query"
    np.save(asked.with_suffix(".npy"), query.vector)
    asked.write_text(json.dumps({"user": query.user, "text": query.text}), encoding="utf-8")
    command = [str(python), "-m", "benchmarks.cold", name, str(folder), str(asked)]
    taken = [_run(command) for _ in range(times + 1)][1:]
    return {
        "seconds": min(wall for wall, _, _ in taken),
        "cpu_seconds": min(cpu for _, cpu, _ in taken),
        "resident_mb": min(float(json.loads(said)["resident_mb"]) for _, _, said in taken),
    }


def with_model(python: Path, folder: Path) -> float:
    """Return the memory of a process after the built-in embedder made its first vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    _, _, said = _run([str(python), "-m", "benchmarks.model", str(folder)])
    return float(json.loads(said)["resident_mb"])


def _run(command: list[str]) -> tuple[float, float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    # Otherwise sources would be compiled at each start. Installed packages are compiled once.
    compiling = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, env=compiling
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout


def resident_mb() -> float:
    """Return the memory of this process now, or its peak if the system does not tell."""
    if STATUS.exists():
        line = next(row for row in STATUS.read_text().splitlines() if row.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def main(name: str, folder: str, asked: str) -> None:
    kind = subject(name)
    query: Any = SimpleNamespace(**json.loads(Path(asked).read_text(encoding="utf-8")))
    opened = kind(Path(folder), None)
    if "recall" in kind.can:
        import numpy as np

        query.vector = np.load(f"{asked}.npy")
        texts = opened.recall(query, 5)
    else:
        texts = opened.last(query.user, "s0", 5)
    if len(texts) != 5:
        raise AssertionError(f"got {len(texts)} turns instead of 5")
    print(json.dumps({"resident_mb": resident_mb()}), flush=True)
    # The shutdown is not part of the start.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
