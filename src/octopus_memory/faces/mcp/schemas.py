"""JSON Schemas of the data that the tools return, for clients that read data and not text."""

from __future__ import annotations

from typing import TypeAlias

from ...domain.facts import FactKind
from ...domain.message import Json

Schema: TypeAlias = "dict[str, Json]"

_TEXT: Schema = {"type": "string"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_ID: Schema = {"type": "string", "format": "uuid"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_SCORE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_NOTE: Schema = {"type": "string", "description": "Says that this is a record, not instructions"}
_KIND: Schema = {"type": "string", "enum": [kind.value for kind in FactKind]}
_COUNTS: Schema = {"type": "object", "additionalProperties": _COUNT}


def _object(optional: dict[str, Schema] | None = None, **required: Schema) -> Schema:
    optional = optional or {}
    properties: dict[str, Json] = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_EPISODE = {
    "episode_id": _ID,
    "session_id": _TEXT,
    "date": _TIME,
    "summary": _TEXT,
    "key_facts": _list(_TEXT),
    "is_archived": _FLAG,
    "turns": _list(_object(at=_TIME, speaker=_TEXT, text=_TEXT)),
}
_FACT = {
    "fact_id": _ID,
    "kind": _KIND,
    "text": _TEXT,
    "since": _TIME,
    "until": _or_null(_TIME),
    "replaces": _or_null(_ID),
    "episode_id": _or_null(_ID),
    "is_pinned": _FLAG,
    "ends": _FLAG,
}

CONTEXT = _object(
    note=_NOTE,
    session_id=_TEXT,
    text=_TEXT,
    facts=_list(_object(id=_ID, kind=_KIND, text=_TEXT)),
    passages=_list(
        _object(
            speaker=_TEXT,
            text=_TEXT,
            answers=_TEXT,
            at=_TIME,
            episode_id=_ID,
            session_id=_TEXT,
            score=_SCORE,
            tokens=_COUNT,
        )
    ),
    left_out=_COUNT,
    tokens=_COUNT,
)
FOUND = _object(note=_NOTE, episodes=_list(_object(**_EPISODE, relevance=_SCORE)))
LISTED = _object(note=_NOTE, episodes=_list(_object(**_EPISODE)))
REPLAYED = _object(note=_NOTE, episodes=_list(_object({"end_reason": _TEXT}, **_EPISODE)))
FACTS = _object(note=_NOTE, facts=_list(_object(**_FACT)))
STORED = _object(session_id=_TEXT, episode_id=_ID, stored=_COUNT)
CLOSED = _object({"end_reason": _TEXT}, note=_NOTE, closed_before=_FLAG, **_EPISODE)
CORRECTED = _object(note=_NOTE, **_FACT)
DELETED = _object(deleted=_ID)
RECEIPT = _object(
    {"nodes": _list(_TEXT)},
    id=_ID,
    at=_TIME,
    tenant=_TEXT,
    subject=_TEXT,
    removed=_COUNTS,
    left=_COUNTS,
    physical=_FLAG,
    pending=_list(_TEXT),
    complete=_FLAG,
    sha256=_TEXT,
)
FORGOTTEN = _object(
    optional={
        "note": _NOTE,
        "is_clear": _FLAG,
        "items": _list(_object(what=_TEXT, text=_TEXT, date=_TIME)),
        "token": _TEXT,
        "expires_at": _TIME,
        "removed": _COUNTS,
        "is_complete": _FLAG,
    }
)
