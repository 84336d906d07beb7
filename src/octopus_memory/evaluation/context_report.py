"""Reports of context runs as Markdown and JSON, without a word of the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from .context import FIGURES, ContextRun, SystemContext
from .conversation import UNANSWERABLE
from .datasets import Dataset
from .layout import category_name, cell, counted, dataset_json, dataset_lines, table
from .metrics import Estimate

_TITLES = {
    "evidence": "Evidence in the block",
    "long_turns": "Long evidence turns",
    "answer_words": "Answer words in the block",
    "complete": "Whole answers in the block",
    "tokens": "Tokens spent",
    "strangers": "Tokens spent on strangers' questions",
}
_SHARES = ("evidence", "long_turns", "answer_words", "complete")
_NOTE = (
    "Columns are budgets in tokens. Shares are in per cent, each question counting the same, with "
    "95 % bootstrap intervals over questions. Evidence in the block: share of the evidence turns "
    "of which at least 60 % of the word 4-grams are in the block. Long evidence turns (over 400 "
    "characters, each counting the same): share of which the sentences that answer, at most 3, "
    "are in the block by the same measure. Answer words in the block: share of the answer's "
    "strings. Whole answers in the block: share of the questions of which every answer string and "
    "date is in the block and no forbidden string is. Tokens are counted at four characters each, "
    "for every system alike. Strangers' questions are those of the next conversation, about the "
    "people who speak in this one."
)


def context_markdown(run: ContextRun) -> str:
    """Return tables by budget, category and language, one line per system."""
    lines = ["# Context", "", *_facts(run), "", _NOTE, ""]
    for figure in _TITLES:
        if _has(run, figure):
            lines += [f"## {_title(run, figure)}", "", *_by_budget(run, figure), ""]
    for category in run.dataset.unanswerable_categories:
        name = category_name(run.dataset, category)
        lines += [f"## Tokens spent on questions without an answer: {name}", ""]
        lines += [*_by_budget(run, "unanswerable", category), ""]
    lines += _grouped(
        run, "category", {key: category_name(run.dataset, key) for key in run.dataset.categories}
    )
    lines += _grouped(run, "language", {name: name for name in run.dataset.languages})
    return "\n".join(lines)


def context_json(run: ContextRun) -> dict[str, Any]:
    """Return every figure by system and budget, overall, by category and by language."""
    dataset = run.dataset
    categories = sorted({*dataset.categories, *dataset.unanswerable_categories})
    return {
        "dataset": dataset_json(_used(dataset)) | {"unanswerable": dataset.unanswerable},
        "versions": dict(run.versions),
        "budgets": list(run.budgets),
        "systems": {
            system.name: {
                "over_budget": system.over_budget,
                "budgets": {
                    str(budget): {
                        "overall": _figures(system, budget),
                        "categories": {
                            name: _figures(system, budget, category=name) for name in categories
                        },
                        "languages": {
                            name: _figures(system, budget, language=name)
                            for name in dataset.languages
                        },
                    }
                    for budget in run.budgets
                },
            }
            for system in run.systems
        },
    }


def _facts(run: ContextRun) -> list[str]:
    lines = dataset_lines(_used(run.dataset), run.versions)
    if run.dataset.unanswerable:
        lines.append(f"- questions without an answer: {run.dataset.unanswerable:,}")
    over = [
        f"{counted(system.over_budget, 'block')} of {system.name}"
        for system in run.systems
        if system.over_budget
    ]
    if over:
        lines.append(f"- over their budget: {', '.join(over)}")
    return lines


def _used(dataset: Dataset) -> Dataset:
    """Return the dataset without counting questions without an answer as left out."""
    kept = {what: count for what, count in dataset.left_out.items() if what != UNANSWERABLE}
    return replace(dataset, left_out=kept)


def _title(run: ContextRun, figure: str) -> str:
    if figure != "long_turns":
        return _TITLES[figure]
    found = run.systems[0].estimate(figure, run.budgets[0])
    return f"{_TITLES[figure]}: {counted(found.questions if found else 0, 'turn')}"


def _has(run: ContextRun, figure: str) -> bool:
    return any(system.estimate(figure, run.budgets[0]) is not None for system in run.systems)


def _by_budget(run: ContextRun, figure: str, category: str | None = None) -> list[str]:
    """Return a table with one line per system and one column per budget."""
    show = _shown(figure)
    rows = [
        [
            system.name,
            *(show(system.estimate(figure, budget, category=category)) for budget in run.budgets),
        ]
        for system in run.systems
    ]
    return table(["", *(f"{budget:,}" for budget in run.budgets)], rows)


def _grouped(run: ContextRun, by: str, groups: Mapping[str, str]) -> list[str]:
    """Return a table for each figure and budget: one line per group, one column per system."""
    lines: list[str] = []
    header = ["", "questions", *(system.name for system in run.systems)]
    for figure in ("evidence", "answer_words", "complete"):
        if not groups or not _has(run, figure):
            continue
        lines += [f"## {_TITLES[figure]}, by {by}", ""]
        for budget in run.budgets:
            rows = [
                _group_row(run, figure, budget, name, {by: key}) for key, name in groups.items()
            ]
            lines += [f"{budget:,} tokens:", "", *table(header, rows), ""]
    return lines


def _group_row(
    run: ContextRun, figure: str, budget: int, name: str, group: Mapping[str, str]
) -> list[str]:
    found = [system.estimate(figure, budget, **group) for system in run.systems]
    asked = max((one.questions for one in found if one is not None), default=0)
    return [name, f"{asked:,}", *map(_shown(figure), found)]


def _shown(figure: str) -> Callable[[Estimate | None], str]:
    return cell if figure in _SHARES else _tokens


def _tokens(found: Estimate | None) -> str:
    return "–" if found is None else f"{found.mean:,.0f}"


def _figures(system: SystemContext, budget: int, **group: str) -> dict[str, Any]:
    found = {figure: system.estimate(figure, budget, **group) for figure in FIGURES}
    return {figure: _json(figure, value) for figure, value in found.items() if value is not None}


def _json(figure: str, found: Estimate) -> dict[str, float]:
    values = asdict(found)
    if figure == "long_turns":
        values["turns"] = values.pop("questions")
    return values
