"""The set of standing facts, its figures, and `octopus bench facts`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopus_memory.domain.errors import InvalidInput
from octopus_memory.domain.facts import FactKind, FoundFact
from octopus_memory.evaluation import measure_facts
from octopus_memory.faces.cli.bench import bench

SET = Path(__file__).parents[2] / "benchmarks" / "data" / "facts"


def lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (SET / name).read_text(encoding="utf-8").splitlines()]


def test_the_set_is_large_and_varied():
    messages, changes = lines("messages.jsonl"), lines("changes.jsonl")
    assert len(messages) >= 400
    assert len(changes) >= 120
    assert {each["language"] for each in messages} == {"en", "de", "fr", "es", "zh"}
    styles = Counter(each["style"] for each in messages)
    assert set(styles) == {"formal", "chat", "typing mistakes", "no punctuation"}
    parts = Counter(each["part"] for each in messages)
    assert parts["held-out"] >= 150
    # Messages without a fact are as important as those with one.
    assert sum(not each["facts"] for each in messages) >= 150
    assert len({each["id"] for each in (*messages, *changes)}) == len(messages) + len(changes)
    assert len({each["text"] for each in messages}) == len(messages)


def test_the_rules_reach_their_figures():
    figures = measure_facts(SET)
    for part in ("all", "dev", "held-out"):
        assert figures[part].precision >= 0.97
        assert figures[part].recall >= 0.8
        assert figures[part].final_state >= 0.95


def test_a_wrong_fact_and_a_missing_one_count(tmp_path: Path):
    said = {"part": "dev", "language": "en", "style": "chat"}
    (tmp_path / "messages.jsonl").write_text(
        json.dumps({**said, "id": "a", "text": "x", "facts": ["Lives in Lyon."]})
        + "\n"
        + json.dumps({**said, "id": "b", "text": "y", "facts": ["Name: Ana.", "Has asthma."]})
    )
    at = "2025-01-01T00:00:00Z"
    (tmp_path / "changes.jsonl").write_text(
        json.dumps(
            {**said, "id": "c", "messages": [{"at": at, "text": "x"}], "facts": ["Name: Ana."]}
        )
    )
    found = FoundFact(kind=FactKind.NAME, text="Name: Ana.", ordinal=0)
    figures = measure_facts(tmp_path, lambda _: [found])["dev"]
    assert (figures.found, figures.right, figures.expected, figures.recalled) == (2, 1, 3, 1)
    assert (figures.precision, figures.final_state) == (0.5, 1.0)
    assert [miss.id for miss in figures.misses] == ["a", "b"]


def test_a_folder_without_the_set_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"must be a folder with messages\.jsonl"):
        measure_facts(tmp_path)
    (tmp_path / "messages.jsonl").write_text("{}")
    with pytest.raises(InvalidInput, match=r"in messages\.jsonl, line 1"):
        measure_facts(tmp_path)


def test_the_command_prints_figures_and_lists_facts(tmp_path: Path):
    run = CliRunner().invoke(bench, ["facts", "--data", str(SET)])
    assert run.exit_code == 0
    assert "| held-out | 200 |" in run.output
    data = tmp_path / "talk.jsonl"
    turn = {
        "type": "turn",
        "conversation": "c",
        "session": "s",
        "id": "t1",
        "role": "user",
        "text": "I live in Ghent.",
        "at": "2025-01-01T00:00:00Z",
    }
    question = {
        "type": "question",
        "conversation": "c",
        "text": "Where?",
        "category": "x",
        "evidence": ["t1"],
    }
    data.write_text(f"{json.dumps(turn)}\n{json.dumps(question)}\n")
    run = CliRunner().invoke(bench, ["facts", "--dataset", "jsonl", "--data", str(data), "--json"])
    assert run.exit_code == 0, run.output
    [found] = json.loads(run.output)
    assert (found["turn"], found["text"]) == ("t1", "Lives in Ghent.")
