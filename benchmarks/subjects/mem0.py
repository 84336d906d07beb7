"""mem0 without a model: `infer=False`, on its default vector store, Qdrant's local mode."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import Subject
from .given import Given

if TYPE_CHECKING:
    from ..data import Data, Query, Turn, Vectors


class _Embedding:
    """The two methods of an embedder that mem0 calls."""

    def __init__(self, given: Given) -> None:
        self._given = given

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], _: str | None = None) -> list[list[float]]:
        rows: list[list[float]] = self._given.embed(texts).tolist()
        return rows


class Mem0(Subject):
    name = "mem0"
    package = "mem0ai"
    imports = "from mem0 import Memory"
    notes = (
        "infer=False; Qdrant's local mode on disk, its default; telemetry off; no entity or word "
        "search, whose models are downloaded; one statement a message, no batch"
    )

    def __init__(self, folder: Path, data: Data | None) -> None:
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ["MEM0_DIR"] = str(folder / "home")
        from mem0 import Memory

        logging.disable(logging.WARNING)
        super().__init__(folder, data)
        self._given = Given(data)
        key = {"api_key": "none"}
        self._memory: Any = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(folder / "qdrant"),
                        "on_disk": True,
                        "embedding_model_dims": 384,
                    },
                },
                "embedder": {"provider": "openai", "config": key},
                "llm": {"provider": "openai", "config": key},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = _Embedding(self._given)

    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        self._given.at_hand = {turn.text: turn.vector for turn in turns}
        self._memory.add(
            [{"role": turn.role, "content": turn.text} for turn in turns],
            user_id=f"user-{user}",
            run_id=session,
            infer=False,
        )

    def recall(self, query: Query, k: int = 5) -> list[str]:
        vector: Vectors = query.vector
        self._given.at_hand = {query.text: vector}
        found = self._memory.search(
            query.text, filters={"user_id": f"user-{query.user}"}, top_k=k, threshold=0.0
        )
        return [item["memory"] for item in found["results"]]

    def last(self, user: int, session: str, count: int) -> list[str]:
        found = self._memory.get_all(
            filters={"user_id": f"user-{user}", "run_id": session}, top_k=10_000
        )
        ordered = sorted(found["results"], key=lambda item: str(item["created_at"]))
        return [item["memory"] for item in ordered][-count:]

    def erase(self, user: int) -> None:
        self._memory.delete_all(user_id=f"user-{user}")

    def close(self) -> None:
        self._memory.vector_store.client.close()


SUBJECT = Mem0
