"""bench context from end to end: systems, the run, its reports and the command."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from octopus_memory import InvalidInput
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.engine.scope import MemoryScope
from octopus_memory.evaluation import (
    ContextRun,
    Dataset,
    context_json,
    context_markdown,
    count_asked,
    load_dataset,
    make_context_systems,
    make_systems,
    recall_markdown,
    run_context,
    run_recall,
    write_report,
)
from octopus_memory.evaluation.blocks import CONTEXT_SYSTEMS, pack
from octopus_memory.evaluation.conversation import BenchTurn
from octopus_memory.evaluation.octopus import OctopusSystem
from octopus_memory.evaluation.systems import SharedEmbedder
from octopus_memory.faces.cli.bench import bench

PLOTS = importlib.util.find_spec("matplotlib") is not None
RESULT = '{"days_left": 12, "as_of": "2024-05-03"}'
PEOPLE = {"ana": "Ana", "bo": "Bo"}


def _said(user: str) -> list[dict[str, Any]]:
    """Three sessions of four turns; the second has a tool's result."""
    facts = {
        "ana": ("My sister keeps bees in Tromsø.", "The landlord raised the rent by ninety euros."),
        "bo": ("I ran the marathon in Bergen in June.", "Our boat is moored at the old pier."),
    }[user]
    talk = [
        [facts[0], "Lovely, thank you for telling me that.", "Is it cold?", "It is, in winter."],
        ["How many days of leave have I left?", RESULT, "You have twelve days left.", "Thanks!"],
        [facts[1], "I am sorry to hear it.", "What can I do?", "Write to them and keep a copy."],
    ]
    lines = []
    for day, texts in enumerate(talk, start=1):
        for place, text in enumerate(texts):
            role = ("user", "assistant")[place % 2]
            lines.append(
                {
                    "type": "turn",
                    "conversation": user,
                    "session": f"{user}-{day}",
                    "id": f"{user}-{day}-{place}",
                    "role": "tool" if text == RESULT else role,
                    "text": text,
                    "at": f"2024-05-0{day}T10:0{place}:00Z",
                }
                | ({"name": PEOPLE[user]} if role == "user" else {})
                | (
                    {"function": "get_leave", "arguments": {"employee": "4711"}}
                    if text == RESULT
                    else {}
                )
            )
    return lines


def _asked(user: str) -> list[dict[str, Any]]:
    first, third = {
        "ana": (
            ("Who keeps bees for Ana?", ["sister", "Tromsø"], "en"),
            ("Um wie viel stieg the rent?", ["ninety"], "de"),
        ),
        "bo": (
            ("Where did Bo run the marathon?", ["Bergen"], "en"),
            ("Wo liegt the boat?", ["pier"], "de"),
        ),
    }[user]
    questions = [
        {
            "text": text,
            "category": category,
            "language": language,
            "evidence": evidence,
            "answer_words": answer_words,
        }
        for (text, answer_words, language), category, evidence in (
            (first, "fact", [f"{user}-1-0"]),
            (third, "fact", [f"{user}-3-0"]),
            (("What did get_leave say, days_left?", ["12"], "en"), "tool", [f"{user}-2-1"]),
        )
    ]
    questions += [
        {"text": "thanks, bye!", "category": "small-talk", "evidence": []},
        {"text": "Which hospital was I born in?", "category": "no-answer", "evidence": []},
    ]
    return [
        {"type": "question", "conversation": user, "asked_at": "2024-06-01T09:00:00Z"} | question
        for question in questions
    ]


def _lines(user: str) -> str:
    return "\n".join(json.dumps(line, ensure_ascii=False) for line in _said(user) + _asked(user))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "talks"
    folder.mkdir()
    for user in ("bo", "ana"):
        (folder / f"{user}.jsonl").write_text(_lines(user))
    (folder / "notes.txt").write_text("not read")
    return folder


@pytest.fixture
def dataset(data: Path) -> Dataset:
    return load_dataset("jsonl", data)


@pytest.fixture
def embedder() -> SharedEmbedder:
    return SharedEmbedder(HashingEmbedder())


