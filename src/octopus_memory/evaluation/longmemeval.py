"""LongMemEval: questions to a chat assistant, each over its own history (Wu et al., ICLR 2025).

Reads `longmemeval_s.json`, `longmemeval_m.json` and `longmemeval_oracle.json`. As in its own
retrieval evaluation, abstention questions are left out: they have no place of an answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from ..domain.errors import InvalidInput
from . import fields
from .conversation import BenchTurn, Conversation, Question

_DATE = "%Y/%m/%d (%a) %H:%M"
_ABSTENTION = "_abs"


class _Session(NamedTuple):
    at: datetime
    id: str
    turns: list[Any]


def read(text: str, left_out: Counter[str]) -> list[Conversation]:
    found = []
    for place, sample in enumerate(fields.records(text)):
        where = f"question {place}"
        if fields.field(sample, "question_id", str, where).endswith(_ABSTENTION):
            left_out["abstention questions"] += 1
            continue
        conversation = _conversation(sample, where, left_out)
        if conversation is not None:
            found.append(conversation)
    return found


def _conversation(sample: Any, where: str, left_out: Counter[str]) -> Conversation | None:
    turns: list[BenchTurn] = []
    evidence: set[str] = set()
    for session in _sessions(sample, where, left_out):
        for place, said in enumerate(session.turns):
            here = f"{where}, session {session.id!r}[{place}]"
            content = fields.field(said, "content", str, here)
            if not content.strip():
                left_out["blank turns"] += 1
                continue
            turn = BenchTurn(
                id=f"{session.id}_{place + 1}",
                session_id=session.id,
                role=fields.field(said, "role", str, here),
                text=content,
                at=session.at,
            )
            turns.append(turn)
            if said.get("has_answer"):
                evidence.add(turn.id)
    question = _question(sample, where, turns, frozenset(evidence))
    if not question.evidence_sessions:
        left_out["questions without evidence"] += 1
        return None
    return Conversation(id=sample["question_id"], turns=tuple(turns), questions=(question,))


def _sessions(sample: Any, where: str, left_out: Counter[str]) -> Iterator[_Session]:
    """Return the sessions in the order of time, because the oracle file is not sorted."""
    ids = fields.field(sample, "haystack_session_ids", list, where)
    dates = fields.field(sample, "haystack_dates", list, where)
    contents = fields.field(sample, "haystack_sessions", list, where)
    if not len(ids) == len(dates) == len(contents):
        raise InvalidInput("data", f"{where}: the haystack lists must have the same length")
    unique: dict[str, _Session] = {}
    for name, date, turns in zip(ids, dates, contents, strict=True):
        if name in unique:
            left_out["repeated sessions"] += 1
            continue
        if not isinstance(turns, list):
            raise InvalidInput("data", f"{where}, session {name!r} must be a list of turns")
        unique[name] = _Session(fields.moment(date, _DATE, where), str(name), turns)
    yield from sorted(unique.values(), key=lambda session: session.at)


def _question(
    sample: Any, where: str, turns: list[BenchTurn], evidence: frozenset[str]
) -> Question:
    answers = fields.field(sample, "answer_session_ids", list, where)
    there = {turn.session_id for turn in turns}
    date = fields.field(sample, "question_date", str, where)
    return Question(
        text=fields.field(sample, "question", str, where),
        category=fields.field(sample, "question_type", str, where),
        evidence_turns=evidence,
        evidence_sessions=frozenset(str(name) for name in answers if name in there),
        asked_at=fields.moment(date, _DATE, where),
        answer=fields.optional_text(sample, "answer", where),
    )
