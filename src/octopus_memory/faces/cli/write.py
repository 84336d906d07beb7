"""`octopus add` and `octopus run-pending`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.episode import Episode, Turn
from ...domain.errors import InvalidMessage, ModelError, OctopusError
from ...domain.message import Json, Message, parse_message
from ...ports.recall_rows import WorkKind
from .database import Agent, AsJson, Db, Tenant, User, open_existing, open_or_make, parse_since
from .progress import bar, waiting, watch_backlog
from .tables import show_summary
from .terminal import Screen, counted, print_json

if TYPE_CHECKING:
    from ...engine.scope import MemoryScope
    from ...wiring import EpisodicMemory

_BATCH = 200
_EMBED_SECONDS = 10.0
"""Seconds that `add` spends on vectors before it leaves the rest to `run-pending`."""


class Speaker(StrEnum):
    """Roles that a plain text can have. The turn of a tool needs its call, too."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


def add(
    session_id: Annotated[
        str, typer.Argument(help="Id of the session. A new id starts a session.")
    ],
    text: Annotated[
        str,
        typer.Argument(
            help="The message; - reads JSON messages from standard input, one per line."
        ),
    ],
    *,
    role: Annotated[Speaker, typer.Option(help="Role of the speaker.")] = Speaker.USER,
    at: Annotated[
        datetime | None,
        typer.Option(parser=parse_since, metavar="TIME", help="When it was said. Default: now."),
    ] = None,
    end: Annotated[
        bool, typer.Option("--end", help="Close and summarize the session afterwards.")
    ] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Store a message, or many from standard input."""
    with open_or_make(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user)
        if text == "-":
            largest = memory.config(agent, tenant=tenant).session.max_message_bytes
            messages = _read_messages(sys.stdin.buffer.read(), largest)
        elif text.strip():
            messages = [Message({"role": role.value, "content": text})]
        else:
            raise InvalidMessage("text", "must not be empty: give a message, or - to read messages")
        last = _store(scope, session_id, messages, at)
        closed = scope.close_episode(last.episode_id, at=at) if end else None
        left = _embed(memory)
    if as_json:
        print_json(
            {
                "session_id": session_id,
                "episode_id": last.episode_id,
                "stored": len(messages),
                "waiting": left,
                "episode": closed,
            }
        )
    else:
        _say_stored(Screen(), session_id, len(messages), closed, left)


def run_pending(*, db: Db = None, as_json: AsJson = False) -> None:
    """Do the pending work now: vectors, better summaries, closing idle sessions."""
    with open_existing(db) as memory:
        with watch_backlog("working", memory):
            done = memory.run_pending()
        left = waiting(memory)
    if as_json:
        print_json(
            {
                "embedded": done.embedded,
                "summarized": done.summarized,
                "timed_out": done.timed_out,
                "waiting": left,
            }
        )
        return
    screen = Screen()
    screen.write(
        f"Embedded {counted(done.embedded, 'text')}, wrote "
        f"{counted(done.summarized, 'better summary', 'better summaries')}, closed "
        f"{counted(done.timed_out, 'idle episode')}."
    )
    if left:
        screen.write(
            f"{counted(left, 'task')} still pending: another process has them, "
            "or their model failed. Run octopus run-pending again in a minute."
        )


def _read_messages(raw: bytes, largest: int) -> list[Message]:
    """Read all messages, and check each before the first is stored."""
    messages = [
        parse_message(_json(line, number), field=f"line {number}", max_bytes=largest)
        for number, line in enumerate(raw.splitlines(), 1)
        if line.strip()
    ]
    if not messages:
        raise InvalidMessage(
            "standard input",
            'must not be empty: give lines such as {"role": "user", "content": "Hello"}',
        )
    return messages


def _json(line: bytes, number: int) -> dict[str, Json]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"line {number}", "must be JSON, one object per line") from error
    if not isinstance(value, dict):
        raise InvalidMessage(f"line {number}", "must be an object with 'role' and 'content'")
    return value


def _store(
    scope: MemoryScope, session_id: str, messages: Sequence[Message], at: datetime | None
) -> Turn:
    """Add the messages in batches. Return the last turn."""
    stored = 0
    with bar("storing", len(messages)) as done:
        for start in range(0, len(messages), _BATCH):
            try:
                turns = scope.add(session_id, messages[start : start + _BATCH], at=at)
            except OctopusError as error:
                if stored:
                    words = f"{counted(stored, 'message')} before the error were stored"
                    typer.echo(f"note: {words}", err=True)
                if isinstance(error, InvalidMessage):
                    raise _of_all(error, start) from error
                raise
            stored += len(turns)
            done(stored)
    return turns[-1]


def _of_all(error: InvalidMessage, start: int) -> InvalidMessage:
    """Return the error with the number of the message among all, not in its batch."""
    field = re.sub(
        r"^messages\[(\d+)\]",
        lambda found: f"message {start + int(found[1]) + 1}",
        error.field,
    )
    return type(error)(field, error.problem)


def _embed(memory: EpisodicMemory) -> int:
    """Embed for a few seconds. Return how many texts are left."""
    try:
        with watch_backlog("embedding", memory):
            memory.flush(timeout=_EMBED_SECONDS)
    except ModelError as error:
        typer.echo(f"warning: stored, but not embedded yet: {error}", err=True)
    return memory.backlog()[WorkKind.EMBED].waiting


def _say_stored(
    screen: Screen, session_id: str, count: int, closed: Episode | None, left: int
) -> None:
    screen.write(f"Stored {counted(count, 'message')} in session {session_id}.")
    if closed is not None:
        show_summary(screen, closed)
    if left:
        screen.write(
            f"{counted(left, 'text')} not embedded yet, so found only by their words. "
            "octopus run-pending embeds them."
        )
