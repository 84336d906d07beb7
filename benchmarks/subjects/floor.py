"""The floor: the least code that does the job.

Text and vectors in two SQLite tables, WAL with `synchronous=FULL`, and a dot product over the
user's own vectors, kept in memory once they were read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import Subject

if TYPE_CHECKING:
    from ..data import Data, Query, Turn, Vectors

_TABLES = (
    "CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, user INT, session TEXT, body TEXT)",
    "CREATE INDEX IF NOT EXISTS by_session ON turns (user, session, id)",
    "CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, user INT, vector BLOB)",
    "CREATE INDEX IF NOT EXISTS by_user ON vectors (user)",
)
_ADD = "INSERT INTO turns (id, user, session, body) VALUES (?, ?, ?, ?)"
_ADD_VECTOR = "INSERT INTO vectors (id, user, vector) VALUES (?, ?, ?)"


class Floor(Subject):
    name = "floor"
    imports = "import sqlite3, json, numpy"
    notes = "SQLite, WAL, synchronous=FULL; exact cosine in numpy over the user's cached vectors"

    def __init__(self, folder: Path, data: Data | None) -> None:
        super().__init__(folder, data)
        self._conn = sqlite3.connect(folder / "floor.db", isolation_level=None)
        self._conn.execute("PRAGMA journal_mode=WAL")
        self._conn.execute("PRAGMA synchronous=FULL")
        self._conn.execute("PRAGMA secure_delete=ON")
        for statement in _TABLES:
            self._conn.execute(statement)
        self._cached: dict[int, tuple[list[int], Vectors]] = {}

    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        vectors = [(turn.number, user, turn.vector.tobytes()) for turn in turns]
        self._conn.execute("BEGIN")
        self._conn.executemany(_ADD, _rows(user, session, turns))
        self._conn.executemany(_ADD_VECTOR, vectors)
        self._conn.execute("COMMIT")
        self._cached.pop(user, None)

    def add_text(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        """Store without vectors, as a memory does that embeds later."""
        rows = _rows(user, session, turns)
        if len(rows) == 1:
            self._conn.execute(_ADD, rows[0])
            return
        self._conn.execute("BEGIN")
        self._conn.executemany(_ADD, rows)
        self._conn.execute("COMMIT")

    def load(self, data: Data) -> None:
        self._conn.execute("PRAGMA synchronous=OFF")
        super().load(data)
        self._conn.execute("PRAGMA synchronous=FULL")

    def recall(self, query: Query, k: int = 5) -> list[str]:
        ids, vectors = self._vectors(query.user)
        cosines = vectors @ query.vector
        near = np.argpartition(-cosines, min(k, len(ids) - 1))[:k]
        best = [ids[row] for row in near[np.argsort(-cosines[near])]]
        marks = ",".join("?" * len(best))
        found = dict(
            self._conn.execute(f"SELECT id, body FROM turns WHERE id IN ({marks})", best).fetchall()
        )
        return [json.loads(found[place])["content"] for place in best]

    def _vectors(self, user: int) -> tuple[list[int], Vectors]:
        cached = self._cached.get(user)
        if cached is None:
            rows = self._conn.execute(
                "SELECT id, vector FROM vectors WHERE user=?", (user,)
            ).fetchall()
            joined = np.frombuffer(b"".join(vector for _, vector in rows), np.float32)
            cached = [place for place, _ in rows], joined.reshape(len(rows), -1)
            self._cached[user] = cached
        return cached

    def session(self, user: int, session: str) -> list[str]:
        found = self._conn.execute(
            "SELECT body FROM turns WHERE user=? AND session=? ORDER BY id", (user, session)
        )
        return [json.loads(body)["content"] for (body,) in found]

    def last(self, user: int, session: str, count: int) -> list[str]:
        found = self._conn.execute(
            "SELECT body FROM turns WHERE user=? AND session=? ORDER BY id DESC LIMIT ?",
            (user, session, count),
        )
        return [json.loads(body)["content"] for (body,) in found][::-1]

    def erase(self, user: int) -> None:
        self._conn.execute("DELETE FROM turns WHERE user=?", (user,))
        self._conn.execute("DELETE FROM vectors WHERE user=?", (user,))
        self._conn.execute("VACUUM")
        self._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._cached.pop(user, None)

    def close(self) -> None:
        self._conn.close()


def _rows(user: int, session: str, turns: Sequence[Turn]) -> list[tuple[int, int, str, str]]:
    return [
        (
            turn.number,
            user,
            session,
            json.dumps({"role": turn.role, "content": turn.text}, ensure_ascii=False),
        )
        for turn in turns
    ]


SUBJECT = Floor
