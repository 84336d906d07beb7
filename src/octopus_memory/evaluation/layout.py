"""Parts of every report, in Markdown and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .datasets import Dataset
from .metrics import Estimate


def dataset_lines(dataset: Dataset, versions: Mapping[str, str]) -> list[str]:
    """Return the head of a report: the data, their hash, and the versions."""
    counts = {
        "conversation": len(dataset.conversations),
        "turn": dataset.turns,
        "question": dataset.questions,
    }
    lines = [
        f"- data: {', '.join([dataset.name, *map(counted, counts.values(), counts)])}",
        f"- SHA-256 of the data: `{dataset.sha256}`",
        "- " + ", ".join(f"{what} {version}" for what, version in versions.items()),
    ]
    if dataset.left_out:
        left_out = (f"{count} {what}" for what, count in dataset.left_out.items())
        lines.append(f"- left out of the data: {', '.join(left_out)}")
    return lines


def title(dataset: Dataset, category: str) -> str:
    """Return a category's heading: its key, its label and how many questions it has."""
    asked = sum(len(found.about({category}).questions) for found in dataset.conversations)
    return f"Category {category_name(dataset, category)}: {counted(asked, 'question')}"


def category_name(dataset: Dataset, category: str) -> str:
    """Return a category's key, and its label where the data have one."""
    label = dataset.labels.get(category)
    return f"{category}, {label}" if label else category


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cell(found: Estimate | None) -> str:
    """Return a share in per cent with its interval."""
    if found is None:
        return "–"
    return f"{percent(found.mean)} ({percent(found.low)}–{percent(found.high)})"


def percent(share: float) -> str:
    return f"{share * 100:.1f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, all columns but the first to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def dataset_json(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "sha256": dataset.sha256,
        "conversations": len(dataset.conversations),
        "turns": dataset.turns,
        "questions": dataset.questions,
        "left_out": dict(dataset.left_out),
    }