@pytest.fixture
def run(dataset: Dataset, embedder: SharedEmbedder) -> ContextRun:
    systems = make_context_systems(CONTEXT_SYSTEMS, embedder)
    return run_context(dataset, systems, budgets=[800, 60], embedder=embedder)


class Parrot:
    """Gives the same words, as many as the budget allows."""

    name = "parrot"

    def __init__(self, words: str = "") -> None:
        self.words = words
        self.calls: list[str] = []
        self.asked: list[tuple[str, datetime]] = []

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self.calls.append(f"load {len(turns)}")

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        self.calls.append(f"ask {list(budgets)}")
        self.asked.append((query, asked_at))
        return [self.words[: budget * 4] for budget in budgets]

    def close(self) -> None:
        self.calls.append("close")


def test_each_conversation_is_loaded_once_and_asked_at_every_budget(dataset: Dataset):
    parrot = Parrot()
    told = []
    run_context(dataset, [parrot], budgets=[50, 9], progress=lambda *now: told.append(now))
    # Its own three questions, the next one's three, and its two without an answer.
    assert parrot.calls == ["load 12", *["ask [9, 50]"] * 8] * 2 + ["close"]
    assert count_asked(dataset) == 16
    assert told[-1] == ("parrot", 16, 16)


def test_strangers_questions_are_about_the_people_here_and_asked_after_the_last_turn(
    dataset: Dataset,
):
    parrot = Parrot()
    run_context(dataset, [parrot])
    own, strange, without = parrot.asked[0], parrot.asked[3:6], parrot.asked[6:8]
    assert own == ("Who keeps bees for Ana?", datetime(2024, 6, 1, 9, tzinfo=UTC))
    after = datetime(2024, 5, 4, 10, 3, tzinfo=UTC)
    assert strange[0] == ("Where did Ana run the marathon?", after)
    assert [text for text, _ in without] == ["thanks, bye!", "Which hospital was I born in?"]
    assert {at for _, at in without} == {datetime(2024, 6, 1, 9, tzinfo=UTC)}


def test_at_most_forty_strangers_evenly_spaced(tmp_path: Path):
    turn = {"type": "turn", "session": "s", "id": "t", "role": "user", "text": "I moved."}
    turn["at"] = "2024-05-01T10:00:00Z"
    lines = [turn | {"conversation": name} for name in ("a", "b")]
    lines += [
        {"type": "question", "conversation": "b", "text": f"Question {number}?", "evidence": ["t"]}
        for number in range(80)
    ]
    lines.append({"type": "question", "conversation": "a", "text": "And?", "evidence": ["t"]})
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    parrot = Parrot()
    run_context(load_dataset("jsonl", path), [parrot])
    strange = [text for text, _ in parrot.asked[1:41]]
    assert strange == [f"Question {number}?" for number in range(0, 80, 2)]
    assert parrot.asked[41][0] == "Question 0?"
    assert len(parrot.asked) == 1 + 40 + 80 + 1


def test_figures_of_a_known_block(dataset: Dataset):
    words = "Ana: My sister keeps bees in Tromsø. 12"
    run = run_context(dataset, [Parrot(words)], budgets=[2, 100])
    (parrot,) = run.systems

    def mean(figure: str, budget: int, **group: str) -> float:
        found = parrot.estimate(figure, budget, **group)
        assert found is not None
        return found.mean

    assert mean("evidence", 100) == pytest.approx(1 / 6)
    assert mean("evidence", 100, category="fact") == 0.25
    assert mean("evidence", 100, language="de") == 0
    assert mean("evidence", 2) == 0
    # Both words of one question, and the number of both tool questions.
    assert mean("answer_words", 100) == pytest.approx(3 / 6)
    assert mean("answer_words", 100, category="tool") == 1
    assert mean("tokens", 100) == mean("strangers", 100) == mean("unanswerable", 100) == 10
    assert mean("tokens", 2) == 2
    found = parrot.estimate("unanswerable", 100, category="small-talk")
    assert found is not None
    assert found.questions == 2
    assert parrot.estimate("long_turns", 100) is None
    assert parrot.estimate("tokens", 100, category="small-talk") is None
    assert parrot.over_budget == 0


