"""LanceDB, embedded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Subject

if TYPE_CHECKING:
    from ..data import Data, Query, Turn


class LanceDb(Subject):
    name = "lancedb"
    package = "lancedb"
    imports = "import lancedb"
    notes = (
        "one table, scalar index on the user, exact search after the filter, optimize() after "
        "writing; its own durability, there is no choice"
    )

    def __init__(self, folder: Path, data: Data | None) -> None:
        import lancedb
        import pyarrow as pa

        super().__init__(folder, data)
        schema = pa.schema(
            [
                ("number", pa.int64()),
                ("user", pa.int64()),
                ("session", pa.string()),
                ("role", pa.string()),
                ("text", pa.string()),
                ("vector", pa.list_(pa.float32(), 384)),
            ]
        )
        self._turns: Any = lancedb.connect(folder).create_table(
            "turns", schema=schema, exist_ok=True
        )

    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        self._put([(user, session, turn) for turn in turns])

    def load(self, data: Data) -> None:
        for batch in data.batches(10_000):
            self._put(batch)
        self._turns.create_scalar_index("user")
        self.settle()

    def settle(self) -> None:
        self._turns.optimize()

    def _put(self, rows: list[tuple[int, str, Turn]]) -> None:
        self._turns.add(
            [
                {
                    "number": turn.number,
                    "user": user,
                    "session": session,
                    "role": turn.role,
                    "text": turn.text,
                    "vector": turn.vector,
                }
                for user, session, turn in rows
            ]
        )

    def recall(self, query: Query, k: int = 5) -> list[str]:
        found = (
            self._turns.search(query.vector)
            .distance_type("cosine")
            .where(f"user = {query.user}", prefilter=True)
            .select(["text", "_distance"])
            .limit(k)
            .to_list()
        )
        return [row["text"] for row in found]

    def last(self, user: int, session: str, count: int) -> list[str]:
        found = (
            self._turns.search()
            .where(f"user = {user} AND session = '{session}'")
            .select(["number", "text"])
            .limit(100_000)
            .to_list()
        )
        ordered = sorted(found, key=lambda row: int(row["number"]))
        return [row["text"] for row in ordered][-count:]

    def erase(self, user: int) -> None:
        self._turns.delete(f"user = {user}")
        # As its documentation advises: older versions keep deleted rows until they are cleaned up.
        warnings.simplefilter("ignore", UserWarning)
        self._turns.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def close(self) -> None:
        self._turns = None


SUBJECT = LanceDb
