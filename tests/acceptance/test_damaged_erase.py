"""A damaged page or a full disk: an erasure gives its receipt, and nothing ends in a traceback."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopus_memory import EpisodicMemory, StoreCorrupt, StoreError, StoreFull
from octopus_memory.__main__ import program
from tests.support import rest_server
from tests.support.filled_database import open_memory

PAGE = 4096
TALK = [("user", "How many leave days do I have left? " * 20), ("assistant", "Twelve days.")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database of many users."""
    path = tmp_path_factory.mktemp("whole") / "memory.db"
    with open_memory(path) as memory:
        for number in range(40):
            memory.scope(user=f"user {number}").store(TALK, session_id=f"s{number}")
            memory.scope(user=f"user {number}").add("open", TALK)
        memory.flush()
    return path.read_bytes()


def _damaged(path: Path, whole: bytes) -> Iterator[None]:
    """The file with one page after the other of it damaged."""
    for start in range(PAGE, len(whole), len(whole) // PAGE // 20 * PAGE):
        for side in ("", "-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
        path.write_bytes(whole[:start] + b"\xa5" * PAGE + whole[start + PAGE :])
        yield


def _rows_of(path: Path, user: str) -> int | None:
    """How many of a user's turns are there; None where they cannot be read."""
    conn = sqlite3.connect(path)
    try:
        [count] = conn.execute(
            "SELECT count(*) FROM octopus_scopes WHERE user = ?", [user]
        ).fetchone()
    except sqlite3.DatabaseError:
        return None
    finally:
        conn.close()
    return int(count)


def test_an_erasure_gives_its_receipt_or_removes_nothing(tmp_path: Path, whole: bytes):
    path, receipts, refusals = tmp_path / "memory.db", 0, 0
    for _ in _damaged(path, whole):
        try:
            with open_memory(path) as memory:
                receipt = memory.scope(user="user 7").erase()
        except StoreError:
            refusals += 1
            assert _rows_of(path, "user 7") in (1, None)
            continue
        receipts += 1
        assert receipt.removed["turns"] == 4
        assert _rows_of(path, "user 7") in (0, None)
    assert receipts > 0
    assert refusals > 0


def test_a_receipt_says_that_the_files_are_not_rewritten(tmp_path: Path, whole: bytes):
    path, owed = tmp_path / "memory.db", 0
    for _ in _damaged(path, whole):
        try:
            with open_memory(path) as memory:
                receipt = memory.scope(user="user 7").erase()
                try:
                    again = memory.tenant().receipt(receipt)
                except StoreError:
                    continue
                assert again.removed == receipt.removed
        except StoreError:
            continue
        if not receipt.physical:
            owed += 1
            assert not receipt.is_complete
    assert owed > 0


def test_the_service_answers_with_the_receipt(tmp_path: Path, whole: bytes):
    path, seen = tmp_path / "memory.db", set()
    damaged = _damaged(path, whole)
    for _ in range(8):
        next(damaged)
        try:
            memory = open_memory(path)
        except StoreCorrupt:
            continue
        with memory:
            try:
                opened = rest_server.http_client(memory)
                with opened as client:
                    answer = client.delete("/users/user 7/episodes")
            except StoreCorrupt:
                continue
            seen.add(answer.status_code)
    assert seen <= {200, 503}
    assert 200 in seen


@pytest.mark.parametrize("command", ["run-pending", "compact", "stats"])
def test_no_command_ends_in_a_traceback(
    tmp_path: Path, whole: bytes, command: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "hashing")
    path, codes = tmp_path / "memory.db", set()
    damaged = _damaged(path, whole)
    for _ in range(12):
        next(damaged, None)
        with_erasure = CliRunner().invoke(
            program(), ["erase", "--user", "user 7", "--yes", "--db", str(path)]
        )
        done = CliRunner().invoke(program(), [command, "--db", str(path)])
        for each in (with_erasure, done):
            assert each.exception is None or isinstance(each.exception, SystemExit), each.output
        codes.add(done.exit_code)
    assert codes <= {0, 1}


def test_pending_work_is_done_beside_an_erasure_that_cannot_be_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "memory.db"
    with open_memory(path) as memory:
        memory.scope(user="ana").store(TALK)
        store = type(memory.runtime.store)
        with monkeypatch.context() as patched:
            patched.setattr(store, "_rewrite", lambda _: False)
            memory.scope(user="ana").erase()
        memory.scope(user="ben").store(TALK)

        def damaged(*_: object) -> bool:
            raise StoreCorrupt("memory.db: malformed")

        with monkeypatch.context() as patched:
            patched.setattr(store, "left_of", damaged)
            assert memory.run_pending().embedded > 0
        assert "StoreCorrupt" in caplog.text
        assert memory.run_pending().embedded == 0
        [receipt] = memory.tenant().receipts()
        assert receipt.removed["turns"] == 2
        assert receipt.is_complete


def _fill_disk(memory: EpisodicMemory) -> None:
    """Let no write pass any more."""

    def full(*_: object, **__: object) -> None:
        raise StoreFull("memory.db: disk full")

    memory.runtime.store.record = full  # type: ignore[method-assign]


def test_an_export_that_cannot_be_recorded_is_refused(tmp_path: Path):
    with open_memory(tmp_path / "memory.db") as memory, rest_server.http_client(memory) as client:
        memory.scope(user="ana").store(TALK)
        _fill_disk(memory)
        for headers in ({"Accept-Encoding": "identity"}, {"Accept-Encoding": "gzip"}):
            refused = client.get("/users/ana/export", headers=headers)
            assert refused.status_code == 507
            assert refused.json()["type"].endswith("store-full")


def test_an_export_is_whole_only_when_it_is_recorded(tmp_path: Path):
    with open_memory(tmp_path / "memory.db") as memory:
        memory.scope(user="ana").store(TALK)
        lines = memory.tenant().export_user("ana")
        first = next(lines)
        _fill_disk(memory)
        given = [first]
        with pytest.raises(StoreFull):
            given.extend(lines)
        assert '"kind":"trailer"' not in "".join(given).replace(" ", "")
