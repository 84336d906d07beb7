"""SqliteStore of LangGraph with vector search by sqlite-vec."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Subject
from .given import Given

if TYPE_CHECKING:
    from ..data import Data, Query, Turn


class LangGraph(Subject):
    name = "langgraph"
    package = "langgraph-checkpoint-sqlite"
    imports = "from langgraph.store.sqlite import SqliteStore"
    notes = (
        "SqliteStore, namespace (user, session); WAL, synchronous=FULL set on its connection; "
        "sqlean's SQLite, since many Pythons cannot load sqlite-vec"
    )

    def __init__(self, folder: Path, data: Data | None) -> None:
        import sqlean
        from langgraph.store.base import PutOp
        from langgraph.store.sqlite import SqliteStore

        super().__init__(folder, data)
        self._put_op = PutOp
        self._given = Given(data)
        self._conn = sqlean.connect(
            str(folder / "store.db"), check_same_thread=False, isolation_level=None
        )
        self._conn.execute("PRAGMA journal_mode=WAL")
        self._conn.execute("PRAGMA synchronous=FULL")
        self._conn.execute("PRAGMA busy_timeout=5000")
        index: Any = {"dims": 384, "embed": self._embed, "text_fields": ["text"]}
        self._store = SqliteStore(self._conn, index=index)
        self._store.setup()

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        rows: list[list[float]] = self._given.embed(texts).tolist()
        return rows

    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        self._put([(user, session, turn) for turn in turns])

    def load(self, data: Data) -> None:
        for batch in data.batches(500):
            self._put(batch)

    def _put(self, rows: list[tuple[int, str, Turn]]) -> None:
        self._given.at_hand = {turn.text: turn.vector for _, _, turn in rows}
        self._store.batch(
            [
                self._put_op(
                    namespace=(f"user-{user}", session),
                    key=f"{turn.number:012d}",
                    value={"role": turn.role, "text": turn.text},
                )
                for user, session, turn in rows
            ]
        )

    def recall(self, query: Query, k: int = 5) -> list[str]:
        self._given.at_hand = {query.text: query.vector}
        found = self._store.search((f"user-{query.user}",), query=query.text, limit=k)
        return [item.value["text"] for item in found]

    def last(self, user: int, session: str, count: int) -> list[str]:
        found = self._store.search((f"user-{user}", session), limit=min(count, 10_000))
        return [item.value["text"] for item in sorted(found, key=lambda item: item.key)]

    def erase(self, user: int) -> None:
        found = self._store.search((f"user-{user}",), limit=1_000_000)
        self._store.batch(
            [self._put_op(namespace=item.namespace, key=item.key, value=None) for item in found]
        )

    def close(self) -> None:
        self._conn.close()


SUBJECT = LangGraph
