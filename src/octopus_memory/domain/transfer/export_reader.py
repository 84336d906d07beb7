"""Reader of the export format. Every error names the line and the field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar
from uuid import UUID

from ..episode import (
    SUMMARY_LIMIT,
    EndReason,
    Episode,
    Scope,
    Session,
    SessionStatus,
    check_name,
    check_time,
)
from ..errors import InvalidInput
from ..facts import FACT_LIMIT, Fact, FactKind, FactOrigin, check_slot
from ..ids import KEY_DIGEST_SIZE, KEY_SALT_SIZE
from ..ledger import QUERY_LIMIT, Injected, InjectedKind, Injection
from ..message import Json
from .export_format import (
    LONGEST_PART,
    READ_VERSIONS,
    VERSION,
    EpisodeRecord,
    LineCount,
    check_length,
    is_header,
)

E = TypeVar("E", bound=StrEnum)
_MOST = 2**31 - 1
_MOST_TOKENS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ExportLine:
    """A parsed line of an export, with typed access to its fields.

    Every accessor raises `InvalidInput` for a missing or invalid field.
    """

    number: int
    body: Mapping[str, Json]
    raw: str = ""

    @property
    def kind(self) -> str:
        return str(self.body.get("kind"))

    def wrong(self, field: str, problem: str) -> InvalidInput:
        return InvalidInput(f"line {self.number}, {field}", problem)

    def text(self, field: str) -> str:
        value = self._take(field, str, "text")
        return str(value)

    def name(self, field: str, longest: int = 256) -> str:
        return check_name(f"line {self.number}, {field}", self._given(field), longest=longest)

    def maybe_text(self, field: str) -> str | None:
        return None if self._given(field) is None else self.text(field)

    def items(self, field: str) -> Sequence[Json]:
        value: Sequence[Json] = self._take(field, list, "a list")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        value = self.items(field)
        if not all(isinstance(item, str) for item in value):
            raise self.wrong(field, "must be a list of texts")
        return tuple(value)

    def flag(self, field: str) -> bool:
        return bool(self._take(field, bool, "true or false"))

    def count(self, field: str, most: int = _MOST) -> int:
        value = self._given(field)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise self.wrong(field, f"must be a whole number from 0 to {most:,}")
        return value

    def table(self, field: str) -> dict[str, Json]:
        value: dict[str, Json] = self._take(field, dict, "an object")
        return value

    def time(self, field: str) -> datetime:
        text = self.text(field)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise self.wrong(field, "must be a time such as 2025-03-14T09:26:53Z") from error
        return check_time(f"line {self.number}, {field}", moment)

    def maybe_time(self, field: str) -> datetime | None:
        return None if self._given(field) is None else self.time(field)

    def uuid(self, field: str) -> UUID:
        text = self.text(field)
        try:
            return UUID(text)
        except ValueError as error:
            raise self.wrong(field, "must be a UUID") from error

    def one_of(self, field: str, kind: type[E]) -> E:
        text = self.text(field)
        try:
            return kind(text)
        except ValueError as error:
            raise self.wrong(field, f"must be one of {', '.join(kind)}") from error

    def _take(self, field: str, kind: type, words: str) -> Any:
        value = self._given(field)
        if not isinstance(value, kind):
            raise self.wrong(field, f"must be {words}")
        return value

    def _given(self, field: str) -> Any:
        if field not in self.body:
            raise self.wrong(field, "is missing")
        return self.body[field]


def read_lines(lines: Iterable[str]) -> Iterator[ExportLine]:
    """Yield the lines of an export without the trailer, which is verified.

    :raises InvalidInput: naming the line and the problem
    """
    tally, number, ended, begun = LineCount(), 0, False, False
    for number, raw in enumerate(lines, 1):
        text = raw.rstrip("\r\n")
        if not text.strip():
            continue
        line = parse_line(text, number)
        if ended:
            raise InvalidInput(f"line {number}", "must not follow the trailer: import one export")
        if not begun:
            tally = LineCount(_version(line))
            begun = True
        if line.kind == "trailer":
            _check_trailer(line, tally)
            ended = True
            continue
        tally.add(text, line.kind)
        yield line
    if not begun:
        raise InvalidInput("lines", "are empty: an export has a header and a trailer")
    if not ended:
        raise InvalidInput(f"line {number}", "is the last but not a trailer: the export is cut off")


def split_lines(pieces: Iterable[str], longest: int = LONGEST_PART) -> Iterator[str]:
    """Yield the lines of a text that comes in pieces of any size, each with its line feed.

    :raises InvalidInput: if a line has more than `longest` characters, before reading all of it
    """
    begun: list[str] = []
    length, number = 0, 1
    for piece in pieces:
        start = 0
        while (end := piece.find("\n", start)) >= 0:
            check_length(f"line {number}", length + end - start, longest)
            begun.append(piece[start : end + 1])
            yield "".join(begun)
            begun, length, start, number = [], 0, end + 1, number + 1
        begun.append(piece[start:])
        length += len(piece) - start
        check_length(f"line {number}", length, longest)
    if length:
        yield "".join(begun)


def parse_line(text: str, number: int) -> ExportLine:
    return ExportLine(number, _object(text, number), text)


def _object(text: str, number: int) -> Mapping[str, Json]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"line {number}", "is not JSON: it is damaged, or the export is cut off here"
        ) from error
    if not isinstance(value, dict):
        raise InvalidInput(f"line {number}", "must be a JSON object")
    return value


def _version(line: ExportLine) -> int:
    """The version in a header."""
    if not is_header(line.body):
        raise line.wrong("format", "is not octopus-export: give the file's format")
    version = line.count("version")
    if version not in READ_VERSIONS:
        raise line.wrong(
            "version",
            f"is {version}, but this Octopus reads up to {VERSION}: "
            "pip install --upgrade octopus-memory",
        )
    return version


def _check_trailer(line: ExportLine, tally: LineCount) -> None:
    for field, value in tally.trailer().items():
        if line.body.get(field) != value:
            raise line.wrong(
                field, "does not match the lines before it: the export was changed or damaged"
            )


def session_of(line: ExportLine, scope: Scope) -> Session:
    created = line.time("created_at")
    return Session(
        id=line.name("id"),
        scope=scope,
        status=line.one_of("status", SessionStatus),
        metadata=line.table("metadata"),
        created_at=created,
        last_seen_at=created,
    )


def message_keys_of(line: ExportLine) -> tuple[list[bytes], list[bytes]]:
    """Salts and hashes of a session's message keys; none where the line names none."""
    if "message_keys" not in line.body:
        return [], []
    given = line.table("message_keys")
    inner = ExportLine(line.number, {f"message_keys.{name}": each for name, each in given.items()})
    return (
        _all_hex(inner, "message_keys.salts", KEY_SALT_SIZE),
        _all_hex(inner, "message_keys.digests", KEY_DIGEST_SIZE),
    )


