"""BM25 over hashed terms: scores of each row and of each whole episode, in one pass.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with two
additions, because turns are short: a term in a neighboring turn counts for a part, and so does a
related term. Of all matches of a term the best one counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .features import SUMMARY, RowFeatures
from .term_lists import Layers, Ranges, TermList, occurrences, ranges, row_counts
from .terms import Flag

_K1_ROW, _B_ROW = 1.0, 0.5
_K1_EPISODE, _B_EPISODE = 1.2, 0.75
_ONE_TURN_AWAY, _TWO_TURNS_AWAY = 0.5, 0.25
_FAR = 2
"""Number of turns away at which a term still counts."""
_MOST_TERMS = 32
_AT_ONCE = 1 << 20
"""Maximum of terms times rows that are scored in one step."""
_USUAL_WORDS = 12.0
"""Assumed number of terms of a turn, if its scope's turns are not known."""

Floats = NDArray[np.float32]
Numbers = NDArray[np.intp]

_AROUND = np.arange(2 * _FAR + 1)[:, None]
_SHARES = np.float32(_K1_ROW + 1) * np.array(
    [
        [_TWO_TURNS_AWAY * (before > 1) for before in range(3) for _ in range(3)],
        [_ONE_TURN_AWAY * (before > 0) for before in range(3) for _ in range(3)],
        [1] * 9,
        [_ONE_TURN_AWAY * (after > 0) for _ in range(3) for after in range(3)],
        [_TWO_TURNS_AWAY * (after > 1) for _ in range(3) for after in range(3)],
    ],
    np.float32,
)
"""Weight of a term in the neighboring turns, by a row's `reach`, times BM25's constant factor."""
_LOGS = np.log(np.arange(8_192) + 0.5).astype(np.float32)


class LexicalScores(NamedTuple):
    """BM25 scores of a query for each row and each episode."""

    row: Floats
    episode: Floats
    full_match: float
    """Score of a row of average length that has every term once."""

    def coverage(self) -> Floats | None:
        """Share of the question's words in each row, weighted by rarity, 0 to 1.

        None if the question has no words.
        """
        if not self.full_match:
            return None
        coverage: Floats = np.minimum(self.row * np.float32(1 / self.full_match), np.float32(1))
        return coverage


