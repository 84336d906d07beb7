from __future__ import annotations

import importlib.util
import json
import sys
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopus_memory import InvalidInput, MissingExtra
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.evaluation import (
    Dataset,
    Hit,
    load_dataset,
    make_systems,
    recall_json,
    recall_markdown,
    run_recall,
    run_relevance,
    write_report,
)
from octopus_memory.evaluation.run import rename_people
from octopus_memory.evaluation.suite import SYSTEMS
from octopus_memory.evaluation.systems import SharedEmbedder
from octopus_memory.faces.cli.bench import bench

PLOTS = importlib.util.find_spec("matplotlib") is not None


def _lines() -> str:
    said = {
        "honey": ("My sister keeps bees in Tromsø.", "Who keeps bees in Tromsø?"),
        "rent": ("The landlord raised the rent by ninety euros.", "How much did the rent rise?"),
        "race": ("I ran the marathon in Bergen.", "Where was the marathon?"),
        "boat": ("Our boat is moored at the old pier.", "Where is the boat moored?"),
    }
    lines = []
    for place, (name, (text, question)) in enumerate(said.items()):
        conversation = str(place % 2)
        answer = [("user", text), ("assistant", "Good to know, thank you.")]
        lines += [
            {
                "type": "turn",
                "conversation": conversation,
                "id": f"{name}-{number}",
                "session": name,
                "role": role,
                "text": words,
                "at": f"2024-05-0{place + 1}T10:0{number}:00Z",
            }
            for number, (role, words) in enumerate(answer)
        ]
        lines.append(
            {
                "type": "question",
                "conversation": conversation,
                "text": question,
                "category": "home" if name in {"rent", "boat"} else "away",
                "evidence": [f"{name}-0"],
            }
        )
    return "\n".join(map(json.dumps, lines))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "talks.jsonl"
    path.write_text(_lines())
    return path


@pytest.fixture
def dataset(data: Path) -> Dataset:
    return load_dataset("jsonl", data)


@pytest.fixture
def embedder() -> SharedEmbedder:
    return SharedEmbedder(HashingEmbedder())