def _all_hex(line: ExportLine, field: str, size: int) -> list[bytes]:
    try:
        found = [bytes.fromhex(text) for text in line.texts(field)]
    except ValueError as error:
        raise line.wrong(field, "must be hexadecimal") from error
    if any(len(each) != size for each in found):
        raise line.wrong(field, f"must have {size} bytes each")
    return found


def episode_of(line: ExportLine, session: Session) -> EpisodeRecord:
    if line.name("session_id") != session.id:
        raise line.wrong("session_id", "must be that of the session before it")
    summary = line.maybe_text("summary")
    if summary is not None and len(summary) > SUMMARY_LIMIT:
        raise line.wrong("summary", f"must have at most {SUMMARY_LIMIT:,} characters")
    is_open = line.body.get("end_reason") is None
    episode = Episode(
        id=line.uuid("id"),
        scope=session.scope,
        session_id=session.id,
        started_at=line.time("started_at"),
        last_message_at=line.time("last_message_at"),
        ended_at=line.maybe_time("ended_at"),
        end_reason=None if is_open else line.one_of("end_reason", EndReason),
        message_count=line.count("message_count"),
        input_tokens=line.count("input_tokens", _MOST_TOKENS),
        output_tokens=line.count("output_tokens", _MOST_TOKENS),
        summary=summary,
        key_facts=line.texts("key_facts"),
        summarized_by=None if summary is None else line.name("summarized_by"),
        is_archived=line.flag("is_archived"),
        archived_at=line.maybe_time("archived_at"),
        is_cold=line.flag("is_cold"),
    )
    kept = EpisodeRecord(
        episode=episode,
        last_seen_at=line.time("last_seen_at"),
        aged_from=line.maybe_time("aged_from"),
        replay_from=None if line.body.get("replay_from") is None else line.count("replay_from"),
    )
    _check_stage(line, kept)
    return kept


