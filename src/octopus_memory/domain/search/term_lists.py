"""For each hashed term the rows it is in, as arrays that grow by layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Terms = NDArray[np.uint32]
Numbers = NDArray[np.int32]
Ranges = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Where the rows of each term start, and how many they are."""
_NEW = 32
"""The small layer goes into the large one when it is so many times the root of the large one's
size: taking a row in and taking the layers together then cost about the same, and little."""


_FEW = 4_096
"""A list of no more is joined at once: looking in two of them takes as long."""


class Occurrences(NamedTuple):
    """Where some terms occur: one line for each term and row."""

    which: NDArray[np.intp]
    """The place of the term among those that were looked for."""
    row: Numbers
    often: NDArray[np.uint8]
    """How often the term is in the row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TermList:
    """Immutable. Five bytes for each term of each row, and eight for each different term."""

    vocabulary: Terms
    offsets: NDArray[np.intp]
    row_of: Numbers
    often: NDArray[np.uint8]

    @classmethod
    def build(cls, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> Self:
        """From the flat list of every row's terms, in the order of the rows."""
        order = _by_term(terms)
        return cls._of_sorted(terms[order], often[order], row_of[order])

    @classmethod
    def _of_sorted(cls, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> Self:
        # One place more, where the last term ends.
        first = np.ones(len(terms) + 1, np.bool_)
        np.not_equal(terms[1:], terms[:-1], out=first[1:-1])
        offsets = first.nonzero()[0]
        return cls(vocabulary=terms[offsets[:-1]], offsets=offsets, row_of=row_of, often=often)

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def size(self) -> int:
        """In bytes."""
        arrays = (self.vocabulary, self.offsets, self.row_of, self.often)
        return sum(array.nbytes for array in arrays)

    def ranges(self, terms: Terms) -> Ranges:
        first = self.offsets[self.vocabulary.searchsorted(terms)]
        size = self.offsets[self.vocabulary.searchsorted(terms, "right")]
        size -= first
        return first, size

    def occurrences(self, first: NDArray[np.intp], size: NDArray[np.intp]) -> Occurrences:
        """What is at `places`."""
        which = np.arange(len(size)).repeat(size)
        # Each term's places go on from its first; those before it took as many as their sizes sum.
        shift = size - size.cumsum()
        shift += first
        places = np.arange(len(which))
        places += shift[which]
        return Occurrences(which, self.row_of[places], self.often[places])

    def joined(self, newer: TermList) -> TermList:
        return self.with_rows(newer._terms(), newer.often, newer.row_of)

    def with_rows(self, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> TermList:
        """With the flat list of rows that come after all these, in any order of the terms."""
        terms = np.concatenate([self._terms(), terms])
        # What is in order already a stable sort only has to merge.
        order = terms.argsort(kind="stable")
        return TermList._of_sorted(
            terms[order],
            np.concatenate([self.often, often])[order],
            np.concatenate([self.row_of, row_of])[order],
        )

    def renumbered(self, number: Numbers) -> TermList:
        """By the new number of each row; those that get one below zero are left out."""
        row_of = number[self.row_of]
        keep = row_of >= 0
        row_of = row_of[keep].astype(self.row_of.dtype, copy=False)
        return TermList._of_sorted(self._terms()[keep], self.often[keep], row_of)

    def _terms(self) -> Terms:
        return self.vocabulary.repeat(self.offsets[1:] - self.offsets[:-1])


Layers = tuple[TermList, ...]


def with_newer(layers: Layers, newer: TermList) -> Layers:
    """The layers with one more, two in all at most: a large one, and a small one for what is new.

    The rows of `newer` are in none of the others.
    """
    if not layers:
        return (newer,)
    large, *rest = layers
    small = rest[0].joined(newer) if rest else newer
    if len(large) <= _FEW or len(small) > _NEW * len(large) ** 0.5:
        return (large.joined(small),)
    return large, small


def with_rows(layers: Layers, terms: Terms, often: NDArray[np.uint8], row_of: Numbers) -> Layers:
    """As `with_newer`, from the flat list of the new rows."""
    if len(layers) == 1 and len(layers[0]) <= _FEW:
        return (layers[0].with_rows(terms, often, row_of),)
    return with_newer(layers, TermList.build(terms, often, row_of))


def ranges(layers: Layers, terms: Terms) -> list[Ranges]:
    """In each layer."""
    return [layer.ranges(terms) for layer in layers]


def row_counts(in_layers: Sequence[Ranges], terms: int) -> NDArray[np.intp]:
    """How many rows have each of so many terms, by their places."""
    if len(in_layers) == 1:
        return in_layers[0][1]
    return sum((size for _, size in in_layers), start=np.zeros(terms, np.intp))


def occurrences(layers: Layers, in_layers: Sequence[Ranges]) -> Occurrences:
    """What every layer has at its places."""
    parts = [layer.occurrences(*at) for layer, at in zip(layers, in_layers, strict=True)]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Occurrences(np.empty(0, np.intp), np.empty(0, np.int32), np.empty(0, np.uint8))
    which, row, often = zip(*parts, strict=True)
    return Occurrences(np.concatenate(which), np.concatenate(row), np.concatenate(often))


def _by_term(terms: Terms) -> NDArray[np.intp]:
    """A stable order: by the lower half, then by the upper one, since numpy sorts sixteen bits
    without comparing.
    """
    by_lower = np.argsort(terms.astype(np.uint16), kind="stable")
    return by_lower[np.argsort((terms >> np.uint32(16)).astype(np.uint16)[by_lower], kind="stable")]
