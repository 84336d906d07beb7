"""A change of an agent's settings changes what it names, and leaves everything else in force."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    EpisodicRecallConfig,
    EpisodicRetentionPolicy,
    InvalidSetting,
    MemoryConfig,
    PiiMode,
    PrivacyConfig,
)
from octopus_memory.domain.policy import SessionConfig
from tests.support import rest_server

MAIL = "ana.lopez@example.com"
TOP_5 = MemoryConfig(recall=EpisodicRecallConfig(semantic_top_k=5))


@pytest.fixture(autouse=True)
def _protected_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTOPUS_MEMORY__PRIVACY__PII", "redact")
    monkeypatch.setenv("OCTOPUS_MEMORY__RETENTION__ACTIVE_RETENTION_DAYS", "10")


@contextmanager
def _opened(path: Path, **more: Any) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(path, embedder="hashing", background=False, **more) as memory:
        yield memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[EpisodicMemory]:
    with _opened(tmp_path / "m.db") as opened:
        yield opened


def _stored(memory: EpisodicMemory, agent: str = "hr", tenant: str = "default") -> str:
    scope = memory.scope(tenant=tenant, agent=agent, user="u")
    [turn] = scope.add("s", ("user", f"Write to {MAIL}."))
    return turn.text


def _by_put(memory: EpisodicMemory) -> None:
    with rest_server.http_client(memory) as client:
        answer = client.put("/agents/hr/memory-config", json={"recall": {"semantic_top_k": 5}})
        assert answer.status_code == 200, answer.text
        assert answer.json()["privacy"]["pii"] == "redact"
        assert answer.json()["recall"]["semantic_top_k"] == 5


def _by_remote(memory: EpisodicMemory) -> None:
    with rest_server.remote_memory(memory) as remote:
        remote.configure("hr", TOP_5)
        assert remote.config("hr").privacy.pii is PiiMode.REDACT


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda memory: memory.configure("hr", TOP_5), id="dataclass"),
        pytest.param(
            lambda memory: memory.configure("hr", {"recall": {"semantic_top_k": 5}}), id="mapping"
        ),
        pytest.param(lambda memory: memory.configure("hr", TOP_5.recall), id="part"),
        pytest.param(_by_put, id="rest"),
        pytest.param(_by_remote, id="remote"),
    ],
)
def test_a_partial_change_keeps_the_protection_of_the_environment(
    memory: EpisodicMemory, change: Callable[[EpisodicMemory], None]
):
    change(memory)
    assert MAIL not in _stored(memory)
    in_force = memory.config("hr", tenant="default")
    assert in_force.recall.semantic_top_k == 5
    assert in_force.retention.active_retention_days == 10


def test_what_is_given_to_open_keeps_the_protection_of_the_environment(tmp_path: Path):
    with _opened(tmp_path / "m.db", config=TOP_5) as memory:
        assert MAIL not in _stored(memory)
        assert memory.config("hr").recall.semantic_top_k == 5


def test_a_second_change_keeps_what_the_first_one_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("OCTOPUS_MEMORY__PRIVACY__PII")
    with _opened(tmp_path / "other.db") as memory:
        memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="redact")))
        memory.configure("hr", {"privacy": {"numbered": True}})
        memory.configure("hr", TOP_5)
        assert "[EMAIL_1]" in _stored(memory)


def test_a_tenants_change_keeps_what_is_set_for_every_tenant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.delenv("OCTOPUS_MEMORY__PRIVACY__PII")
    with _opened(tmp_path / "other.db") as memory:
        memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="redact")))
        memory.configure("hr", TOP_5, tenant="acme")
        assert MAIL not in _stored(memory, tenant="acme")


def test_a_value_equal_to_the_builtin_default_can_be_set(memory: EpisodicMemory):
    """`off` is the built-in default: who says it means it."""
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="off")))
    assert MAIL in _stored(memory)


def test_what_was_set_can_be_unset(memory: EpisodicMemory):
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="off", numbered=True)))
    memory.configure("hr", {"privacy": {"pii": None}})
    in_force = memory.config("hr").privacy
    assert (in_force.pii, in_force.numbered) == (PiiMode.REDACT, True)
    memory.configure("hr", {"privacy": None})
    assert memory.config("hr").privacy.numbered is False
    memory.configure("hr", TOP_5)
    memory.reset_config("hr")
    assert memory.config("hr").recall.semantic_top_k == 3
    assert memory.runtime.store.configs() == {}


def test_rest_unsets_and_resets(memory: EpisodicMemory):
    path = "/agents/hr/memory-config"
    with rest_server.http_client(memory) as client:
        client.put(path, json={"privacy": {"pii": "off"}, "recall": {"semantic_top_k": 5}})
        unset = client.put(path, json={"privacy": {"pii": None}}).json()
        assert (unset["privacy"]["pii"], unset["recall"]["semantic_top_k"]) == ("redact", 5)
        unset = client.put(path, json={"recall": None}).json()
        assert unset["recall"]["semantic_top_k"] == 3
        client.put(path, json={"recall": {"semantic_top_k": 5}})
        reset = client.delete(path)
        assert (reset.status_code, reset.json()["recall"]["semantic_top_k"]) == (200, 3)


def test_where_each_value_comes_from(memory: EpisodicMemory):
    memory.configure("hr", TOP_5)
    memory.configure("hr", {"session": {"topic_shift": True}}, tenant="default")
    sources = memory.config_sources("hr", tenant="default")
    assert sources["privacy"] == {"pii": "settings", "numbered": "default"}
    assert sources["recall"]["semantic_top_k"] == "agent"
    assert sources["session"]["topic_shift"] == "tenant"
    assert sources["session"]["allow_resume"] == "default"
    config = memory.config("hr").to_dict()
    assert {part: set(fields) for part, fields in sources.items()} == {
        part: set(fields)
        for part, fields in config.items()  # type: ignore[arg-type]
    }
    with rest_server.http_client(memory) as client:
        plain = client.get("/agents/hr/memory-config").json()
        shown = client.get("/agents/hr/memory-config", params={"sources": "true"}).json()
        assert "sources" not in plain
        assert shown.pop("sources") == sources
        assert shown == plain
    with rest_server.remote_memory(memory) as remote:
        assert remote.config_sources("hr") == sources
        remote.reset_config("hr")
        assert remote.config_sources("hr")["session"]["topic_shift"] == "default"


def test_settings_stored_whole_by_an_older_release_mean_what_they_say(memory: EpisodicMemory):
    whole = MemoryConfig.from_dict({}).to_dict()
    memory.runtime.store.put_config(None, "hr", json.loads(json.dumps(whole)))
    memory.runtime.clear_config_cache()
    assert memory.config("hr") == MemoryConfig()
    assert MAIL in _stored(memory)
    assert set(memory.config_sources("hr")["privacy"].values()) == {"agent"}


def test_a_change_that_does_not_fit_what_is_in_force_is_refused(memory: EpisodicMemory):
    memory.configure("hr", {"retention": {"active_retention_days": 300}})
    with pytest.raises(InvalidSetting, match=r"archive_retention_days"):
        memory.configure("hr", {"retention": {"archive_retention_days": 200}})
    assert memory.config("hr").retention.archive_retention_days == 365
    for wrong in ({"recal": {}}, {"recall": {"top": 1}}, {"recall": 5}, {"recall": {"enabled": 1}}):
        with pytest.raises(InvalidSetting):
            memory.configure("hr", wrong)
    assert memory.config_sources("hr")["recall"]["enabled"] == "default"


def test_a_change_for_every_tenant_must_fit_what_one_has_set(memory: EpisodicMemory):
    memory.configure("hr", {"retention": {"active_retention_days": 50}}, tenant="acme")
    with pytest.raises(InvalidSetting, match="tenant 'acme'"):
        memory.configure("hr", {"retention": {"archive_retention_days": 20}})
    assert memory.config("hr", tenant="acme").retention.archive_retention_days == 365


def test_two_who_change_different_parts_at_once_keep_both(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    """The second one's change is stored between the first one's read and its write."""
    store, others = memory.runtime.store, [{"privacy": {"numbered": True}}]
    put = store.put_config

    def beaten(*args: Any, **named: Any) -> None:
        if others:
            memory.configure("hr", others.pop())
        put(*args, **named)

    monkeypatch.setattr(store, "put_config", beaten)
    memory.configure("hr", TOP_5)
    config = memory.config("hr")
    assert (config.privacy.numbered, config.recall.semantic_top_k) == (True, 5)


def test_what_is_set_is_what_was_given_to_the_constructor():
    """`replace` gives a part all of its values, and a whole config keeps each part's."""
    config = MemoryConfig(recall=EpisodicRecallConfig(semantic_top_k=3))
    assert config.overrides() == {"recall": {"semantic_top_k": 3}}
    assert replace(config, session=SessionConfig(topic_shift=True)).overrides() == {
        "recall": {"semantic_top_k": 3},
        "session": {"topic_shift": True},
    }
    assert set(replace(PrivacyConfig(), numbered=True).overrides()) == {"pii", "numbered"}
    assert MemoryConfig(privacy=PrivacyConfig()).overrides() == {}
    assert pickle.loads(pickle.dumps(config)).overrides() == config.overrides()
    assert config == MemoryConfig()
    policy = EpisodicRetentionPolicy(active_retention_days=5)
    assert pickle.loads(pickle.dumps(policy)) == policy


def test_the_command_line_shows_an_agents_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from typer.testing import CliRunner

    from octopus_memory.__main__ import program

    with _opened(tmp_path / "m.db") as memory:
        memory.configure("hr", TOP_5)
    monkeypatch.setenv("OCTOPUS_DATABASE_URL", f"sqlite:///{tmp_path / 'm.db'}")
    done = CliRunner().invoke(program(), ["config", "show", "--agent", "hr", "--json"])
    assert done.exit_code == 0, done.output
    shown = {each["setting"]: each for each in json.loads(done.output)["settings"]}
    assert shown["recall.semantic_top_k"] == {
        "setting": "recall.semantic_top_k",
        "value": "5",
        "from": "agent",
    }
    assert shown["privacy.pii"]["from"] == "settings"
    plain = CliRunner().invoke(program(), ["config", "show", "--agent", "hr"])
    assert "redact  (settings)" in plain.output
