"""Writer of the export format: JSON Lines, one object per line, each with its `kind`.

    header                          format, version, time, tenant and user
    scope                           for each agent:
      fact …                          standing facts that callers gave
      session                         for each session:
        episode                         for each episode:
          turn …                          its turns, in order
          fact …                          standing facts found in it
        episode_end                       number of its turns
      injection …                     entries of the ledger, one for each block
    trailer                         counts, and the SHA-256 of all lines before it

`docs/reference/export-format.md` lists the fields. A change that an older reader would misread
needs a new version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from ..episode import Episode, Session, Turn
from ..errors import InvalidInput
from ..facts import Fact
from ..ids import length_prefixed
from ..ledger import Injected, Injection
from ..message import Json
from ..retention import overdue_warning

FORMAT = "octopus-export"
VERSION = 3
READ_VERSIONS = frozenset({1, 2, VERSION})
"""Version 1 had no facts, and version 2 no ledger."""
LONGEST_PART = 512 * 1024 * 1024
"""Maximum characters of one line, or of one conversation of another program: it is read whole."""

# Lone surrogates have no UTF-8 encoding; some readers take the others for the end of a line.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_VERSION_BITS = 0x7 << 76 | 0x2 << 62
_ID_BITS = ((1 << 76) - 1) ^ (0x3 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """An episode with the other values that are needed to recreate it."""

    episode: Episode
    last_seen_at: datetime
    aged_from: datetime | None = None
    """Start of its retention days; None while it is open."""
    replay_from: int | None = None
    """The first turn that a replay of the session shows; None for all turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """Result of an import."""

    source: str
    """`octopus`, `openai` or `chatgpt`."""
    episodes: int = 0
    turns: int = 0
    facts: int = 0
    """Standing facts, with or without an episode."""
    injections: int = 0
    """Entries of the ledger."""
    passed_over: int = 0
    """Episodes that existed already."""
    given_new_ids: int = 0
    """Episodes whose id another scope of this database uses already."""
    left_out: int = 0
    """Messages that were not stored: hidden instructions, a model's thoughts."""
    overdue: int = 0
    """Episodes that the next retention run will archive or delete."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the caller."""
        if not self.overdue:
            return ()
        return (overdue_warning(f"{self.overdue:,} of the imported episodes are"),)

    def to_dict(self) -> dict[str, Json]:
        """The report as JSON."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return counts | {"warnings": list(self.warnings)}


class LineCount:
    """Counts and hashes the lines of an export, for its trailer."""

    def __init__(self, version: int = VERSION) -> None:
        self._hash = sha256()
        self._counts = {"scope": 0, "session": 0, "episode": 0, "turn": 0}
        if version > 1:
            self._counts["fact"] = 0
        if version > 2:
            self._counts["injection"] = 0

    def add(self, line: str, kind: str) -> None:
        self._hash.update(line.encode("utf-8", "surrogatepass"))
        self._hash.update(b"\n")
        if kind in self._counts:
            self._counts[kind] += 1

    def of(self, kind: str) -> int:
        return self._counts[kind]

    def trailer(self) -> dict[str, Json]:
        counts = {f"{kind}s": count for kind, count in self._counts.items()}
        return {"kind": "trailer", **counts, "sha256": self._hash.hexdigest()}


def encode_line(body: Mapping[str, Json]) -> str:
    """Return one line of JSON, without a line feed and without characters unsafe in UTF-8."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def header(*, made_at: datetime, tenant: str, user: str, agent: str | None) -> dict[str, Json]:
    return {
        "kind": "header",
        "format": FORMAT,
        "version": VERSION,
        "made_at": time_text(made_at),
        "tenant": tenant,
        "user": user,
        "agent": agent,
    }


def scope_line(agent: str) -> dict[str, Json]:
    return {"kind": "scope", "agent": agent}


