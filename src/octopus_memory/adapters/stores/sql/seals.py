"""Sealing and opening of what is stored, in the one place that all statements ask.

A connection has `seals`. They give the `Seal` of a scope, which turns values into columns and back.
Without keys nothing is sealed: `OFF` and `Seal` leave every value as it is. `scope_seals` and
`key_ring` have those that use the scopes' keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from ....domain.errors import StoreCorrupt
from . import codec
from .column_values import DAMAGED

if TYPE_CHECKING:
    from ....domain.episode import Scope
    from ....domain.message import Json

RowId: TypeAlias = UUID | int | str | bytes
"""The id of a row, which its sealed columns are bound to."""

(
    MESSAGE,
    TOOL_CALLS,
    SUMMARY,
    FACT,
    QUERY,
    BLOCK,
    MEMORIES,
    METADATA,
    CHOSEN,
    SALTS,
    PLACEHOLDER,
    RECALL,
    USER,
    REASON,
) = (
    b"turns.message",
    b"turns.tool_calls",
    b"episodes.summary",
    b"facts.content",
    b"injections.query",
    b"injections.hash",
    b"injected.memories",
    b"conversations.metadata",
    b"forget_previews.chosen",
    b"conversations.key_salts",
    b"placeholders.digest",
    b"recall",
    b"scopes.user",
    b"holds.reason",
)
"""The columns whose values are sealed; a sealed value is bound to its column, scope and row."""


class Seal:
    """Turns the values of one scope into columns and back. This one seals nothing."""

    user: str | None = None
    """The user's name, where the scope's row has a keyed hash in its place."""

    def name(self, given: str) -> str:
        """The stored form of a session's id or of another name that is searched for."""
        return given

    def names(self, given: Iterable[str]) -> list[str]:
        return [self.name(each) for each in given]

    def open_name(self, kept: str) -> str:
        return kept

    def digest(self, given: bytes) -> bytes:
        """The stored form of a message key's digest, which has the same size."""
        return given

    def open_digest(self, kept: bytes) -> bytes:
        return kept

    def fingerprint(self, given: bytes) -> bytes:
        """The stored form of a hash that is only compared."""
        return given

    def data(self, column: bytes, row: RowId, given: bytes) -> bytes:  # noqa: ARG002
        return given

    def open_data(self, column: bytes, row: RowId, kept: bytes) -> bytes:  # noqa: ARG002
        return kept

    def text(self, column: bytes, row: RowId, given: str) -> str:  # noqa: ARG002
        return given

    def open_text(self, column: bytes, row: RowId, kept: str) -> str:  # noqa: ARG002
        return kept

    def encode(self, column: bytes, row: RowId, value: Any) -> tuple[int, bytes]:  # noqa: ARG002
        """The codec number and payload of a plain JSON value."""
        return codec.encode(value)

    def decode(self, column: bytes, row: RowId, mark: int | None, payload: bytes) -> object:
        return codec.decode(*self.open(column, row, mark, payload))

    def open(
        self,
        column: bytes,  # noqa: ARG002
        row: RowId,  # noqa: ARG002
        mark: int | None,
        payload: bytes,
    ) -> tuple[int | None, bytes]:
        """The codec number and payload as they were before they were sealed."""
        return mark, payload

    def recall_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The columns of a recall row, of which those that tell of the text become one blob."""
        return row

    def open_recall_row(self, row: dict[str, Any]) -> dict[str, Any]:
        return row

    def open_recall_rows(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """As `open_recall_row`, of rows with the columns that recall reads, in their order."""
        return rows

    def dump_json(self, column: bytes, row: RowId, value: Mapping[str, Json]) -> str:
        # Nothing is told by an empty one, and most are.
        return self.text(column, row, json.dumps(value, allow_nan=False)) if value else "{}"

    def load_json(self, column: bytes, row: RowId, kept: str) -> dict[str, Json]:
        return {} if kept == "{}" else load_json(self.open_text(column, row, kept))


def load_json(text: str) -> dict[str, Json]:
    try:
        loaded: dict[str, Json] = json.loads(text)
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(DAMAGED) from error
    return loaded


PLAIN = Seal()


class Seals:
    """The seals of one connection, by scope. These are those of a database without keys."""

    are_on = False

    def of(self, scope_id: int) -> Seal:  # noqa: ARG002
        """The seal of a scope.

        :raises KeyMissing: when its key is lost or destroyed
        :raises KeyUnavailable: when the key store does not answer
        """
        return PLAIN

    def find(self, scope: Scope) -> Seal:  # noqa: ARG002
        """As `of`, by the scope's names; a seal of nothing for an unknown scope."""
        return PLAIN

    def readable(self, scope_ids: Collection[int]) -> Collection[int]:
        """Those of the scopes whose keys are there: for work on many scopes at once."""
        return scope_ids

    def fetch(self, scope_ids: Collection[int], refs: Collection[str | None] = ()) -> None:
        """Have the keys of scopes, and others, at hand at once: for work on many of them."""

    def user(self, tenant: str, user: str) -> str:  # noqa: ARG002
        """The stored form of a user's name."""
        return user

    def hashed_user(self, tenant: str, user: str) -> str:  # noqa: ARG002
        """The stored form of the name of a user whose scopes have keys."""
        return user

    def new_user(self, tenant: str, user: str) -> str:  # noqa: ARG002
        """As `user`, for a row to be written or erased; stays so until the transaction ends."""
        return user

    def user_of(self, scope_id: int, kept: str) -> str:  # noqa: ARG002
        """A user's name from the row of a scope."""
        return kept

    def new_scope(self, scope: Scope) -> dict[str, Any]:
        """The columns that name a new scope."""
        return {"tenant": scope.tenant, "agent": scope.agent, "user": scope.user}

    def salt(self, kept: bytes) -> bytes:
        """The secret of the database, from its record."""
        return kept

    def sealed_salt(self, salt: bytes) -> bytes:
        """The record of the secret of the database."""
        return salt

    def key_of(self, scope_id: int) -> str | None:  # noqa: ARG002
        """The ref of a scope's key; None if it has none."""
        return None

    def new_key(self) -> tuple[str | None, Seal]:
        """The ref and the seal of a new key, for a row that belongs to no scope."""
        return None, PLAIN

    def by_ref(self, ref: str | None) -> Seal:  # noqa: ARG002
        """The seal of the key `ref`; one that seals nothing for None."""
        return PLAIN

    def open_many(
        self,
        column: bytes,  # noqa: ARG002
        scope_ids: Sequence[int],  # noqa: ARG002
        rows: Sequence[Any],  # noqa: ARG002
        marks: Sequence[Any],
        payloads: Sequence[bytes],
    ) -> tuple[Sequence[Any], Sequence[bytes]]:
        """As `Seal.open` of each."""
        return marks, payloads


OFF = Seals()
