"""BM25 over hashed terms, of each row and of each episode as a whole, in one pass.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009). Two things
are added, for a turn is short and seldom says all by itself: a term that a turn near by has counts
for a part of it, and so does a related word. Of all that may stand for a term the best one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .rows import SUMMARY, Rows

_K1_ROW, _B_ROW = 1.0, 0.5
_K1_EPISODE, _B_EPISODE = 1.2, 0.75
_ONE_TURN_AWAY, _TWO_TURNS_AWAY = 0.5, 0.25
_MOST_TERMS = 32
_USUAL_WORDS = 12.0
"""How many terms a turn has, where the others are not there to be compared with."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LexicalScores:
    """What the words of a query say about each row and episode."""

    row: Floats
    episode: Floats
    whole: float
    """The score of a row of usual length that has every term once."""

    def coverage(self) -> Floats | None:
        """How much of the question's words each row has, rare ones counting for more; 0 to 1.

        None where the question has no words to compare.
        """
        if not self.whole:
            return None
        coverage: Floats = np.minimum(self.row * np.float32(1 / self.whole), np.float32(1))
        return coverage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelatedTerms:
    """Words that may stand for a query's terms."""

    terms: NDArray[np.uint32]
    stands_for: NDArray[np.intp]
    """The place of the query's term."""
    weight: Floats
    """How near it comes, 0 to 1."""

    @classmethod
    def none(cls) -> Self:
        return cls(
            terms=np.empty(0, np.uint32),
            stands_for=np.empty(0, np.intp),
            weight=np.empty(0, np.float32),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Postings:
    """For each term the rows it is in. Immutable; made once for a scope's rows."""

    vocabulary: NDArray[np.uint32]
    offsets: NDArray[np.intp]
    row_of: NDArray[np.int32]
    saturation: Floats
    """How much the term counts in that row, by how often it is there and how long the row is."""
    episode_of: NDArray[np.int32]
    counts: Floats
    """How often the term is in that row."""
    episode_norm: Floats
    rows: int
    next_to: Floats
    two_away: Floats

    @classmethod
    def build(
        cls,
        *,
        terms: NDArray[np.uint32],
        counts: NDArray[np.uint8],
        row_of: NDArray[np.int32],
        rows: Rows,
    ) -> Self:
        """From the flat list of every row's terms, in row order."""
        order = np.argsort(terms, kind="stable")
        # A summary has nothing to add while its episode has its turns.
        order = order[_has_words(rows)[row_of[order]]]
        vocabulary, starts = np.unique(terms[order], return_index=True)
        row_of, often = row_of[order], counts[order].astype(np.float32)
        episode_of = rows.episode[row_of]
        lengths = np.bincount(row_of, weights=often, minlength=len(rows))
        totals = np.bincount(episode_of, weights=often, minlength=rows.episodes)
        row_norm = _row_norm(lengths, rows)
        return cls(
            vocabulary=vocabulary,
            offsets=np.append(starts, len(order)),
            row_of=row_of,
            saturation=_saturated(often, row_norm[row_of], _K1_ROW),
            episode_of=episode_of,
            counts=often,
            episode_norm=_norm(totals, _K1_EPISODE, _B_EPISODE),
            rows=len(rows),
            next_to=rows.together * np.float32(_ONE_TURN_AWAY),
            two_away=rows.together[1:] * rows.together[:-1] * np.float32(_TWO_TURNS_AWAY),
        )

    def __len__(self) -> int:
        return len(self.row_of)

    def score(
        self, terms: NDArray[np.uint32], related: RelatedTerms | None = None
    ) -> LexicalScores:
        """`terms` are the query's, each once; `related` are for those terms, in that order."""
        if not len(terms) or not len(self):
            return self._nothing()
        first, size = self._places(terms)
        if len(terms) > _MOST_TERMS:
            # So long a question has words enough of its own.
            return self.score(terms[np.argsort(np.where(size, size, self.rows))[:_MOST_TERMS]])
        rarity = _idf(self.rows, size)
        matches = _Matches(first=first, size=size, line=np.arange(len(terms)), weight=rarity)
        if related is not None and len(related.terms):
            matches = matches.and_also(self._related(related, rarity))
        return LexicalScores(
            row=self._with_neighbours(self._best_of(matches, len(terms))).sum(axis=0),
            episode=self._of_episodes(first, size),
            whole=float(rarity.sum()),
        )

    def _nothing(self) -> LexicalScores:
        return LexicalScores(
            row=np.zeros(self.rows, np.float32),
            episode=np.zeros(len(self.episode_norm), np.float32),
            whole=0.0,
        )

    def _related(self, related: RelatedTerms, rarity: Floats) -> _Matches:
        first, size = self._places(related.terms)
        # A rare word that is near to a common one is no better than the common one.
        rarity = np.minimum(_idf(self.rows, size), rarity[related.stands_for])
        return _Matches(
            first=first, size=size, line=related.stands_for, weight=related.weight * rarity
        )

    def _places(self, terms: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Where the rows of each term start, and how many they are."""
        at = np.minimum(np.searchsorted(self.vocabulary, terms), len(self.vocabulary) - 1)
        first = self.offsets[at]
        return first, (self.offsets[at + 1] - first) * (self.vocabulary[at] == terms)

    def _best_of(self, matches: _Matches, terms: int) -> Floats:
        """For each term and row, the best of what may stand for the term."""
        places, which = _flat(matches.first, matches.size)
        impact = self.saturation[places] * matches.weight[which]
        best = np.zeros(terms * self.rows, np.float32)
        np.maximum.at(best, matches.line[which] * self.rows + self.row_of[places], impact)
        return best.reshape(terms, self.rows)

    def _with_neighbours(self, best: Floats) -> Floats:
        spread = best.copy()
        for away, part in ((1, self.next_to), (2, self.two_away)):
            before, after = spread[:, away:], spread[:, :-away]
            np.maximum(before, best[:, :-away] * part, out=before)
            np.maximum(after, best[:, away:] * part, out=after)
        return spread

    def _of_episodes(self, first: NDArray[np.intp], size: NDArray[np.intp]) -> Floats:
        episodes, terms = len(self.episode_norm), len(first)
        places, which = _flat(first, size)
        flat = np.bincount(
            which * episodes + self.episode_of[places],
            weights=self.counts[places],
            minlength=terms * episodes,
        )
        often = flat.astype(np.float32).reshape(terms, episodes)
        rarity = _idf(episodes, np.count_nonzero(often, axis=1))
        return rarity @ _saturated(often, self.episode_norm, _K1_EPISODE)


def alone(counts: NDArray[np.uint8]) -> Floats:
    """How much each term of one row counts in it, without its rarity: for an index elsewhere."""
    often = counts.astype(np.float32)
    length = np.float32(often.sum() / _USUAL_WORDS)
    return _saturated(often, np.float32(_K1_ROW) * (1 - _B_ROW + _B_ROW * length), _K1_ROW)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Matches:
    """Words that were found: where their rows are, which term each stands for, what it counts."""

    first: NDArray[np.intp]
    size: NDArray[np.intp]
    line: NDArray[np.intp]
    weight: Floats

    def and_also(self, other: _Matches) -> _Matches:
        return _Matches(
            first=np.concatenate([self.first, other.first]),
            size=np.concatenate([self.size, other.size]),
            line=np.concatenate([self.line, other.line]),
            weight=np.concatenate([self.weight, other.weight]),
        )


def _flat(
    first: NDArray[np.intp], size: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Every place of every stretch, and which stretch it is in."""
    which = np.repeat(np.arange(len(size)), size)
    starts = np.cumsum(size) - size
    return np.arange(len(which)) + (first - starts)[which], which


def _has_words(rows: Rows) -> NDArray[np.bool_]:
    has: NDArray[np.bool_] = (rows.role != SUMMARY) | (rows.archived > 0)
    return has


def _row_norm(lengths: NDArray[Any], rows: Rows) -> Floats:
    """Turns are measured against turns, summaries, which are long, against summaries."""
    norm = np.empty(len(lengths), np.float32)
    for kind in (rows.role == SUMMARY, rows.role != SUMMARY):
        norm[kind] = _norm(lengths[kind], _K1_ROW, _B_ROW)
    return norm


def _norm(lengths: NDArray[Any], k1: float, b: float) -> Floats:
    usual = max(lengths.mean(), 1.0) if len(lengths) else 1.0
    return np.asarray(k1 * (1 - b + b * lengths / usual)).astype(np.float32)


def _saturated(often: Floats, norm: Floats | np.float32, k1: float) -> Floats:
    saturated: Floats = np.float32(k1 + 1) * often / (often + norm)
    return saturated


def _idf(rows: int, having: NDArray[np.intp]) -> Floats:
    return np.log1p((rows - having + 0.5) / (having + 0.5)).astype(np.float32)
