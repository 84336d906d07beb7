"""The format for your own data: JSON Lines, each a turn or a question.

    {"type": "turn", "id": "t1", "session": "s1", "role": "user", "text": "…",
     "at": "2024-05-01T10:00:00Z", "name": "Ana", "conversation": "c1"}
    {"type": "question", "text": "…", "evidence": ["t1"], "category": "fact",
     "asked_at": "2024-06-01T09:00:00Z", "conversation": "c1"}
    {"type": "forget", "about": "…", "at": "2024-05-20T09:00:00Z", "conversation": "c1"}

`name`, `conversation`, `category` and `asked_at` may be left out, and a question may have
`evidence_sessions` where only the sessions are known. Turns stand in the order they were said. A
turn of role tool may have `function` and `arguments`, a question `answer`, `answer_words`,
`answer_dates`, `forbidden_words`, `rubric` and `language`. A question with `"evidence": []` has no
answer in the conversation. `forget` is what the user had forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..domain.episode import check_time
from ..domain.errors import InvalidInput
from . import fields
from .conversation import UNANSWERABLE, BenchTurn, Conversation, Forgotten, Question

_ROLES = ("user", "assistant", "system", "tool")


def read(files: Mapping[str, str], left_out: Counter[str]) -> list[Conversation]:
    """Read the texts of files by name, as if they were one."""
    turns: dict[str, list[BenchTurn]] = {}
    asked: dict[str, list[tuple[str, Any]]] = {}
    forgotten: dict[str, list[Forgotten]] = {}
    for where, line in lines(files):
        record = fields.parse(line, where)
        kind = fields.field(record, "type", str, where)
        conversation = str(record.get("conversation", "1"))
        if kind == "turn":
            turns.setdefault(conversation, []).append(_turn(record, where))
        elif kind == "question":
            asked.setdefault(conversation, []).append((where, record))
        elif kind == "forget":
            forgotten.setdefault(conversation, []).append(_forgotten(record, where))
        else:
            raise InvalidInput("data", f"{where}: the type must be 'turn', 'question' or 'forget'")
    for name in (asked | forgotten).keys() - turns.keys():
        raise InvalidInput("data", f"conversation {name!r} must have turns, not only questions")
    found = {
        name: _conversation(name, said, asked.get(name, []), left_out)
        for name, said in turns.items()
    }
    return [
        replace(conversation, forgotten=tuple(forgotten.get(name, ())))
        for name, conversation in found.items()
    ]


def lines(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each line that is not blank, with its place. Several files are named."""
    for name, text in files.items():
        # Not splitlines(), because JSON allows U+2028 and other separators inside a text.
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"{name}, line {number}" if len(files) > 1 else f"line {number}", line


def _turn(record: Mapping[str, Any], where: str) -> BenchTurn:
    role = fields.field(record, "role", str, where)
    if role not in _ROLES:
        raise InvalidInput("data", f"{where}: the role must be one of {', '.join(_ROLES)}")
    name = record.get("name")
    return BenchTurn(
        id=fields.field(record, "id", str, where),
        session_id=fields.field(record, "session", str, where),
        role=role,
        text=fields.field(record, "text", str, where),
        at=_time(fields.field(record, "at", str, where), where),
        name=None if name is None else str(name),
        function=_function(record, role, where),
        arguments=record.get("arguments"),
    )


def _forgotten(record: Mapping[str, Any], where: str) -> Forgotten:
    return Forgotten(
        about=fields.field(record, "about", str, where),
        at=_time(fields.field(record, "at", str, where), where),
    )


def _function(record: Mapping[str, Any], role: str, where: str) -> str | None:
    if record.get("function") is None:
        return None
    if role != "tool":
        raise InvalidInput("data", f"{where}: a 'function' must have the role 'tool'")
    name = fields.field(record, "function", str, where)
    if not name:
        raise InvalidInput("data", f"{where}: 'function' must not be empty")
    return name


def _conversation(
    name: str,
    turns: list[BenchTurn],
    asked: list[tuple[str, Any]],
    left_out: Counter[str],
) -> Conversation:
    session_of = {turn.id: turn.session_id for turn in turns}
    if len(session_of) < len(turns):
        twice = next(name for name, n in Counter(turn.id for turn in turns).items() if n > 1)
        raise InvalidInput(
            "data", f"ids of turns must be unique in a conversation: {twice!r} is there twice"
        )
    there = frozenset(session_of.values())
    found: list[Question] = []
    unanswerable: list[Question] = []
    for where, record in asked:
        named = fields.names(record, "evidence", where)
        turns_of_it = frozenset(named & session_of.keys())
        left_out["evidence ids that name no turn"] += len(named - turns_of_it)
        sessions = fields.names(record, "evidence_sessions", where) & there
        sessions |= {session_of[turn] for turn in turns_of_it}
        asked_here = question(record, where, turns_of_it, sessions)
        if sessions:
            found.append(asked_here)
        elif record.get("evidence") == [] and not record.get("evidence_sessions"):
            left_out[UNANSWERABLE] += 1
            unanswerable.append(asked_here)
        else:
            left_out["questions without evidence"] += 1
    return Conversation(
        id=name,
        turns=tuple(turns),
        questions=tuple(found),
        unanswerable=tuple(unanswerable),
    )


def question(
    record: Mapping[str, Any],
    where: str,
    turns: frozenset[str] = frozenset(),
    sessions: frozenset[str] = frozenset(),
) -> Question:
    """Return the question of a record, with the evidence that was found for it."""
    when = record.get("asked_at")
    return Question(
        text=fields.field(record, "text", str, where),
        category=str(record.get("category", "all")),
        evidence_turns=turns,
        evidence_sessions=sessions,
        asked_at=None if when is None else _time(str(when), where),
        answer=fields.optional_text(record, "answer", where),
        answer_words=fields.texts(record, "answer_words", where),
        answer_dates=fields.dates(record, "answer_dates", where),
        forbidden_words=fields.texts(record, "forbidden_words", where),
        rubric=fields.texts(record, "rubric", where),
        language=fields.optional_text(record, "language", where),
    )


def _time(text: str, where: str) -> datetime:
    try:
        return check_time("at", datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidInput(
            "data", f"{where}: the time must have a zone, as in 2024-05-01T10:00:00Z"
        ) from error
