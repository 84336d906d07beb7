"""The record of a simulated year as JSON, Markdown table and plot."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.year import Week

# The palette of Okabe and Ito, which every kind of color vision can tell apart.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999")
_SHOWN = (91, 182, 273, 364, 378, 434, 483)
_GROWS = ("octopus_audit", "octopus_erasures")
"""Tables whose rows are kept for good, by design."""


@dataclass
class Record:
    database: str
    turns_a_day: int
    days: int
    words: int
    agents: int
    tenants: int
    weeks: list[Week] = field(default_factory=list)


def save(record: Record, folder: Path) -> Path:
    """Write the figures so far. Return the path, whose stem the other files share."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.database.lower()}-{record.turns_a_day}.json"
    path.write_text(json.dumps(asdict(record), indent=1))
    return path


def write(record: Record, folder: Path) -> None:
    path = save(record, folder)
    path.with_suffix(".md").write_text(markdown(record))
    plot(record, path.with_suffix(".svg"))


def line(week: Week) -> str:
    """Print the progress."""
    retention, compact = week.spent["retention"], week.spent["compact"]
    moved = " ".join(f"{name} {count}" for name, count in week.moved.items() if count)
    probes = " ".join(f"{name} {ms:.2f}" for name, ms in week.probes.items())
    return (
        f"day {week.day}: {week.after.file / 1e6:.1f} MB (before {week.before.file / 1e6:.1f}), "
        f"retention {_each(retention) * 1e3:.0f} ms a day, rewrite {_each(compact):.2f} s; "
        f"{moved}; CPU-ms: {probes}"
    )


def markdown(record: Record) -> str:
    weeks = shown(record)
    said = (
        f"{record.database}, {record.turns_a_day:,} turns a day for {record.days} days, "
        f"{record.agents} agents of {record.tenants} tenants"
    )
    return "\n".join([said, "", *_table(weeks, _figures(weeks)), "", *_table(weeks, _rows(weeks))])


def shown(record: Record) -> list[Week]:
    """Return the weeks in the table: ends of quarters and of the retention stages."""
    chosen = [week for week in record.weeks if week.day in _SHOWN]
    return chosen if len(chosen) > 1 else record.weeks


def _table(weeks: list[Week], lines: dict[str, list[str]]) -> list[str]:
    head = [f"day {week.day}" for week in weeks]
    table = [["", *head], ["---"] * (len(weeks) + 1)]
    table += [[name, *values] for name, values in lines.items()]
    return [f"| {' | '.join(each)} |" for each in table]


def _figures(weeks: list[Week]) -> dict[str, list[str]]:
    def each(name: str, form: str = "{:.2f}", factor: float = 1e3) -> list[str]:
        return [form.format(_each(w.spent[name]) * factor) for w in weeks]

    return {
        "database, MB": [f"{w.after.file / 1e6:.1f}" for w in weeks],
        "before the weekly rewrite, MB": [f"{w.before.file / 1e6:.1f}" for w in weeks],
        "log (WAL), MB": [f"{w.before.log / 1e6:.1f}" for w in weeks],
        "store, CPU-ms a turn": each("store"),
        "embed and close idle, CPU-ms a turn": each("pending"),
        "add, CPU-ms": [f"{w.probes['add']:.2f}" for w in weeks],
        "recall, first of a user, CPU-ms": [f"{w.probes['recall, cold']:.2f}" for w in weeks],
        "recall, next ones, CPU-ms": [f"{w.probes['recall, warm']:.2f}" for w in weeks],
        "nightly retention, CPU-s": each("retention", factor=1),
        "episodes it moved, a night": [f"{sum(w.moved.values()) / 7:.0f}" for w in weeks],
        "weekly rewrite, CPU-s": each("compact", factor=1),
    }


def _rows(weeks: list[Week]) -> dict[str, list[str]]:
    """Return rows and megabytes of every table with its indexes."""
    lines = {}
    for table in sorted(weeks[-1].after.rows):
        if any(week.after.rows[table] > 20 for week in weeks):
            lines[f"`{table}`"] = [
                f"{week.after.rows[table]:,} ({_bytes_of(week, table) / 1e6:.1f} MB)"
                for week in weeks
            ]
    return lines


def _bytes_of(week: Week, table: str) -> int:
    after = week.after
    return after.tables[table] + sum(
        size for name, size in after.indexes.items() if _is_of(name, table, after.tables)
    )


def _is_of(index: str, table: str, tables: dict[str, int]) -> bool:
    """Return the table of an index: the longest table name that its name begins with."""
    bare = index.removeprefix("sqlite_autoindex_")
    fitting = [name for name in tables if bare.startswith(name)]
    return bool(fitting) and max(fitting, key=len) == table


def _each(spent: Any) -> float:
    """Return the CPU time of this process and the server together."""
    return float((spent.cpu + spent.server) / max(1, spent.times))


def plot(record: Record, path: Path) -> None:
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: pip install matplotlib")
        return
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    FigureCanvasSVG(figure)
    days = [week.day for week in record.weeks]
    large = sorted(
        (name for name in record.weeks[-1].after.tables if name not in _GROWS),
        key=lambda name: -_bytes_of(record.weeks[-1], name),
    )[:5]
    panels: list[tuple[str, dict[str, list[float]]]] = [
        (
            f"{record.database}: MB of tables with their indexes",
            {
                name.removeprefix("octopus_"): [_bytes_of(w, name) / 1e6 for w in record.weeks]
                for name in large
            },
        ),
        (
            "CPU-ms of a call",
            {
                name: [week.probes[name] for week in record.weeks]
                for name in ("recall, cold", "recall, warm", "add")
            },
        ),
        (
            "CPU-s of a job",
            {
                "retention, a night": [_each(week.spent["retention"]) for week in record.weeks],
                "rewrite, a week": [_each(week.spent["compact"]) for week in record.weeks],
            },
        ),
    ]
    for axis, (title, lines) in zip(figure.subplots(1, 3), panels, strict=True):
        for color, (name, values) in zip(_COLORS, lines.items(), strict=False):
            axis.plot(days, values, color=color, label=name, linewidth=1.4)
        for day in (90, 365):
            axis.axvline(day, color="#bbbbbb", linewidth=0.8, linestyle="--")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("day")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})
