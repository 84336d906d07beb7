"""Inverted lists: the rows of each hashed term, as arrays in two layers that grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Terms = NDArray[np.uint32]
Numbers = NDArray[np.int32]
Ranges = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Start and length of each term's rows in a list."""
_NEW = 32
"""The small layer is merged into the large one when its size exceeds this many times the square
root of the large one's: appending and merging then cost about the same."""


_FEW = 4_096
"""Lists up to this size are merged at once, because searching two layers costs as much."""


class Occurrences(NamedTuple):
    """Occurrences of some terms: parallel arrays, one element per term and row."""

    which: NDArray[np.intp]
    """Index of the term in the query."""
    row: Numbers
    often: NDArray[np.uint8]
    """Count of the term in the row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermList:
    """An immutable inverted list: five bytes per term and row, twelve per distinct term."""

    vocabulary: Terms
    offsets: NDArray[np.intp]
    row_of: Numbers
    often: NDArray[np.uint8]

    @classmethod
    def build(cls, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> Self:
        """Build from the flat list of every row's terms, in row order."""
        order = _by_term(terms)
        return cls._of_sorted(terms[order], often[order], row_of[order])

    @classmethod
    def _of_sorted(cls, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> Self:
        # One more element, for the end of the last term.
        first = np.ones(len(terms) + 1, np.bool_)
        np.not_equal(terms[1:], terms[:-1], out=first[1:-1])
        offsets = first.nonzero()[0]
        return cls(vocabulary=terms[offsets[:-1]], offsets=offsets, row_of=row_of, often=often)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        arrays = (self.vocabulary, self.offsets, self.row_of, self.often)
        return sum(array.nbytes for array in arrays)

    def ranges(self, terms: Terms) -> Ranges:
        first = self.offsets[self.vocabulary.searchsorted(terms)]
        size = self.offsets[self.vocabulary.searchsorted(terms, "right")]
        size -= first
        return first, size

    def occurrences(self, first: NDArray[np.intp], size: NDArray[np.intp]) -> Occurrences:
        """Elements of the ranges that `ranges` returned."""
        which = np.arange(len(size)).repeat(size)
        # Index i of the result is at first[t] + i - (sizes before t) for its term t.
        shift = size - size.cumsum()
        shift += first
        at = np.arange(len(which))
        at += shift[which]
        return Occurrences(which, self.row_of[at], self.often[at])

    def joined(self, newer: TermList) -> TermList:
        return self.with_rows(newer._terms(), newer.often, newer.row_of)

    def with_rows(self, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> TermList:
        """A list with more rows, which come after all these; their terms may be unsorted."""
        terms = np.concatenate([self._terms(), terms])
        # A stable sort only has to merge runs that are sorted already.
        order = terms.argsort(kind="stable")
        return TermList._of_sorted(
            terms[order],
            np.concatenate([self.often, often])[order],
            np.concatenate([self.row_of, row_of])[order],
        )

    def renumbered(self, number: Numbers) -> TermList:
        """A list with new row numbers; rows with a negative number are left out."""
        row_of = number[self.row_of]
        keep = row_of >= 0
        row_of = row_of[keep].astype(self.row_of.dtype, copy=False)
        return TermList._of_sorted(self._terms()[keep], self.often[keep], row_of)

    def _terms(self) -> Terms:
        return self.vocabulary.repeat(self.offsets[1:] - self.offsets[:-1])


Layers = tuple[TermList, ...]


def with_newer(layers: Layers, newer: TermList) -> Layers:
    """Add a list of new rows. At most two layers result: a large one, and a small one of new rows.

    The rows of `newer` must not be in other layers.
    """
    if not layers:
        return (newer,)
    large, *rest = layers
    small = rest[0].joined(newer) if rest else newer
    if len(large) <= _FEW or len(small) > _NEW * len(large) ** 0.5:
        return (large.joined(small),)
    return large, small


def with_rows(layers: Layers, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> Layers:
    """Same as `with_newer`, from the flat list of the new rows."""
    if len(layers) == 1 and len(layers[0]) <= _FEW:
        return (layers[0].with_rows(terms, often, row_of),)
    return with_newer(layers, TermList.build(terms, often, row_of))


def ranges(layers: Layers, terms: Terms) -> list[Ranges]:
    """Ranges of the terms in each layer."""
    return [layer.ranges(terms) for layer in layers]


def row_counts(in_layers: Sequence[Ranges], terms: int) -> NDArray[np.intp]:
    """Number of rows that have each of `terms` terms, from their ranges."""
    if len(in_layers) == 1:
        return in_layers[0][1]
    return sum((size for _, size in in_layers), start=np.zeros(terms, np.intp))


def occurrences(layers: Layers, in_layers: Sequence[Ranges]) -> Occurrences:
    """Occurrences in all layers, from their ranges."""
    parts = [layer.occurrences(*at) for layer, at in zip(layers, in_layers, strict=True)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Occurrences(np.empty(0, np.intp), np.empty(0, np.int32), np.empty(0, np.uint8))
    which, row, often = zip(*parts, strict=True)
    return Occurrences(np.concatenate(which), np.concatenate(row), np.concatenate(often))


def _by_term(terms: Terms) -> NDArray[np.intp]:
    """Stable sort order by two 16-bit passes, because numpy radix-sorts 16-bit integers."""
    by_lower = np.argsort(terms.astype(np.uint16), kind="stable")
    return by_lower[np.argsort((terms >> np.uint32(16)).astype(np.uint16)[by_lower], kind="stable")]
