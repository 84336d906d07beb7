"""Measure the loss of packed vectors in cosine and rank, compared with float16 and int8.

    python -m benchmarks.quantization

Random unit vectors around common directions stand in for an embedder's; the built-in one is used
when the texts of a file are given with --data (a line each).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from octopus_memory.domain.search.row_format import pack_vectors, unpack_vectors, vector_size

DIMENSION = 384


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def made(count: int, seed: int = 7) -> NDArray[np.float32]:
    """Return clustered vectors, each near one of forty topics, as those of sentences are."""
    random = np.random.default_rng(seed)
    topics = random.standard_normal((40, DIMENSION))
    rows = topics[random.integers(0, 40, count)] + 1.2 * random.standard_normal((count, DIMENSION))
    return unit(rows.astype(np.float32))


def embedded(path: Path) -> NDArray[np.float32]:
    from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder

    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return MiniLMEmbedder().embed(lines)


def agreement(exact: NDArray[np.float32], other: NDArray[np.float32], k: int = 10) -> float:
    """Return the share of the exact top `k` that is among the other top `k`."""
    best = np.argsort(-exact, axis=1)[:, :k]
    found = np.argsort(-other, axis=1)[:, :k]
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(best, found, strict=True)]))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, help="texts to embed, one per line")
    given = arguments.parse_args()
    rows = embedded(given.data) if given.data else made(5_000)
    queries, rows = rows[:200], rows[200:]
    exact = queries @ rows.T
    small = unpack_vectors(pack_vectors(rows), rows.shape[1])
    half = unit(rows.astype(np.float16).astype(np.float32))
    coarse = unit(np.rint(rows * (127 / np.abs(rows).max(axis=1, keepdims=True))))
    print(f"{len(rows):,} vectors of {rows.shape[1]}, {len(queries)} queries\n")
    print("| | bytes | largest error of a cosine | mean error | first 10 in common |")
    print("|---|--:|--:|--:|--:|")
    dimension = rows.shape[1]
    for name, size, kept in (
        ("float16", 2 * dimension, half),
        ("packed", vector_size(dimension), small),
        ("int8", dimension, coarse),
    ):
        error = np.abs(queries @ kept.T - exact)
        print(
            f"| {name} | {size} | {error.max():.5f} | {error.mean():.5f} "
            f"| {agreement(exact, queries @ kept.T):.1%} |"
        )


if __name__ == "__main__":
    main()
