"""A memory of one's own as a dataset: its turns, and questions from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ..domain.episode import Turn
from ..domain.errors import InvalidInput
from ..engine.scope import MemoryScope
from . import fields, plain
from .conversation import BenchTurn, Conversation
from .datasets import Dataset

NAME = "memory"
"""Name of this dataset, where others have the name of their format."""

_PAGE = 100


def read_memory(scope: MemoryScope, questions: Path) -> Dataset:
    """Return what a user said and was told, with the questions of a JSON Lines file.

    The memory is only read. A run stores the turns in memories of its own.

    :raises InvalidInput: for a memory without turns, or a file that cannot be read
    """
    turns = tuple(_turns(scope))
    if not turns:
        raise InvalidInput("user", "must have turns in this memory: check db, agent and user")
    try:
        raw = questions.read_bytes()
    except OSError as error:
        raise InvalidInput(
            "questions_file", f"cannot read {questions}: {error.strerror}"
        ) from error
    asked = [
        plain.question(fields.parse(line, where), where)
        for where, line in plain.lines({questions.name: raw.decode("utf-8", "replace")})
    ]
    return Dataset(
        name=NAME,
        sha256=hashlib.sha256(raw).hexdigest(),
        conversations=(Conversation(id="1", turns=turns, questions=tuple(asked)),),
    )


def _turns(scope: MemoryScope) -> Iterator[BenchTurn]:
    """Yield the turns of every session, the oldest session first."""
    sessions = [
        one.id
        for number in range(1, scope.sessions(1, _PAGE).total_count // _PAGE + 2)
        for one in scope.sessions(number, _PAGE).items
    ]
    replays = [scope.session(name) for name in sessions]
    said = sorted((replay.turns for replay in replays if replay.turns), key=lambda t: t[0].at)
    for turns in said:
        yield from map(_turn, turns)


def _turn(turn: Turn) -> BenchTurn:
    call = turn.tool_call
    name = turn.message.body.get("name")
    return BenchTurn(
        id=str(turn.id),
        session_id=turn.session_id,
        role=str(turn.role),
        text=turn.text,
        at=turn.at,
        name=name if isinstance(name, str) else None,
        function=None if call is None else call.function_name,
        arguments=None if call is None else call.arguments,
    )
