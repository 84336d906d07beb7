"""Files for readers and judges of answers: a person, or any model that no program calls.

READER.md  JUDGE.md       what to do, for whoever reads or judges
reader/ID.txt             one record: its id, the question and the context, nothing else
answers/*.jsonl           from the readers: {"id": …, "answer": …, "quote": …}
judge.jsonl               from the answers: id, question, gold, rubric and answer, mixed
verdicts/*.jsonl          from the judges: {"id": …, "verdict": "right" | "partly" | "wrong"}
key/                      which id is whose; not for readers and judges
"""

from __future__ import annotations

import json
import random
import re
import time
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ..domain.errors import InvalidInput
from . import fields
from .answers import Given, Record, opaque_ids
from .blocks import count_tokens
from .layout import counted
from .octopus import OctopusSystem
from .systems import SharedEmbedder

Verdict = Literal["right", "partly", "wrong"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_RECORDS = Path("key", "records.jsonl")
_PLANTED = Path("key", "planted.jsonl")
_RUN = Path("key", "run.json")
_LOOKUPS = Path("key", "lookups.jsonl")
MEMORIES = Path("key", "memories")
"""Where the memories stand that a reader may search."""
MOST_LOOKUPS = 5
"""How often a reader may search for one record."""
_CONTEXT = "\n\ncontext:\n"
_READ_AS_THEY_ARE = (
    "id", "question", "conversation", "category", "language", "gold", "memory",
)  # fmt: skip
_SHOWN_IDS = 5
_HOW = {
    "reader": "Read one file of `reader/` at a time, without any other in view, and write a line "
    "with its id into a file of `answers/`:",
    "judge": "Judge each line of `judge.jsonl` by itself, and write a line with its id into a file "
    "of `verdicts/`:",
}
_LINE = {
    "reader": '{"id": "…", "answer": "…", "quote": "…"}',
    "judge": '{"id": "…", "verdict": "right"}',
}
_HOW_TO_LOOK_UP = (
    f"Where a sheet has a line `lookups: {MOST_LOOKUPS}`, you may search the memory so often "
    'before you answer, with `octopus bench lookup FOLDER ID "what to look for"`.\n'
)
_SPLIT = re.compile(r"\s*(?:…|\.{3,}|\n)\s*")
_NOT_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a reader answered, and the passage of the context that it names for it."""

    id: str
    text: str
    quote: str
    seconds: float | None = None
    """None for an answer from a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """An answer to another question of the category, which a judge must not accept."""

    id: str
    record: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSheet:
    """What is to be judged, and what it was made from."""

    records: tuple[Record, ...]
    answers: Mapping[str, Answer]
    planted: tuple[Planted, ...]
    lines: tuple[Mapping[str, Any], ...]
    """Id, question, gold answer, rubric and answer, in the order of the opaque ids."""

    @property
    def bad_quotes(self) -> list[str]:
        """Return the ids of answers whose quote does not stand in their own context."""
        return [
            record.id
            for record in self.records
            if quote_stands(self.answers[record.id].quote, record.context) is False
        ]


def prompt(name: str) -> str:
    """Return the instructions of the `reader` or the `judge`."""
    return files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def write_sheets(folder: Path, records: Sequence[Record], run: Mapping[str, Any]) -> None:
    """Write a file for each record, the instructions and the key.

    :raises InvalidInput: when the folder holds sheets already
    """
    if (folder / _RECORDS).exists():
        raise InvalidInput("write", f"must name a folder without sheets: {folder} has some")
    for name in ("reader", "answers", "verdicts", "key"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    searchable = any(record.memory is not None for record in records)
    for role, how in _HOW.items():
        more = f"\n{_HOW_TO_LOOK_UP}" if searchable and role == "reader" else ""
        text = f"{prompt(role)}\n{how}\n\n    {_LINE[role]}\n{more}"
        (folder / f"{role.upper()}.md").write_text(text, encoding="utf-8")
    for record in records:
        (folder / "reader" / f"{record.id}.txt").write_text(_sheet(record), encoding="utf-8")
    _write_lines(folder / _RECORDS, map(_key, records))
    _write_run(folder, run)


def read_run(folder: Path) -> dict[str, Any]:
    """Return what `write_sheets` was told about the run."""
    found = fields.parse(_text(folder / _RUN), str(folder / _RUN))
    return cast(dict[str, Any], found)


def note_run(folder: Path, **facts: str) -> None:
    """Add facts to what is known about the run, such as its reader."""
    _write_run(folder, read_run(folder) | facts)


def read_records(folder: Path, only: str | None = None) -> list[Record]:
    """Return the records with the contexts that the readers saw, or `only` that of an id.

    :raises InvalidInput: when the folder has no sheets
    """
    costs = _lookups(folder)
    return [
        _record(folder, line, costs[line["id"]])
        for _, line in _lines(folder / _RECORDS)
        if only in {None, line["id"]}
    ]


def _lookups(folder: Path) -> Mapping[str, list[float]]:
    """Return by record the seconds of each lookup."""
    found: dict[str, list[float]] = defaultdict(list)
    if (folder / _LOOKUPS).exists():
        for _, line in _lines(folder / _LOOKUPS):
            found[line["id"]].append(line["seconds"])
    return found


def _record(folder: Path, line: Mapping[str, Any], lookups: Sequence[float]) -> Record:
    context = _text(folder / "reader" / f"{line['id']}.txt").partition(_CONTEXT)[2]
    given = [Given(**one) for one in line["given"]]
    if line["memory"] is not None:
        given = [
            replace(
                one,
                tokens=count_tokens(context),
                seconds=one.seconds + sum(lookups),
                lookups=len(lookups),
            )
            for one in given
        ]
    read = {key: line[key] for key in _READ_AS_THEY_ARE}
    return Record(
        **read,
        context=context,
        asked_at=datetime.fromisoformat(line["asked_at"]),
        rubric=tuple(line["rubric"]),
        given=tuple(given),
    )


def look_up(folder: Path, record: Record, query: str, embedder: SharedEmbedder) -> str:
    """Search the memory of a record for its reader, and add what is found to its context.

    :raises InvalidInput: for a record without the tool, or after `MOST_LOOKUPS`
    """
    if record.memory is None:
        raise InvalidInput("id", "must name a record whose sheet has a line of lookups")
    if len(_lookups(folder)[record.id]) >= MOST_LOOKUPS:
        raise InvalidInput("id", f"must not be looked up more than {MOST_LOOKUPS} times")
    octopus = OctopusSystem(embedder, file=folder / MEMORIES / record.memory)
    try:
        octopus.open()
        started = time.perf_counter()
        found = octopus.lookup(query, record.asked_at) or "nothing found"
        seconds = time.perf_counter() - started
    finally:
        octopus.reset()
    with (folder / "reader" / f"{record.id}.txt").open("a", encoding="utf-8") as file:
        file.write(f"\n\nrecalled for {query!r}:\n{found}")
    _append(folder / _LOOKUPS, {"id": record.id, "query": query, "seconds": seconds})
    return found


def read_answers(folder: Path, records: Sequence[Record]) -> dict[str, Answer]:
    """Return the answer to each record; empty if there is no file of answers yet.

    :raises InvalidInput: when a record has no answer or two, or an answer no record
    """
    found: dict[str, Answer] = {}
    for where, line in _all_lines(folder / "answers"):
        name = fields.field(line, "id", str, where)
        _check_new(name, found, where)
        quote = line.get("quote") or ""
        found[name] = Answer(
            id=name,
            text=fields.field(line, "answer", str, where),
            quote=" … ".join(map(str, quote)) if isinstance(quote, list) else str(quote),
            seconds=line.get("seconds"),
        )
    _check_whole("answers", found, {record.id for record in records})
    return found


def read_verdicts(folder: Path, sheet: Collection[str]) -> dict[str, Verdict]:
    """Return the verdict on each id of the judge's sheet; empty if there is no file yet.

    :raises InvalidInput: as `read_answers`, and for a verdict that is none
    """
    found: dict[str, Verdict] = {}
    for where, line in _all_lines(folder / "verdicts"):
        name = fields.field(line, "id", str, where)
        _check_new(name, found, where)
        verdict = fields.field(line, "verdict", str, where).strip().lower()
        if verdict not in VERDICTS:
            raise InvalidInput("verdicts", f"{where}: must be one of {', '.join(VERDICTS)}")
        found[name] = verdict
    _check_whole("verdicts", found, sheet)
    return found


def answered_ids(folder: Path) -> set[str]:
    """Return the ids that have an answer so far."""
    return {line["id"] for _, line in _all_lines(folder / "answers")}


def judged_ids(folder: Path) -> set[str]:
    """Return the ids that have a verdict so far."""
    return {line["id"] for _, line in _all_lines(folder / "verdicts")}


def quote_stands(quote: str, context: str) -> bool | None:
    """Tell whether each part of a quote stands in the context; None for an empty quote.

    Parts are joined by "…" or "...". Case, white space and punctuation do not count, because the
    block writes quotation marks in its own way.
    """
    parts = [plain for part in _SPLIT.split(quote) if (plain := _plain(part))]
    if not parts:
        return None
    whole = _plain(context)
    return all(part in whole for part in parts)


def judge_sheet(folder: Path, *, planted: int = 0, seed: int = 0) -> JudgeSheet:
    """Make the judge's sheet of a folder from its answers, and write it.

    :raises InvalidInput: when the folder has no sheets, or its answers are not complete
    """
    records = read_records(folder)
    answers = read_answers(folder, records)
    if not answers:
        raise InvalidInput("read", f"must have answers: {folder / 'answers'} has no *.jsonl file")
    wrong = _planted(folder, records, answers, planted, seed)
    by_id = {record.id: record for record in records}
    lines = [_to_judge(record, record.id, answers[record.id].text) for record in records]
    lines += [_to_judge(by_id[one.record], one.id, one.answer) for one in wrong]
    lines.sort(key=lambda line: str(line["id"]))
    _write_lines(folder / "judge.jsonl", lines)
    return JudgeSheet(
        records=tuple(records), answers=answers, planted=tuple(wrong), lines=tuple(lines)
    )


def append_line(folder: Path, kind: Literal["answers", "verdicts"], line: object) -> None:
    """Add what a model said, at once, so that a run that is stopped can go on."""
    _append(folder / kind / "model.jsonl", line)


def _planted(
    folder: Path, records: Sequence[Record], answers: Mapping[str, Answer], count: int, seed: int
) -> list[Planted]:
    """Choose answers to other questions of the same category, once for a folder.

    An answer with a quote is chosen, because one that says "I do not know" is no test of a judge.
    """
    file = folder / _PLANTED
    if file.exists():
        return [Planted(**line) for _, line in _lines(file)]
    if not count:
        return []
    by_category: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if answers[record.id].quote:
            by_category[record.category].append(record)
    chance = random.Random(f"planted {seed}")  # noqa: S311
    order = list(records)
    chance.shuffle(order)
    chosen: list[tuple[str, str]] = []
    for record in order:
        others = [
            other
            for other in by_category[record.category]
            if (other.gold, other.rubric) != (record.gold, record.rubric)
        ]
        if others and len(chosen) < count:
            chosen.append((record.id, answers[chance.choice(others).id].text))
    names = opaque_ids(len(chosen), f"planted {seed}", (record.id for record in records))
    planted = [
        Planted(id=name, record=record, answer=text)
        for name, (record, text) in zip(names, chosen, strict=True)
    ]
    _write_lines(file, map(asdict, planted))
    return planted


def _to_judge(record: Record, name: str, answer: str) -> dict[str, Any]:
    line: dict[str, Any] = {"id": name, "question": record.question}
    if record.gold is not None:
        line["gold"] = record.gold
    if record.rubric:
        line["rubric"] = list(record.rubric)
    return line | {"answer": answer}


def _sheet(record: Record) -> str:
    tool = "" if record.memory is None else f"\nlookups: {MOST_LOOKUPS}"
    return f"id: {record.id}{tool}\n\nquestion: {record.question}{_CONTEXT}{record.context}"


def _key(record: Record) -> dict[str, Any]:
    """Return everything but the context, which the reader's file holds."""
    line = asdict(record) | {"asked_at": record.asked_at.isoformat()}
    del line["context"]
    return line


def _plain(text: str) -> str:
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _check_new(name: str, found: Collection[str], where: str) -> None:
    if name in found:
        raise InvalidInput("read", f"{where}: the id {name!r} must not be there twice")


def _check_whole(what: str, found: Collection[str], wanted: Collection[str]) -> None:
    unknown = sorted(set(found) - set(wanted))
    if unknown:
        raise InvalidInput("read", f"{what} must have ids of the sheet, not {_some(unknown)}")
    missing = sorted(set(wanted) - set(found))
    if found and missing:
        raise InvalidInput(
            "read",
            f"{what} must be complete: {counted(len(missing), 'id')} missing, {_some(missing)}",
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN_IDS]) + (" …" if len(names) > _SHOWN_IDS else "")


def _all_lines(folder: Path) -> Iterable[tuple[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        yield from _lines(file)


def _lines(file: Path) -> Iterable[tuple[str, Any]]:
    for number, line in enumerate(_text(file).split("\n"), start=1):
        if line.strip():
            where = f"{file.name}, line {number}"
            yield where, fields.parse(line, where)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput("read", f"cannot read {file}: {error.strerror}") from error


def _write_run(folder: Path, run: Mapping[str, Any]) -> None:
    (folder / _RUN).write_text(json.dumps(run, indent=1, ensure_ascii=False), encoding="utf-8")


def _append(file: Path, line: object) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(line, ensure_ascii=False) + "\n")


def _write_lines(file: Path, lines: Iterable[object]) -> None:
    file.write_text(
        "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8"
    )