def test_one_conversation_alone_has_no_strangers(dataset: Dataset):
    run = run_context(dataset.first(1), [Parrot()])
    assert run.systems[0].estimate("strangers", 400) is None
    assert run.systems[0].estimate("tokens", 400) is not None
    assert "strangers' questions |" not in context_markdown(run)
    assert "## Tokens spent on strangers" not in context_markdown(run)


def test_every_system_gives_blocks_inside_its_budget_but_the_whole_history(run: ContextRun):
    assert run.budgets == (60, 800)
    found = {system.name: system for system in run.systems}
    assert list(found) == list(CONTEXT_SYSTEMS)
    for name in ("octopus", "packed", "dense", "recent"):
        assert found[name].over_budget == 0
    # Sixteen questions at the smaller budget: the larger one holds everything.
    assert found["whole"].over_budget == 16
    for budget in run.budgets:
        assert found["whole"].estimate("evidence", budget).mean == 1
        assert found["whole"].estimate("answer_words", budget).mean == 1
    assert found["packed"].estimate("evidence", 800).mean == 1
    assert found["packed"].estimate("evidence", 60, category="fact").mean == 1
    assert found["dense"].estimate("evidence", 60, category="fact").mean == 1
    # The last turns are of the third session, and the facts asked for open it and the first.
    assert found["recent"].estimate("evidence", 60, category="fact").mean == 0.5
    assert found["octopus"].estimate("tokens", 800).mean > 0


def test_systems_of_the_product_share_one_loaded_memory(
    dataset: Dataset, embedder: SharedEmbedder, monkeypatch
):
    loads, inner = [], OctopusSystem.add
    monkeypatch.setattr(
        OctopusSystem, "add", lambda self, turns: (loads.append(len(turns)), inner(self, turns))
    )
    run_context(dataset, make_context_systems(["octopus", "packed"], embedder))
    assert loads == [12, 12]


def test_the_product_is_asked_at_the_questions_time_with_its_defaults(
    dataset: Dataset, embedder: SharedEmbedder, monkeypatch
):
    seen, inner = [], MemoryScope.context

    def context(self: MemoryScope, message: str, **given: Any):
        seen.append((message, self._runtime.clock.now(), given))
        return inner(self, message, **given)

    monkeypatch.setattr(MemoryScope, "context", context)
    run_context(dataset, make_context_systems(["octopus"], embedder), budgets=[400])
    message, now, given = seen[0]
    assert (message, given) == ("Who keeps bees for Ana?", {"budget_tokens": 400})
    assert now == datetime(2024, 6, 1, 9, tzinfo=UTC)


def test_systems_are_closed_when_a_run_fails(
    dataset: Dataset, embedder: SharedEmbedder, tmp_path: Path, monkeypatch
):
    class Broken(Parrot):
        def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
            raise RuntimeError("broken")

    folder = tmp_path / "memories"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with pytest.raises(RuntimeError, match="broken"):
        run_context(dataset, [*make_context_systems(["octopus"], embedder), Broken()])
    assert not list(folder.iterdir())


def test_turns_that_fit_are_packed_whole_and_in_order():
    def turn(text: str, name: str | None = None) -> BenchTurn:
        at = datetime(2024, 5, 1, tzinfo=UTC)
        return BenchTurn(id=text, session_id="s", role="user", text=text, at=at, name=name)

    turns = [turn("a" * 10), turn("b" * 30), turn("c" * 5, "Ana"), turn("d")]
    # 16 characters, then 1 + 36 do not fit into 32, 1 + 10 and no 1 + 7 after them do.
    assert pack(turns, 8) == f"user: {'a' * 10}\nAna: {'c' * 5}"
    assert pack(turns, 1) == ""


