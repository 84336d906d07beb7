"""A file that is not, or no longer, what it should be: our error, and nothing made worse."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from octopus_memory import (
    MemoryConfig,
    OctopusError,
    SchemaTooNew,
    StoreCorrupt,
)
from tests.support.filled_database import QUESTION, contents, open_memory


def test_a_database_from_a_newer_version(path: Path):
    _change(path, "UPDATE octopus_schema SET version_num = '9999'")
    before = contents(path)
    for url in (path, f"{path}?mode=ro"):
        with pytest.raises(SchemaTooNew, match=r"9999.*pip install --upgrade octopus-memory"):
            open_memory(url)
    assert contents(path) == before


@pytest.mark.parametrize("words", ["hello", "hello, this is a letter to my aunt. " * 200])
def test_a_file_that_is_no_database(tmp_path: Path, words: str):
    path = tmp_path / "letter.db"
    path.write_text(words)
    for url in (path, f"{path}?mode=ro"):
        with pytest.raises(StoreCorrupt, match=r"letter\.db.*not an SQLite file; check the path"):
            open_memory(url)
    assert path.read_text() == words
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_that_is_another_programs(tmp_path: Path):
    path = tmp_path / "memory.db"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE octopus_turns (a, b)")
    conn.commit()
    conn.close()
    before = contents(path)
    with pytest.raises(StoreCorrupt, match="octopus_turns already exists"):
        open_memory(path)
    assert contents(path) == before


def use(path: Path) -> None:
    """Reads and writes all over the file."""
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        for episode in scope.episodes(page_size=100):
            scope.session(episode.session_id).messages()
        scope.recall(QUESTION, limit=100)
        scope.add("open", ("user", "One more thing about it."))
        scope.close_session("open")
        memory.config("hr")
        memory.run_pending()
        memory.stats()


def error_of(path: Path) -> OctopusError | None:
    try:
        use(path)
    except OctopusError as error:
        return error
    return None


@pytest.mark.parametrize("share", [0.001, 0.01, 0.5, 0.95])
def test_a_file_that_is_cut_short(path: Path, share: float):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(StoreCorrupt, match=r"memory\.db.*(backup|check the path)"):
        use(path)
    path.write_bytes(whole)
    use(path)


def test_a_file_with_a_damaged_page(path: Path):
    whole = path.read_bytes()
    seen = set()
    for start in range(0, len(whole), 4096 * 5):
        path.write_bytes(whole[:start] + b"\xa5" * 4096 + whole[start + 4096 :])
        error = error_of(path)
        assert isinstance(error, StoreCorrupt | None)
        if error is not None:
            seen.add(start)
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
    assert {0, 4096 * 5} <= seen


def test_bytes_that_changed_by_themselves(path: Path):
    """Whatever is read, it is right, or an error of ours: never another's, and never a crash."""
    whole, chance = path.read_bytes(), random.Random(20)
    for _ in range(25):
        damaged = bytearray(whole)
        for place in chance.sample(range(len(whole)), 20):
            damaged[place] = chance.randrange(256)
        path.write_bytes(damaged)
        assert "leave days" not in str(error_of(path))
        for side in ("-wal", "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)


@pytest.mark.parametrize("number", [3, 4, 5])
def test_a_summary_that_is_marked_as_a_message(path: Path, number: int):
    _change(path, f"UPDATE octopus_episodes SET summary_codec = {number}")
    with open_memory(path) as memory, pytest.raises(StoreCorrupt, match="damaged"):
        memory.scope(user="u").recent()


@pytest.mark.parametrize(
    "damage",
    [
        "speaker = x'0102'",
        "terms = x'0202'",
        "terms = CAST(substr(terms, 1, length(terms) - 1) AS BLOB)",
        "vector = CAST(substr(vector, 1, 9) AS BLOB)",
    ],
)
def test_a_recall_row_that_is_cut_short(path: Path, damage: str):
    _change(path, f"UPDATE octopus_recall SET {damage} WHERE seq = 4")
    with open_memory(path) as memory, pytest.raises(StoreCorrupt, match="damaged"):
        memory.scope(user="u").recall(QUESTION)


def test_an_error_has_no_ring_of_causes(path: Path):
    """Whoever follows the causes to show them would never end."""
    with open_memory(path) as memory:
        _change(path, "DROP TABLE octopus_agents")
        with pytest.raises(StoreCorrupt) as caught:
            memory.configure("hr", MemoryConfig())
    seen: list[BaseException | None] = [caught.value]
    while seen[-1] is not None:
        seen.append(seen[-1].__cause__)
        assert seen[-1] not in seen[:-1]


def _change(path: Path, statement: str) -> None:
    conn = sqlite3.connect(path)
    conn.execute(statement)
    conn.commit()
    conn.close()


def test_a_session_that_lacks_turns_is_an_error(tmp_path: Path):
    path = tmp_path / "memory.db"
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        scope.add("s", [("user", f"Message {number}.") for number in range(60)])
    _change(path, "DELETE FROM octopus_turns WHERE ordinal BETWEEN 9 AND 59")
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        for last in (None, 20, 55):
            with pytest.raises(StoreCorrupt, match="lacks"):
                scope.session("s", last=last)
