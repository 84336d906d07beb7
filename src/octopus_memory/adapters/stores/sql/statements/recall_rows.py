"""The rows that recall searches, read as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .....domain.episode import Scope
from .....domain.errors import StoreCorrupt
from .....domain.ids import id_of
from .....ports.recall_rows import RecallBlock, RecallState, Work
from ..column_values import DAMAGED, LAST_SEQ, NO_MODEL
from ..lazy import Asked, Connection, results_of, sa, schema, sql, types, without_snapshot
from ..scope_seals import is_sealed_row
from . import common

T = TypeVar("T")
_WIDTH = 11
"""The number of columns of `_rows`."""
_NEVER_WRITTEN = RecallState(scope_id=0, version=0, epoch=0)
_LISTED = 65_536
"""Rows whose numbers are held as Python objects at a time."""


@cache
def _in_scope() -> sa.ColumnElement[bool]:
    return sa.and_(
        schema.recall.c.scope_id == common.scope_id(),
        schema.recall.c.tenant == sa.bindparam("tenant_"),
    )


@cache
def _listed() -> sa.ColumnElement[bool]:
    return schema.recall.c.seq.in_(sa.bindparam("seqs", expanding=True))


@cache
def _rows() -> sa.Select[Any]:
    return sa.select(
        schema.recall.c.seq,
        sa.type_coerce(schema.recall.c.episode_id, types.IdBytes()).label("episode_id"),
        schema.recall.c.ordinal,
        schema.recall.c.role,
        sa.type_coerce(schema.recall.c.at, types.Micros()).label("at"),
        schema.recall.c.flags,
        schema.recall.c.told,
        sa.type_coerce(schema.recall.c.speaker, types.Bytes()).label("speaker"),
        sa.type_coerce(schema.recall.c.terms, types.Bytes()).label("terms"),
        schema.recall.c.model_id,
        sa.type_coerce(schema.recall.c.vector, types.Bytes()).label("vector"),
    ).where(_in_scope())


@sql
def _between() -> sa.Select[Any]:
    return (
        _rows()
        .where(
            schema.recall.c.seq > sa.bindparam("after_"),
            schema.recall.c.seq <= sa.bindparam("up_to_"),
        )
        .order_by(schema.recall.c.seq)
    )


@sql
def _seqs() -> sa.Select[Any]:
    return (
        sa.select(schema.recall.c.seq)
        .where(
            _in_scope(),
            schema.recall.c.seq > sa.bindparam("after_"),
            schema.recall.c.seq <= sa.bindparam("up_to_"),
        )
        .order_by(schema.recall.c.seq)
    )


@sql
def _at() -> sa.Select[Any]:
    return _rows().where(_listed()).order_by(schema.recall.c.seq)


@cache
def _model_id() -> sa.ScalarSelect[Any]:
    return (
        sa.select(schema.models.c.id)
        .where(schema.models.c.name == sa.bindparam("model_"))
        .scalar_subquery()
    )


@sql
def _late() -> sa.Select[Any]:
    return sa.select(
        schema.recall.c.seq, sa.type_coerce(schema.recall.c.vector, types.Bytes()).label("vector")
    ).where(_in_scope(), _listed(), schema.recall.c.model_id == _model_id())


@sql
def _late_sealed() -> sa.Select[Any]:
    return _rows().where(_listed(), schema.recall.c.model_id == _model_id())


@sql
def _models() -> sa.Select[Any]:
    return sa.select(schema.models.c.id, schema.models.c.name)


# In the order of the partial index of unindexed episodes, because SQLite would choose another.
@cache
def _unindexed() -> sa.ScalarSelect[Any]:
    return (
        sa.select(schema.episodes.c.id)
        .where(
            schema.episodes.c.scope_id == schema.scopes.c.id,
            schema.episodes.c.unfindable_from.is_not(None),
        )
        .order_by(schema.episodes.c.scope_id, schema.episodes.c.id)
        .limit(1)
        .scalar_subquery()
    )


@sql
def _state() -> sa.Select[Any]:
    return sa.select(
        schema.scopes.c.id,
        schema.scopes.c.version,
        schema.scopes.c.epoch,
        schema.scopes.c.next_seq,
        _unindexed().label("unindexed"),
    ).where(common.this_scope())


@without_snapshot
def state(conn: Connection, scope: Scope) -> RecallState | None:
    return _state_of(conn.execute(_state, common.scope_params(conn, scope)).one_or_none())


def _state_of(row: Any) -> RecallState | None:
    if row is None:
        return None
    return RecallState(
        scope_id=row.id,
        version=row.version,
        epoch=row.epoch,
        newest=row.next_seq - 1,
        has_unindexed=row.unindexed is not None,
    )


def block(
    conn: Connection,
    scope: Scope,
    *,
    after: int = 0,
    up_to: int | None = None,
    seqs: Sequence[int] | None = None,
    late: Sequence[int] = (),
    model: str = "",
    alive: bool = False,
) -> tuple[RecallState, RecallBlock]:
    mine = common.scope_params(conn, scope)
    is_sealed = conn.seals.are_on
    # Before the rows, which would be read twice if the key were not at hand.
    conn.seals.find(scope)
    ask_late = _late_sealed if is_sealed else _late
    if seqs is None:
        between = {"after_": after, "up_to_": LAST_SEQ if up_to is None else up_to}
        wanted: list[Asked] = [(_between, mine | between)]
    else:
        wanted = [(_at, mine | {"seqs": some}) for some in common.chunks(sorted(set(seqs)))]
    known, *found = results_of(
        conn,
        (_state, mine),
        *wanted,
        *((ask_late, mine | {"seqs": some, "model_": model}) for some in common.chunks(late)),
    )
    rows: Sequence[Any] = [row for some in found[: len(wanted)] for row in some.fetchall()]
    since: Sequence[Any] = [row for some in found[len(wanted) :] for row in some.fetchall()]
    state = _state_of(known.one_or_none()) or _NEVER_WRITTEN
    if is_sealed:
        # By its number, because a scope of the same names may be another one by now.
        seal = conn.seals.of(state.scope_id)
        rows = seal.open_recall_rows(rows)
        since = [(row[0], row[-1]) for row in seal.open_recall_rows(since)]
    alive_seqs = _existing_seqs(conn, scope, after) if alive else None
    return state, _block(conn, rows, since, alive_seqs)


def _existing_seqs(conn: Connection, scope: Scope, newest: int) -> NDArray[np.int64]:
    """The `seq` of each row up to `newest`."""
    found = [np.empty(0, np.int64)]
    for after in range(0, newest, _LISTED):
        part = {"after_": after, "up_to_": min(after + _LISTED, newest)}
        listed = conn.execute(_seqs, common.scope_params(conn, scope) | part).fetchall()
        found.append(np.fromiter(chain.from_iterable(listed), np.int64))
    return np.concatenate(found)


def _block(
    conn: Connection,
    found: Sequence[Sequence[Any]],
    late: Sequence[Sequence[Any]],
    alive: NDArray[np.int64] | None,
) -> RecallBlock:
    columns = list(zip(*found, strict=True)) or [()] * _WIDTH
    seq, episode_id, ordinal, role, at, flags, told, speaker, terms, model_id, vectors = columns
    models, model = _factorize(model_id)
    names = {NO_MODEL: ""}
    # Rows that were indexed just now have no model yet.
    if any(models):
        names |= {row[0]: row[1] for row in conn.execute(_models).fetchall()}
    try:
        episodes, episode = _factorize(episode_id)
        speakers, said_by = _factorize(speaker)
        return RecallBlock(
            seq=np.array(seq, np.int64),
            episode_ids=[id_of(kept) for kept in episodes],
            episode=episode,
            ordinal=np.array(ordinal, np.int32),
            role=np.array(role, np.int8),
            at=np.array(at, np.int64),
            flags=np.array(flags, np.uint8),
            told=np.array(told, np.int64),
            speakers=speakers,
            speaker=said_by,
            terms=terms,
            models=[names.get(number) for number in models],
            model=model,
            vectors=vectors,
            late=[(row[0], row[1]) for row in late if row[1] is not None],
            alive=alive,
        )
    except (OverflowError, TypeError, ValueError) as error:
        raise StoreCorrupt(DAMAGED) from error


def _factorize(values: Iterable[T]) -> tuple[list[T], np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """The distinct values, and for each row the index of its value."""
    known: dict[T, int] = {}
    numbers = [known.setdefault(value, len(known)) for value in values]
    return list(known), np.array(numbers, np.int32)


@sql
def _sealed_rows() -> sa.Select[Any]:
    names = ("seq", "flags", "told", "speaker", "terms", "vector", "model_id")
    return sa.select(*(schema.recall.c[name] for name in names)).where(
        schema.recall.c.scope_id == sa.bindparam("scope_"),
        schema.recall.c.seq.in_(sa.bindparam("seqs", expanding=True)),
    )


@sql
def _set_sealed() -> sa.Update:
    return (
        sa.update(schema.recall)
        .where(
            schema.recall.c.scope_id == sa.bindparam("scope_"),
            schema.recall.c.seq == sa.bindparam("seq_"),
            schema.recall.c.tenant == sa.bindparam("tenant_"),
        )
        .values(model_id=sa.bindparam("key_"), terms=sa.bindparam("terms_"))
    )


def reseal(
    conn: Connection, changes: Sequence[tuple[Work, dict[str, Any]]]
) -> Sequence[tuple[Work, dict[str, Any]]]:
    """Change values in sealed recall rows, whose scopes are locked; returns the other changes."""
    if not conn.seals.are_on:
        return changes
    plain: list[tuple[Work, dict[str, Any]]] = []
    by_scope: dict[int, list[tuple[Work, dict[str, Any]]]] = {}
    for piece, values in changes:
        by_scope.setdefault(piece.scope_id, []).append((piece, values))
    conn.seals.fetch(by_scope)
    for scope_id, some in by_scope.items():
        seal = conn.seals.of(scope_id)
        known: dict[int, dict[str, Any]] = {}
        for part in common.chunks([piece.seq for piece, _ in some]):
            these = {"scope_": scope_id, "seqs": list(part)}
            found = conn.execute(_sealed_rows, these).mappings()
            known |= {row["seq"]: dict(row) for row in found}
        fresh = []
        for piece, values in some:
            row = known.get(piece.seq)
            if row is None or not is_sealed_row(row["terms"]):
                plain.append((piece, values))
                continue
            new = seal.recall_row(seal.open_recall_row(row) | values)
            fresh.append(
                {
                    "scope_": scope_id,
                    "seq_": piece.seq,
                    "tenant_": piece.scope.tenant,
                    "key_": new["model_id"],
                    "terms_": new["terms"],
                }
            )
        if fresh:
            conn.execute(_set_sealed, fresh)
    return plain
