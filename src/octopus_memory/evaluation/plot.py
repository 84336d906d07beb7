"""Plots of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..domain.errors import MissingExtra
from .answers_report import AnswerRun
from .context import ContextRun, SystemContext
from .metrics import Estimate
from .run import RecallRun, SystemRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The palette of Okabe and Ito, which every kind of color vision can tell apart.
_COLORS = ("#D55E00", "#999999", "#56B4E9", "#0072B2", "#009E73", "#CC79A7", "#F0E442", "#000000")
_SHOWN = {
    "recall@10": "Turn recall@10",
    "ndcg@10": "Turn NDCG@10",
    "recall_all@5": "All evidence turns\nin the first 5",
    "session_recall@1": "Session recall@1",
    "session_recall@3": "Session recall@3",
    "session_recall@5": "Session recall@5",
}


def plot_recall(run: RecallRun, path: Path) -> None:
    """Plot the overall metrics, and below the main one by category.

    :raises MissingExtra: when Matplotlib is not installed
    """
    figure_type, canvas_type = _matplotlib()
    overall = [system.estimates() for system in run.systems]
    metrics = [metric for metric in _SHOWN if any(metric in found for found in overall)]
    main = "recall@10" if "recall@10" in metrics else "session_recall@3"
    categories = run.dataset.categories
    figure = figure_type(figsize=(11, 8.5), layout="constrained")
    canvas_type(figure)
    above, below = figure.subplots(2, 1)
    _bars(above, run.systems, [[found.get(metric) for metric in metrics] for found in overall])
    above.set_xticks(range(len(metrics)), [_SHOWN[metric] for metric in metrics])
    above.set_title(
        f"{run.dataset.name}: {run.dataset.questions:,} questions over "
        f"{run.dataset.turns:,} turns (95 % intervals)"
    )
    by_category = [[s.estimates(c).get(main) for c in categories] for s in run.systems]
    _bars(below, run.systems, by_category)
    below.set_xticks(range(len(categories)), [_category(run, name) for name in categories])
    below.set_title(f"{_SHOWN[main]} by category")
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=120)


_IN_BLOCK = {
    "evidence": "Evidence turns in the block",
    "answer_words": "Answer words in the block",
}


def plot_context(run: ContextRun, path: Path) -> None:
    """Draw evidence, and answer words where there are any, against the tokens spent.

    A line is a system, its points are the budgets. The tokens are on a logarithmic axis, because
    the whole history costs many times what a block does.

    :raises MissingExtra: when Matplotlib is not installed
    """
    figure_type, canvas_type = _matplotlib()
    shown = [figure for figure in _IN_BLOCK if _has(run, figure)] or ["evidence"]
    figure = figure_type(figsize=(6.5 * len(shown), 5.5), layout="constrained")
    canvas_type(figure)
    all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, name in zip(all_axes, shown, strict=True):
        for place, system in enumerate(run.systems):
            _line(axes, system, name, run.budgets, _COLORS[place % len(_COLORS)])
        axes.set_xscale("log")
        ticks = [*run.budgets, *_powers_of_ten(run.budgets[-1], axes.get_xlim()[1])]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("tokens spent, mean")
        axes.set_ylabel("per cent")
        axes.set_ylim(0, 105)
        axes.set_title(_IN_BLOCK[name])
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{run.dataset.name}: {run.dataset.questions:,} questions (95 % intervals)", fontsize=11
    )
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=120)


def plot_answers(run: AnswerRun, path: Path) -> None:
    """Draw right answers against the tokens of the context. A line is a system.

    :raises MissingExtra: when Matplotlib is not installed
    """
    figure_type, canvas_type = _matplotlib()
    figure = figure_type(figsize=(7.5, 5.5), layout="constrained")
    canvas_type(figure)
    axes = figure.subplots()
    lines: dict[str, list[tuple[float, Estimate]]] = {}
    for name in run.systems:
        cost, found = run.tokens(name), run.right(name)
        if cost is not None and found is not None:
            system = run.of(name)[0][1].system
            # A logarithmic axis has no zero.
            lines.setdefault(system, []).append((max(cost.mean, 1.0), found))
    for place, (system, points) in enumerate(lines.items()):
        color = _COLORS[place % len(_COLORS)]
        axes.plot(
            [tokens for tokens, _ in points],
            [found.mean * 100 for _, found in points],
            marker="o",
            color=color,
            label=system,
        )
        for tokens, found in points:
            axes.plot([tokens] * 2, [found.low * 100, found.high * 100], color=color, lw=0.9)
    axes.set_xscale("log")
    axes.set_xlabel("tokens of the context, mean")
    axes.set_ylabel("right answers, per cent")
    axes.set_ylim(0, 105)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{run.about['dataset']['name']}: right answers (95 % intervals)", fontsize=11)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=120)


def _powers_of_ten(above: float, most: float) -> list[int]:
    powers = (10**exponent for exponent in range(1, 10))
    return [power for power in powers if 1.5 * above < power <= most]


def _has(run: ContextRun, figure: str) -> bool:
    return any(system.estimate(figure, run.budgets[0]) is not None for system in run.systems)


def _line(
    axes: Axes, system: SystemContext, figure: str, budgets: tuple[int, ...], color: str
) -> None:
    tokens: list[float] = []
    found: list[Estimate] = []
    for budget in budgets:
        cost, value = system.estimate("tokens", budget), system.estimate(figure, budget)
        if cost is not None and value is not None:
            # A logarithmic axis has no zero.
            tokens.append(max(cost.mean, 1.0))
            found.append(value)
    means = [value.mean * 100 for value in found]
    axes.plot(tokens, means, marker="o", color=color, label=system.name)
    for place, value in zip(tokens, found, strict=True):
        axes.plot([place] * 2, [value.low * 100, value.high * 100], color=color, lw=0.9)


def _bars(axes: Axes, systems: tuple[SystemRun, ...], values: list[list[Estimate | None]]) -> None:
    width = 0.84 / len(systems)
    for place, (system, found) in enumerate(zip(systems, values, strict=True)):
        known = [(group, value) for group, value in enumerate(found) if value is not None]
        shift = (place - (len(systems) - 1) / 2) * width
        axes.bar(
            [group + shift for group, _ in known],
            [value.mean * 100 for _, value in known],
            width * 0.92,
            color=_COLORS[place % len(_COLORS)],
            label=system.name,
        )
        for group, value in known:
            axes.plot([group + shift] * 2, [value.low * 100, value.high * 100], "k", lw=0.9)
            axes.annotate(
                f"{value.mean * 100:.0f}",
                (group + shift, value.high * 100),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )
    axes.set_ylim(0, 105)
    axes.set_ylabel("per cent")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _category(run: RecallRun, name: str) -> str:
    label = run.dataset.labels.get(name, "")
    return f"{name} {label}".strip().replace("-", "-\n" if len(name) > 12 else "-")


def _matplotlib() -> tuple[Any, Any]:
    """Make a figure without pyplot, which would look for a screen and keep every figure."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("bench", "drawing the plot") from error
    return Figure, FigureCanvasAgg
