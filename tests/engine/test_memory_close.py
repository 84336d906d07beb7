"""Closing: what a memory made goes with it, whatever fails; what it was lent stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, StoreError
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.testing import FakeSummarizer


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that were closed, in their order."""
    seen: list[str] = []
    close = SqliteStore.close

    def note(self: object) -> None:
        seen.append(type(self).__name__)
        if isinstance(self, SqliteStore):
            close(self)

    for kind in (HashingEmbedder, ExactIndex, SqliteStore, FakeSummarizer):
        monkeypatch.setattr(kind, "close", note, raising=False)
    return seen


def open_memory(folder: Path, **given: object) -> EpisodicMemory:
    options = {"embedder": "hashing", "background": False} | given
    return EpisodicMemory.open(folder / "memory.db", **options)  # type: ignore[arg-type]


def test_adapters_given_by_the_caller_stay_open(tmp_path: Path, closed: list[str]):
    open_memory(tmp_path, embedder=HashingEmbedder(), summarizer=FakeSummarizer()).close()
    assert closed == ["ExactIndex", "SqliteStore"]


def test_a_failing_close_of_one_adapter_does_not_skip_the_others(
    tmp_path: Path, closed: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ExactIndex, "close", lambda _: 1 / 0)
    memory = open_memory(tmp_path)
    with pytest.raises(ZeroDivisionError):
        memory.close()
    assert closed == ["SqliteStore", "HashingEmbedder"]


def test_a_database_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path, closed: list[str]):
    (tmp_path / "memory.db").mkdir()
    with pytest.raises(StoreError):
        open_memory(tmp_path)
    assert closed[-1] == "HashingEmbedder"