def test_an_unknown_system_is_refused(embedder: SharedEmbedder):
    with pytest.raises(InvalidInput, match="'magic' is none of octopus, packed, dense"):
        make_context_systems(["magic"], embedder)


@pytest.mark.parametrize("budgets", [[], [0], [400, -1]])
def test_a_budget_that_holds_nothing_is_refused(dataset: Dataset, budgets: list[int]):
    with pytest.raises(InvalidInput, match="budgets"):
        run_context(dataset, [Parrot()], budgets=budgets)


def test_data_without_questions_cannot_be_measured(tmp_path: Path):
    path = tmp_path / "turns.jsonl"
    path.write_text("\n".join(map(json.dumps, _said("ana"))))
    with pytest.raises(InvalidInput, match="no question"):
        run_context(load_dataset("jsonl", path), [Parrot()])


def test_questions_without_an_answer_can_be_measured_alone(dataset: Dataset):
    run = run_context(dataset.about(["small-talk"]), [Parrot("hello")])
    text = context_markdown(run)
    assert "## Tokens spent on questions without an answer: small-talk" in text
    assert "no-answer" not in text
    assert "## Evidence" not in text


def test_the_report_shows_every_figure_and_no_word_of_the_data(run: ContextRun):
    text, values = context_markdown(run), context_json(run)
    assert run.dataset.sha256 in text
    assert "- questions without an answer: 4" in text
    assert "left out" not in text
    assert "- over their budget: 16 blocks of whole" in text
    assert "|  | 60 | 800 |" in text
    assert "| whole | 100.0 (100.0–100.0) | 100.0 (100.0–100.0) |" in text
    assert "## Evidence in the block, by category" in text
    assert "## Answer words in the block, by language" in text
    assert "| tool | 2 |" in text
    assert "| de | 2 |" in text
    packed = values["systems"]["packed"]["budgets"]["800"]
    assert packed["overall"]["evidence"]["questions"] == 6
    assert packed["categories"]["no-answer"].keys() == {"unanswerable"}
    assert packed["languages"].keys() == {"de", "en"}
    assert values["dataset"]["unanswerable"] == 4
    assert values["budgets"] == [60, 800]
    for word in ("bees", "marathon", "Tromsø", "days_left", "hospital"):
        assert word not in text + json.dumps(values, ensure_ascii=False)


def test_long_turns_are_counted_by_turn(tmp_path: Path):
    lines = _said("ana") + _asked("ana")
    lines[0] |= {"text": " ".join(f"Bee number {n} has a name of its own." for n in range(30))}
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    run = run_context(load_dataset("jsonl", path), [Parrot(lines[0]["text"])])
    assert "## Long evidence turns: 1 turn\n" in context_markdown(run)
    overall = context_json(run)["systems"]["parrot"]["budgets"]["400"]["overall"]
    assert overall["long_turns"] == {"mean": 1.0, "low": 1.0, "high": 1.0, "turns": 1}


@pytest.mark.skipif(not PLOTS, reason="the plot needs the extra bench")
@pytest.mark.process
def test_the_plot_is_a_picture(run: ContextRun, tmp_path: Path):
    written = write_report(run, tmp_path / "out")
    assert [path.name for path in written] == ["context.md", "context.json", "context.png"]
    assert written[-1].read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not PLOTS, reason="the plot needs the extra bench")
@pytest.mark.process
def test_a_plot_of_nothing_but_costs_is_a_picture(dataset: Dataset, tmp_path: Path):
    run = run_context(dataset.about(["small-talk"]), [Parrot()])
    assert write_report(run, tmp_path)[-1].read_bytes().startswith(b"\x89PNG")


def test_recall_is_measured_without_the_questions_that_have_no_answer(
    dataset: Dataset, embedder: SharedEmbedder
):
    run = run_recall(dataset, make_systems(["octopus", "naive"], embedder), embedder=embedder)
    assert {len(system.answered) for system in run.systems} == {6}
    assert "- left out of the data: 4 questions without an answer" in recall_markdown(run)
    assert run.systems[0].estimates("tool")["recall@5"].mean == 1


