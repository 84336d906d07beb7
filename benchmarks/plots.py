"""Plots of a run: latency by size, bytes per turn, quality by cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .targets import Result


def draw(result: Result, folder: Path) -> list[Path]:
    """Draw into a folder. Returns the files; none without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        return []
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn = []
    for name, picture in (("latency", _latency), ("bytes", _bytes), ("quality", _quality)):
        plot, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        picture(axes, result)
        drawn.append(folder / f"{name}.svg")
        plot.savefig(drawn[-1])
        plt.close(plot)
    return drawn


def _of(result: Result, job: str) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [found for found in subject["figures"] if found["job"] == job]
        for name, subject in result["subjects"].items()
    }


def _latency(axes: Any, result: Result) -> None:
    floor: dict[int, float] = {}
    for name, figures in _of(result, "recall").items():
        if figures:
            axes.plot(
                [found["turns"] for found in figures],
                [found["subject"]["p50"] for found in figures],
                marker="o",
                label=name,
            )
        if name == "octopus":
            floor = {found["turns"]: found["floor"]["p50"] for found in figures}
    if floor:
        axes.plot(list(floor), list(floor.values()), "k--", marker=".", label="floor")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="turns in the database, 100 users",
        ylabel="recall of the top 5, p50 ms",
    )
    axes.legend()


def _bytes(axes: Any, result: Result) -> None:
    last = {
        name: figures[-1]["values"]
        for name, figures in _of(result, "bytes a turn").items()
        if figures
    }
    if not last:
        return
    floor = next(iter(last.values()))["floor"]
    subjects = result["subjects"]
    names = [
        name if "recall" in subjects[name]["can"] else f"{name}\n(text alone)" for name in last
    ]
    names.append("floor")
    axes.bar(names, [*(values["subject"] for values in last.values()), floor])
    axes.axhline(1_500, color="k", linestyle=":")
    axes.set(ylabel="bytes a turn on disk")


def _quality(axes: Any, result: Result) -> None:
    found = _of(result, "agreement with exact search")
    for name, figures in _of(result, "recall").items():
        if not figures or not found[name]:
            continue
        cost = figures[-1]["subject"]["cpu"]
        agreement = found[name][-1]["values"]["agreement"]
        axes.scatter([cost], [agreement])
        axes.annotate(name, (cost, agreement), xytext=(5, 5), textcoords="offset points")
    axes.set(
        xscale="log",
        xlabel="CPU-ms of a recall, at the largest size",
        ylabel="agreement with exact search",
        ylim=(0, 1.05),
    )
