"""Report of a run as Markdown, with plots if matplotlib is installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import plots
from .targets import Result, figure, rows, times_floor

HEAD = """# Benchmarks

For those who compare memories by what they cost. You get CPU, memory and disk of each call, beside
the least code that does the same job and beside other libraries.

`make bench` measures this and writes this page. Ratios travel between machines, milliseconds do
not; each ratio is to the floor as it ran in the same process in the same minutes.
"""
MEANS = """
The **floor** keeps text and vectors in two SQLite tables (WAL, `synchronous=FULL`) and finds the
top 5 by a dot product over the user's own vectors, which it holds in memory. Texts have 786 bytes
on average, are generated, and pack about as well as real chat; vectors have 384 dimensions and are
given, so that no model is measured; numpy has one thread. No query is asked twice. Octopus recalls
by meaning and by words together, the peers by meaning. CPU is the mean of the whole process.
Octopus stores what a turn is found by, its vector and its words, after it has acknowledged the
turn, so its adds stand beside a floor that stores text alone, and what comes later is told apart.
"""


def write(result: Result, folder: Path) -> Path:
    """Write the page and the plots into a folder. Return the path of the page."""
    page = folder / "benchmarks.md"
    page.write_text(markdown(result), encoding="utf-8")
    plots.draw(result, folder)
    return page


def markdown(result: Result) -> str:
    parts = [
        HEAD,
        _where(result),
        "## Figures to reach\n",
        _targets(result),
        MEANS,
        "## Recall of the top 5\n",
        _jobs(result, ["recall", "recall, user not in memory", "recall in one scope"]),
        "## Writing\n",
        _jobs(result, ["add, 1 a call", "add, 20 a call", "add, 1,000 a call"]),
        _settled(result),
        "## Reading\n",
        _jobs(result, ["a session of 20", "last 20 of a session of 200"]),
        "## What is found\n",
        _quality(result),
        "## Erasing a user\n",
        _erasure(result),
        "## Starting, and space\n",
        _start(result),
        "## Who was measured\n",
        _subjects(result),
    ]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, right-aligned from the second column on."""
    ruler = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ruler, *lines]) + "\n"


def _where(result: Result) -> str:
    machine = result["machine"]
    kind = " This was a quick run, on little data." if result["quick"] else ""
    return (
        f"{result['at'][:10]}, {machine['cores']} cores ({machine['processor']}), "
        f"{machine['system']}, Python {machine['python']}, load {machine['load']}.{kind}\n"
    )


def _targets(result: Result) -> str:
    signs = {True: "yes", False: "**no**", None: "–"}
    return table(
        ["", "floor", "to reach", "reached", "held", "best peer"],
        (
            [row.what, row.floor, row.target, row.reached, signs[row.held], row.best_peer]
            for row in rows(result)
        ),
    )


def _jobs(result: Result, names: Sequence[str]) -> str:
    lines = []
    for job in names:
        for name, subject in result["subjects"].items():
            lines += [
                _timed(job, name, found)
                for found in subject["figures"]
                if found["job"] == job and found["subject"]
            ]
    head = [
        "job",
        "turns",
        "of the user",
        "subject",
        "p50",
        "p95",
        "p99",
        "CPU-ms",
        "× p50",
        "× CPU",
    ]
    return table(head, lines) if lines else "Not measured.\n"


def _timed(job: str, name: str, found: dict[str, Any]) -> list[str]:
    mine = found["subject"]
    return [
        job,
        f"{found['turns']:,}",
        f"{found['scope']:,}" if found["scope"] else "–",
        name,
        *(_number(mine[key]) for key in ("p50", "p95", "p99", "cpu")),
        *(f"{times_floor(found, key):.1f}" for key in ("p50", "cpu")),
    ]


def _settled(result: Result) -> str:
    found = figure(result, "octopus", "add, 1,000 a call", 10_000)
    if not found:
        return ""
    later = found["values"]["settle_cpu_ms_a_turn"]
    return (
        f"\nOctopus stores what a turn is found by later, for {later:.2f} CPU-ms a turn, its "
        "vector given.\n"
    )


def _quality(result: Result) -> str:
    lines = [
        [
            name,
            f"{found['turns']:,}",
            f"{found['values']['agreement']:.3f}",
            f"{found['values']['cosine_lost']:.5f}",
            f"{found['values']['fewest']:.0f}",
            f"{found['values']['asked_found']:.2f}",
            f"{found['values']['others']:.0f}",
        ]
        for name, subject in result["subjects"].items()
        for found in subject["figures"]
        if found["job"] == "agreement with exact search"
    ]
    head = ["subject", "turns", "agreement", "cosine lost", "fewest of 5"]
    head += ["asked-for turn found", "others' turns"]
    return table(head, lines) if lines else "Not measured.\n"


def _erasure(result: Result) -> str:
    lines = []
    for name, subject in result["subjects"].items():
        for found in subject["figures"]:
            if found["job"] == "erase a user":
                values = found["values"]
                lines.append(
                    [
                        name,
                        f"{values['seconds'] * 1e3:,.0f}",
                        f"{values['floor_seconds'] * 1e3:,.0f}",
                        _left(values, "text"),
                        _left(values, "vector"),
                    ]
                )
    head = ["subject", "ms", "floor's ms", "text left in the files", "vector left"]
    return table(head, lines) if lines else "Not measured.\n"


def _left(values: dict[str, float], what: str) -> str:
    if not values.get(f"{what}_before") and not values.get(f"{what}_left"):
        return "–"
    return "yes" if values[f"{what}_left"] else "no"


def _start(result: Result) -> str:
    lines = []
    for name, subject in result["subjects"].items():
        started = subject.get("subject_start")
        if not started:
            continue
        sizes = [f for f in subject["figures"] if f["job"] == "bytes a turn"]
        loaded = [f for f in subject["figures"] if f["job"] == "load"]
        installed = subject.get("installed_mb")
        lines.append(
            [
                name,
                f"{subject['subject_import']['seconds']:.2f}",
                f"{started['seconds']:.2f}",
                f"{started['cpu_seconds']:.2f}",
                f"{started['resident_mb']:.0f}",
                f"{sizes[-1]['values']['subject']:,.0f}",
                f"{loaded[-1]['values']['cpu_ms_a_turn']:.2f}",
                "–" if installed is None else f"{installed:.0f}",
            ]
        )
    head = ["subject", "import, s", "first recall, s", "its CPU-s", "MB then"]
    head += ["bytes a turn", "loading, CPU-ms a turn", "installed, MB"]
    return table(head, lines) if lines else "Not measured.\n"


def _subjects(result: Result) -> str:
    lines = [
        f"- **{name}** {subject['version']}: {subject['notes']}."
        for name, subject in result["subjects"].items()
    ]
    lines += [f"- {name}: {why}." for name, why in result["left_out"].items()]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    given = Path(sys.argv[1])
    print(write(json.loads((given / "result.json").read_text(encoding="utf-8")), given))