def session_line(
    session: Session, *, key_salts: Sequence[bytes] = (), key_digests: Sequence[bytes] = ()
) -> dict[str, Json]:
    """The line of a session; its message keys are named only where there are some."""
    line = {
        "kind": "session",
        **_fields(session, "id", "status", "created_at"),
        "metadata": dict(session.metadata),
    }
    if key_digests:
        line["message_keys"] = {
            "salts": [salt.hex() for salt in key_salts],
            "digests": [digest.hex() for digest in key_digests],
        }
    return line


def episode_line(
    kept: EpisodeRecord, placeholders: Iterable[tuple[str, int]] = ()
) -> dict[str, Json]:
    """The line of an episode; `placeholders` are kind and number of those in its text."""
    episode = kept.episode
    numbers = [{"kind": kind, "number": number} for kind, number in sorted(placeholders)]
    line = {
        "kind": "episode",
        **_fields(episode, "id", "session_id", "started_at", "last_message_at"),
        **_fields(kept, "last_seen_at"),
        **_fields(episode, "ended_at", "end_reason", "message_count", "input_tokens"),
        **_fields(episode, "output_tokens", "summary", "key_facts", "summarized_by"),
        **_fields(episode, "is_archived", "archived_at", "is_cold"),
        **_fields(kept, "aged_from"),
        "placeholders": numbers,
    }
    if kept.replay_from is not None:
        line["replay_from"] = kept.replay_from
    return line


def turn_line(turn: Turn) -> dict[str, Json]:
    return {
        "kind": "turn",
        **_fields(turn, "ordinal", "id", "at", "tokens", "has_pii", "indexed"),
        "message": dict(turn.message.body),
    }


def fact_line(fact: Fact) -> dict[str, Json]:
    """The line of a fact, which belongs to the episode around it. A deleted fact has no text."""
    return {
        "kind": "fact",
        "id": str(fact.id),
        "about": fact.kind,
        "slot": fact.slot,
        "text": None if fact.is_deleted else fact.text,
        **_fields(fact, "since", "origin", "turn_id", "ordinal", "ends", "is_pinned", "is_deleted"),
    }


def episode_end_line(episode_id: UUID, turns: int) -> dict[str, Json]:
    return {"kind": "episode_end", "id": str(episode_id), "turns": turns}


def time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _fields(of: object, *names: str) -> dict[str, Json]:
    """Fields of a value by name, as an export writes them."""
    return {name: _written(getattr(of, name)) for name in names}


def _written(value: Any) -> Json:
    match value:
        case UUID():
            return str(value)
        case datetime():
            return time_text(value)
        case tuple():
            return list(value)
    plain: Json = value
    return plain


def injection_line(entry: Injection) -> dict[str, Json]:
    """The line of an entry of the ledger."""
    return {
        "kind": "injection",
        **_fields(entry, "id", "session_id", "at", "budget_tokens", "block_tokens", "block_hash"),
        **_fields(entry, "left_out", "query"),
        "shown": [_item(item) for item in entry.shown],
        "cut": [_item(item) for item in entry.cut],
    }


def _item(item: Injected) -> dict[str, Json]:
    return {
        "what": item.kind,
        **_fields(item, "rank", "score", "reason", "episode_id", "ordinal", "fact_id", "tokens"),
        "contributions": dict(item.contributions),
    }


def derived_id(millis: int, *parts: str) -> UUID:
    """A UUIDv7 of that millisecond, derived from the parts: equal parts give equal ids."""
    tail = int.from_bytes(sha256(length_prefixed(*parts)).digest()[:10])
    return UUID(int=(millis & 0xFFFF_FFFF_FFFF) << 80 | _VERSION_BITS | tail & _ID_BITS)


def id_beside(taken: UUID, *parts: str) -> UUID:
    """The id of a copy, derived from the taken id and the copy's location."""
    return derived_id(taken.int >> 80, str(taken), *parts)


def check_length(place: str, length: int, longest: int) -> None:
    """:raises InvalidInput: if a part of a file is too long to be read into memory"""
    if length > longest:
        raise InvalidInput(place, f"must have at most {longest:,} characters")


def is_header(line: Any) -> bool:
    """True if a parsed line is the header of an export."""
    return isinstance(line, Mapping) and line.get("format") == FORMAT
