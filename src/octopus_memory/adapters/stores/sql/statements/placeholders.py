"""The numbers that stand for personal data in an episode's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from .....domain.episode import Scope
from .....domain.errors import EpisodeChanged
from .....ports.values import Placeholder
from ..lazy import Connection, sa, schema, sql
from ..seals import PLACEHOLDER, Seal
from . import common


@sql
def _insert() -> sa.Insert:
    return sa.insert(schema.placeholders)


@sql
def _taken() -> sa.Select[Any]:
    return sa.select(schema.placeholders.c.kind, schema.placeholders.c.number).where(
        schema.placeholders.c.episode_id == sa.bindparam("episode_")
    )


def put(
    conn: Connection, episode_key: dict[str, Any], session_id: str, new: Sequence[Placeholder]
) -> None:
    """Store new placeholders of the episode that `episode_key` names.

    :raises EpisodeChanged: when another caller took one of the numbers first
    """
    if not new:
        return
    taken = conn.execute(_taken, {"episode_": episode_key["episode_id"]})
    if {tuple(row) for row in taken} & {(each.kind, each.number) for each in new}:
        raise EpisodeChanged(session_id)
    seal = conn.seals.of(episode_key["scope_id"])
    conn.execute(
        _insert,
        [
            episode_key
            | {"kind": each.kind, "number": each.number, "digest": _sealed(seal, episode_key, each)}
            for each in new
        ],
    )


def _sealed(seal: Seal, episode_key: dict[str, Any], each: Placeholder) -> bytes:
    row = place_of(episode_key["episode_id"], each.kind, each.number)
    return seal.data(PLACEHOLDER, row, each.digest)


def place_of(episode_id: UUID, kind: str, number: int) -> bytes:
    return episode_id.bytes + f"{kind} {number}".encode()


def of_episode(
    conn: Connection, scope: Scope, episode_id: UUID, *, deleted: bool = False
) -> list[Placeholder]:
    """Placeholders in order; with `deleted`, of a deleted episode too."""
    table = schema.placeholders
    found = conn.execute(
        sa.select(table.c.scope_id, table.c.kind, table.c.digest, table.c.number)
        .join(schema.episodes, schema.episodes.c.id == table.c.episode_id)
        .where(
            common.in_scope() if deleted else common.undeleted_in_scope(),
            table.c.episode_id == episode_id,
        )
        .order_by(table.c.kind, table.c.number),
        common.scope_params(conn, scope),
    )
    return [
        Placeholder(
            kind=row.kind,
            digest=conn.seals.of(row.scope_id).open_data(
                PLACEHOLDER, place_of(episode_id, row.kind, row.number), row.digest
            ),
            number=row.number,
        )
        for row in found
    ]