@pytest.fixture
def command(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "hashing")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str):
        given = ["context", "--dataset", "jsonl", *arguments]
        return CliRunner().invoke(bench, given, catch_exceptions=False)

    return run


@pytest.mark.process
def test_the_command_prints_and_writes(command, data: Path, tmp_path: Path):
    out, cache = tmp_path / "out", tmp_path / "cache"
    given = ["--data", str(data), "--out", str(out), "--cache", str(cache)]
    done = command(*given, "--systems", "packed, recent", "--budgets", "50, 300")
    assert done.exit_code == 0, done.output
    assert "|  | 50 | 300 |" in done.stdout
    assert (out / "context.md").read_text() in done.stdout
    values = json.loads((out / "context.json").read_text())
    assert values["systems"].keys() == {"packed", "recent"}
    assert (out / "context.png").exists() == PLOTS
    assert list(cache.iterdir())


def test_the_command_prints_json(command, data: Path):
    given = ["--data", str(data), "--json", "--categories", "tool", "--limit-conversations", "1"]
    values = json.loads(command(*given, "--budgets", "100").stdout)
    assert values["systems"].keys() == set(CONTEXT_SYSTEMS)
    assert values["dataset"]["questions"] == 1
    overall = values["systems"]["whole"]["budgets"]["100"]["overall"]
    assert overall["answer_words"]["mean"] == 1


@pytest.mark.parametrize("budgets", ["many", "400,x", "0", ","])
def test_budgets_that_are_no_numbers_are_refused(command, data: Path, budgets: str):
    with pytest.raises(InvalidInput, match="budgets"):
        command("--data", str(data), "--budgets", budgets)


class Notes:
    """Gives everything that was said, without the lines that were to be forgotten."""

    name = "notes"

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self.lines = [turn.text for turn in turns]
        self.wishes: list[tuple[str, datetime]] = []

    def forget(self, about: str, at: datetime) -> None:
        self.wishes.append((about, at))
        self.lines = [text for text in self.lines if about not in text]

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        return ["\n".join(self.lines) for _ in budgets]

    def close(self) -> None:
        pass


def test_a_system_forgets_what_the_user_had_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "ana.jsonl"
    file.write_text(
        "\n".join(
            json.dumps(line)
            for line in (
                *_said("ana"),
                {"type": "forget", "conversation": "ana", "about": "rent",
                 "at": "2024-05-20T10:00:00Z"},
                {"type": "question", "conversation": "ana", "text": "What about the flat?",
                 "category": "forget", "evidence": ["ana-1-0"], "answer_words": ["bees"],
                 "forbidden_words": ["ninety"]},
                {"type": "question", "conversation": "ana", "text": "And the rent?",
                 "category": "gone", "evidence": [], "forbidden_words": ["ninety"]},
            )
        )
    )  # fmt: skip
    dataset = load_dataset("jsonl", file)
    embedder = SharedEmbedder(HashingEmbedder())
    notes = Notes()
    run = run_context(dataset, [notes, *make_context_systems(["whole"], embedder)], budgets=[400])
    forgets, keeps = run.systems
    assert notes.wishes == [("rent", datetime(2024, 5, 20, 10, tzinfo=UTC))]
    assert [forgets.estimate("complete", 400, category=c).mean for c in ("forget", "gone")] == [
        1,
        1,
    ]
    assert [keeps.estimate("complete", 400, category=c).mean for c in ("forget", "gone")] == [0, 0]
    assert "## Whole answers in the block" in context_markdown(run)


def test_packed_lines_have_dates_where_they_are_asked_for(dataset: Dataset) -> None:
    embedder = SharedEmbedder(HashingEmbedder())
    for dated, begins in ((False, "Ana: "), (True, "[2024-05-01] Ana: ")):
        [recent] = make_context_systems(["recent"], embedder, dated=dated)
        [ana] = (found for found in dataset.conversations if found.id == "ana")
        recent.load(ana.turns[:1])
        assert recent.blocks("?", datetime(2024, 6, 1, tzinfo=UTC), [100])[0].startswith(begins)
