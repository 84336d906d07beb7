"""An existing database is sealed while it is used, however often that is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")

import sqlalchemy as sa

from octopus_memory import EpisodicMemory, InvalidSetting
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.wiring import move
from tests.support import byte_scan, sealed_memory
from tests.support.postgres_installation import Installation
from tests.support.sealed_memory import OTHER, VICTIM, WORD, open_memory

pytestmark = [pytest.mark.slow]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def url(request: pytest.FixtureRequest, database_url: str) -> Iterator[str]:
    """An SQLite file, or a database on PostgreSQL that no other test gets."""
    if request.param == "sqlite":
        yield database_url
        return
    installation: Installation = request.getfixturevalue("postgres")
    with installation.new_database() as database:
        yield database.owner_url


@pytest.fixture
def filled(url: str) -> list[Any]:
    """What can be read of the database, which was filled without keys."""
    with open_memory(url) as memory:
        sealed_memory.fill(memory)
        return [sealed_memory.snapshot(memory, user) for user in (VICTIM, OTHER)]


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Not beside the database, whose folder may be copied.
    folder = tmp_path_factory.mktemp("keys")
    sealed_memory.use_keys(monkeypatch, folder)
    return folder


def read(memory: EpisodicMemory) -> list[Any]:
    return [sealed_memory.snapshot(memory, user) for user in (VICTIM, OTHER)]


def plain_words(memory: EpisodicMemory) -> set[str]:
    """The columns in which any word or name can be read."""
    found: set[str] = set()

    def look(conn: sa.Connection) -> None:
        for table in schema.metadata.sorted_tables:
            for row in conn.execute(sa.text(f"SELECT * FROM {table.name}")).mappings():
                text = repr({name: _shown(value) for name, value in row.items()})
                if any(sealed_memory.words_in(text, user) for user in (VICTIM, OTHER)):
                    found.add(table.name)

    memory.runtime.store.change_schema(look)
    return found


def _shown(value: Any) -> Any:
    if not isinstance(value, bytes | memoryview):
        return value
    raw = bytes(value)
    return raw + b"".join(byte_scan.frames(raw))


def test_a_database_is_sealed_while_it_is_used(url: str, filled: list[Any], keys: Path):
    steps = []
    with open_memory(url) as memory:
        assert plain_words(memory) >= {"octopus_scopes", "octopus_turns", "octopus_holds"}
        assert read(memory) == filled
        memory.scope(agent="hr", user="new").store([("user", "I came later.")])
        before = memory.runtime.store.unsealed()
        assert before == 6  # a new user is sealed at once

        def look(progress: Any) -> None:
            steps.append(progress)
            if len(steps) % 5 == 1:
                assert read(memory) == filled
                assert WORD[OTHER] in repr(memory.scope(agent="hr", user=OTHER).recall("harbour"))

        done = memory.encrypt(look)
        assert done.is_done
        assert done.users_left == 0
        assert done.rows == steps[-1].rows > 20
        assert [step.users_left for step in steps] == sorted(
            [step.users_left for step in steps], reverse=True
        )
        assert plain_words(memory) == set()
        assert read(memory) == filled
        assert memory.scope(agent="hr", user="new").recall("later")
        assert memory.encrypt().rows == 0
        actions = [entry.action for entry in memory.runtime.store.audit("", limit=100)]
        assert "encrypt" in actions
    with open_memory(url) as memory:
        assert read(memory) == filled
        receipt = memory.tenant().erase_user(VICTIM)
        assert receipt.copies is not None
        assert receipt.copies.unreadable_since is not None
        assert receipt.removed["api keys"] == 1
        assert read(memory)[1] == filled[1]
        assert memory.tenant().holds()[0].user == OTHER


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_no_old_value_stays_in_the_file(url: str, filled: list[Any], keys: Path, tmp_path: Path):
    with open_memory(url) as memory:
        needles = sealed_memory.needles(memory, OTHER)
        kinds = {hit.kind for hit in byte_scan.search(tmp_path, needles)}
        assert kinds == {"word", "name", "packed"}
        assert memory.encrypt().is_done
    assert byte_scan.search(tmp_path, needles) == []


def test_a_sealing_that_stopped_anywhere_is_continued(url: str, filled: list[Any], keys: Path):
    """Each time another memory does one step, and is closed."""
    count = 0
    while True:
        with open_memory(url) as memory:
            step = next(memory.runtime.store.encrypt(), None)
            if count % 7 == 0:
                assert read(memory) == filled
            if step is None:
                break
        count += 1
        assert count < 200
    assert count > 6
    with open_memory(url) as memory:
        assert memory.encrypt().is_done
        assert plain_words(memory) == set()
        assert read(memory) == filled


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_sealed_database_is_not_opened_without_its_keys(
    url: str, filled: list[Any], keys: Path, monkeypatch: pytest.MonkeyPatch
):
    with open_memory(url) as memory:
        memory.encrypt()
    monkeypatch.setenv("OCTOPUS_KEYS", "off")
    with pytest.raises(InvalidSetting, match="keys: must be local or vault"):
        open_memory(url)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_database_is_moved_before_and_after_it_is_sealed(
    url: str, filled: list[Any], keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The rows are copied as they are; what is exported can be imported where nothing is sealed."""
    there, further = (f"sqlite:///{tmp_path}/{name}/memory.db" for name in ("there", "further"))
    move(url, there)
    with open_memory(there) as memory:
        assert read(memory) == filled
        assert memory.encrypt().is_done
    move(there, further)
    with open_memory(further) as memory:
        assert read(memory) == filled
        assert memory.runtime.store.unsealed() == 0
        assert plain_words(memory) == set()
        lines = list(memory.tenant().export_user(OTHER))
    assert WORD[OTHER] in repr(lines)
    monkeypatch.setenv("OCTOPUS_KEYS", "off")
    with open_memory(f"sqlite:///{tmp_path}/plain/memory.db") as memory:
        assert memory.tenant().import_user(lines).turns > 10
        assert memory.scope(agent="hr", user=OTHER).recall("harbour")
