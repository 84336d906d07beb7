"""The statements that read what recall searches, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from ....domain.episode import Scope
from ....domain.errors import StoreCorrupt
from ....domain.ids import id_of
from ....ports.recall import RecallBlock, RecallState
from .. import schema
from ..types import DAMAGED, UtcTime, Uuid, micros
from .reads import WHO, chunks, who

T = TypeVar("T")
_MOST_IDS = 400
_LAST = 2**62
_episodes, _scopes, _recall = schema.episodes, schema.scopes, schema.recall


def _only_elsewhere(kind: Any, then: Callable[[Any], Any], dialect: sa.Dialect) -> Any:
    """SQLite's values are taken as they are kept; others' are read as usual, and made like them."""
    if dialect.name == "sqlite":
        return None
    read = kind(dialect, None)
    return then if read is None else lambda value: then(read(value))


class _Micros(UtcTime):
    """A time as microseconds since 1970, which an array can hold."""

    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ARG002
        return _only_elsewhere(super().result_processor, micros, dialect)


class _IdBytes(Uuid):
    """An id as its sixteen bytes: most rows have the id of the row before."""

    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ARG002
        return _only_elsewhere(super().result_processor, lambda value: value.bytes, dialect)


class _Bytes(sa.types.TypeDecorator[bytes]):
    impl = sa.LargeBinary
    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ARG002
        return _only_elsewhere(super().result_processor, lambda value: value, dialect)


_scope_id = sa.select(_scopes.c.id).where(WHO).scalar_subquery()
_mine = sa.and_(_recall.c.scope_id == _scope_id, _recall.c.tenant == sa.bindparam("tenant_"))
_among = _recall.c.seq.in_(sa.bindparam("seqs", expanding=True))
_rows = sa.select(
    _recall.c.seq,
    sa.type_coerce(_recall.c.episode_id, _IdBytes()).label("episode_id"),
    _recall.c.ordinal,
    _recall.c.role,
    sa.type_coerce(_recall.c.at, _Micros()).label("at"),
    _recall.c.flags,
    sa.type_coerce(_recall.c.speaker, _Bytes()).label("speaker"),
    sa.type_coerce(_recall.c.terms, _Bytes()).label("terms"),
    _recall.c.model_id,
    sa.type_coerce(_recall.c.vector, _Bytes()).label("vector"),
).where(_mine)
_between = _rows.where(
    _recall.c.seq > sa.bindparam("after_"), _recall.c.seq <= sa.bindparam("up_to_")
).order_by(_recall.c.seq)
_at = _rows.where(_among).order_by(_recall.c.seq)
_model_id = (
    sa.select(schema.models.c.id)
    .where(schema.models.c.name == sa.bindparam("model_"))
    .scalar_subquery()
)
_late = sa.select(_recall.c.seq, sa.type_coerce(_recall.c.vector, _Bytes()).label("vector")).where(
    _mine, _among, _recall.c.model_id == _model_id
)
_models = sa.select(schema.models.c.id, schema.models.c.name)
# In the order of the one index that holds only such episodes: SQLite would take another.
_unfindable = (
    sa.select(_episodes.c.id)
    .where(_episodes.c.scope_id == _scopes.c.id, _episodes.c.unfindable_from.is_not(None))
    .order_by(_episodes.c.scope_id, _episodes.c.id)
    .limit(1)
    .scalar_subquery()
)
_state = sa.select(
    _scopes.c.id,
    _scopes.c.version,
    _scopes.c.epoch,
    _scopes.c.next_seq,
    _unfindable.label("unfindable"),
).where(WHO)


def state(conn: sa.Connection, scope: Scope) -> RecallState | None:
    row = conn.execute(_state, who(scope)).one_or_none()
    if row is None:
        return None
    return RecallState(
        scope_id=row.id,
        version=row.version,
        epoch=row.epoch,
        newest=row.next_seq - 1,
        has_unfindable=row.unfindable is not None,
    )


def block(
    conn: sa.Connection,
    scope: Scope,
    after: int,
    up_to: int | None = None,
    late: Sequence[int] = (),
    model: str = "",
) -> tuple[RecallState, RecallBlock]:
    known = state(conn, scope) or RecallState(scope_id=0, version=0, epoch=0)
    given = who(scope) | {"after_": after, "up_to_": _LAST if up_to is None else up_to}
    found = list(conn.execute(_between, given).all())
    come = [
        row
        for some in chunks(late, _MOST_IDS)
        for row in conn.execute(_late, who(scope) | {"seqs": some, "model_": model}).all()
    ]
    return known, _block(conn, found, come)


def block_at(conn: sa.Connection, scope: Scope, seqs: Sequence[int]) -> RecallBlock:
    found: list[Sequence[Any]] = []
    for some in chunks(sorted(set(seqs)), _MOST_IDS):
        found += conn.execute(_at, who(scope) | {"seqs": some}).all()
    return _block(conn, found)


def _block(
    conn: sa.Connection, found: Sequence[Sequence[Any]], late: Sequence[Sequence[Any]] = ()
) -> RecallBlock:
    columns = list(zip(*found, strict=True)) or [()] * len(_rows.selected_columns)
    seq, episode_id, ordinal, role, at, flags, speaker, terms, model_id, vectors = columns
    models, model = _numbered(model_id)
    names = {schema.NO_MODEL: ""}
    # Rows that have just been made findable are no model's yet.
    if any(models):
        names |= {row[0]: row[1] for row in conn.execute(_models).all()}
    try:
        episodes, episode = _numbered(episode_id)
        speakers, said_by = _numbered(speaker)
        return RecallBlock(
            seq=np.array(seq, np.int64),
            episode_ids=[id_of(kept) for kept in episodes],
            episode=episode,
            ordinal=np.array(ordinal, np.int32),
            role=np.array(role, np.int8),
            at=np.array(at, np.int64),
            flags=np.array(flags, np.uint8),
            speakers=speakers,
            speaker=said_by,
            terms=terms,
            models=[names.get(number) for number in models],
            model=model,
            vectors=vectors,
            late=[(row[0], row[1]) for row in late if row[1] is not None],
        )
    except (OverflowError, TypeError, ValueError) as error:
        raise StoreCorrupt(DAMAGED) from error


def _numbered(values: Iterable[T]) -> tuple[list[T], np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Each value once, and by row which it is."""
    known: dict[T, int] = {}
    numbers = [known.setdefault(value, len(known)) for value in values]
    return list(known), np.array(numbers, np.int32)