def fact_of(line: ExportLine, episode_id: UUID | None) -> Fact:
    """A fact of the episode around it, or, without one, a fact that a caller gave."""
    is_deleted = line.flag("is_deleted")
    text = line.maybe_text("text")
    if is_deleted != (text is None):
        raise line.wrong("text", "must be null for a deleted fact, and only then")
    if text is not None and not 1 <= len(text) <= FACT_LIMIT:
        raise line.wrong("text", f"must have 1 to {FACT_LIMIT} characters")
    slot = line.text("slot")
    if slot != check_slot(slot):
        raise line.wrong("slot", "must be as exported: lower case and not longer")
    turn = line.maybe_text("turn_id")
    ordinal = None if line.body.get("ordinal") is None else line.count("ordinal")
    if episode_id is None and (turn is not None or ordinal is not None):
        raise line.wrong("turn_id", "and ordinal must be null for a fact without an episode")
    return Fact(
        id=line.uuid("id"),
        kind=line.one_of("about", FactKind),
        text=text or "",
        slot=slot,
        since=line.time("since"),
        episode_id=episode_id,
        turn_id=None if turn is None else line.uuid("turn_id"),
        ordinal=ordinal,
        origin=line.one_of("origin", FactOrigin),
        is_pinned=line.flag("is_pinned") and not is_deleted,
        ends=line.flag("ends"),
        is_deleted=is_deleted,
    )


def placeholders_of(line: ExportLine) -> list[tuple[str, int]]:
    """Kind and number of each placeholder in the episode's text."""
    found = []
    for i, each in enumerate(line.items("placeholders")):
        field = f"placeholders[{i}]"
        if not isinstance(each, dict):
            raise line.wrong(field, "must be an object with kind and number")
        inner = ExportLine(line.number, {f"{field}.{name}": value for name, value in each.items()})
        found.append((inner.name(f"{field}.kind", longest=32), inner.count(f"{field}.number")))
    if len(set(found)) < len(found):
        raise line.wrong("placeholders", "must not repeat a placeholder")
    return found


def _check_stage(line: ExportLine, kept: EpisodeRecord) -> None:
    """Reject an episode in a state that no call could have produced."""
    episode = kept.episode
    if (episode.ended_at is None) != (episode.end_reason is None):
        raise line.wrong("end_reason", "and ended_at must both be given, or neither")
    if (episode.ended_at is None) != (kept.aged_from is None):
        raise line.wrong("aged_from", "must be given for an ended episode, and only then")
    if episode.is_archived and episode.ended_at is None:
        raise line.wrong("is_archived", "must be false for an open episode")
    if episode.is_archived != (episode.archived_at is not None):
        raise line.wrong("archived_at", "must be given for an archived episode, and only then")
    if episode.is_cold and not episode.is_archived:
        raise line.wrong("is_cold", "must be false unless the episode is archived")
    if episode.ended_at is None and episode.summary is not None:
        raise line.wrong("summary", "must be null for an open episode")
    if (kept.replay_from or 0) > episode.message_count:
        raise line.wrong("replay_from", "must be at most message_count")


_MOST_ITEMS = 10_000
_LONGEST_REASON = 200
_MOST_SIGNALS = 50
_HASH = re.compile(r"(?:[0-9a-f]{64})?")


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
        contributions=_contributions(line),
    )


def _contributions(line: ExportLine) -> dict[str, float]:
    """What the signals add to a score; empty in an export of an earlier release."""
    given = line.body.get("contributions") or {}
    if not isinstance(given, dict) or len(given) > _MOST_SIGNALS:
        raise line.wrong("contributions", f"must be an object of at most {_MOST_SIGNALS} numbers")
    for name, adds in given.items():
        is_number = isinstance(adds, int | float) and not isinstance(adds, bool)
        if len(name) > _LONGEST_REASON or not is_number or not isfinite(adds):
            raise line.wrong("contributions", "must have short names, and numbers")
    return {name: float(adds) for name, adds in given.items()}


def _maybe_id(line: ExportLine, field: str) -> UUID | None:
    return None if line.maybe_text(field) is None else line.uuid(field)
