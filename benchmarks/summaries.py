"""Measure how many answers survive in summaries and key facts.

    python -m benchmarks.summaries FILE…

Each file is JSON Lines in the format of `octopus bench recall --dataset jsonl`, whose questions
also have `answer_words`. A question counts as kept if each of its answer words stands in the
summary or the key facts of a session that holds its evidence. After archival in mode `summary`
nothing else of a session is left.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any
from uuid import UUID

from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.domain.episode import Summary, Turn
from octopus_memory.domain.message import parse_message
from octopus_memory.ports.models import Summarizer

_SHORT = 3
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question and the sessions with its evidence."""

    conversation: str
    category: str
    answer_words: tuple[str, ...]
    sessions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Sessions by conversation and name, and the questions with an answer."""

    sessions: Mapping[tuple[str, str], Sequence[Turn]]
    questions: Sequence[Question]


def read(lines: Iterable[str]) -> Dataset:
    """Read the sessions and questions of a JSON Lines file."""
    sessions: dict[tuple[str, str], list[Turn]] = {}
    session_of: dict[tuple[str, str], str] = {}
    asked: list[dict[str, Any]] = []
    for line in lines:
        if not line.strip():
            continue
        record = json.loads(line)
        if record["type"] == "question":
            asked.append(record)
            continue
        conversation, session = str(record.get("conversation", "1")), record["session"]
        said = sessions.setdefault((conversation, session), [])
        said.append(_turn(record, len(said)))
        session_of[conversation, record["id"]] = session
    questions = [
        Question(
            conversation=str(record.get("conversation", "1")),
            category=str(record.get("category", "all")),
            answer_words=tuple(record["answer_words"]),
            sessions=tuple(
                session_of[str(record.get("conversation", "1")), turn]
                for turn in record["evidence"]
            ),
        )
        for record in asked
        if record.get("answer_words") and record.get("evidence")
    ]
    return Dataset(sessions=sessions, questions=questions)


def _turn(record: Mapping[str, Any], ordinal: int) -> Turn:
    message = {"role": record["role"], "content": record["text"]}
    if record["role"] == "tool":
        message = {
            "role": "tool",
            "tool_call_id": record["id"],
            "function_name": record.get("function", "tool"),
            "arguments": record.get("arguments", {}),
            "result": record["text"],
        }
    if record.get("name"):
        message["name"] = record["name"]
    return Turn(
        id=UUID(int=ordinal + 1),
        episode_id=UUID(int=0),
        session_id=record["session"],
        ordinal=ordinal,
        message=parse_message(message, max_bytes=10**7),
        tokens=1,
        at=datetime.fromisoformat(record["at"]),
    )


def is_kept(word: str, text: str) -> bool:
    """Return whether a text contains an answer word, ignoring case.

    A number must stand alone, so that 12 is not found in 2012, and so must a short word.
    """
    pattern = re.escape(word)
    if _UNSPACED.search(word):
        pass
    elif len(word) <= _SHORT and not word.isdigit():
        pattern = rf"(?<!\w){pattern}(?!\w)"
    else:
        pattern = rf"(?<!\d){pattern}" if word[:1].isdigit() else pattern
        pattern = rf"{pattern}(?!\d)" if word[-1:].isdigit() else pattern
    return re.search(pattern, text, re.IGNORECASE) is not None


@dataclass(frozen=True, kw_only=True)
class Result:
    """Answers kept by category, and figures of the summaries."""

    kept: Mapping[str, tuple[int, int]]
    """Questions whose answer is kept, and all questions, by category."""
    lost: Sequence[Question]
    summaries: Sequence[Summary]

    @property
    def overall(self) -> tuple[int, int]:
        return sum(kept for kept, _ in self.kept.values()), sum(of for _, of in self.kept.values())


def measure(data: Dataset, summarizer: Summarizer) -> Result:
    """Summarize every session and look for the answers."""
    made = {key: summarizer.summarize(said, timeout=60) for key, said in data.sessions.items()}
    kept: dict[str, tuple[int, int]] = {}
    lost: list[Question] = []
    for question in data.questions:
        left = "\n".join(
            "\n".join((made[question.conversation, session].text, *facts))
            for session in dict.fromkeys(question.sessions)
            for facts in [made[question.conversation, session].key_facts]
        )
        found = all(is_kept(word, left) for word in question.answer_words)
        before = kept.get(question.category, (0, 0))
        kept[question.category] = before[0] + found, before[1] + 1
        if not found:
            lost.append(question)
    return Result(kept=kept, lost=lost, summaries=list(made.values()))


def table(result: Result) -> str:
    """Return the result as Markdown."""
    rows = [*sorted(result.kept.items()), ("all", result.overall)]
    lines = ["| category | answers kept | of |", "|---|--:|--:|"]
    lines += [f"| {name} | {100 * kept / max(of, 1):.1f} % | {of} |" for name, (kept, of) in rows]
    made = result.summaries
    without = sum(not summary.key_facts for summary in made)
    length = fmean(len(summary.text) for summary in made)
    facts = fmean(len(summary.key_facts) for summary in made)
    about = f"summaries of {length:,.0f} characters, {facts:.1f} key facts on average"
    lines += ["", f"{len(made)} sessions: {about}; {without} without a key fact."]
    return "\n".join(lines)


def main() -> None:
    """Measure the files that the command line names."""
    parser = argparse.ArgumentParser(description="Answers kept in summaries and key facts.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "--lost", action="store_true", help="list the questions whose answer is lost"
    )
    options = parser.parse_args()
    for file in options.files:
        data = read(file.read_text(encoding="utf-8").splitlines())
        result = measure(data, ExtractiveSummarizer())
        print(f"## {file.name}\n\n{table(result)}\n")
        if options.lost:
            for question in result.lost:
                print(f"- {question.category}, {question.sessions}: {question.answer_words}")


if __name__ == "__main__":
    main()
