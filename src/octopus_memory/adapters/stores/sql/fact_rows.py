"""Facts to rows and back, and the digests of deleted facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from ....domain.errors import StoreCorrupt
from ....domain.facts import Fact, FactKind, FactOrigin
from . import codec, column_values, rows
from .lazy import Connection
from .seals import FACT, Seal
from .statements import meta

NEW_FACT = (
    "tenant",
    "scope_id",
    "id",
    "episode_id",
    "turn_id",
    "ordinal",
    "kind",
    "origin",
    "since",
    "ends",
    "is_pinned",
    "codec",
    "content",
    "deleted_at",
    "digest",
    "slot_digest",
)


def new_row(
    seal: Seal, episode_key: dict[str, Any], fact: Fact, digests: Digests
) -> tuple[Any, ...]:
    values: dict[str, Any] = {
        **episode_key,
        "id": fact.id,
        "turn_id": fact.turn_id,
        "ordinal": fact.ordinal,
        "kind": fact.kind.value,
        "origin": fact.origin.value,
        "since": fact.since,
        "ends": fact.ends,
        "is_pinned": fact.is_pinned,
        "deleted_at": None,
        "digest": None,
        "slot_digest": None,
    }
    if fact.is_deleted:
        # Imported as deleted: its text is not known here.
        values |= {"codec": None, "content": None, "deleted_at": fact.since}
        values["slot_digest"] = digests.of(fact.kind, fact.slot)
    else:
        values |= pack(seal, fact)
    return tuple(values[name] for name in NEW_FACT)


def pack(seal: Seal, fact: Fact) -> dict[str, Any]:
    mark, payload = seal.encode(FACT, fact.id, [fact.slot, fact.text])
    return {"codec": mark, "content": payload}


def content(conn: Connection, row: rows.Row) -> tuple[str, str]:
    """The slot and the text."""
    slot, text = _unpack(conn, [row])[0]
    return slot, text


def _unpack(conn: Connection, found: Sequence[rows.Row]) -> list[tuple[str, str]]:
    contents: list[tuple[str, str]] = []
    columns = zip(*((row.scope_id, row.id, row.codec, row.content) for row in found), strict=True)
    for content in codec.decode_many(*conn.seals.open_many(FACT, *columns)) if found else ():
        match content:
            case [str(slot), str(text)]:
                contents.append((slot, text))
            case _:
                raise StoreCorrupt(column_values.DAMAGED)
    return contents


def read(
    conn: Connection, found: Sequence[rows.Row], slots: dict[bytes, str] | None = None
) -> list[Fact]:
    """Facts from rows; a deleted fact gets the slot of a row with the same slot digest."""
    there = [row for row in found if row.deleted_at is None]
    contents = _unpack(conn, there)
    facts = [_fact(row, *content) for row, content in zip(there, contents, strict=True)]
    deleted = [row for row in found if row.deleted_at is not None]
    if deleted:
        slots = slots_of(conn, there) if slots is None else slots
        for row in deleted:
            # Without such a row, it is alone in its slot.
            unknown = (row.slot_digest or b"").hex()
            facts.append(_fact(row, slots.get(row.slot_digest, unknown), ""))
    return facts


def slots_of(conn: Connection, found: Iterable[rows.Row]) -> dict[bytes, str]:
    """The slots of these rows by their digests."""
    there = [row for row in found if row.deleted_at is None]
    if not there:
        return {}
    digests = Digests(conn, there[0].tenant, there[0].scope_id)
    contents = _unpack(conn, there)
    return {
        digests.of(row.kind, slot): slot for row, (slot, _) in zip(there, contents, strict=True)
    }


_KINDS = {str(kind): kind for kind in FactKind}
_ORIGINS = {str(origin): origin for origin in FactOrigin}


def _fact(row: rows.Row, slot: str, text: str) -> Fact:
    return Fact(
        id=row.id,
        kind=rows.one_of(_KINDS, row.kind),
        text=text,
        slot=slot,
        since=row.since,
        episode_id=row.episode_id,
        turn_id=row.turn_id,
        ordinal=row.ordinal,
        origin=rows.one_of(_ORIGINS, row.origin),
        is_pinned=bool(row.is_pinned),
        ends=bool(row.ends),
        is_deleted=row.deleted_at is not None,
    )


class Digests:
    """Digests keyed by the database and the scope, so that they match nowhere else."""

    def __init__(self, conn: Connection, tenant: str, scope_id: int) -> None:
        self._conn, self._scope_id = conn, scope_id
        self._own = f"{scope_id}\0{tenant}".encode()
        self._key: bytes | None = None

    def of(self, *parts: str) -> bytes:
        # Read the salt on first use, because most calls need no digest.
        if self._key is None:
            salt = meta.salt(self._conn)
            self._key = blake2b(self._own, key=salt[:64], digest_size=32).digest()
        joined = "\0".join(parts).encode("utf-8", "surrogatepass")
        made = blake2b(joined, key=self._key, digest_size=16).digest()
        return self._conn.seals.of(self._scope_id).fingerprint(made)