class Parrot:
    """Returns the same turn, whatever is asked."""

    name = "parrot"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def reset(self) -> None:
        self.calls.append("reset")

    def add(self, turns) -> None:
        self.calls.append(f"add {len(turns)}")

    def search(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:
        self.calls.append(f"search {asked_at:%d %H:%M} {limit}")
        return [Hit(session_id="rent", turn_id="rent-0", score=0.7)]


def test_a_system_of_ones_own_is_called_in_order(dataset: Dataset):
    parrot = Parrot()
    run = run_recall(dataset, [parrot])
    first = ["reset", "add 4", "search 04 10:01 20", "search 04 10:01 20"]
    second = ["reset", "add 4", "search 05 10:01 20", "search 05 10:01 20"]
    assert parrot.calls == [*first, *second, "reset"]
    (system,) = run.systems
    assert system.estimates()["recall@5"].mean == 0.25
    assert system.estimates("home")["session_recall@1"].mean == 0.5
    assert system.estimates("away")["session_recall@1"].mean == 0
    assert run.versions["octopus-memory"]


def test_every_system_runs_and_octopus_finds_everything(dataset: Dataset, embedder: SharedEmbedder):
    told = []
    run = run_recall(
        dataset,
        make_systems(SYSTEMS, embedder),
        embedder=embedder,
        progress=lambda *now: told.append(now),
    )
    assert [system.name for system in run.systems] == list(SYSTEMS)
    found = {system.name: system.estimates() for system in run.systems}
    assert found["octopus"]["recall@5"].mean == 1
    assert found["octopus"]["session_recall@1"].mean == 1
    assert found["recency"]["session_recall@1"].mean == 0.5
    assert "recall@5" not in found["naive"]
    assert told[3] == ("octopus", 4, 4)
    assert len(told) == 4 * len(SYSTEMS)


def test_the_report_shows_every_system_and_no_word_of_the_data(
    dataset: Dataset, embedder: SharedEmbedder
):
    run = run_recall(dataset, make_systems(["octopus", "naive"], embedder), embedder=embedder)
    text = recall_markdown(run)
    assert dataset.sha256 in text
    assert "| octopus | 100.0 (100.0–100.0) |" in text
    assert "| naive | – |" in text
    assert "## Category away: 2 questions" in text
    assert "hashing-256" in text
    values = recall_json(run)
    assert values["systems"]["octopus"]["categories"]["home"]["recall@10"]["questions"] == 2
    assert values["systems"]["octopus"]["milliseconds"]["p95"] > 0
    for word in ("bees", "marathon", "Tromsø"):
        assert word not in text + json.dumps(values, ensure_ascii=False)


def test_questions_elsewhere_are_told_apart(dataset: Dataset, embedder: SharedEmbedder):
    run = run_relevance(dataset, make_systems(["octopus", "naive"], embedder), embedder=embedder)
    octopus, naive = run.systems
    found = octopus.as_asked
    assert (len(found.answerable), len(found.unanswerable)) == (4, 4)
    assert found.auc > 0.9
    assert naive.as_asked.auc < found.auc
    assert found.balanced_accuracy(0) == 0.5
    assert (found.kept(1), found.dropped(1)) == (0, 1)
    assert octopus.renamed is None


class NameReader(Parrot):
    """Scores a question by whether it names somebody of the conversation."""

    def add(self, turns) -> None:
        self.names = {turn.name for turn in turns}

    def search(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:
        known = any(name in query for name in self.names)
        return [Hit(session_id="s", score=0.9 if known else 0.1)]


def test_names_cannot_give_a_question_away(tmp_path: Path):
    lines = []
    for name in ("Ana", "Bo"):
        turn = {"type": "turn", "conversation": name, "id": "t", "session": "s", "role": "user"}
        turn |= {"name": name, "text": "I moved.", "at": "2024-05-01T10:00:00Z"}
        asked = {"type": "question", "conversation": name, "evidence": ["t"]}
        lines += [turn, asked | {"text": f"Where did {name}'s friend Anabel move?"}]
    data = tmp_path / "names.jsonl"
    data.write_text("\n".join(map(json.dumps, lines)))
    (found,) = run_relevance(load_dataset("jsonl", data), [NameReader()]).systems
    assert found.as_asked.auc == 0.75  # Ana is in Anabel
    assert found.renamed is not None
    assert found.renamed.auc == 0.5


def test_people_are_renamed_at_once():
    text = "Is Ana's cat older than Ana Lee's, and does Bo know Anabel?"
    renamed = rename_people(text, ["Ana", "Ana Lee", "Bo"], ["Bo", "Cy"])
    assert renamed == "Is Bo's cat older than Cy's, and does Bo know Anabel?"


def test_relevance_needs_another_conversation(dataset: Dataset, embedder: SharedEmbedder):
    with pytest.raises(InvalidInput, match="two conversations"):
        run_relevance(dataset.first(1), [Parrot()])


def test_data_without_questions_cannot_be_measured(tmp_path: Path, data: Path):
    turns = [line for line in data.read_text().splitlines() if '"turn"' in line]
    data.write_text("\n".join(turns))
    with pytest.raises(InvalidInput, match="must have a question with evidence"):
        run_recall(load_dataset("jsonl", data), [Parrot()])


def test_without_matplotlib_the_figures_are_written_and_the_extra_named(
    dataset: Dataset, tmp_path: Path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(MissingExtra, match=r"octopus-memory\[bench\]"):
        write_report(run_recall(dataset, [Parrot()]), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"recall.md", "recall.json"}


@pytest.mark.skipif(not PLOTS, reason="the plot needs the extra bench")
@pytest.mark.process
def test_the_plot_is_a_picture(dataset: Dataset, embedder: SharedEmbedder, tmp_path: Path):
    run = run_recall(dataset, make_systems(["bm25", "naive"], embedder), embedder=embedder)
    written = write_report(run, tmp_path / "out")
    assert [path.name for path in written] == ["recall.md", "recall.json", "recall.png"]
    assert written[-1].read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def command(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "hashing")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str):
        return CliRunner().invoke(bench, list(arguments), catch_exceptions=False)

    return run


@pytest.mark.process
def test_the_command_prints_and_writes(command, data: Path, tmp_path: Path):
    out, cache = tmp_path / "out", tmp_path / "cache"
    given = ["--dataset", "jsonl", "--data", str(data), "--out", str(out), "--cache", str(cache)]
    done = command("recall", *given, "--systems", "octopus, bm25", "--categories", "home")
    assert done.exit_code == 0, done.output
    assert "2 questions" in done.stdout
    assert (out / "recall.md").read_text() in done.stdout
    assert json.loads((out / "recall.json").read_text())["systems"].keys() == {"octopus", "bm25"}
    assert (out / "recall.png").exists() == PLOTS
    assert list(cache.iterdir())


def test_the_command_prints_json(command, data: Path):
    given = ["--dataset", "jsonl", "--data", str(data), "--json"]
    done = command("recall", *given, "--systems", "recency", "--limit-conversations", "1")
    values = json.loads(done.stdout)
    assert values["dataset"]["conversations"] == 1
    assert values["systems"].keys() == {"recency"}


def test_archived_measures_sessions_alone(command, data: Path):
    done = command("recall", "--dataset", "jsonl", "--data", str(data), "--archived", "--json")
    systems = json.loads(done.stdout)["systems"]
    assert systems.keys() == {"octopus, archived", "naive"}
    overall = systems["octopus, archived"]["overall"]
    assert overall["session_recall@1"]["mean"] == 1
    assert "recall@10" not in overall


def test_user_turns_only_takes_in_less(command, data: Path):
    given = ["--dataset", "jsonl", "--data", str(data), "--json", "--systems", "bm25"]
    whole = json.loads(command("recall", *given).stdout)["dataset"]
    user = json.loads(command("recall", *given, "--user-turns-only").stdout)["dataset"]
    assert (whole["turns"], user["turns"]) == (8, 4)


def test_the_relevance_command(command, data: Path, tmp_path: Path):
    given = ["--dataset", "jsonl", "--data", str(data), "--threshold", "0.5"]
    done = command("relevance", *given, "--out", str(tmp_path / "out"))
    assert "balanced accuracy at 0.5" in done.stdout
    values = json.loads(command("relevance", *given, "--json").stdout)
    assert values["systems"].keys() == {"octopus", "dense"}
    assert values == json.loads((tmp_path / "out/relevance.json").read_text())


def test_invalid_arguments_are_errors(command):
    with pytest.raises(InvalidInput, match="cannot read"):
        command("recall", "--dataset", "jsonl", "--data", "gone.jsonl")


@pytest.mark.parametrize("option", ["out", "cache"])
def test_an_unwritable_output_fails_before_the_run(command, data: Path, option: str):
    with pytest.raises(InvalidInput, match=f"{option}: cannot create"):
        command("recall", "--dataset", "jsonl", "--data", str(data), f"--{option}", str(data))
