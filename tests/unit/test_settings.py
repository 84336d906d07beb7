"""Settings: from the caller, else the environment, else `octopus.toml`, else the defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from octopus_memory import InvalidSetting
from octopus_memory.settings import Settings, load, sources


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str) -> None:
    Path("octopus.toml").write_text(text, encoding="utf-8")


def test_each_source_goes_before_the_next(monkeypatch: pytest.MonkeyPatch):
    assert load() == Settings()
    write("cache_mb = 5\npool_size = 6\n[server]\nport = 7\nthreads = 8\n")
    monkeypatch.setenv("OCTOPUS_CACHE_MB", "50")
    monkeypatch.setenv("OCTOPUS_SERVER__PORT", "70")
    found = load(background=False, embedder=None)
    assert (found.cache_mb, found.pool_size) == (50, 6)
    assert (found.server.port, found.server.threads) == (70, 8)
    assert (found.background, found.embedder) == (False, "minilm")
    assert found.chosen() == ["pool_size", "cache_mb", "background", "server"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cache_mb", " 7 ", 7),
        ("close_timeout_seconds", "1.5", 1.5),
        ("background", "Off", False),
        ("audit_reads", "1", True),
        ("phone_region", "", ""),
        ("database_url", "sqlite:///x.db", "sqlite:///x.db"),
        ("memory", '{"recall": {"semantic_top_k": 4}}', {"recall": {"semantic_top_k": 4}}),
    ],
)
def test_the_environment_is_read_as_each_setting_s_kind(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object
):
    monkeypatch.setenv(f"octopus_{name}", text)
    assert getattr(load(), name) == value


def test_tables_are_set_value_by_value(monkeypatch: pytest.MonkeyPatch):
    write("[memory.recall]\nsemantic_top_k = 4\nmin_recall_score = 0.5\n")
    monkeypatch.setenv("OCTOPUS_MEMORY__RECALL__SEMANTIC_TOP_K", "6")
    monkeypatch.setenv("OCTOPUS_MEMORY__PRIVACY__PII", "redact")
    monkeypatch.setenv("OCTOPUS_SERVER__JWT", '{"issuer": "them"}')
    monkeypatch.setenv("OCTOPUS_SERVER__HOST", "10")
    found = load()
    assert found.defaults().recall.semantic_top_k == 6
    assert found.defaults().recall.min_recall_score == 0.5
    assert found.defaults().privacy.pii == "redact"
    assert (found.server.jwt.issuer, found.server.host) == ("them", "10")


@pytest.mark.parametrize(
    ("file", "environment", "said"),
    [
        ("cache_mb = 5.5", {}, "cache_mb: must be a whole number"),
        ("cache_mb = true", {}, "cache_mb: must be a whole number"),
        ("cache_mb = 0", {}, "cache_mb: must be at least 1"),
        ("database_url = 5", {}, "database_url: must be text"),
        ("nonsense = 1", {}, "nonsense: is not a setting: remove it"),
        ("chache_mb = 1", {}, "chache_mb: is not a setting: did you mean cache_mb"),
        ("server = 4", {}, "server: must be a table"),
        ("database_url = [", {}, "octopus.toml: "),
        ("[server]\nport = 99999", {}, "server.port: must be at most 65,535"),
        ("", {"OCTOPUS_CACHE_MB": "many"}, "cache_mb: must be a whole number"),
        ("", {"OCTOPUS_CLOSE_TIMEOUT_SECONDS": "nan"}, "close_timeout_seconds: must be a number"),
        ("", {"OCTOPUS_CLOSE_TIMEOUT_SECONDS": "0"}, "close_timeout_seconds: must be above 0"),
        ("", {"OCTOPUS_BACKGROUND": "perhaps"}, "background: must be true or false"),
        ("", {"OCTOPUS_SERVER": "perhaps"}, "server: must be a table"),
        (
            "",
            {"OCTOPUS_SERVER__PROT": "1"},
            "server.prot: is not a setting: did you mean server.port",
        ),
        ("", {"OCTOPUS_SERVER__JWT__JWKS_URL": "https://x"}, "server.jwt: "),
        ("[memory.recal]\nenabled = true", {}, "memory.recal: is unknown; there are recall"),
        ("", {"OCTOPUS_MEMORY__RECALL__ENABLED": "perhaps"}, "memory.recall.enabled: must be true"),
    ],
)
def test_a_wrong_value_is_named(
    monkeypatch: pytest.MonkeyPatch, file: str, environment: dict[str, str], said: str
):
    write(file)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSetting, match=f"^{said}") as caught:
        load().defaults()
    assert "many" not in str(caught.value)
    assert "perhaps" not in str(caught.value)


def test_a_folder_is_no_file_of_settings():
    Path("octopus.toml").mkdir()
    with pytest.raises(InvalidSetting, match="^octopus.toml: cannot be read .*must be a file"):
        load()


def test_a_secret_is_told_only_when_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-everybody")
    assert load().openai_api_key.get_secret_value() == "sk-of-everybody"
    monkeypatch.setenv("OCTOPUS_OPENAI_API_KEY", "sk-of-ours")
    found = load()
    assert found.openai_api_key.get_secret_value() == "sk-of-ours"
    assert "sk-" not in repr(found) + str(found.openai_api_key) + str(sources())


@pytest.mark.parametrize(
    ("file", "environment", "key"),
    [
        ("", {"OCTOPUS_OPENAI_BASE_URL": "http://x"}, None),
        ('openai_base_url = "http://x"', {}, None),
        ('openai_base_url = "http://x"\nopenai_api_key = "sk-x"', {}, "sk-x"),
        ("", {"OCTOPUS_OPENAI_BASE_URL": "http://x", "OCTOPUS_OPENAI_API_KEY": "sk-x"}, "sk-x"),
        ("", {"OPENAI_BASE_URL": "http://x"}, "sk-of-everybody"),
        ('openai_base_url = "http://y"', {"OPENAI_BASE_URL": "http://x"}, "sk-of-everybody"),
    ],
)
def test_openai_s_key_goes_to_no_address_that_is_ours_alone(
    monkeypatch: pytest.MonkeyPatch, file: str, environment: dict[str, str], key: str | None
):
    write(file)
    for name, value in ({"OPENAI_API_KEY": "sk-of-everybody"} | environment).items():
        monkeypatch.setenv(name, value)
    found = load().openai_api_key
    assert (found and found.get_secret_value()) == key
    assert {each.name: each.source for each in sources()}["openai_api_key"] == (
        "default" if key is None else "octopus.toml" if "key" in file else "environment"
    )


def test_each_value_says_where_it_came_from(monkeypatch: pytest.MonkeyPatch):
    write("cache_mb = 5\n[server]\nport = 7\n")
    monkeypatch.setenv("OCTOPUS_SERVER__HOST", "::1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-everybody")
    found = {each.name: each.source for each in sources()}
    told = {name: source for name, source in found.items() if source != "default"}
    assert told == {
        "cache_mb": "octopus.toml",
        "server.port": "octopus.toml",
        "server.host": "environment",
        "openai_api_key": "environment",
    }
