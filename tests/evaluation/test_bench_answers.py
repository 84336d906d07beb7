"""bench answers from end to end: records, sheets, models, verdicts, figures and the command."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from octopus_memory import EpisodicMemory, InvalidInput
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.domain.errors import ModelError
from octopus_memory.evaluation import (
    MEMORIES,
    Dataset,
    answer_all,
    answers_json,
    answers_markdown,
    describe,
    judge_all,
    judge_sheet,
    load_dataset,
    look_up,
    make_context_systems,
    make_records,
    parse_budgets,
    read_answer_run,
    read_records,
    sample,
    write_report,
    write_sheets,
)
from octopus_memory.evaluation.models import ChatModel
from octopus_memory.evaluation.sheets import prompt, quote_stands
from octopus_memory.evaluation.systems import SharedEmbedder
from octopus_memory.faces.cli.bench import bench
from octopus_memory.settings import load
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support.paths import DOCS

PLOTS = importlib.util.find_spec("matplotlib") is not None
FACTS = {
    "ana": [("My sister keeps bees in Tromsø.", "Where are the bees?", "In Tromsø"),
            ("The landlord raised the rent by ninety euros.", "How much more rent?", "90 euros")],
    "bo": [("I ran the marathon in Bergen in June.", "Where did I run?", "In Bergen"),
           ("Our boat is moored at the old pier.", "Where is the boat?", "At the old pier")],
}  # fmt: skip


def _lines() -> Iterator[dict[str, Any]]:
    for who, facts in FACTS.items():
        for day, (said, asked, gold) in enumerate(facts, start=1):
            turn = {"type": "turn", "conversation": who, "session": f"s{day}"}
            at = f"2024-05-0{day}T10:0"
            yield turn | {"id": f"{day}u", "role": "user", "text": said, "at": f"{at}0:00Z"}
            reply = {"id": f"{day}a", "role": "assistant", "text": "I see, thank you."}
            yield turn | reply | {"at": f"{at}1:00Z"}
            yield {
                "type": "question",
                "conversation": who,
                "text": asked,
                "answer": gold,
                "evidence": [f"{day}u"],
                "category": f"kind {day}",
                "asked_at": "2024-05-09T08:00:00Z",
            }


@pytest.fixture(autouse=True)
def _small_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "hashing")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "data.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in _lines()))
    return file


@pytest.fixture
def dataset(data: Path) -> Dataset:
    return load_dataset("jsonl", data)


@pytest.fixture
def embedder() -> SharedEmbedder:
    return SharedEmbedder(HashingEmbedder())


@pytest.fixture
def sheets(tmp_path: Path, dataset: Dataset, embedder: SharedEmbedder) -> Path:
    folder = tmp_path / "sheets"
    names = ["octopus", "dense", "recent", "whole"]
    systems = make_context_systems(names, embedder, dated=True)
    records = make_records(sample(dataset, None, 0), systems, budgets=[30, 200], embedder=embedder)
    write_sheets(folder, records, describe(dataset, systems, embedder))
    return folder


def _answer(folder: Path, **changed: dict[str, Any]) -> None:
    """Answer each record with its gold answer and the first words of its context."""
    lines = []
    for record in read_records(folder):
        line = {"id": record.id, "answer": record.gold, "quote": record.context[:20]}
        lines.append(line | changed.get(record.id, {}))
    _put(folder / "answers" / "me.jsonl", lines)


def _put(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _judge(folder: Path, **verdicts: str) -> None:
    sheet = [json.loads(line) for line in (folder / "judge.jsonl").read_text().splitlines()]
    lines = [{"id": a["id"], "verdict": verdicts.get(a["id"], "right")} for a in sheet]
    _put(folder / "verdicts" / "me.jsonl", lines)


# Records


def test_each_system_and_budget_has_one_context_for_each_question(sheets: Path) -> None:
    given = Counter(one.name for record in read_records(sheets) for one in record.given)
    assert set(given) == {
        "octopus 30", "octopus 200", "dense 30", "dense 200", "recent 30", "recent 200", "whole",
    }  # fmt: skip
    assert set(given.values()) == {4}


def test_systems_with_the_same_context_share_a_record(
    dataset: Dataset, embedder: SharedEmbedder
) -> None:
    systems = make_context_systems(["recent", "dense"], embedder, dated=True)
    records = make_records(dataset, systems, budgets=[800, 1_600], embedder=embedder)
    seen = [(record.question, record.context) for record in records]
    assert len(seen) == len(set(seen))
    # Both budgets hold the whole of it.
    assert all(len(record.given) > 1 for record in records)


def test_baselines_show_the_dates_of_their_lines(sheets: Path) -> None:
    whole = [r for r in read_records(sheets) if any(g.system == "whole" for g in r.given)]
    assert all("[2024-05-01] user: " in record.context for record in whole)


def test_the_default_budget_is_that_of_the_product() -> None:
    [default] = parse_budgets(["default"])
    assert parse_budgets(["1600", "default", "400"]) == (*sorted((400, default, 1600)),)
    for wrong in (["0"], ["many"], [], ["-5"]):
        with pytest.raises(InvalidInput):
            parse_budgets(wrong)


def test_a_sample_keeps_the_share_of_each_category_and_its_seed(tmp_path: Path) -> None:
    turn = {"type": "turn", "session": "s", "id": "t", "role": "user", "text": "Hi.",
            "at": "2024-05-01T10:00:00Z"}  # fmt: skip
    asked = [
        {"type": "question", "text": f"{kind} {n}?", "answer": "x", "evidence": ["t"],
         "category": kind}
        for kind, many in {"a": 60, "b": 30, "c": 9, "d": 1}.items()
        for n in range(many)
    ]  # fmt: skip
    asked.append({"type": "question", "text": "no gold", "evidence": ["t"], "category": "a"})
    _put(tmp_path / "many.jsonl", [turn, *asked])
    whole = load_dataset("jsonl", tmp_path / "many.jsonl")

    def drawn(seed: int) -> list[str]:
        return [q.text for c in sample(whole, 20, seed).conversations for q in c.questions]

    kinds = Counter(text[0] for text in drawn(1))
    assert kinds == {"a": 12, "b": 6, "c": 1, "d": 1}
    assert drawn(1) == drawn(1) != drawn(2)
    assert sample(whole, None, 0).questions == 100
    assert sample(whole, None, 0).left_out == {"questions without a gold answer": 1}
    assert sample(whole, 500, 0).questions == 100
    with pytest.raises(InvalidInput, match="at least 4"):
        sample(whole, 3, 0)


# Sheets


def test_a_sheet_holds_its_id_question_and_context_and_nothing_else(sheets: Path) -> None:
    for record in read_records(sheets):
        text = (sheets / "reader" / f"{record.id}.txt").read_text()
        assert text == (
            f"id: {record.id}\n\nquestion: {record.question}\n\ncontext:\n{record.context}"
        )
        assert record.question.startswith("(asked on Thursday, 9 May 2024) ")


def test_the_order_of_the_ids_mixes_conversations_and_systems(sheets: Path) -> None:
    records = read_records(sheets)
    assert [record.id for record in records] == sorted(record.id for record in records)
    for what in ([r.conversation for r in records], [r.given[0].system for r in records]):
        changes = sum(a != b for a, b in pairwise(what))
        assert changes > len(set(what))


def test_sheets_are_not_written_over_others(sheets: Path) -> None:
    with pytest.raises(InvalidInput, match="without sheets"):
        write_sheets(sheets, [], {})


@pytest.mark.parametrize(
    ("quote", "stands"),
    [
        ("keeps bees", True),
        ("Keeps  BEES,\nin Tromsø", True),
        ("My sister … Tromsø.", True),
        ("my sister ... tromsø", True),
        ("keeps wasps", False),
        ("My sister … Oslo", False),
        ("", None),
        ("…", None),
    ],
)
def test_a_quote_must_stand_in_the_context(quote: str, stands: bool | None) -> None:
    assert quote_stands(quote, 'user: "My sister keeps bees in Tromsø."') is stands


def test_answers_from_another_context_are_named(sheets: Path) -> None:
    records = read_records(sheets)
    wrong = records[3].id
    _answer(sheets, **{wrong: {"quote": "words of another record"}})
    assert judge_sheet(sheets).bad_quotes == [wrong]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "must have answers"),
        ([{"id": "x", "answer": "?"}], "ids of the sheet"),
        ([{"id": "", "answer": "?"}, {"id": "", "answer": "?"}], "twice"),
        ([{"id": ""}], "'answer'"),
        ([{"id": "", "answer": "?"}], "complete"),
    ],
)
def test_answers_must_fit_the_records(
    sheets: Path, lines: list[dict[str, Any]], message: str
) -> None:
    first = read_records(sheets)[0].id
    _put(sheets / "answers" / "me.jsonl", [line | {"id": line["id"] or first} for line in lines])
    with pytest.raises(InvalidInput, match=message):
        judge_sheet(sheets)


def test_the_judge_sees_neither_system_nor_context(sheets: Path) -> None:
    _answer(sheets)
    sheet = judge_sheet(sheets)
    assert read_answer_run(sheets, sheet) is None
    for line in map(json.loads, (sheets / "judge.jsonl").read_text().splitlines()):
        assert set(line) == {"id", "question", "gold", "answer"}
        assert line["answer"] == line["gold"]


def test_planted_answers_are_of_another_question_and_stay_the_same(sheets: Path) -> None:
    _answer(sheets)
    assert not judge_sheet(sheets).planted
    first = judge_sheet(sheets, planted=6)
    assert judge_sheet(sheets).lines == first.lines
    by_id = {record.id: record for record in first.records}
    assert len(first.planted) == 6
    for one in first.planted:
        record = by_id[one.record]
        assert one.id not in by_id
        assert one.answer != record.gold
        same = {r.gold for r in first.records if r.category == record.category}
        assert one.answer in same
    assert [line["id"] for line in first.lines] == sorted(line["id"] for line in first.lines)


@pytest.mark.process
def test_figures_count_right_and_partly_by_system_and_category(
    sheets: Path, tmp_path: Path
) -> None:
    _answer(sheets)
    records = judge_sheet(sheets, planted=4).records
    whole = [r for r in records if any(g.name == "whole" for g in r.given)]
    wrong, partly = (next(r for r in whole if r.category == f"kind {n}") for n in (1, 2))
    planted = judge_sheet(sheets).planted
    _judge(
        sheets,
        **{wrong.id: "wrong", partly.id: "partly", planted[0].id: "right"},
        **dict.fromkeys((one.id for one in planted[1:]), "wrong"),
    )
    run = read_answer_run(sheets, judge_sheet(sheets))
    assert run is not None
    assert run.systems[0] == "octopus 30"
    assert run.right("whole").mean == 0.5
    assert run.right_or_partly("whole").mean == 0.75
    assert run.right("whole", "kind 1").mean == 0.5
    assert run.right_or_partly("whole", "kind 2").mean == 1
    assert run.ahead("dense 30", "whole").mean > 0
    report = answers_markdown(run)
    assert "planted wrong answers: 4, of which the judge called 1 right" in report
    values = answers_json(run)
    assert len(values["records"]) == len(records)
    assert {"question", "gold", "answer", "quote_found", "verdict"} <= set(values["records"][0])
    assert values["planted"] == {"judged": 4, "right": 1, "partly": 0}
    if PLOTS:
        assert [file.name for file in write_report(run, tmp_path / "out")] == [
            "answers.md", "answers.json", "answers.png",
        ]  # fmt: skip


def test_verdicts_must_be_known_words_for_every_line(sheets: Path) -> None:
    _answer(sheets)
    sheet = judge_sheet(sheets)
    _judge(sheets, **{sheet.records[0].id: "splendid"})
    with pytest.raises(InvalidInput, match="right, partly, wrong"):
        read_answer_run(sheets, sheet)
    _put(sheets / "verdicts" / "me.jsonl", [{"id": sheet.records[0].id, "verdict": "Right"}])
    with pytest.raises(InvalidInput, match="complete"):
        read_answer_run(sheets, sheet)


def test_the_page_shows_the_instructions_in_full(sheets: Path) -> None:
    page = (DOCS / "howto" / "measure-answers.md").read_text()
    for role in ("reader", "judge"):
        assert f"```text\n{prompt(role)}```" in page
        assert (sheets / f"{role.upper()}.md").read_text().startswith(prompt(role))


# The recall tool


@pytest.fixture
def searchable(tmp_path: Path, dataset: Dataset, embedder: SharedEmbedder) -> Path:
    folder = tmp_path / "searchable"
    systems = make_context_systems(
        ["octopus", "octopus+recall"], embedder, memories=folder / MEMORIES
    )
    records = make_records(sample(dataset, None, 0), systems, budgets=[200])
    write_sheets(folder, records, describe(dataset, systems, embedder))
    return folder


def test_a_lookup_adds_to_the_context_of_its_record_alone(
    searchable: Path, embedder: SharedEmbedder
) -> None:
    before = {record.id: record for record in read_records(searchable)}
    record = next(r for r in before.values() if r.memory and r.conversation == "ana")
    assert "octopus bench lookup" in (searchable / "READER.md").read_text()
    assert "\nlookups: 5\n" in (searchable / "reader" / f"{record.id}.txt").read_text()
    found = look_up(searchable, record, "sister bees", embedder)
    assert "2024-05-01 user: My sister keeps bees in Tromsø." in found
    assert "marathon" not in found
    after = {record.id: record for record in read_records(searchable)}
    changed = [name for name, one in after.items() if one.context != before[name].context]
    assert changed == [record.id]
    assert found in after[record.id].context
    assert after[record.id].given[0].tokens > record.given[0].tokens
    assert after[record.id].given[0].lookups == 1


def test_lookups_are_bounded_and_only_for_records_with_the_tool(
    searchable: Path, embedder: SharedEmbedder
) -> None:
    with_tool = next(r for r in read_records(searchable) if r.memory)
    without = next(r for r in read_records(searchable) if not r.memory)
    for _ in range(5):
        look_up(searchable, with_tool, "bees", embedder)
    with pytest.raises(InvalidInput, match="more than 5"):
        look_up(searchable, with_tool, "bees", embedder)
    with pytest.raises(InvalidInput, match="line of lookups"):
        look_up(searchable, without, "bees", embedder)


def test_the_tool_is_no_system_of_bench_context(embedder: SharedEmbedder) -> None:
    with pytest.raises(InvalidInput, match="none of"):
        make_context_systems(["octopus+recall"], embedder)


# Models


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with FakeOpenAIServer() as running:
        yield running


@pytest.fixture
def model(server: FakeOpenAIServer) -> Iterator[ChatModel]:
    made = ChatModel("reader-1", load(openai_base_url=server.base_url, openai_api_key="any"))
    yield made
    made.close()


def test_a_model_sees_one_record_in_each_request(
    sheets: Path, server: FakeOpenAIServer, model: ChatModel, embedder: SharedEmbedder
) -> None:
    records = read_records(sheets)
    server.answer({"answer": "In Tromsø.", "quote": "May"}, times=len(records))
    answer_all(sheets, model, embedder)
    assert len(server.requests) == len(records)
    for record, request in zip(records, server.requests, strict=True):
        system, user = request.body["messages"]
        assert "From the context alone".lower() in system["content"].lower()
        assert user["content"] == f"question: {record.question}\n\ncontext:\n{record.context}"
        assert "tools" not in request.body
    sheet = judge_sheet(sheets, planted=2)
    assert {answer.text for answer in sheet.answers.values()} == {"In Tromsø."}

    server.clear()
    server.answer('The verdict is {"verdict": "partly"}', times=len(sheet.lines))
    judge_all(sheets, sheet, model)
    for line, request in zip(sheet.lines, server.requests, strict=True):
        shown = json.loads(request.body["messages"][1]["content"])
        assert shown == {key: value for key, value in line.items() if key != "id"}
    run = read_answer_run(sheets, sheet)
    assert run is not None
    assert run.right_or_partly("whole").mean == 1
    assert "- reader: reader-1\n- judge: reader-1" in answers_markdown(run)


def test_a_run_that_was_stopped_goes_on(
    sheets: Path, server: FakeOpenAIServer, model: ChatModel, embedder: SharedEmbedder
) -> None:
    total = len(read_records(sheets))
    server.answer({"answer": "yes", "quote": ""}, times=2)
    server.refuse(times=total)
    with pytest.raises(ModelError, match="without text"):
        answer_all(sheets, model, embedder)
    server.clear()
    server.answer({"answer": "no", "quote": ""}, times=total)
    answer_all(sheets, model, embedder)
    assert len(server.requests) == total - 2
    answers = judge_sheet(sheets).answers.values()
    assert Counter(answer.text for answer in answers) == {"yes": 2, "no": total - 2}


def test_requests_at_a_time_give_each_record_its_own_answer(
    searchable: Path, server: FakeOpenAIServer, model: ChatModel, embedder: SharedEmbedder
) -> None:
    records = read_records(searchable)
    server.delay(0.05, times=len(records))
    server.answer({"answer": "x", "quote": ""}, times=len(records))
    seen: list[tuple[int, int]] = []
    answer_all(searchable, model, embedder, lambda *done: seen.append(done), parallel=4)
    assert set(judge_sheet(searchable).answers) == {record.id for record in records}
    assert seen == [(place, len(records)) for place in range(1, len(records) + 1)]


def test_an_endpoint_that_fails_is_named_without_the_text(
    sheets: Path, server: FakeOpenAIServer, model: ChatModel, embedder: SharedEmbedder
) -> None:
    server.fail(status=401)
    with pytest.raises(ModelError, match="did not accept the key"):
        answer_all(sheets, model, embedder)
    server.send({"odd": 1})
    with pytest.raises(ModelError, match="no chat completion"):
        answer_all(sheets, model, embedder)


def test_a_judge_without_a_verdict_is_an_error(
    sheets: Path, server: FakeOpenAIServer, model: ChatModel
) -> None:
    _answer(sheets)
    server.answer("Hard to say: right or wrong?")
    with pytest.raises(ModelError, match="no verdict"):
        judge_all(sheets, judge_sheet(sheets), model)


def test_a_model_may_search_before_it_answers_within_the_bound(
    searchable: Path, server: FakeOpenAIServer, model: ChatModel, embedder: SharedEmbedder
) -> None:
    def call(number: int) -> dict[str, Any]:
        function = {"name": "recall", "arguments": json.dumps({"query": "sister bees"})}
        return {"id": f"c{number}", "type": "function", "function": function}

    records = read_records(searchable)
    for record in records:
        if record.memory:
            server.answer(None, tool_calls=[call(1), call(2), call(3)], finish_reason="tool_calls")
            server.answer(None, tool_calls=[call(4), call(5), call(6)], finish_reason="tool_calls")
        server.answer({"answer": "x", "quote": ""})
    answer_all(searchable, model, embedder)
    last = [request.body for request in server.requests if len(request.body["messages"]) == 10]
    assert len(last) == sum(record.memory is not None for record in records)
    for body in last:
        assert "tools" not in body
        results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        assert results[5] == "No search is left."
    after = read_records(searchable)
    assert {one.lookups for r in after if r.memory for one in r.given} == {5}
    assert "recalled for 'sister bees':" in next(r.context for r in after if r.memory)


# The command


def test_the_command_writes_sheets_reads_answers_and_makes_figures(
    data: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "by-command"
    common = ["answers", "--dataset", "jsonl", "--data", str(data), "--systems", "octopus,whole"]
    made = CliRunner().invoke(bench, [*common, "--write", str(folder), "--budgets", "default"])
    assert made.exit_code == 0, made.output
    _answer(folder)
    read = ["answers", "--read", str(folder)]
    sheet = CliRunner().invoke(bench, [*read, "--planted", "2"])
    assert "no verdicts in" in sheet.output
    _judge(folder)
    done = CliRunner().invoke(bench, [*read, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    values = json.loads((tmp_path / "out" / "answers.json").read_text())
    assert values["systems"]["whole"]["overall"]["right"]["mean"] == 1
    assert values["planted"]["right"] == 2


def test_the_command_does_all_with_models(
    data: Path, tmp_path: Path, server: FakeOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTOPUS_OPENAI_BASE_URL", server.base_url)
    server.answer({"answer": "In Tromsø", "quote": ""}, times=4)
    server.answer({"verdict": "right"}, times=4)
    arguments = ["answers", "--dataset", "jsonl", "--data", str(data), "--systems", "whole",
                 "--write", str(tmp_path / "m"), "--model", "r", "--judge-model", "j"]  # fmt: skip
    done = CliRunner().invoke(bench, arguments)
    assert done.exit_code == 0, done.output
    assert "| whole | 100.0 (100.0–100.0) |" in done.output
    assert {request.body["model"] for request in server.requests} == {"r", "j"}


def test_the_command_measures_a_memory_of_ones_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mine.db'}"
    with EpisodicMemory.open(url, embedder=HashingEmbedder(), background=False) as memory:
        scope = memory.scope(user="ana")
        for day, text in enumerate(("I keep bees.", "I sold the boat."), start=1):
            scope.store(
                [{"role": "user", "content": text}, {"role": "assistant", "content": "I see."}],
                session_id=f"s{day}",
                at=[datetime(2024, 5, day, 10, minute, tzinfo=UTC) for minute in (0, 1)],
            )
        memory.flush()
    questions = tmp_path / "questions.jsonl"
    _put(questions, [{"text": "What did I sell?", "answer": "The boat"}])
    folder = tmp_path / "own"
    arguments = ["answers", "--dataset", "memory", "--db", url, "--user", "ana",
                 "--questions-file", str(questions), "--systems", "octopus,whole",
                 "--write", str(folder)]  # fmt: skip
    done = CliRunner().invoke(bench, arguments)
    assert done.exit_code == 0, done.output
    whole = next(r for r in read_records(folder) if r.given[0].system == "whole")
    assert whole.context.splitlines() == [
        "[2024-05-01] user: I keep bees.",
        "[2024-05-01] assistant: I see.",
        "[2024-05-02] user: I sold the boat.",
        "[2024-05-02] assistant: I see.",
    ]
    assert whole.question == "(asked on Friday, 3 May 2024) What did I sell?"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--write", "x", "--read", "x"],
        ["--write", "x", "--dataset", "jsonl"],
        ["--write", "x", "--dataset", "memory"],
    ],
)
def test_the_command_says_what_is_missing(arguments: list[str], tmp_path: Path) -> None:
    given = [str(tmp_path / "x") if word == "x" else word for word in arguments]
    made = CliRunner().invoke(bench, ["answers", *given])
    assert isinstance(made.exception, InvalidInput)


def test_lookup_prints_what_the_tool_finds(searchable: Path) -> None:
    record = next(r for r in read_records(searchable) if r.memory)
    arguments = ["lookup", str(searchable), record.id, "bees boat"]
    made = CliRunner().invoke(bench, arguments)
    assert made.exit_code == 0, made.output
    assert "2024-05-0" in made.output
    unknown = CliRunner().invoke(bench, ["lookup", str(searchable), "nobody", "bees"])
    assert isinstance(unknown.exception, InvalidInput)
