"""Features of a scope's rows for ranking; a row is a turn or a closed episode's summary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from .terms import LENGTH_SHIFT, Flag

D = TypeVar("D", bound=np.generic)

USER, ASSISTANT, SYSTEM, TOOL, SUMMARY = range(5)
"""Numbers of the roles in `RowFeatures.role`."""

_USUAL_LENGTH_CLASS = 3
_LONGEST_CLASS = 5
"""Longer turns count as this class, because information does not grow with every page."""
_CHANCE = 0.5
"""Difference in length classes that is normal between two people."""
_WORDY = 1.5
"""Difference of an assistant whose turns are three times as long as the user's."""
_SIDES = np.array([1, -1, 0, 0, 0], np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingWeights:
    """Weights of the signals, rounded values from a wide plateau.

    Chosen on five LoCoMo conversations; those for lopsided chats, in which the assistant writes
    much more than the user, on ten chats of BEAM.
    """

    meaning: float = 0.7
    words: float = 0.3
    foreign_meaning: float = 0.4
    """For a question in a language that the embedder cannot read, so that cosines mean little."""
    foreign_words: float = 0.6
    previous: float = 0.1
    next: float = 0.2
    next_if_lopsided: float = 0.3
    """Higher, because the assistant's answer shows what the user's turn was about."""
    speaker: float = 3.0
    first_of_speakers: float = 1.0
    date: float = 4.0
    episode: float = 0.2
    question: float = -1.0
    length: float = 0.2
    time: float = 0.5
    archived: float = 0.5
    user: float = 0.5
    brief: float = 0.1
    """Per halving of a turn's length, because a long answer mentions everything."""
    order: float = 0.5


WEIGHTS = RankingWeights()


@dataclass(frozen=True, kw_only=True, eq=False)
class RowColumns:
    """Columns of a scope's rows, sorted by episode start, then by turn, the summary last."""

    episode: NDArray[np.int32]
    role: NDArray[np.int8]
    speaker: NDArray[np.int32]
    """Number of the speaker's name; -1 if the message has none."""
    time: NDArray[np.int64]
    """Microseconds since 1970."""
    flags: NDArray[np.uint8]
    told: NDArray[np.int64]
    """The times that the row tells of (`told`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowFeatures(RowColumns):
    """Columns of a scope's rows, and features derived from them once for all queries."""

    starts: NDArray[np.intp]
    """First row of each episode."""
    together: NDArray[np.float32]
    """1 if a row and the next are turns of one episode, else 0; one shorter than the rows."""
    question: NDArray[np.float32]
    tells_time: NDArray[np.float32]
    length: NDArray[np.float32]
    """Length relative to a usual turn, as a power of two."""
    side: NDArray[np.float32]
    """1 for the user's turns, -1 for the assistant's, 0 for the rest."""
    anyone: NDArray[np.float32]
    """1 if the speaker is unknown: a turn without a name, a summary without its turns."""
    archived: NDArray[np.float32]
    """1 for a summary whose episode has no turns left."""
    lead: float
    """Length classes by which the assistant's turns are longer than the user's on average."""

    @classmethod
    def build(cls, columns: RowColumns) -> Self:
        """Derive the features."""
        episode, role, flags = columns.episode, columns.role, columns.flags
        first = np.ones(len(episode), np.bool_)
        np.not_equal(episode[1:], episode[:-1], out=first[1:])
        turn = role != SUMMARY
        # If a summary is the first row of its episode, it is the only one.
        archived = first & ~turn
        together = ~first[1:] & turn[1:] & turn[:-1]
        length = _lengths(flags)
        length[~turn] = 0
        return cls(
            **vars(columns),
            starts=first.nonzero()[0],
            together=together.astype(np.float32),
            question=(flags & Flag.QUESTION).astype(np.float32),
            tells_time=((flags & Flag.TIME) != 0).astype(np.float32),
            length=length,
            side=_SIDES[role],
            anyone=((columns.speaker < 0) & (turn | archived)).astype(np.float32),
            archived=archived.astype(np.float32),
            lead=_lead(role, flags),
        )

    def extended(self, columns: RowColumns) -> RowFeatures:
        """Same as `build`, but reuses these features; the columns must begin with the old ones."""
        known = len(self)
        if not known:
            return RowFeatures.build(columns)
        # Include the last known row: the first new one may belong to its episode.
        later = {name: column[known - 1 :] for name, column in vars(columns).items()}
        new = RowFeatures.build(RowColumns(**later))
        return RowFeatures(
            **vars(columns),
            **{name: _joined(getattr(self, name), getattr(new, name)[1:]) for name in _OF_A_ROW},
            starts=_joined(self.starts, new.starts[1:] + (known - 1)),
            together=_joined(self.together, new.together),
            lead=_lead(columns.role, columns.flags),
        )

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def episodes(self) -> int:
        return len(self.starts)

    @cached_property
    def lopsided(self) -> float:
        """0 if both sides write equally much, 1 if the assistant writes three times as much."""
        return _share(self.lead - _CHANCE)

    @cached_property
    def wordy(self) -> float:
        """0 up to three times as much, 1 from six times on: long turns then mention everything."""
        return _share(self.lead - _WORDY)

    @cached_property
    def form(self) -> NDArray[np.float32]:
        """Part of a row's score that is the same for every question."""
        form: NDArray[np.float32] = self.archived * WEIGHTS.archived
        # In lopsided chats users tell facts inside their questions.
        if self.lopsided < 1:
            form += self.question * (WEIGHTS.question * (1 - self.lopsided))
        if self.wordy < 1:
            form += self.length * (WEIGHTS.length * (1 - self.wordy))
        return form

    @cached_property
    def towards_user(self) -> NDArray[np.float32]:
        """Part of a row's score for questions about the user; negated for the assistant."""
        # An assistant writes more about everything, but the user's words matter more.
        towards = self.side * np.float32(WEIGHTS.user * self.lopsided)
        towards -= self.length * np.float32(WEIGHTS.brief * self.wordy)
        return towards

    @cached_property
    def by_previous(self) -> NDArray[np.float32]:
        """Share of a row's match that counts for the next row."""
        return self.together * np.float32(WEIGHTS.previous * (1 - self.lopsided))

    @cached_property
    def by_next(self) -> NDArray[np.float32]:
        """Share of the next row's match that counts for a row."""
        weight = WEIGHTS.next * (1 - self.lopsided) + WEIGHTS.next_if_lopsided * self.lopsided
        return self.together * np.float32(weight)


_OF_A_ROW = ("question", "tells_time", "length", "side", "anyone", "archived")


def _joined(known: NDArray[D], new: NDArray[D]) -> NDArray[D]:
    return np.concatenate([known, new])


def _lengths(flags: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Length relative to a usual turn, as a power of two."""
    classes = (flags >> LENGTH_SHIFT).clip(max=_LONGEST_CLASS)
    lengths: NDArray[np.float32] = classes.astype(np.float32) - _USUAL_LENGTH_CLASS
    return lengths


def _lead(role: NDArray[np.int8], flags: NDArray[np.uint8]) -> float:
    turns = np.bincount(role, minlength=SUMMARY + 1)
    if not turns[USER] or not turns[ASSISTANT]:
        return 0.0
    length = flags >> LENGTH_SHIFT
    user, assistant, *_ = np.bincount(role, weights=length, minlength=SUMMARY + 1) / turns.clip(1)
    return float(assistant - user)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
