"""Byte formats of recall rows: packed vectors and terms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from octopus_memory.domain.search.row_format import (
    TermHasher,
    dimension_of,
    numbers,
    pack_vectors,
    unpack_all,
    unpack_vectors,
    vector_signs,
    vector_size,
)

HASHER = TermHasher(b"salt")
COUNTS = st.dictionaries(st.text(max_size=5), st.integers(1, 300), max_size=20)


def _made(count: int, dimension: int) -> NDArray[np.float32]:
    return np.random.default_rng(dimension).standard_normal((count, dimension)).astype(np.float32)


def _over_largest(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.abs(rows).max(axis=1, keepdims=True)


@given(st.integers(1, 40), st.integers(1, 4))
def test_a_vector_comes_back_as_it_was_but_for_rounding(dimension: int, count: int) -> None:
    given = _made(count, dimension)
    packed = pack_vectors(given)
    assert {len(row) for row in packed} == {vector_size(dimension)}
    assert {dimension_of(row) for row in packed} == {dimension}
    found = unpack_vectors(packed, dimension)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert np.abs(_over_largest(found) - _over_largest(given)).max() <= 0.51 / 383
    assert (vector_signs(packed) == (found >= 0)).all()


def test_a_vector_of_nothing_stays_nothing() -> None:
    (packed,) = pack_vectors(np.zeros((1, 3), np.float32))
    assert unpack_vectors([packed], 3).tolist() == [[0, 0, 0]]


def test_a_vector_takes_a_byte_and_a_fifth_for_each_component() -> None:
    assert [vector_size(dimension) for dimension in (1, 2, 3, 5, 6, 384)] == [2, 3, 4, 6, 8, 461]


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 384])
def test_a_vector_that_is_cut_short_is_refused(dimension: int) -> None:
    one, other = pack_vectors(_made(2, dimension))
    with pytest.raises(ValueError, match="reshape"):
        unpack_vectors([one, other[:-1]], dimension)


@given(st.lists(COUNTS, max_size=5))
def test_terms_come_back_with_their_counts(rows: list[dict[str, int]]) -> None:
    packed = [HASHER.pack(row) for row in rows]
    terms, counts, row_of = unpack_all(packed)
    found = list(zip(row_of.tolist(), terms.tolist(), counts.tolist(), strict=True))
    assert sorted(found) == sorted(
        (place, HASHER.number(term), min(count, 255))
        for place, row in enumerate(rows)
        for term, count in row.items()
    )
    assert [row.tobytes() for row in unpack_all([*packed, b""])] == [
        row.tobytes() for row in (terms, counts, row_of)
    ]


@given(st.lists(st.text(max_size=5), max_size=5))
def test_a_name_comes_back_in_its_order(words: list[str]) -> None:
    alone = [HASHER.number(word) for word in words]
    assert numbers(HASHER.pack_words(words)).tolist() == alone
    assert HASHER.numbers(words).tolist() == alone


WHOLE = HASHER.pack({"one": 1, "two": 2, "three": 3})


@pytest.mark.parametrize(
    "damaged",
    [
        [WHOLE[:-1]],
        [WHOLE[:-1], WHOLE + b"x"],
        [b"\2" + WHOLE[:-6]],
        [WHOLE.replace(b"\0", b"", 1)[:2]],
        [b"no zero at all"],
    ],
)
def test_terms_that_are_cut_short_are_refused(damaged: list[bytes]) -> None:
    with pytest.raises(ValueError, match="packed terms are truncated|reshape"):
        unpack_all(damaged)
