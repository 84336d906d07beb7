"""The service with scope keys: readiness, a receipt, and a key store that is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from octopus_memory import EpisodicMemory
from tests.support import rest_server
from tests.support.rest_server import HELLO, WHO

pytest.importorskip("cryptography")


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "keys" / "keys.db"
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    monkeypatch.setenv("OCTOPUS_KEYS_PATH", str(path))
    return path


@pytest.fixture
def sealed(tmp_path: Path, keys: Path) -> Iterator[EpisodicMemory]:
    url = f"sqlite:///{tmp_path / 'data' / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        yield memory


def test_readiness_and_metrics_tell_of_the_key_store(sealed: EpisodicMemory, keys: Path):
    with rest_server.serving(sealed) as url:
        ready = httpx.get(f"{url}/readyz")
        assert (ready.status_code, ready.json()["checks"]["keys"]) == (200, "ok")
        assert "octopus_key_store_up 1.0" in httpx.get(f"{url}/metrics").text
        keys.rename(keys.with_name("elsewhere"))
        ready = httpx.get(f"{url}/readyz")
        assert ready.status_code == 503
        assert ready.json()["checks"] | {"worker": ""} == {
            "database": "ok",
            "keys": "KeyUnavailable",
            "worker": "",
        }
        assert "octopus_key_store_up 0.0" in httpx.get(f"{url}/metrics").text


def test_without_keys_there_is_nothing_to_tell(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        assert set(httpx.get(f"{url}/readyz").json()["checks"]) == {"database", "worker"}
        assert "octopus_key_store_up 1" not in httpx.get(f"{url}/metrics").text


def test_a_receipt_says_what_became_of_copies(sealed: EpisodicMemory):
    with rest_server.http_client(sealed) as client:
        sent = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
        assert sent.status_code == 201
        erased = client.delete(f"/users/{WHO['userId']}/memory")
        assert erased.status_code == 200
        receipt = erased.json()
        assert receipt["copies"]["unreadable_since"]
        assert receipt["copies"]["keys_kept_until"] > receipt["copies"]["unreadable_since"]
        [kept] = client.get("/receipts").json()["items"]
    assert kept == receipt


def test_a_key_store_that_is_away_is_answered_503(
    tmp_path: Path, sealed: EpisodicMemory, keys: Path
):
    with rest_server.http_client(sealed) as client:
        keys.rename(keys.with_name("elsewhere"))
        sent = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
        assert sent.status_code == 503
        assert str(tmp_path) not in sent.text
        keys.with_name("elsewhere").rename(keys)
        again = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
        assert again.status_code == 201
