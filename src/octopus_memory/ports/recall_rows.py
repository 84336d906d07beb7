"""What recall reads of a scope: a row for each turn and each summary, or many as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from .turns import Lexical

SUMMARY_ORDINAL = -1
"""The ordinal of the recall row that stands for an episode's summary."""


class RecallState(NamedTuple):
    """Where a scope's recall rows stand.

    A cache of the same scope number and `epoch` needs only newer rows. With another `epoch` some of
    its rows are gone, and what was changed has come back as a newer row.
    """

    scope_id: int
    """The scope's number in this database; one that is erased and comes back has another."""
    version: int
    """Bumped by every write that adds, changes or removes rows."""
    epoch: int
    """Bumped by every write that removes rows. One that changes a row gives it another `seq`, but
    for its vector."""
    newest: int = 0
    """The highest `seq` that was given in the scope: it never had more rows than that."""
    has_unfindable: bool = False
    """Whether there are turns that have no row yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRow:
    """What recall needs of one turn, or of one summary (`ordinal` is `SUMMARY_ORDINAL`)."""

    seq: int
    episode_id: UUID
    ordinal: int
    role: int
    at: int
    """Microseconds since 1970, UTC."""
    lexical: Lexical
    model: str | None
    """Whose vector this is; None while one is awaited, "" where none is wanted."""
    vector: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecallBlock:
    """Recall rows as columns, in the order of their `seq`: a scope may have a million of them."""

    seq: NDArray[np.int64]
    episode_ids: Sequence[UUID]
    """Each once."""
    episode: NDArray[np.int32]
    """The place in `episode_ids`."""
    ordinal: NDArray[np.int32]
    role: NDArray[np.int8]
    at: NDArray[np.int64]
    flags: NDArray[np.uint8]
    speakers: Sequence[bytes]
    """Each once, and the empty one for none."""
    speaker: NDArray[np.int32]
    """The place in `speakers`."""
    terms: Sequence[bytes]
    models: Sequence[str | None]
    """Each once."""
    model: NDArray[np.int32]
    """The place in `models`."""
    vectors: Sequence[bytes | None]
    late: Sequence[tuple[int, bytes]] = ()
    """The `seq` of rows that were known before, and the vectors that they have got since."""
    alive: NDArray[np.int64] | None = None
    """The `seq` of each row known before that is still there; None where nobody asked."""

    def __len__(self) -> int:
        return len(self.seq)

    def rows(self) -> list[RecallRow]:
        """One by one."""
        return [
            RecallRow(
                seq=seq,
                episode_id=self.episode_ids[episode],
                ordinal=ordinal,
                role=role,
                at=at,
                lexical=Lexical(terms=terms, speaker=self.speakers[speaker], flags=flags),
                model=self.models[model],
                vector=vector,
            )
            for seq, episode, ordinal, role, at, flags, speaker, terms, model, vector in zip(
                self.seq.tolist(),
                self.episode.tolist(),
                self.ordinal.tolist(),
                self.role.tolist(),
                self.at.tolist(),
                self.flags.tolist(),
                self.speaker.tolist(),
                self.terms,
                self.model.tolist(),
                self.vectors,
                strict=True,
            )
        ]
