"""Build `related-english.npy`, the table of related words for lexical search.

    python scripts/build_related_words.py

Takes the whole words of the built-in model's vocabulary, stems them as the analyzer does, embeds
one word for each stem with the model, and keeps for each stem those nearest to it. Needs nothing
but the package itself; takes about a minute. The model and its vocabulary are those of
sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder

_ADAPTERS = Path(__file__).parent.parent / "src" / "octopus_memory" / "adapters"
_VOCABULARY = _ADAPTERS / "embedders" / "all-minilm-l6-v2-int8" / "tokenizer.json"
_TABLE = _ADAPTERS.parent / "words" / "related-english.npy"

_NEAREST = 12
_LEAST_COSINE = 0.4
_SHORTEST_WORD = 3
_AT_ONCE = 1000


def main() -> None:
    words = words_by_stem()
    vectors = MiniLMEmbedder().embed(list(words.values()))
    nearest, cosines = neighbors(vectors)
    weights = np.clip((cosines - _LEAST_COSINE) / (1 - _LEAST_COSINE), 0, 1)
    np.save(_TABLE, as_table(list(words), nearest, np.rint(weights * 255)))
    print(f"{_TABLE.name}: {len(words)} stems, {_TABLE.stat().st_size} bytes")


def as_table(stems: list[str], nearest: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.void]:
    """Return one row per stem in order. `nearest` are indexes of other stems."""
    order = np.argsort(np.array(stems))
    place_of = np.empty(len(stems), np.uint16)
    place_of[order] = np.arange(len(stems))
    longest = max(map(len, stems))
    row = [("stem", f"S{longest}"), ("nearest", "<u2", _NEAREST), ("weights", "u1", _NEAREST)]
    table = np.empty(len(stems), row)
    table["stem"] = np.array(stems, "S")[order]
    table["nearest"] = place_of[nearest[order]]
    table["weights"] = weights[order]
    return table


def words_by_stem() -> dict[str, str]:
    """Return the most frequent word of each stem. The vocabulary is ordered by frequency."""
    vocabulary: dict[str, int] = json.loads(_VOCABULARY.read_text("utf-8"))["model"]["vocab"]
    analyzer = SnowballAnalyzer("english")
    found: dict[str, str] = {}
    for word in sorted(vocabulary, key=vocabulary.__getitem__):
        if word.isascii() and word.isalpha() and len(word) >= _SHORTEST_WORD:
            for stem in analyzer.terms(word):
                found.setdefault(stem, word)
    return found


def neighbors(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the nearest other rows of each row, nearest first, and their cosines."""
    rows, cosines = [], []
    for start in range(0, len(vectors), _AT_ONCE):
        block = vectors[start : start + _AT_ONCE] @ vectors.T
        own = np.arange(len(block))
        block[own, start + own] = -1
        best = np.argsort(-block, axis=1, kind="stable")[:, :_NEAREST]
        rows.append(best)
        cosines.append(np.take_along_axis(block, best, axis=1))
    return np.concatenate(rows), np.concatenate(cosines)


if __name__ == "__main__":
    main()
