"""A format of one's own: JSON Lines, a turn or a question each.

    {"type": "turn", "id": "t1", "session": "s1", "role": "user", "text": "…",
     "at": "2024-05-01T10:00:00Z", "name": "Ana", "conversation": "c1"}
    {"type": "question", "text": "…", "evidence": ["t1"], "category": "fact",
     "asked_at": "2024-06-01T09:00:00Z", "conversation": "c1"}

`name`, `conversation`, `category` and `asked_at` may be left out, and a question may have
`evidence_sessions` where only the sessions are known. Turns stand in the order they were said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..domain.episode import check_time
from ..domain.errors import InvalidInput
from . import fields
from .conversation import BenchTurn, Conversation, Question

_ROLES = ("user", "assistant", "system", "tool")


def read(text: str, left_out: Counter[str]) -> list[Conversation]:
    turns: dict[str, list[BenchTurn]] = {}
    asked: dict[str, list[tuple[str, Any]]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"line {number}"
        record = fields.parse(line, where)
        kind = fields.field(record, "type", str, where)
        conversation = str(record.get("conversation", "1"))
        if kind == "turn":
            turns.setdefault(conversation, []).append(_turn(record, where))
        elif kind == "question":
            asked.setdefault(conversation, []).append((where, record))
        else:
            raise InvalidInput("data", f"{where} has a type other than 'turn' and 'question'")
    for name in asked.keys() - turns.keys():
        raise InvalidInput("data", f"conversation {name!r} has questions and no turn")
    return [
        Conversation(
            id=name,
            turns=tuple(said),
            questions=tuple(_questions(asked.get(name, []), said, left_out)),
        )
        for name, said in turns.items()
    ]


def _turn(record: Mapping[str, Any], where: str) -> BenchTurn:
    role = fields.field(record, "role", str, where)
    if role not in _ROLES:
        raise InvalidInput("data", f"{where} has a role that is none of {', '.join(_ROLES)}")
    name = record.get("name")
    return BenchTurn(
        id=fields.field(record, "id", str, where),
        session_id=fields.field(record, "session", str, where),
        role=role,
        text=fields.field(record, "text", str, where),
        at=_time(fields.field(record, "at", str, where), where),
        name=None if name is None else str(name),
    )


def _questions(
    asked: list[tuple[str, Any]], turns: list[BenchTurn], left_out: Counter[str]
) -> list[Question]:
    session_of = {turn.id: turn.session_id for turn in turns}
    if len(session_of) < len(turns):
        twice = next(name for name, n in Counter(turn.id for turn in turns).items() if n > 1)
        raise InvalidInput("data", f"two turns of one conversation have the id {twice!r}")
    there = frozenset(session_of.values())
    found = []
    for where, record in asked:
        named = fields.names(record, "evidence", where)
        turns_of_it = frozenset(named & session_of.keys())
        left_out["evidence ids that name no turn"] += len(named - turns_of_it)
        sessions = fields.names(record, "evidence_sessions", where) & there
        sessions |= {session_of[turn] for turn in turns_of_it}
        if not sessions:
            left_out["questions without evidence"] += 1
            continue
        when = record.get("asked_at")
        found.append(
            Question(
                text=fields.field(record, "text", str, where),
                category=str(record.get("category", "all")),
                evidence_turns=turns_of_it,
                evidence_sessions=sessions,
                asked_at=None if when is None else _time(str(when), where),
            )
        )
    return found


def _time(text: str, where: str) -> datetime:
    try:
        return check_time("at", datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidInput(
            "data", f"{where} has a time that is not like 2024-05-01T10:00:00Z, with its zone"
        ) from error
