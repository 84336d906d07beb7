"""Chroma, persistent, in one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Subject

if TYPE_CHECKING:
    from ..data import Data, Query, Turn


class Chroma(Subject):
    name = "chroma"
    package = "chromadb"
    imports = "import chromadb"
    notes = (
        "PersistentClient, one collection (HNSW, cosine) filtered by user; "
        "its own durability, there is no choice"
    )

    def __init__(self, folder: Path, data: Data | None) -> None:
        import chromadb
        from chromadb.config import Settings

        super().__init__(folder, data)
        self._client: Any = chromadb.PersistentClient(
            str(folder), settings=Settings(anonymized_telemetry=False)
        )
        self._turns = self._client.get_or_create_collection(
            "turns", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        self._put([(user, session, turn) for turn in turns])

    def load(self, data: Data) -> None:
        for batch in data.batches(2_000):
            self._put(batch)

    def _put(self, rows: list[tuple[int, str, Turn]]) -> None:
        self._turns.add(
            ids=[f"{turn.number:012d}" for _, _, turn in rows],
            embeddings=[turn.vector for _, _, turn in rows],
            documents=[turn.text for _, _, turn in rows],
            metadatas=[
                {"user": user, "session": session, "role": turn.role}
                for user, session, turn in rows
            ],
        )

    def recall(self, query: Query, k: int = 5) -> list[str]:
        found = self._turns.query(
            query_embeddings=[query.vector],
            n_results=k,
            where={"user": query.user},
            include=["documents"],
        )
        texts: list[str] = found["documents"][0]
        return texts

    def last(self, user: int, session: str, count: int) -> list[str]:
        found = self._turns.get(
            where={"$and": [{"user": user}, {"session": session}]}, include=["documents"]
        )
        ordered = sorted(zip(found["ids"], found["documents"], strict=True))
        return [text for _, text in ordered][-count:]

    def erase(self, user: int) -> None:
        self._turns.delete(where={"user": user})

    def close(self) -> None:
        self._client.close()


SUBJECT = Chroma
