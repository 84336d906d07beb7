"""The rows of one scope that recall ranks: a turn each, or a closed episode's summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .terms import LENGTH_SHIFT, Flag

USER, ASSISTANT, SYSTEM, TOOL, SUMMARY = range(5)
"""The roles as numbers."""

_USUAL_LENGTH_CLASS = 3
# Two people seldom write equally much; an assistant writes two doublings more than a user.
_CHANCE = 0.5
_SIDES = np.array([1, -1, 0, 0, 0], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Columns, and what each query needs of them, worked out once."""

    episode: NDArray[np.int32]
    role: NDArray[np.int8]
    speaker: NDArray[np.int32]
    """Number of the speaker's name, -1 where the message has none."""
    time: NDArray[np.int64]
    """Microseconds since 1970."""
    flags: NDArray[np.uint8]
    starts: NDArray[np.intp]
    """The first row of each episode."""
    together: NDArray[np.float32]
    """1 where a row and the next are turns of one episode, else 0; one shorter than the rows."""
    question: NDArray[np.float32]
    tells_time: NDArray[np.float32]
    length: NDArray[np.float32]
    """Doublings over a turn's usual length."""
    side: NDArray[np.float32]
    """1 for the user's turns, -1 for the assistant's, 0 for the rest."""
    anyone: NDArray[np.float32]
    """1 where the speaker may be anyone: a turn without a name, a summary without its turns."""
    archived: NDArray[np.float32]
    """1 for a summary whose episode has no turns any more."""
    lopsided: float
    """0 where both sides write alike, towards 1 the more the assistant outwrites the user."""

    @classmethod
    def build(
        cls,
        *,
        episode: NDArray[np.int32],
        role: NDArray[np.int8],
        speaker: NDArray[np.int32],
        time: NDArray[np.int64],
        flags: NDArray[np.uint8],
    ) -> Self:
        """Rows of an episode stand together, in order, its summary last; episodes by start."""
        starts = np.flatnonzero(np.diff(episode, prepend=-1))
        turn = role != SUMMARY
        archived = ~turn & (np.diff(starts, append=len(episode)) == 1)[episode]
        together = (episode[1:] == episode[:-1]) & turn[1:] & turn[:-1]
        length = (flags >> LENGTH_SHIFT).astype(np.float32) - _USUAL_LENGTH_CLASS
        length[~turn] = 0
        return cls(
            episode=episode,
            role=role,
            speaker=speaker,
            time=time,
            flags=flags,
            starts=starts,
            together=together.astype(np.float32),
            question=(flags & Flag.QUESTION).astype(np.float32),
            tells_time=((flags & Flag.TIME) != 0).astype(np.float32),
            length=length,
            side=_SIDES[role],
            anyone=((speaker < 0) & (turn | archived)).astype(np.float32),
            archived=archived.astype(np.float32),
            lopsided=_lopsided(role, length),
        )

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def episodes(self) -> int:
        return len(self.starts)


def _lopsided(role: NDArray[np.int8], length: NDArray[np.float32]) -> float:
    user, assistant = length[role == USER], length[role == ASSISTANT]
    if not len(user) or not len(assistant):
        return 0.0
    return float(np.clip(assistant.mean() - user.mean() - _CHANCE, 0, 1))
