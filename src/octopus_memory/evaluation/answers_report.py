"""Figures of answers: right or partly right, by system and category, tokens and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .answers import Given, Record
from .layout import cell, counted, table
from .metrics import Estimate, estimate
from .sheets import Answer, JudgeSheet, Planted, Verdict, quote_stands, read_run, read_verdicts

_NOTE = (
    "In per cent of the questions, each counting the same, with 95 % bootstrap intervals over "
    "questions. Tokens are those of the context, counted at four characters each for every system "
    "alike; time is what making the context took, with the encoding of the question and what the "
    "reader looked up. A system's number is its budget in tokens."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A record with its answer and the verdict on it."""

    record: Record
    answer: Answer
    verdict: Verdict

    @property
    def quote_found(self) -> bool | None:
        """Return whether the quote stands in the record's own context; None without a quote."""
        return quote_stands(self.answer.quote, self.record.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRun:
    """Everything that was judged."""

    about: Mapping[str, Any]
    """Data, versions, reader and judge, as they were when the records were made."""
    judged: tuple[Judged, ...]
    planted: tuple[tuple[Planted, Verdict], ...] = ()

    @property
    def systems(self) -> list[str]:
        """Return the systems with their budgets, the cheapest budget first."""
        given = {one.name: one for judged in self.judged for one in judged.record.given}
        order = {name: place for place, name in enumerate(self.about.get("systems", ()))}
        return sorted(
            given, key=lambda name: (order.get(given[name].system, 0), given[name].budget or 0)
        )

    @property
    def categories(self) -> list[str]:
        return sorted({judged.record.category for judged in self.judged})

    def of(self, system: str, category: str | None = None) -> list[tuple[Judged, Given]]:
        """Return what a system was judged on, with what it cost."""
        return [
            (judged, one)
            for judged in self.judged
            for one in judged.record.given
            if one.name == system and category in {None, judged.record.category}
        ]

    def right(self, system: str, category: str | None = None) -> Estimate | None:
        """Return the share of right answers."""
        return self._share(system, category, {"right"})

    def right_or_partly(self, system: str, category: str | None = None) -> Estimate | None:
        """Return the share of answers that are right or partly right."""
        return self._share(system, category, {"right", "partly"})

    def tokens(self, system: str) -> Estimate | None:
        return estimate([float(one.tokens) for _, one in self.of(system)])

    def seconds(self, system: str) -> Estimate | None:
        return estimate([one.seconds for _, one in self.of(system)])

    def ahead(self, system: str, other: str) -> Estimate | None:
        """Return by how much more answers of a system are right, question by question."""
        theirs = {_asked(judged): judged.verdict for judged, _ in self.of(other)}
        return estimate(
            [
                float(judged.verdict == "right") - float(theirs[_asked(judged)] == "right")
                for judged, _ in self.of(system)
                if _asked(judged) in theirs
            ]
        )

    def _share(self, system: str, category: str | None, counts: set[str]) -> Estimate | None:
        return estimate([float(j.verdict in counts) for j, _ in self.of(system, category)])


def read_answer_run(folder: Path, sheet: JudgeSheet) -> AnswerRun | None:
    """Join the sheet of a folder with its verdicts; None while there are none.

    :raises InvalidInput: when the verdicts are not complete
    """
    verdicts = read_verdicts(folder, {line["id"] for line in sheet.lines})
    if not verdicts:
        return None
    return AnswerRun(
        about=read_run(folder),
        judged=tuple(
            Judged(record=one, answer=sheet.answers[one.id], verdict=verdicts[one.id])
            for one in sheet.records
        ),
        planted=tuple((one, verdicts[one.id]) for one in sheet.planted),
    )


def answers_markdown(run: AnswerRun) -> str:
    """Return the tables, overall and by category."""
    lines = ["# Answers", "", *_facts(run), "", _NOTE, "", "## Overall", ""]
    header = [
        "",
        "right",
        "right or partly",
        "tokens",
        "milliseconds",
        "lookups",
        "quotes not found",
    ]
    lines += [*table(header, [_row(run, name) for name in run.systems]), ""]
    first, *others = run.systems
    if others:
        lines += [f"## Ahead of the others: {first}", ""]
        rows = [[name, _points(run.ahead(first, name))] for name in others]
        lines += [*table(["than", "points more are right"], rows), ""]
    for title, share in (("Right", run.right), ("Right or partly", run.right_or_partly)):
        rows = [
            [name, _count(run, name), *(cell(share(system, name)) for system in run.systems)]
            for name in run.categories
        ]
        lines += [f"## {title}, by category", ""]
        lines += [
            *table(["", "questions", *run.systems], [_labelled(run, row) for row in rows]),
            "",
        ]
    return "\n".join(lines)


def answers_json(run: AnswerRun) -> dict[str, Any]:
    """Return the figures, and every record with its question, gold answer, answer and verdict."""
    return {
        **{what: found for what, found in run.about.items() if what != "systems"},
        "systems": {
            name: {
                "overall": _figures(run, name),
                "categories": {kind: _figures(run, name, kind) for kind in run.categories},
            }
            for name in run.systems
        },
        "planted": {
            "judged": len(run.planted),
            "right": sum(verdict == "right" for _, verdict in run.planted),
            "partly": sum(verdict == "partly" for _, verdict in run.planted),
        },
        "records": [_record(judged) for judged in run.judged],
        "planted_records": [asdict(one) | {"verdict": verdict} for one, verdict in run.planted],
    }


def planted_line(planted: Sequence[tuple[Planted, Verdict]]) -> str:
    """Return the judge's own error rate, in words."""
    right = sum(verdict == "right" for _, verdict in planted)
    partly = sum(verdict == "partly" for _, verdict in planted)
    found = estimate([float(verdict == "right") for _, verdict in planted])
    return (
        f"- planted wrong answers: {len(planted)}, of which the judge called {right} right "
        f"({cell(found)} per cent) and {partly} partly right"
    )


def _facts(run: AnswerRun) -> list[str]:
    about = run.about
    data = about["dataset"]
    counts = [counted(data[f"{noun}s"], noun) for noun in ("conversation", "turn", "question")]
    lines = [
        f"- data: {', '.join([data['name'], *counts])}",
        f"- SHA-256 of the data: `{data['sha256']}`",
        "- " + ", ".join(f"{what} {version}" for what, version in about["versions"].items()),
    ]
    if data["left_out"]:
        left_out = (f"{count} {what}" for what, count in data["left_out"].items())
        lines.append(f"- left out of the data: {', '.join(left_out)}")
    lines += [f"- {role}: {about.get(role) or 'from files'}" for role in ("reader", "judge")]
    lines.append(f"- {counted(len(run.judged), 'record')} judged")
    if run.planted:
        lines.append(planted_line(run.planted))
    return lines


def _row(run: AnswerRun, name: str) -> list[str]:
    tokens, seconds = run.tokens(name), run.seconds(name)
    quotes = [judged.quote_found for judged, _ in run.of(name)]
    return [
        name,
        cell(run.right(name)),
        cell(run.right_or_partly(name)),
        f"{tokens.mean:,.0f}" if tokens else "–",
        f"{seconds.mean * 1000:,.0f}" if seconds else "–",
        _lookups(run, name),
        str(quotes.count(False)),
    ]


def _lookups(run: AnswerRun, name: str) -> str:
    found = [one.lookups for judged, one in run.of(name) if judged.record.memory is not None]
    return f"{sum(found) / len(found):.1f}" if found else "–"


def _labelled(run: AnswerRun, row: list[str]) -> list[str]:
    label = run.about.get("labels", {}).get(row[0])
    return [f"{row[0]}, {label}" if label else row[0], *row[1:]]


def _count(run: AnswerRun, category: str) -> str:
    return str(max(len(run.of(name, category)) for name in run.systems))


def _points(found: Estimate | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean * 100:+.1f} ({found.low * 100:+.1f} to {found.high * 100:+.1f})"


def _figures(run: AnswerRun, name: str, category: str | None = None) -> dict[str, Any]:
    given = run.of(name, category)
    return {
        what: None if found is None else asdict(found)
        for what, found in {
            "right": run.right(name, category),
            "right_or_partly": run.right_or_partly(name, category),
            "tokens": estimate([float(one.tokens) for _, one in given]),
            "seconds": estimate([one.seconds for _, one in given]),
        }.items()
    }


def _record(judged: Judged) -> dict[str, Any]:
    record = asdict(judged.record)
    del record["context"], record["memory"]
    return record | {
        "asked_at": judged.record.asked_at.isoformat(),
        "answer": judged.answer.text,
        "quote": judged.answer.quote,
        "quote_found": judged.quote_found,
        "reader_seconds": judged.answer.seconds,
        "verdict": judged.verdict,
    }


def _asked(judged: Judged) -> tuple[str, str]:
    return judged.record.conversation, judged.record.question
