"""The command line: deleting an episode, and what was archived."""

from __future__ import annotations

from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, EpisodicRecallConfig, MemoryConfig
from tests.support.command_line import run, run_json, use_folder

URL = "sqlite:///memory.db"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture
def tea() -> str:
    run("add", "monday", "My favourite tea is Darjeeling.", "--at", "2025-03-10T09:00", "--end")
    return str(run_json("recent")[0]["episode_id"])


def archive(episode_id: str, **recall: bool) -> None:
    with EpisodicMemory.open(URL, background=False) as memory:
        scope = memory.scope(user="me")
        memory.runtime.store.archive(scope.scope, scope.get(episode_id).episode.id)
        memory.flush()
        memory.configure("default", MemoryConfig(recall=EpisodicRecallConfig(**recall)))


def test_a_deleted_episode_is_gone_until_it_is_restored(tea: str) -> None:
    assert tea in run("delete").stdout
    assert "7 days" in run("delete", tea).stdout
    assert run_json("recent") == []
    assert run_json("recall", "tea") == []
    assert run_json("delete") == []
    run("restore", tea)
    assert [found["episode_id"] for found in run_json("recent")] == [tea]
    assert run_json("delete", tea) == {"deleted": tea, "grace_days": 7}


def test_an_agents_settings_are_set(tea: str) -> None:
    said = run("config", "set", "--agent", "hr", "privacy.pii=redact", "recall.semantic_top_k=5")
    assert "privacy.pii = redact" in said.stdout
    run("config", "set", "--agent", "hr", "--tenant", "acme", "recall.min_recall_score=0.5")
    told = run_json("config", "set", "--agent", "hr", "session.topic_shift=true")
    assert told == {"agent": "hr", "tenant": None, "set": {"session": {"topic_shift": True}}}
    with EpisodicMemory.open(URL, background=False) as memory:
        config = memory.config("hr")
        assert (config.privacy.pii, config.recall.semantic_top_k) == ("redact", 5)
        assert config.session.topic_shift
        theirs = memory.config("hr", tenant="acme")
        assert (theirs.recall.min_recall_score, theirs.session.topic_shift) == (0.5, True)
        assert memory.config("other").privacy.pii == "off"
    run("add", "s", "Write to ana@example.com.", "--agent", "hr")
    [hit] = run_json("recall", "write", "--turns", "--agent", "hr")
    assert "[EMAIL]" in hit["text"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("recall", "must be PART.NAME=VALUE"),
        ("recall.top_k=5", "recall.top_k: is unknown"),
        ("recall.semantic_top_k=many", "must be a whole number"),
        ("nothing.at_all=1", "nothing: is unknown"),
        ("retention.active_retention_days=400", "archive_retention_days"),
    ],
)
def test_a_setting_that_cannot_be_is_not_set(tea: str, given: str, said: str) -> None:
    assert said in run("config", "set", "--agent", "hr", given, code=1).stderr


def test_episodes_of_other_users_are_not_deleted(tea: str) -> None:
    assert "no episode" in run("delete", tea, "--user", "another", code=1).stderr
    assert len(run_json("recent")) == 1


def test_archived_episodes_are_shown_or_left_out(tea: str) -> None:
    archive(tea)
    assert "archived" in run("recent").stdout
    for command in (["recent"], ["recall", "favourite tea"]):
        assert len(run_json(*command)) == 1
        assert run_json(*command, "--no-archived") == []
    archive(tea, include_archived=False)
    for command in (["recent"], ["recall", "favourite tea"]):
        assert run_json(*command) == []
        assert len(run_json(*command, "--archived")) == 1
