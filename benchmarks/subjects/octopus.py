"""Octopus through its public calls, with given embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import Subject
from .given import Given

if TYPE_CHECKING:
    from ..data import Data, Query, Turn


class Octopus(Subject):
    name = "octopus"
    package = "octopus-memory"
    imports = "from octopus_memory import EpisodicMemory"
    notes = (
        "SQLite, WAL, synchronous=FULL; hybrid recall_turns(limit=5); what turns are found by is "
        "written after the acknowledgement, here by flush() instead of the background thread"
    )

    def __init__(
        self, folder: Path, data: Data | None, *, background: bool = False, name: str = "memory.db"
    ) -> None:
        from octopus_memory import EpisodicMemory

        super().__init__(folder, data)
        self.embedder = Given(data)
        url = f"sqlite:///{folder / name}"
        self.memory = EpisodicMemory.open(url, embedder=self.embedder, background=background)

    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        self.memory.scope(user=f"user-{user}").add(
            session, [(turn.role, turn.text) for turn in turns]
        )

    def settle(self) -> None:
        self.memory.flush()

    def load(self, data: Data) -> None:
        for place, (user, session, turns) in enumerate(data.mixed()):
            # An imported history has its summaries, too.
            self.memory.scope(user=f"user-{user}").store(
                [(turn.role, turn.text) for turn in turns],
                session_id=session,
                summary=_summary(turns),
                key_facts=(),
            )
            if place % 100 == 0:
                self.settle()
        self.settle()

    def recall(self, query: Query, k: int = 5) -> list[str]:
        # The embedder looks up the given vector by the text.
        self.embedder.at_hand = {query.text: query.vector}
        hits = self.memory.scope(user=f"user-{query.user}").recall_turns(query.text, limit=k)
        return [hit.text for hit in hits]

    def nearest(self, query: Query, k: int = 5) -> list[str]:
        """Search by vectors alone. Recall itself also ranks by other signals."""
        import numpy as np

        runtime, scope = self.memory.runtime, self.memory.scope(user=f"user-{query.user}").scope
        view = runtime.index.view(scope, self.embedder.model)
        cosines = np.where(view.ordinals >= 0, view.cosine(query.vector), -1)
        best = np.argsort(-np.nan_to_num(cosines, nan=-1), kind="stable")[:k]
        places = [
            (view.episode_ids[view.rows.episode[row]], int(view.ordinals[row])) for row in best
        ]
        turns = {
            (turn.episode_id, turn.ordinal): turn for turn in runtime.store.turns_at(scope, places)
        }
        return [turns[place].text for place in places]

    def session(self, user: int, session: str) -> list[str]:
        return self._texts(user, session)

    def last(self, user: int, session: str, count: int) -> list[str]:
        return self._texts(user, session, count)

    def _texts(self, user: int, session: str, last: int | None = None) -> list[str]:
        replay = self.memory.scope(user=f"user-{user}").session(session, last=last)
        return [str(message["content"]) for message in replay.messages()]

    def erase(self, user: int) -> None:
        self.memory.scope(user=f"user-{user}").erase()

    def marks(self, turn: Turn) -> dict[str, bytes]:
        from octopus_memory.adapters.stores.sql import codec
        from octopus_memory.domain.search.row_format import pack_vectors

        _, packed = codec.encode({"role": turn.role, "content": turn.text})
        (vector,) = pack_vectors(turn.vector[None])
        # Skips the header of the frame, which every message has.
        return {"text": packed[20:-4], "vector": vector[8:]}

    def close(self) -> None:
        self.memory.close()


def _summary(turns: Sequence[Turn]) -> str:
    return " ".join(turn.text.split(" ", 1)[1][:120] for turn in turns[:4])


SUBJECT = Octopus
