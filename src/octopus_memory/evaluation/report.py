"""Reports of runs as Markdown and JSON; only those of answers hold words of the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .answers_report import AnswerRun, answers_json, answers_markdown
from .context import ContextRun
from .context_report import context_json, context_markdown
from .layout import cell, dataset_json, dataset_lines, percent, table, title
from .metrics import METRICS, Estimate
from .plot import plot_answers, plot_context, plot_recall
from .run import RecallRun, RelevanceRun, Separation, SystemRun

_SHORT = {
    "recall@5": "R@5",
    "recall@10": "R@10",
    "recall@20": "R@20",
    "hit@10": "hit@10",
    "ndcg@10": "NDCG@10",
    "recall_all@5": "all@5",
    "session_recall@1": "sR@1",
    "session_recall@3": "sR@3",
    "session_recall@5": "sR@5",
}
_NOTE = (
    "In per cent, each question counting the same, with 95 % bootstrap intervals over questions. "
    "R@k: share of the evidence turns among the first k; hit@10: at least one; all@5: all of them; "
    "sR@k: share of the evidence sessions. Times are of one search for turns and sessions, with "
    "the encoding of the question, which is also given alone."
)
_RELEVANCE_NOTE = (
    "Each question is asked in its own conversation and in another. AUC: how often the best score "
    "is higher at home. The rest is at the threshold. People renamed: elsewhere, the question is "
    "about those who speak there, so that names cannot give it away."
)


def recall_markdown(run: RecallRun) -> str:
    """Return the tables of a run, overall and by category, one line per system."""
    lines = ["# Recall", "", *dataset_lines(run.dataset, run.versions), "", _NOTE, ""]
    lines += ["## Overall", "", *_overall(run), ""]
    lines += ["## Time", "", *_times(run), ""]
    for category in run.dataset.categories:
        lines += [f"## {title(run.dataset, category)}", "", *_overall(run, category), ""]
    return "\n".join(lines)


def recall_json(run: RecallRun) -> dict[str, Any]:
    return {
        "dataset": dataset_json(run.dataset),
        "versions": dict(run.versions),
        "systems": {
            system.name: {
                "overall": _estimates(system.estimates()),
                "categories": {
                    category: _estimates(system.estimates(category))
                    for category in run.dataset.categories
                },
                "milliseconds": dict(zip(("p50", "p95"), system.milliseconds, strict=True)),
                "encoding_milliseconds": dict(
                    zip(("p50", "p95"), system.encoding_milliseconds, strict=True)
                ),
                "add_seconds": system.add_seconds,
            }
            for system in run.systems
        },
    }


def relevance_markdown(run: RelevanceRun) -> str:
    lines = [
        "# Nothing relevant",
        "",
        *dataset_lines(run.dataset, run.versions),
        "",
        _RELEVANCE_NOTE,
        "",
    ]
    at = f"{run.threshold:g}"
    header = ["", "AUC", f"balanced accuracy at {at}", "kept at home", "dropped elsewhere"]
    rows = [
        [
            name,
            f"{found.auc:.3f}",
            percent(found.balanced_accuracy(run.threshold)),
            percent(found.kept(run.threshold)),
            percent(found.dropped(run.threshold)),
        ]
        for system in run.systems
        for name, found in (
            (system.name, system.as_asked),
            (f"{system.name}, people renamed", system.renamed),
        )
        if found is not None
    ]
    return "\n".join([*lines, *table(header, rows), ""])


def relevance_json(run: RelevanceRun) -> dict[str, Any]:
    return {
        "dataset": dataset_json(run.dataset),
        "versions": dict(run.versions),
        "threshold": run.threshold,
        "systems": {
            system.name: {
                "as_asked": _separation(system.as_asked, run.threshold),
                "renamed": system.renamed and _separation(system.renamed, run.threshold),
            }
            for system in run.systems
        },
    }


def _separation(found: Separation, threshold: float) -> dict[str, float]:
    return {
        "auc": found.auc,
        "balanced_accuracy": found.balanced_accuracy(threshold),
        "kept": found.kept(threshold),
        "dropped": found.dropped(threshold),
        "questions": len(found.answerable),
    }


def write_report(
    run: RecallRun | RelevanceRun | ContextRun | AnswerRun, folder: Path
) -> list[Path]:
    """Write Markdown and JSON, and a plot of all but relevance. Return the files.

    :raises MissingExtra: when the plot's library is not installed; the rest is written then
    """
    folder.mkdir(parents=True, exist_ok=True)
    match run:
        case RecallRun():
            name, text, data = "recall", recall_markdown(run), recall_json(run)
        case RelevanceRun():
            name, text, data = "relevance", relevance_markdown(run), relevance_json(run)
        case ContextRun():
            name, text, data = "context", context_markdown(run), context_json(run)
        case AnswerRun():
            name, text, data = "answers", answers_markdown(run), answers_json(run)
    markdown, values = folder / f"{name}.md", folder / f"{name}.json"
    markdown.write_text(text, encoding="utf-8")
    values.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    if isinstance(run, RelevanceRun):
        return [markdown, values]
    picture = folder / f"{name}.png"
    match run:
        case RecallRun():
            plot_recall(run, picture)
        case ContextRun():
            plot_context(run, picture)
        case AnswerRun():
            plot_answers(run, picture)
    return [markdown, values, picture]


def _overall(run: RecallRun, category: str | None = None) -> list[str]:
    found = {system.name: system.estimates(category) for system in run.systems}
    shown = [metric for metric in METRICS if any(metric in values for values in found.values())]
    rows = [
        [name, *(cell(values.get(metric)) for metric in shown)] for name, values in found.items()
    ]
    return table(["", *(_SHORT[metric] for metric in shown)], rows)


def _times(run: RecallRun) -> list[str]:
    header = ["", "search p50", "search p95", "encoding p50", "encoding p95", "taking in, all"]
    return table(header, [_time_row(system) for system in run.systems])


def _time_row(system: SystemRun) -> list[str]:
    milliseconds = (*system.milliseconds, *system.encoding_milliseconds)
    return [system.name, *(f"{ms:.1f} ms" for ms in milliseconds), f"{system.add_seconds:.1f} s"]


def _estimates(found: Mapping[str, Estimate]) -> dict[str, Any]:
    return {metric: asdict(value) for metric, value in found.items()}
