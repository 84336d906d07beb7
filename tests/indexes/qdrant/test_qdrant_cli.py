"""The commands `octopus index` with Qdrant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models
from typer.testing import CliRunner

from octopus_memory.__main__ import program
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from tests.support.qdrant_server import QdrantServer

pytestmark = pytest.mark.qdrant


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OCTOPUS_DATABASE_URL", "sqlite:///memory.db")
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "hashing")
    monkeypatch.setenv("OCTOPUS_INDEX", "qdrant")
    monkeypatch.setenv("OCTOPUS_QDRANT_URL", server.url)
    monkeypatch.setenv("OCTOPUS_QDRANT_TIMEOUT_SECONDS", "2")
    run("add", "monday", "The greenhouse key hangs behind the blue door.", "--end")
    run("run-pending")


def run(*args: str, code: int = 0) -> str:
    done = CliRunner().invoke(program(), list(args))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout + done.stderr


def run_json(*args: str, code: int = 0) -> Any:
    return json.loads(run(*args, "--json", code=code))


def _lose_one(server: QdrantServer) -> None:
    [name] = server.collections()
    server.client.delete(name, models.PointIdsList(points=[server.points()[0].id]))


def test_verify_says_that_all_is_well() -> None:
    assert "The index matches the store." in run("index", "verify")
    report = run_json("index", "verify")
    assert report["is_true"] is True
    assert (report["index"], report["scopes"], report["rows"]) == ("qdrant", 1, 2)


def test_verify_says_what_differs_and_fails(server: QdrantServer) -> None:
    _lose_one(server)
    said = run("index", "verify", code=1)
    assert "1 missing, 0 extra, 0 with another vector" in said
    assert "--repair" in said
    report = run_json("index", "verify", code=1)
    assert (report["is_true"], report["missing"]) == (False, 1)
    assert report["drifted"][0]["missing"] == 1


def test_verify_repairs(server: QdrantServer) -> None:
    _lose_one(server)
    assert "Repaired" in run("index", "verify", "--repair")
    assert run_json("index", "verify")["is_true"] is True
    assert len(server.points()) == 2


def test_rebuild(server: QdrantServer) -> None:
    [name] = server.collections()
    server.client.delete_collection(name)
    assert run_json("index", "rebuild")["rows"] == 2
    assert len(server.points()) == 2
    assert "The index matches the store." in run("index", "rebuild")


@pytest.mark.parametrize("command", ["verify", "rebuild"])
def test_a_mirror_of_another_model_is_neither_compared_nor_dropped(
    server: QdrantServer, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    before = server.collections()
    monkeypatch.setattr(HashingEmbedder, "model", "hashing-after-an-upgrade")
    said = run("index", command, code=1)
    assert "the stored vectors, hashing-256, not hashing-after-an-upgrade" in said
    assert server.collections() == before
    assert "Embedded 2 texts" in run("reembed")
    run("run-pending")
    assert "compared 2 rows" in run("index", command)
    assert server.collections() != before
    assert len(server.points()) == 2


def test_drop(server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    [name] = server.collections()
    assert run_json("index", "drop") == {"removed": [name], "abandoned": False}
    assert server.collections() == []
    monkeypatch.setenv("OCTOPUS_INDEX", "exact")
    assert "no mirror to compare" in run("index", "verify")
    assert "greenhouse" in run("recall", "Where is the key of the greenhouse?")


def test_out_of_reach_is_one_clear_line(server: QdrantServer) -> None:
    server.fault = 503
    said = run("index", "verify", code=1)
    assert "error: Qdrant request failed (status 503): check that it is running" in said
    assert "request failed" in run_json("index", "verify", code=1)["error"]["message"]
    assert "Removed" not in run("index", "drop", code=1)
    assert "were not removed" in run("index", "drop", "--abandon")
