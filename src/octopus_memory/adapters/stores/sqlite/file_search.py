"""What an erased subject would leave in a file, taken before the erasure and sought after it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ....domain.erasure import FileSearch, Subject
from ....ports.erasure import Trace
from ..sql import codec
from ..sql.lazy import Connection, sa, schema

_START, _LONGEST = 8, 32
"""A print is found by its first bytes, and is no longer than this."""
_MOST = 500
"""As many rows of a table as are sampled, evenly over all of them."""
_CHUNK = 4 << 20
_HELD_IN = [
    (schema.turns, ("message", "tool_calls", "agent")),
    (schema.turns_archive, ("message", "tool_calls", "agent")),
    (schema.episodes, ("summary", "session_id", "id")),
    (schema.facts, ("content", "digest", "slot_digest")),
    (schema.recall, ("vector", "terms", "episode_id")),
    (schema.conversations, ("metadata", "session_id")),
    (schema.scopes, ("user",)),
    (schema.idempotency, ("key",)),
    (schema.message_keys, ("digest", "session_id")),
    (schema.work, ("episode_id",)),
]
"""Every column that can hold something of a person: what others have there is no trace."""

Prints = dict[bytes, str]
"""What to look for, each with what it is of."""


class FileTrace(Trace):
    """Looks through the files of a store that are given when it is asked."""

    def __init__(
        self, prints: Prints, files: Callable[[], list[Path]], is_live: Callable[[bytes], bool]
    ) -> None:
        self._prints = prints
        self._files = files
        self._is_live = is_live

    def search(self) -> FileSearch:
        places: dict[str, int] = {}
        found: set[bytes] = set()
        for file in self._files():
            with file.open("rb") as stream:
                for chunk in _chunks(stream):
                    found |= _found(chunk, self._prints)
                places[file.name] = stream.tell()
        hits: dict[str, int] = {}
        for each in found:
            # Somebody else may have said the same: then it is theirs, and stays.
            if not self._is_live(each):
                hits[self._prints[each]] = hits.get(self._prints[each], 0) + 1
        return FileSearch(files=places, sought=len(self._prints), found=hits)


def take(conn: Connection, subject: Subject) -> Prints:
    """Prints of what is stored of the subject, as it is stored and as it was written."""
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
        for row in conn.execute(sa.select(*own).where(_theirs(table, subject))).yield_per(_MOST):
            keep(table.name.removeprefix("octopus_"), row)
    for row in _texts(conn, subject):
        body: Any = codec.decode(row.codec, row.message)
        text = body["content"] if row.codec in codec.SAID else json.dumps(body, ensure_ascii=False)
        keep("text", [text.encode("utf-8", "surrogatepass")])
    return _sampled(prints)


def is_live(conn: Connection, piece: bytes) -> bool:
    """Whether a row that is there holds these bytes."""
    for table, columns in _HELD_IN:
        for column in columns:
            # Texts are compared as the bytes that they are in the file.
            inside = sa.func.instr(sa.cast(table.c[column], sa.LargeBinary), sa.literal(piece))
            if conn.execute(sa.select(sa.literal(1)).where(inside > 0).limit(1)).first():
                return True
    return False


def _of(subject: Subject) -> list[tuple[sa.Table, Sequence[str]]]:
    if subject.episode_id is None:
        return [*_HELD_IN, (schema.turns, ("id",))]
    by_episode = [
        held for held in _HELD_IN if "episode_id" in held[0].c or held[0] is schema.episodes
    ]
    return [*by_episode, (schema.turns, ("id",))]


def _theirs(table: sa.Table, subject: Subject) -> sa.ColumnElement[bool]:
    scopes, episodes = schema.scopes, schema.episodes
    wanted = [scopes.c.tenant == subject.tenant, scopes.c.user == subject.user]
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
    asked = sa.select(turns.c.codec, turns.c.message).where(_theirs(turns, subject))
    yield from conn.execute(asked.order_by(turns.c.row).limit(_MOST))


def _pieces(raw: bytes) -> list[bytes]:
    """The middle and the end: what values begin with is often alike."""
    if len(raw) < _START:
        return []
    middle = max(0, (len(raw) - _LONGEST) // 2)
    pieces = (raw[middle : middle + _LONGEST], raw[-_LONGEST:])
    # A run of one byte, as many vectors have, is anywhere in a file.
    return [piece for piece in pieces if len(set(piece)) > 1]


def _sampled(prints: Prints) -> Prints:
    """Not more of a kind than can be held and sought quickly."""
    by_kind: dict[str, list[bytes]] = {}
    for piece, kind in prints.items():
        by_kind.setdefault(kind, []).append(piece)
    return {
        piece: kind
        for kind, pieces in by_kind.items()
        for piece in pieces[:: max(1, len(pieces) // _MOST)]
    }


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    """The file piece by piece, each with the end of the one before it."""
    tail = b""
    while block := stream.read(_CHUNK):
        yield tail + block
        tail = (tail + block)[-_LONGEST:]


def _found(data: bytes, prints: Prints) -> set[bytes]:
    """Which prints are in the data: looked for all at once, by their first bytes."""
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
    places = np.flatnonzero(first_two[pairs])
    places = places[places <= len(data) - _START]
    starts = np.sort(np.frombuffer(b"".join(by_start), "<u8"))
    words = octets[places[:, None] + np.arange(_START)].copy().view("<u8").ravel()
    near = np.minimum(np.searchsorted(starts, words), len(starts) - 1)
    return {
        piece
        for place in places[starts[near] == words].tolist()
        for piece in by_start[data[place : place + _START]]
        if data.startswith(piece, place)
    }
