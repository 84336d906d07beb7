"""The words and patterns that Octopus knows, as data, and their reader.

A `.txt` file has sections, each after a line `=== name`. A line that begins with two spaces goes on
with the line before it; one that begins with `# ` is a comment.
`docs/reference/words.md` says how each list was made and how it may be changed.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


@cache
def sections(file: str) -> dict[str, list[str]]:
    """The lines of a file by section; those before the first section are of the section ""."""
    found: dict[str, list[str]] = {}
    lines = found.setdefault("", [])
    for line in (FOLDER / f"{file}.txt").read_text("utf-8").splitlines():
        if line.startswith("=== "):
            lines = found[line[4:]] = []
        elif line.startswith("  "):
            lines[-1] += line[2:]
        elif line and not line.startswith("# "):
            lines.append(line)
    return found


@cache
def listed(file: str, section: str = "") -> frozenset[str]:
    """Words of a section."""
    return frozenset(" ".join(sections(file)[section]).split())


@cache
def pattern(file: str, section: str) -> str:
    """A regular expression whose alternatives are lines; empty if there is no such section."""
    return "|".join(sections(file).get(section, ()))
