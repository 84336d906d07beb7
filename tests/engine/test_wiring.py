"""What opening a memory refuses, by the name that whoever set it knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, InvalidSetting, StoreUnavailable
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.settings import default_url, load
from octopus_memory.wiring import make_counter, make_embedder, make_redactor, make_summarizer


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (make_counter, {"tokenizer": "/nope.json"}, "tokenizer: is no file"),
        (make_redactor, {"phone_region": "Mars"}, "phone_region: 'Mars' is unknown"),
        (
            make_embedder,
            {"embedder": "openai", "openai_base_url": "nowhere"},
            "openai_base_url: must be an address",
        ),
        (make_summarizer, {"summarizer": "openai", "summary_model": ""}, "summary_model: is empty"),
    ],
)
def test_a_value_that_an_adapter_refuses_is_named_as_it_was_set(
    make: Callable[..., Any], settings: dict[str, str], said: str
):
    with pytest.raises(InvalidSetting, match=f"^{said}"):
        make(load(**settings))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "url: must not be empty"),
        ("sqlite:", "database_url: must name a file.*sqlite:///:memory:"),
        ("sqlite://", "database_url: must name a file"),
        ("sqlite:///", "database_url: must name a file"),
        ("sqlite:///?mode=ro", "database_url: must name a file"),
        ("sqlite:///data#1.db", "database_url: must not contain #.*write %23"),
        ("sqlite:///~/memory.db", "database_url: must not begin with ~.*write the whole path"),
        (Path("~/memory.db"), "database_url: must not begin with ~"),
        ("sqlite:///a%00b.db", "database_url: must not contain a NUL"),
        (Path("a\0b.db"), "database_url: must not contain a NUL"),
        ("sqlite://[memory.db", "database_url: is not a URL"),
        ("sqlite://memory.db", "database_url: has a host"),
        ("sqlite:///memory.db?mode=rw", "database_url: only \\?mode=ro"),
    ],
)
def test_a_url_that_would_open_another_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str | Path, said: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSetting, match=f"^{said}"):
        EpisodicMemory.open(url, embedder="hashing", background=False)
    assert not list(tmp_path.iterdir())


def test_the_usual_file_is_where_it_should_be_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "5%25 #1?"))
    EpisodicMemory.open(default_url(), embedder="hashing", background=False).close()
    assert (tmp_path / "5%25 #1?" / "memory.db").is_file()


@pytest.mark.parametrize("suffix", ["", "?mode=ro"])
def test_a_file_s_name_can_be_too_long(tmp_path: Path, suffix: str):
    with pytest.raises(StoreUnavailable):
        EpisodicMemory.open(f"sqlite:///{tmp_path}/{'x' * 300}.db{suffix}", background=False)


@pytest.mark.parametrize("name", ["embedder", "summarizer", "counter", "clock", "config"])
@pytest.mark.parametrize("given", [5, HashingEmbedder])
def test_an_adapter_without_its_methods_is_refused_by_name(name: str, given: object):
    with pytest.raises(InvalidSetting, match=f"^{name}: must be an? (object with|Memory)"):
        EpisodicMemory.open("sqlite:///:memory:", **{"embedder": "hashing", name: given})


class _Boasting(HashingEmbedder):
    def reads(self, language: str) -> str:
        return "perfectly" if language == "german" else "fluent"


def test_an_embedder_that_reads_in_an_unknown_way_is_named():
    with EpisodicMemory.open(
        "sqlite:///:memory:", embedder=_Boasting(), background=False
    ) as memory:
        scope = memory.scope(user="u")
        scope.add("s", ("user", "Mein Hund heißt Bruno."))
        assert scope.recall("What is my dog called?") is not None
        with pytest.raises(InvalidSetting, match=r"embedder: must read german .* not 'perfectly'"):
            scope.recall("Wie heißt mein Hund?")
