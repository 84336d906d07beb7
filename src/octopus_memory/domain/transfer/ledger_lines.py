"""Entries of the ledger as lines of the export format, and back."""

from __future__ import annotations

import re
from uuid import UUID

from ..errors import InvalidInput
from ..ledger import QUERY_LIMIT, Injected, InjectedKind, Injection
from ..message import Json
from .export_format import time_text
from .export_reader import ExportLine

_MOST_ITEMS = 10_000
_LONGEST_REASON = 200
_HASH = re.compile(r"(?:[0-9a-f]{64})?")


def injection_line(entry: Injection) -> dict[str, Json]:
    return {
        "kind": "injection",
        "id": str(entry.id),
        "session_id": entry.session_id,
        "at": time_text(entry.at),
        "budget_tokens": entry.budget_tokens,
        "block_tokens": entry.block_tokens,
        "block_hash": entry.block_hash,
        "left_out": entry.left_out,
        "query": entry.query,
        "shown": [_item(item) for item in entry.shown],
        "cut": [_item(item) for item in entry.cut],
    }


def _item(item: Injected) -> dict[str, Json]:
    return {
        "what": item.kind.value,
        "rank": item.rank,
        "score": item.score,
        "reason": item.reason,
        "episode_id": None if item.episode_id is None else str(item.episode_id),
        "ordinal": item.ordinal,
        "fact_id": None if item.fact_id is None else str(item.fact_id),
        "tokens": item.tokens,
    }


def injection_of(line: ExportLine) -> Injection:
    """:raises InvalidInput: with the line and what is wrong there"""
    block_hash, query = line.text("block_hash"), line.maybe_text("query")
    if not _HASH.fullmatch(block_hash):
        raise line.wrong("block_hash", "must be 64 hexadecimal digits, or empty")
    if query is not None and len(query) > QUERY_LIMIT:
        raise line.wrong("query", f"must have at most {QUERY_LIMIT:,} characters")
    return Injection(
        id=line.uuid("id"),
        session_id=line.name("session_id"),
        at=line.time("at"),
        shown=_items(line, "shown"),
        cut=_items(line, "cut"),
        left_out=line.count("left_out"),
        budget_tokens=line.count("budget_tokens"),
        block_tokens=line.count("block_tokens"),
        block_hash=block_hash,
        query=query,
    )


def _items(line: ExportLine, field: str) -> tuple[Injected, ...]:
    given = line.items(field)
    if len(given) > _MOST_ITEMS:
        raise line.wrong(field, f"must have at most {_MOST_ITEMS:,} items")
    return tuple(_read(line, f"{field}[{place}]", each) for place, each in enumerate(given))


def _read(line: ExportLine, place: str, body: Json) -> Injected:
    if not isinstance(body, dict):
        raise line.wrong(place, "must be an object")
    try:
        return _checked(ExportLine(line.number, body))
    except InvalidInput as error:
        field = error.field.removeprefix(f"line {line.number}, ")
        raise line.wrong(f"{place}.{field}", error.problem) from error


def _checked(line: ExportLine) -> Injected:
    score = line.body.get("score")
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1
    ):
        raise line.wrong("score", "must be null or a number from 0 to 1")
    reason = line.text("reason")
    if len(reason) > _LONGEST_REASON:
        raise line.wrong("reason", f"must have at most {_LONGEST_REASON} characters")
    return Injected(
        kind=line.one_of("what", InjectedKind),
        rank=line.count("rank"),
        score=None if score is None else float(score),
        reason=reason,
        episode_id=_maybe_id(line, "episode_id"),
        ordinal=None if line.body.get("ordinal") is None else line.count("ordinal"),
        fact_id=_maybe_id(line, "fact_id"),
        tokens=line.count("tokens"),
    )


def _maybe_id(line: ExportLine, field: str) -> UUID | None:
    return None if line.maybe_text(field) is None else line.uuid(field)
