"""Rows to domain values and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from itertools import repeat
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from ....domain.episode import EndReason, Episode, Scope, Session, SessionStatus, Summary, Turn
from ....domain.errors import StoreCorrupt
from ....domain.message import Json, Message, Role
from ....ports.recall_rows import RowPart, WorkKind
from ....ports.values import SUMMARY_ORDINAL, Lexical, NewTurn
from . import codec, column_values
from .lazy import Connection, sa, schema
from .results import columns_of
from .seals import MESSAGE, METADATA, SUMMARY, TOOL_CALLS, Seal, Seals

E = TypeVar("E", bound=StrEnum)
Row: TypeAlias = Any
"""A row whose columns are attributes."""

ROLES = {Role.USER: 0, Role.ASSISTANT: 1, Role.SYSTEM: 2, Role.TOOL: 3}
SUMMARY_ROLE = 4
KINDS = {
    WorkKind.EMBED: 0,
    WorkKind.SUMMARIZE: 1,
    WorkKind.INDEX: 2,
    WorkKind.UNINDEX: 3,
    WorkKind.TIMES: 4,
}
PARTS = {RowPart.SUMMARY: SUMMARY_ORDINAL, RowPart.TURNS: -2, RowPart.ALL: -3}
"""The part of a removal, stored in the column of ordinals."""

# A tool turn stores the record of the call, an assistant turn its requests. Compressed apart from
# the message, so that either can be read or cleared alone.
_TOOL_KEYS = frozenset(
    ("tool_calls", "function_name", "arguments", "result", "duration_ms", "is_error")
)

_NO_EPISODE = frozenset(
    {
        "tenant",
        "order_at",
        "opened_at",
        "touched_at",
        "aged_from",
        "deleted_at",
        "unfindable_from",
        "first_seq",
        "last_seq",
        "replay_from",
    }
)


_TURN = (
    "episode_id",
    "ordinal",
    "id",
    "at",
    "tokens",
    "has_pii",
    "embedding_ref",
    "is_indexed",
    "scope_id",
    "codec",
    "message",
    "tool_codec",
    "tool_calls",
)
_TURN_WIDTH = len(_TURN)
PACKED = ("codec", "message", "tool_codec", "tool_calls")
"""The columns of a message."""
_WHOSE = ("tenant", "scope_id", "episode_id")
_SAID = ("ordinal", "id", "role", "at", "tokens", "agent", "has_pii", "is_indexed")
NEW_TURN = (*_WHOSE, *_SAID, *PACKED)


@cache
def own_episode_columns() -> list[sa.Column[Any]]:
    """Columns of an episode, for a statement that reads its session's metadata itself."""
    return [column for column in schema.episodes.c if column.name not in _NO_EPISODE]


@cache
def episode_columns() -> list[sa.ColumnElement[Any]]:
    """Columns of an episode and its session's metadata."""
    told = schema.conversations.alias("told")
    metadata = (
        sa.select(told.c.metadata)
        .where(
            told.c.scope_id == schema.episodes.c.scope_id,
            told.c.session_id == schema.episodes.c.session_id,
        )
        .correlate(schema.episodes)
        .scalar_subquery()
        .label("metadata")
    )
    return [*own_episode_columns(), metadata]


@cache
def turn_columns() -> list[sa.Column[Any]]:
    return [schema.turns.c[name] for name in _TURN]


_END_REASONS = {str(reason): reason for reason in EndReason}
_STATUSES = {str(status): status for status in SessionStatus}


T = TypeVar("T")


def maker(cls: type[T]) -> Callable[..., T]:
    """A function that makes a frozen dataclass with slots from positional field values.

    It takes a fifth of the time of `cls(...)`, which calls `object.__setattr__` for each field: it
    fills a mutable twin class with the same slots, then sets its `__class__`. It fills in no
    defaults and runs no `__post_init__`, so use it only for values that were checked before.
    """
    slots = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    steps = [f"self.{name} = {name}" for name in slots]
    lines = [f"def __init__(self, {', '.join(slots)}):", *steps, "self.__class__ = cls"]
    space: dict[str, Any] = {"cls": cls}
    exec("\n    ".join(lines), space)  # noqa: S102 - as `dataclass` itself does
    body = {"__slots__": slots, "__init__": space["__init__"]}
    return type(cls.__name__, cls.__bases__, body)


# Decoded by the thousand, so not by their constructors.
_make_episode = maker(Episode)
_make_turn = maker(Turn)
_make_message = maker(Message)


def episode(conn: Connection, row: Row, scope: Scope) -> Episode:
    seal = conn.seals.of(row.scope_id)
    summary = unpack_summary(seal, row)
    return _make_episode(
        row.id,
        scope,
        seal.open_name(row.session_id),
        row.started_at,
        row.last_message_at,
        row.ended_at,
        one_of(_END_REASONS, row.end_reason) if row.end_reason else None,
        row.message_count,
        row.input_tokens,
        row.output_tokens,
        summary.text if summary else None,
        summary.key_facts if summary else (),
        row.summarized_by,
        bool(row.is_archived),
        row.archived_at,
        bool(row.is_cold),
        seal.load_json(METADATA, row.session_id, row.metadata or "{}"),
    )


def session_id(conn: Connection, row: Row) -> str:
    """The name of a session, which its row may have sealed."""
    return conn.seals.of(row.scope_id).open_name(row.session_id)


def session(conn: Connection, row: Row, scope: Scope) -> Session:
    seal = conn.seals.of(row.scope_id)
    return Session(
        id=seal.open_name(row.session_id),
        scope=scope,
        status=one_of(_STATUSES, row.status),
        metadata=seal.load_json(METADATA, row.session_id, row.metadata),
        created_at=row.created_at,
        last_seen_at=row.last_seen_at or row.created_at,
    )


