"""The built-in systems, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..domain.errors import InvalidInput
from ..ports.models import Analyzer
from ..settings import load
from ..wiring import make_analyzer, make_embedder
from .baselines import BM25, Dense, NaiveDesign, Recency, ReciprocalRanks, TurnBaseline
from .embedding import SharedEmbedder
from .octopus import OctopusSystem
from .systems import RecallSystem

SYSTEMS = ("octopus", "recency", "bm25", "dense", "rrf", "naive")


def shared_embedder(folder: Path | None = None) -> SharedEmbedder:
    """Return the embedder of the settings with a cache. `folder` keeps the cache for later runs."""
    return SharedEmbedder(make_embedder(load()), folder)


def make_systems(
    names: Sequence[str], embedder: SharedEmbedder, *, archived: bool = False
) -> list[RecallSystem]:
    """Return the systems of these names.

    :raises InvalidInput: a name is not among `SYSTEMS`
    """
    analyzer = make_analyzer()
    return [_system(name, embedder, analyzer, archived=archived) for name in names]


def _system(
    name: str, embedder: SharedEmbedder, analyzer: Analyzer, *, archived: bool
) -> RecallSystem:
    match name:
        case "octopus":
            return OctopusSystem(embedder, archived=archived)
        case "recency":
            return TurnBaseline(name, Recency())
        case "bm25":
            return TurnBaseline(name, BM25(analyzer))
        case "dense":
            return TurnBaseline(name, Dense(embedder))
        case "rrf":
            return TurnBaseline(name, ReciprocalRanks(BM25(analyzer), Dense(embedder)))
        case "naive":
            return NaiveDesign(embedder)
        case _:
            raise InvalidInput("systems", f"must be among {', '.join(SYSTEMS)}, not {name!r}")