class QueryTerms(NamedTuple):
    """Terms of a question: one per word, then other forms of the words, then related terms.

    A word has one form per language in which a text may have been indexed. Its forms count as one
    word: its rarity is that of the rows that have any of them.
    """

    terms: NDArray[np.uint32]
    words: int
    """Number of words."""
    forms: int
    """Number of terms that are words or forms of them; related terms follow."""
    word: Numbers
    """Index of the word that each term counts for."""
    nearness: Floats
    """Similarity of each term to its word, 0 to 1; 1 for a form."""

    @classmethod
    def only(cls, terms: NDArray[np.uint32]) -> Self:
        """Terms without other forms and related terms."""
        own = len(terms)
        return cls(terms, own, own, np.arange(own), np.ones(own, np.float32))

    def part(self, first: int, end: int) -> QueryTerms:
        """Words `first` to `end` (exclusive), with their forms and related terms."""
        mine = (self.word >= first) & (self.word < end)
        own = min(end, self.words) - first
        forms = int(np.count_nonzero(mine[: self.forms]))
        return QueryTerms(
            self.terms[mine], own, forms, self.word[mine] - first, self.nearness[mine]
        )

    def chosen(self, words: Numbers) -> QueryTerms:
        """Some of the words, with their forms and without related terms."""
        new_index = np.full(self.words, -1)
        new_index[words] = np.arange(len(words))
        line = new_index[self.word[: self.forms]]
        mine = (line >= 0).nonzero()[0]
        # The first term of each word comes first, in the order of the words.
        mine = mine[np.lexsort((line[mine], mine >= self.words))]
        return QueryTerms(
            self.terms[mine], len(words), len(mine), line[mine], np.ones(len(mine), np.float32)
        )

    def by_word(self, of_terms: Numbers) -> Numbers:
        """Sum of the terms' values over the forms of each word."""
        if self.forms == self.words:
            return of_terms[: self.words]
        line = self.word[: self.forms]
        added = np.bincount(line, of_terms[: self.forms], self.words)
        whole: Numbers = added.astype(np.intp)
        return whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScopeCounts:
    """Counts over a whole scope, for a view of only part of its rows."""

    rows: int
    episodes: int
    terms: NDArray[np.uint32]
    """The question's terms, sorted and unique."""
    having: NDArray[np.intp]
    """Number of rows that have each term."""
    sampled: int
    """Number of sampled episodes, in which `sampled_having` counts the terms."""
    sampled_having: NDArray[np.intp]

    def rows_having(self, terms: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Number of rows of the whole scope that have each term."""
        return self._known(self.having, terms)

    def rarity_of_episodes(self, query: QueryTerms, here: NDArray[np.intp]) -> Floats:
        """IDF of each word over all episodes.

        `here` counts episodes of the view that have each word. For a rare word those are nearly
        all there are, so the estimate from the sample is never below it.
        """
        share = self.episodes / max(self.sampled, 1)
        sampled = query.by_word(self._known(self.sampled_having, query.terms))
        in_all = np.minimum((sampled * share).astype(np.intp), self.episodes)
        return _idf(self.episodes, np.maximum(here, in_all))

    def _known(self, values: NDArray[np.intp], terms: NDArray[np.uint32]) -> NDArray[np.intp]:
        if not len(self.terms):
            return np.zeros(len(terms), np.intp)
        at = self.terms.searchsorted(terms)
        is_known = self.terms.take(at, mode="clip") == terms
        found: NDArray[np.intp] = values.take(at, mode="clip") * is_known
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Postings:
    """Inverted lists of a scope: the rows of each term. Immutable.

    A term's weight in a row depends on the lengths of all rows. It is computed at query time for
    the rows found, so that the lists can grow.
    """

    layers: Layers
    position_of: NDArray[np.int32] | None
    """Sorted position of each row of the lists; None if the rows are stored in that order."""
    row_norm: Floats
    episode_of: NDArray[np.int32]
    """Episode number of each row."""
    episode_norm: Floats
    rows: int
    reach: NDArray[np.uint8]
    """Number of turns of the same episode before a row, times three, plus the number after it; at
    most two of each count."""
    scope_counts: ScopeCounts | None = None
    """Counts of the whole scope, for IDF, if these rows are only part of it."""

    @classmethod
    def build(
        cls,
        *,
        terms: NDArray[np.uint32],
        counts: NDArray[np.uint8],
        row_of: NDArray[np.int32],
        rows: RowFeatures,
    ) -> Self:
        """Build from the flat list of every row's terms, in row order."""
        # A summary that repeats its turns adds no terms while its episode has turns.
        own = (rows.flags & Flag.OWN_WORDS) != 0
        has = ((rows.role != SUMMARY) | (rows.archived > 0) | own)[row_of]
        terms, counts, row_of = terms[has], counts[has], row_of[has]
        lengths = np.bincount(row_of, weights=counts, minlength=len(rows))
        return cls.of((TermList.build(terms, counts, row_of),), lengths, rows)

    @classmethod
    def of(
        cls,
        layers: Layers,
        lengths: NDArray[Any],
        rows: RowFeatures,
        position_of: NDArray[np.int32] | None = None,
    ) -> Self:
        """Make postings of existing lists; `lengths` is the number of terms of each row."""
        totals = np.bincount(rows.episode, weights=lengths, minlength=rows.episodes)
        return cls(
            layers=layers,
            position_of=position_of,
            row_norm=_row_norm(lengths, rows),
            episode_of=rows.episode,
            episode_norm=_norm(totals, totals.sum() / max(len(totals), 1), _K1_EPISODE, _B_EPISODE),
            rows=len(rows),
            reach=_reach(rows),
        )

    def __len__(self) -> int:
        return sum(len(layer) for layer in self.layers)

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        return sum(layer.size for layer in self.layers) + 16 * self.rows

    def score(self, query: QueryTerms) -> LexicalScores:
        if not query.words or not len(self):
            return self._nothing()
        if query.words > _MOST_TERMS:
            # A long question needs no related terms.
            often = query.by_word(row_counts(ranges(self.layers, query.terms), len(query.terms)))
            rarest = np.argsort(np.where(often, often, self.rows))[:_MOST_TERMS]
            query = query.chosen(rarest)
        step = max(1, _AT_ONCE // self.rows)
        if query.words <= step:
            return self._score(query)
        # Terms are independent: score a few at a time, so that the arrays fit into the CPU cache.
        some = [
            self._score(query.part(first, first + step)) for first in range(0, query.words, step)
        ]
        return LexicalScores(
            row=np.add.reduce([scores.row for scores in some]),
            episode=np.add.reduce([scores.episode for scores in some]),
            full_match=sum(scores.full_match for scores in some),
        )

    def _nothing(self) -> LexicalScores:
        return LexicalScores(
            row=np.zeros(self.rows, np.float32),
            episode=np.zeros(len(self.episode_norm), np.float32),
            full_match=0.0,
        )

    def _score(self, query: QueryTerms) -> LexicalScores:
        terms, own, forms, line, near = query
        at = ranges(self.layers, terms)
        which, row, often = self._occurrences(at)
        rarity, of_words = self._rarity(query, at)
        # A rare term that is related to a common word must not count more than that word.
        weight = np.minimum(rarity, of_words[line])
        weight[:forms] = of_words[line[:forms]]
        weight *= near
        impact = often / (often + self.row_norm[row])
        impact *= weight[which]
        return LexicalScores(
            row=self._of_rows(row, line[which], impact, own),
            episode=self._of_episodes(which, row, often, query),
            full_match=sum(of_words.tolist()),
        )

    def _rarity(self, query: QueryTerms, at: Sequence[Ranges]) -> tuple[Floats, Floats]:
        """IDF of each term, and of each word over all its forms."""
        if self.scope_counts is None:
            rows, often = self.rows, row_counts(at, len(query.terms))
        else:
            rows, often = self.scope_counts.rows, self.scope_counts.rows_having(query.terms)
        rarity = _idf(rows, often)
        if query.forms == query.words:
            return rarity, rarity[: query.words]
        return rarity, _idf(rows, np.minimum(query.by_word(often), rows))

    def _occurrences(self, at: Sequence[Ranges]) -> tuple[Numbers, Numbers, NDArray[np.uint8]]:
        """Term index, row number and count of each occurrence; rows by sorted position."""
        which, row, often = occurrences(self.layers, at)
        if self.position_of is not None:
            row = self.position_of.take(row)
        # numpy converts every other index type to this one first.
        return which, row.astype(np.intp), often

    def _of_rows(self, row: Numbers, line: Numbers, impact: Floats, terms: int) -> Floats:
        """Score of each row: the sum over the words of the best match in the row or nearby.

        Visits only rows that have a term and their neighbors, because most rows have none.
        """
        wide = self.rows + 2 * _FAR
        best = np.zeros((terms, wide), np.float32)
        middle = line * wide
        middle += row
        np.maximum.at(
            best.reshape(-1),
            (_AROUND + middle).reshape(-1),
            (_SHARES.take(self.reach[row], axis=1) * impact).reshape(-1),
        )
        score: Floats = np.add.reduce(best)
        return score[_FAR:-_FAR]

    def _of_episodes(
        self, which: Numbers, row: Numbers, often: NDArray[np.uint8], query: QueryTerms
    ) -> Floats:
        """Score of each episode by the question's words, without related terms."""
        word = np.append(query.word[: query.forms], query.words)
        times = self._times(word[np.minimum(which, query.forms)], row, often, query.words)
        here = np.add.reduce(times > 0, axis=1)
        if self.scope_counts is None:
            rarity = _idf(len(self.episode_norm), here)
        else:
            rarity = self.scope_counts.rarity_of_episodes(query, here)
        return rarity @ _saturated(times, self.episode_norm, _K1_EPISODE)

    def episodes_having(self, terms: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Number of episodes that have each term."""
        if not len(terms) or not len(self):
            return np.zeros(len(terms), np.intp)
        times = self._times(*self._occurrences(ranges(self.layers, terms)), len(terms))
        episodes: Numbers = np.add.reduce(times > 0, axis=1)
        return episodes

    def _times(self, which: Numbers, row: Numbers, often: NDArray[np.uint8], terms: int) -> Floats:
        """Count of each of the first `terms` terms in each episode."""
        episodes = len(self.episode_norm)
        # The other terms are counted in one extra line, which is cut off.
        cell = np.minimum(which, terms)
        cell *= episodes
        cell += self.episode_of[row]
        size = terms * episodes
        times = np.bincount(cell, often, size)[:size].astype(np.float32)
        return times.reshape(terms, episodes)


def alone(counts: NDArray[np.uint8]) -> Floats:
    """BM25 weight of each term of one row without IDF, for a remote index."""
    often = counts.astype(np.float32)
    length = np.float32(often.sum() / _USUAL_WORDS)
    return _saturated(often, np.float32(_K1_ROW) * (1 - _B_ROW + _B_ROW * length), _K1_ROW)


def _reach(rows: RowFeatures) -> NDArray[np.uint8]:
    next_to = rows.together.astype(np.uint8)
    two_away = next_to[1:] * next_to[:-1]
    reach = np.zeros(len(rows), np.uint8)
    for away, near in ((1, next_to), (2, two_away)):
        reach[away:] += near * np.uint8(_FAR + 1)
        reach[:-away] += near
    return reach


def _row_norm(lengths: NDArray[Any], rows: RowFeatures) -> Floats:
    """Length norm of each row: turns relative to turns, summaries, which are long, to summaries."""
    summary = (rows.role == SUMMARY).nonzero()[0]
    long = lengths[summary]
    words, turns = lengths.sum() - long.sum(), len(lengths) - len(long)
    norm = _norm(lengths, words / max(turns, 1), _K1_ROW, _B_ROW)
    if len(long):
        norm[summary] = _norm(long, long.sum() / len(long), _K1_ROW, _B_ROW)
    return norm


def _norm(lengths: NDArray[Any], usual: float, k1: float, b: float) -> Floats:
    norm: Floats = lengths.astype(np.float32)
    norm *= k1 * b / max(usual, 1.0)
    norm += k1 * (1 - b)
    return norm


def _saturated(often: Floats | NDArray[np.uint8], norm: Floats | np.float32, k1: float) -> Floats:
    saturated: Floats = np.float32(k1 + 1) * often / (often + norm)
    return saturated


def _idf(rows: int, having: Numbers) -> Floats:
    if rows < len(_LOGS):
        rarity: Floats = math.log(rows + 1) - _LOGS.take(having)
        return rarity
    return np.log((rows + 1) / (having + 0.5)).astype(np.float32)
