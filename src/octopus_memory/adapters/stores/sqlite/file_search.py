"""Search for bytes of an erased subject in the files: samples taken before, searched for after."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ....domain.erasure import FileSearch, Subject
from ....ports.privacy import Trace
from ..sql import codec
from ..sql.lazy import Connection, sa, schema
from ..sql.seals import MESSAGE

_START, _LONGEST = 8, 32
"""The length of a sample, and of the prefix that finds it."""
_MOST = 500
"""Rows of a table that are sampled, evenly over all."""
_CHUNK = 4 << 20
_COLUMNS = [
    (schema.turns, ("message", "tool_calls", "agent")),
    (schema.turns_archive, ("message", "tool_calls", "agent")),
    (schema.episodes, ("summary", "session_id", "id")),
    (schema.facts, ("content", "digest", "slot_digest")),
    (schema.recall, ("vector", "terms", "episode_id")),
    (schema.conversations, ("metadata", "session_id", "key_salts")),
    (schema.scopes, ("user",)),
    (schema.idempotency, ("key",)),
    (schema.message_keys, ("digest", "session_id")),
    (schema.work, ("episode_id",)),
    (schema.forget_previews, ("chosen",)),
]
"""Every column that can hold personal data."""

Prints = dict[bytes, str]
"""Byte sequences to search for, mapped to the table they came from."""


class FileTrace(Trace):
    """Searches the files of a store for samples."""

    def __init__(
        self, prints: Prints, files: Callable[[], list[Path]], is_live: Callable[[bytes], bool]
    ) -> None:
        self._prints = prints
        self._files = files
        self._is_live = is_live

    def search(self) -> FileSearch:
        sizes: dict[str, int] = {}
        found: set[bytes] = set()
        for file in self._files():
            with file.open("rb") as stream:
                for chunk in _chunks(stream):
                    found |= _found(chunk, self._prints)
                sizes[file.name] = stream.tell()
        hits: dict[str, int] = {}
        for each in found:
            # The same text may be stored for another user, and then stays.
            if not self._is_live(each):
                hits[self._prints[each]] = hits.get(self._prints[each], 0) + 1
        return FileSearch(files=sizes, sought=len(self._prints), found=hits)


def take(conn: Connection, subject: Subject) -> Prints:
    """Samples of the subject's stored values, both compressed and plain."""
    prints: Prints = {}

    def keep(kind: str, values: Iterable[Any]) -> None:
        for value in values:
            if value is None:
                continue
            raw = value.encode() if isinstance(value, str) else getattr(value, "bytes", value)
            for piece in _pieces(raw):
                prints.setdefault(piece, kind)

    for table, columns in _of(subject):
        own = [table.c[column] for column in columns if column in table.c]
        found = conn.execute(sa.select(*own).where(_theirs(conn, table, subject)))
        for row in chain.from_iterable(found.partitions(_MOST)):
            keep(table.name.removeprefix("octopus_"), row)
    texts = list(_texts(conn, subject))
    there = conn.seals.readable({row.scope_id for row in texts})
    for row in texts:
        if row.scope_id not in there:
            continue
        seal = conn.seals.of(row.scope_id)
        mark, payload = seal.open(MESSAGE, row.id, row.codec, row.message)
        body: Any = codec.decode(mark, payload)
        text = body["content"] if mark in codec.SAID else json.dumps(body, ensure_ascii=False)
        keep("text", [text.encode("utf-8", "surrogatepass")])
    return _sampled(prints)


def is_live(conn: Connection, piece: bytes) -> bool:
    """True if an existing row contains these bytes."""
    for table, columns in _COLUMNS:
        for column in columns:
            # Compare text as the bytes of the file.
            inside = sa.func.instr(sa.cast(table.c[column], sa.LargeBinary), sa.literal(piece))
            if conn.execute(sa.select(sa.literal(1)).where(inside > 0).limit(1)).first():
                return True
    return False


def _of(subject: Subject) -> list[tuple[sa.Table, Sequence[str]]]:
    if subject.episode_id is None:
        return [*_COLUMNS, (schema.turns, ("id",))]
    by_episode = [
        each for each in _COLUMNS if "episode_id" in each[0].c or each[0] is schema.episodes
    ]
    return [*by_episode, (schema.turns, ("id",))]


def _theirs(conn: Connection, table: sa.Table, subject: Subject) -> sa.ColumnElement[bool]:
    scopes, episodes = schema.scopes, schema.episodes
    user = conn.seals.user(subject.tenant, subject.user)
    wanted = [scopes.c.tenant == subject.tenant, scopes.c.user == user]
    if subject.agent is not None:
        wanted.append(scopes.c.agent == subject.agent)
    if table is scopes:
        return sa.and_(*wanted)
    mine = table.c.scope_id.in_(sa.select(scopes.c.id).where(*wanted))
    if subject.episode_id is not None:
        own = table.c.id if table is episodes else table.c.episode_id
        return sa.and_(mine, own == subject.episode_id)
    return mine


def _texts(conn: Connection, subject: Subject) -> Iterator[Any]:
    turns = schema.turns
    asked = sa.select(turns.c.scope_id, turns.c.id, turns.c.codec, turns.c.message).where(
        _theirs(conn, turns, subject)
    )
    yield from conn.execute(asked.order_by(turns.c.row).limit(_MOST))


def _pieces(raw: bytes) -> list[bytes]:
    """Samples from the middle and the end, because values often begin alike."""
    if len(raw) < _START:
        return []
    middle = max(0, (len(raw) - _LONGEST) // 2)
    pieces = (raw[middle : middle + _LONGEST], raw[-_LONGEST:])
    # A run of one byte, as in many vectors, occurs anywhere in a file.
    return [piece for piece in pieces if len(set(piece)) > 1]


def _sampled(prints: Prints) -> Prints:
    """At most as many samples of a table as can be searched for quickly."""
    by_kind: dict[str, list[bytes]] = {}
    for piece, kind in prints.items():
        by_kind.setdefault(kind, []).append(piece)
    return {
        piece: kind
        for kind, pieces in by_kind.items()
        for piece in pieces[:: max(1, len(pieces) // _MOST)]
    }


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    """The file in chunks, each with the end of the previous one."""
    tail = b""
    while block := stream.read(_CHUNK):
        yield tail + block
        tail = (tail + block)[-_LONGEST:]


def _found(data: bytes, prints: Prints) -> set[bytes]:
    """The samples that occur in the data, found by their common prefix length in one pass."""
    if len(data) < _START or not prints:
        return set()
    by_start: dict[bytes, list[bytes]] = {}
    for piece in prints:
        by_start.setdefault(piece[:_START], []).append(piece)
    first_two = np.zeros(1 << 16, bool)
    for start in by_start:
        first_two[start[0] | start[1] << 8] = True
    octets: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
    pairs = octets[:-1].astype(np.uint16) | octets[1:].astype(np.uint16) << 8
    offsets = np.flatnonzero(first_two[pairs])
    offsets = offsets[offsets <= len(data) - _START]
    starts = np.sort(np.frombuffer(b"".join(by_start), "<u8"))
    words = octets[offsets[:, None] + np.arange(_START)].copy().view("<u8").ravel()
    near = np.minimum(np.searchsorted(starts, words), len(starts) - 1)
    return {
        piece
        for offset in offsets[starts[near] == words].tolist()
        for piece in by_start[data[offset : offset + _START]]
        if data.startswith(piece, offset)
    }