def one_of(known: Mapping[str, E], word: str) -> E:
    try:
        return known[word]
    except KeyError as error:
        raise StoreCorrupt(column_values.DAMAGED) from error


def turns(conn: Connection, found: Iterable[Row], session_id: str | None = None) -> list[Turn]:
    """Turns from rows of `turn_columns`, followed by the session's id unless that is given."""
    columns = columns_of(found)
    if not columns:
        return []
    episode_id, ordinal, turn_id, at, tokens, has_pii, refs, indexed, scope_ids, *packed = columns[
        :_TURN_WIDTH
    ]
    messages = map(_make_message, _unpack(conn.seals, scope_ids, turn_id, *packed))
    sessions: Iterable[str] = repeat(session_id or "")
    if session_id is None:
        sessions = columns[_TURN_WIDTH]
        if conn.seals.are_on:
            sessions = [
                conn.seals.of(o).open_name(s) for o, s in zip(scope_ids, sessions, strict=True)
            ]
    found_pii, is_indexed = map(bool, has_pii), map(bool, indexed)
    said = (turn_id, episode_id, sessions, ordinal, messages, tokens, at)
    return list(map(_make_turn, *said, found_pii, refs, is_indexed))


def _unpack(
    seals: Seals,
    scope_ids: Sequence[int],
    ids: Sequence[UUID],
    marks: Sequence[int],
    payloads: Sequence[bytes],
    tool_marks: Sequence[int | None],
    tool_payloads: Sequence[bytes | None],
) -> list[Any]:
    bodies = codec.decode_many(*seals.open_many(MESSAGE, scope_ids, ids, marks, payloads))
    if any(tool_payloads):
        for i, tools in enumerate(tool_payloads):
            if tools is not None:
                seal = seals.of(scope_ids[i])
                bodies[i] |= _json(*seal.open(TOOL_CALLS, ids[i], tool_marks[i], tools))
    return bodies


def _json(mark: int | None, payload: bytes) -> Any:
    """Fields that are not a message on their own."""
    if mark in codec.SAID:
        raise StoreCorrupt(column_values.DAMAGED)
    return codec.decode(mark, payload)


def pack_message(seal: Seal, turn_id: UUID, message: Message) -> dict[str, Any]:
    return dict(zip(PACKED, _packed(seal, turn_id, message), strict=True))


def _packed(
    seal: Seal, turn_id: UUID, message: Message
) -> tuple[int, bytes, int | None, bytes | None]:
    said, tool_mark, tool_payload = message.body, None, None
    if not _TOOL_KEYS.isdisjoint(said):
        tools = {key: said[key] for key in said if key in _TOOL_KEYS}
        said = {key: said[key] for key in said if key not in _TOOL_KEYS}
        tool_mark, tool_payload = seal.encode(TOOL_CALLS, turn_id, tools)
    mark, payload = seal.encode(MESSAGE, turn_id, said)
    return mark, payload, tool_mark, tool_payload


NO_SUMMARY = {"summary_codec": None, "summary": None}


def pack_summary(seal: Seal, episode_id: UUID, summary: Summary | None) -> dict[str, Any]:
    if summary is None:
        return NO_SUMMARY
    mark, payload = seal.encode(SUMMARY, episode_id, [summary.text, *summary.key_facts])
    return {"summary_codec": mark, "summary": payload}


def unpack_summary(seal: Seal, row: Row) -> Summary | None:
    if row.summary_codec is None or row.summary is None:
        return None
    kept = _json(*seal.open(SUMMARY, row.id, row.summary_codec, row.summary))
    return Summary(text=kept[0], key_facts=tuple(kept[1:]))


def dump_json(value: Mapping[str, Json]) -> str:
    return json.dumps(value, allow_nan=False)


def stored_turn(new: NewTurn, episode_id: UUID, session_id: str, ordinal: int) -> Turn:
    """A new turn as a read would return it."""
    return _make_turn(
        new.id,
        episode_id,
        session_id,
        ordinal,
        new.message,
        new.tokens,
        new.at,
        new.has_pii,
        None,
        new.indexed,
    )


def new_turns(
    seal: Seal, turns: Sequence[NewTurn], first: int, episode: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """Rows of `NEW_TURN`, for consecutive turns of one episode."""
    whose = [episode[name] for name in _WHOSE]
    return [
        (
            *whose,
            ordinal,
            new.id,
            ROLES[new.message.body["role"]],
            new.at,
            new.tokens,
            _as_name(new.message.agent),
            new.has_pii,
            new.indexed,
            *_packed(seal, new.id, new.message),
        )
        for ordinal, new in enumerate(turns, first)
    ]


def _as_name(agent: str | None) -> str | None:
    """The part of a name that its column can hold; the message keeps the whole."""
    if not agent:
        return agent
    return agent.encode("utf-8", "replace").decode()[: column_values.LONGEST_NAME]


def lexical_columns(lexical: Lexical) -> dict[str, Any]:
    return {
        "flags": lexical.flags,
        "told": lexical.told,
        "speaker": lexical.speaker,
        "terms": lexical.terms,
    }


def work_row(
    kind: WorkKind, episode: dict[str, Any], ordinal: int, seq: int, now: datetime
) -> dict[str, Any]:
    return episode | {
        "kind": KINDS[kind],
        "ordinal": ordinal,
        "seq": seq,
        "attempts": 0,
        "created_at": now,
        "ready_at": now,
    }
