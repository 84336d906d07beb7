"""Virtual environments of the subjects, and their size on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from . import jobs
from .cold import ROOT

PEERS = Path(__file__).with_name("peers.txt")
NOTE = "size.json"


def requirements(text: str) -> dict[str, list[str]]:
    """Return the blocks of `peers.txt` by name."""
    found: dict[str, list[str]] = {}
    for block in text.split("\n\n"):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        wanted = [line for line in lines if not line.startswith("#")]
        if wanted:
            found[lines[0].removeprefix("#").strip()] = wanted
    return found


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def is_there(folder: Path) -> bool:
    return (folder / NOTE).exists()


def size_mb(folder: Path) -> float | None:
    """Return the size of the virtual environment with the subject alone."""
    if not is_there(folder):
        return None
    return float(json.loads((folder / NOTE).read_text(encoding="utf-8"))["mb"])


def install(folder: Path, wanted: list[str], *, anew: bool = False) -> None:
    """Create a virtual environment with the subject. An existing one is kept unless `anew`.

    :raises CalledProcessError: when pip cannot
    """
    if is_there(folder) and not anew:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python_of(folder)), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, wanted[0]], check=True, cwd=ROOT)
    megabytes = jobs.size(folder) / 1e6
    if wanted[1:]:
        subprocess.run([*pip, *wanted[1:]], check=True, cwd=ROOT)
    (folder / NOTE).write_text(json.dumps({"mb": megabytes}), encoding="utf-8")
