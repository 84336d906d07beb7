"""A database file that is removed or replaced under a running memory: no write is acknowledged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, StoreUnavailable
from tests.support import rest_server
from tests.support.filled_database import open_memory
from tests.support.rest_server import HELLO, WHO

SAID = ("user", "How many leave days do I have left?")


def _remove(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)


def _replace_by_copy(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.replace(path)


def _replace_by_new(path: Path) -> None:
    new = path.with_name("new.db")
    with open_memory(new) as memory:
        memory.scope(user="u").add("new", SAID)
    new.replace(path)


def _move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


AWAY = pytest.mark.parametrize(
    "away", [_remove, _replace_by_copy, _replace_by_new, _move_folder], ids=lambda do: do.__name__
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "memory.db"


@AWAY
def test_the_service_says_so(file: Path, away: Callable[[Path], None]):
    with open_memory(file) as memory, rest_server.http_client(memory) as client:
        body = WHO | {"messages": [HELLO]}
        base = str(client.base_url).split("/api/")[0]
        assert client.post("/sessions/s/messages", json=body).status_code == 201
        assert client.get(f"{base}/readyz").status_code == 200
        away(file)
        for _ in range(2):
            assert client.post("/sessions/s/messages", json=body).status_code == 503
            assert client.get("/sessions/s", params=WHO).status_code == 503
            assert client.get(f"{base}/readyz").status_code == 503
    # No empty database was left in its place.
    assert away is not _remove or not file.exists()


@AWAY
def test_every_kind_of_call_says_so(file: Path, away: Callable[[Path], None]):
    with open_memory(file) as memory:
        scope = memory.scope(user="u")
        stored = scope.store([SAID])
        scope.recall("leave")
        away(file)
        for call in (
            lambda: scope.add("s", SAID),
            lambda: scope.store([SAID]),
            lambda: scope.recall("leave"),
            lambda: scope.get(stored),
            lambda: memory.configure("hr", {}),
            lambda: memory.stats(),
            lambda: memory.run_pending(),
            lambda: scope.erase(),
        ):
            with pytest.raises(StoreUnavailable, match=r"memory\.db.*(removed|replaced)"):
                call()


def test_a_file_that_is_put_back_works_again(file: Path):
    with open_memory(file) as memory:
        scope = memory.scope(user="u")
        scope.add("s", SAID)
        kept = file.with_name("kept.db")
        file.rename(kept)
        with pytest.raises(StoreUnavailable):
            scope.add("s", SAID)
        kept.rename(file)
        scope.add("s", SAID)
        assert len(scope.session("s").turns) == 2
    with open_memory(file) as memory:
        assert len(memory.scope(user="u").session("s").turns) == 2


def test_a_write_that_the_removal_overtakes_is_not_acknowledged(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    with open_memory(file) as memory:
        scope = memory.scope(user="u")
        scope.add("s", SAID)
        group_commit = memory.runtime.store._group_commit  # type: ignore[attr-defined]
        write = group_commit.write

        def removed_meanwhile(*args: object, **named: object) -> object:
            done = write(*args, **named)
            _remove(file)
            return done

        monkeypatch.setattr(group_commit, "write", removed_meanwhile)
        with pytest.raises(StoreUnavailable):
            scope.add("s", SAID)


def test_another_working_folder_is_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with EpisodicMemory.open("sqlite:///here.db", embedder="hashing", background=False) as memory:
        scope = memory.scope(user="u")
        scope.add("s", SAID)
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        scope.add("s", SAID)
        # On a connection of its own.
        memory.runtime.store._connections._close_idle()  # type: ignore[attr-defined]
        assert memory.stats().turns == 2
        assert len(scope.session("s").turns) == 2
    assert not (tmp_path / "other" / "here.db").exists()
