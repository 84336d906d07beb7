"""Given vectors, for subjects that take an embedder and no vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..data import Data, Vectors


class Given:
    """Looks up vectors instead of computing them, so that no model is measured."""

    model = "given"
    dimension = 384

    def __init__(self, data: Data | None) -> None:
        self._data = data
        self.at_hand: dict[str, Vectors] = {}
        """Set the texts of the next call."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        found = [self.at_hand.get(text) for text in texts]
        known = [vector for vector in found if vector is not None]
        if len(known) == len(texts):
            return known[0][None] if len(known) == 1 else np.stack(known)
        if self._data is None:
            raise LookupError("the vector of this text was not given")
        return self._data.embed(texts)
