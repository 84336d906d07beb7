from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory import InvalidInput
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.evaluation import Hit, make_systems
from octopus_memory.evaluation.conversation import BenchTurn
from octopus_memory.evaluation.octopus import OctopusSystem
from octopus_memory.evaluation.suite import SYSTEMS
from octopus_memory.evaluation.systems import (
    RecallSystem,
    SharedEmbedder,
    ranked_sessions,
    ranked_turns,
)

START = datetime(2024, 5, 1, 10, tzinfo=UTC)
ASKED = START + timedelta(days=30)
SAID = {
    "s1": ["My sister keeps bees in Tromsø.", "Bees? How many hives has she got?"],
    "s2": ["The landlord raised the rent again.", "Write to the tenants' union about the rent."],
    "s3": ["I ran a marathon in Bergen.", "Four hours is a fine time for a marathon."],
}


class CountingEmbedder(HashingEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts.extend(texts)
        return super().embed(texts)


@pytest.fixture
def embedder() -> SharedEmbedder:
    return SharedEmbedder(HashingEmbedder())


@pytest.fixture
def turns() -> list[BenchTurn]:
    return [
        BenchTurn(
            id=f"{session}-{place}",
            session_id=session,
            role=("user", "assistant")[place],
            text=text,
            at=START + timedelta(days=day, minutes=place),
            name=("Ana", None)[place],
        )
        for day, (session, texts) in enumerate(SAID.items())
        for place, text in enumerate(texts)
    ]


def _made(name: str, embedder: SharedEmbedder, turns: list[BenchTurn]) -> RecallSystem:
    (system,) = make_systems([name], embedder)
    system.reset()
    system.add(turns)
    return system


@pytest.mark.parametrize("name", ["octopus", "bm25", "dense", "rrf"])
def test_what_was_said_is_found(name: str, embedder: SharedEmbedder, turns: list[BenchTurn]):
    system = _made(name, embedder, turns)
    hits = system.search("Who keeps bees?", ASKED, 4)
    assert system.name == name
    assert ranked_turns(hits)[0] == "s1-0"
    assert ranked_sessions(hits)[0] == "s1"
    assert len(ranked_turns(hits)) == 4
    system.reset()


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_reset_forgets(name: str, embedder: SharedEmbedder, turns: list[BenchTurn]):
    system = _made(name, embedder, turns)
    system.reset()
    system.add(turns[:2])
    hits = system.search("marathon in Bergen", ASKED, 10)
    assert {hit.session_id for hit in hits} <= {"s1"}
    system.reset()


def test_recency_goes_by_time_alone(embedder: SharedEmbedder, turns: list[BenchTurn]):
    system = _made("recency", embedder, list(reversed(turns)))
    hits = system.search("bees", ASKED, 3)
    assert ranked_turns(hits) == ["s3-1", "s3-0", "s2-1"]
    assert ranked_sessions(hits) == ["s3", "s2", "s1"]


def test_bm25_by_hand(embedder: SharedEmbedder):
    turns = [
        BenchTurn(id=text, session_id="s", role="user", text=text, at=START)
        for text in ("kiln kiln", "kiln pot", "wheel pot")
    ]
    hits = _made("bm25", embedder, turns).search("kiln", ASKED, 3)
    scores = {hit.turn_id: hit.score for hit in hits if hit.turn_id}
    # Two of three turns have it, and all are of the usual length: the norm is k1.
    rarity = math.log(1 + 1.5 / 2.5)
    assert scores["kiln kiln"] == pytest.approx(rarity * 2 * 2.2 / (2 + 1.2))
    assert scores["kiln pot"] == pytest.approx(rarity * 2.2 / (1 + 1.2))
    assert scores["wheel pot"] == 0


def test_rrf_adds_reciprocal_ranks(embedder: SharedEmbedder, turns: list[BenchTurn]):
    hits = _made("rrf", embedder, turns).search("Who keeps bees in Tromsø?", ASKED, 1)
    assert hits[0].turn_id == "s1-0"
    assert hits[0].score == pytest.approx(2 / 61)


def test_the_naive_design_needs_a_cosine_of_065(embedder: SharedEmbedder):
    turns = [BenchTurn(id="t", session_id="s", role="user", text="My sister keeps bees.", at=START)]
    system = _made("naive", embedder, turns)
    found = system.search("My sister keeps bees.", ASKED, 20)
    assert ranked_sessions(found) == ["s"]
    assert ranked_turns(found) == []
    assert system.search("Who was that about the honey?", ASKED, 20) == []


def test_an_archived_octopus_finds_sessions_by_their_summaries(
    embedder: SharedEmbedder, turns: list[BenchTurn]
):
    system = OctopusSystem(embedder, archived=True)
    system.add(turns)
    hits = system.search("Who keeps bees?", ASKED, 20)
    system.reset()
    assert ranked_turns(hits) == []
    assert ranked_sessions(hits)[0] == "s1"


def test_octopus_takes_dates_from_the_time_of_asking(
    embedder: SharedEmbedder, turns: list[BenchTurn]
):
    same = [
        BenchTurn(
            id=turn.id,
            session_id=turn.session_id,
            role="user",
            text="I went swimming in the lake.",
            at=turn.at,
        )
        for turn in turns[::2]
    ]
    system = OctopusSystem(embedder)
    system.add(same)
    for day, session in enumerate(SAID):
        asked_at = START + timedelta(days=day + 1)
        hits = system.search("What did I do yesterday?", asked_at, 3)
        assert ranked_sessions(hits)[0] == session
    system.reset()


def test_octopus_leaves_no_file_behind(
    embedder: SharedEmbedder, turns: list[BenchTurn], tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    system = OctopusSystem(embedder)
    system.add(turns)
    assert list(tmp_path.rglob("*.db"))
    system.reset()
    assert not list(tmp_path.iterdir())


def test_an_unknown_system_is_refused(embedder: SharedEmbedder):
    with pytest.raises(InvalidInput, match="must be among octopus, recency.*, not 'magic'"):
        make_systems(["octopus", "magic"], embedder)


def test_sessions_rank_by_their_turns_unless_they_are_returned():
    turns = [Hit(session_id="b", turn_id="1"), Hit(session_id="a", turn_id="2")]
    turns += [Hit(session_id="b", turn_id="1")]
    assert ranked_turns(turns) == ["1", "2"]
    assert ranked_sessions(turns) == ["b", "a"]
    assert ranked_sessions([*turns, Hit(session_id="c"), Hit(session_id="a")]) == ["c", "a"]


def test_a_shared_embedder_embeds_what_is_stored_once():
    inner = CountingEmbedder()
    shared = SharedEmbedder(inner)
    first = shared.embed(["a", "b", "a"])
    assert inner.texts == ["a", "b"]
    np.testing.assert_array_equal(shared.embed(["b", "a"]), first[[1, 0]])
    assert inner.texts == ["a", "b"]
    assert shared.embed([]).shape == (0, inner.dimension)
    assert (shared.model, shared.calibration) == (inner.model, None)


def test_a_shared_embedder_encodes_each_question_again():
    inner = CountingEmbedder()
    shared = SharedEmbedder(inner)
    with shared.asking():
        shared.embed(["a"])
        shared.embed(["a"])
    shared.embed(["a"])
    assert inner.texts == ["a", "a", "a"]
    assert shared.seconds > 0


def test_vectors_outlive_the_run_and_a_torn_file(tmp_path: Path):
    first = SharedEmbedder(HashingEmbedder(), tmp_path).embed(["a", "b"])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    inner = CountingEmbedder()
    np.testing.assert_array_equal(SharedEmbedder(inner, tmp_path).embed(["a", "b"]), first)
    assert inner.texts == ["b"]
    again = CountingEmbedder()
    np.testing.assert_array_equal(SharedEmbedder(again, tmp_path).embed(["a", "b"]), first)
    assert again.texts == []
