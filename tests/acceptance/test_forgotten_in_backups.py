"""A backup from before an erasure, restored beside today's key store, does not have the person."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")

import sqlalchemy as sa

from octopus_memory import EpisodicMemory, KeyDestroyed
from octopus_memory.adapters.stores.sql import schema
from tests.support import byte_scan, sealed_memory
from tests.support.postgres_server import LocalServer, Programs, Unavailable, installed
from tests.support.rest_server import remote_memory
from tests.support.sealed_memory import OTHER, VICTIM, open_memory

pytestmark = [pytest.mark.slow, pytest.mark.server]


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "keys"
    sealed_memory.use_keys(monkeypatch, folder, keys_backup_days=14)
    return folder


def erase(memory: EpisodicMemory) -> None:
    """Erase the victim; the receipt says what became of the copies."""
    receipt = memory.tenant().erase_user(VICTIM)
    assert receipt.is_complete or receipt.pending == ()
    copies = receipt.copies
    assert copies is not None
    assert copies.unreadable_since is not None
    assert copies.keys_kept_until is not None
    assert (copies.keys_kept_until - copies.unreadable_since).days == 14
    assert memory.tenant().receipt(receipt).copies == copies
    assert memory.scope(agent="hr", user=VICTIM).recall("harbour") == []


def check_restored(memory: EpisodicMemory, others: list[Any]) -> None:
    """Nothing of the victim can be read through any face, and the other user is whole."""
    for agent in (*sealed_memory.AGENTS, "careful"):
        read, refused = sealed_memory.texts_read(memory.scope(agent=agent, user=VICTIM))
        assert sealed_memory.words_in(read, VICTIM) == []
        assert {"recall", "episodes", "facts", "session"} <= refused
    assert sealed_memory.snapshot(memory, OTHER) == others
    listed = [
        memory.tenant().people(limit=100),
        memory.tenant().episodes(page_size=100),
        memory.tenant().holds(),
        memory.api_keys.list(tenant="default"),
        memory.runtime.store.scopes(),
        memory.tenant().audit(),
        memory.tenant().receipts(),
    ]
    shown = repr(listed)
    assert sealed_memory.words_in(shown, VICTIM) == []
    assert OTHER in shown
    with remote_memory(memory) as remote:
        there = remote.scope(agent="hr", user=VICTIM)
        for call in (lambda: there.recall("harbour"), there.facts, there.episodes):
            with pytest.raises(KeyDestroyed):
                call()
        whole = remote.scope(agent="hr", user=OTHER).recall("harbour")
        assert sealed_memory.WORD[OTHER] in repr(whole)
    with pytest.raises(KeyDestroyed):
        list(memory.tenant().export_user(VICTIM))
    # Work and retention pass over what cannot be read.
    memory.run_pending()
    memory.run_retention()
    # What is left of the rows can be erased like any other user's, and then begin anew.
    assert memory.tenant().erase_user(VICTIM).removed["turns"] > 0
    again = memory.scope(agent="hr", user=VICTIM)
    again.store([("user", "I am back.")])
    assert again.recall("back")


def values_of(conn: sa.Connection) -> bytes:
    """Every value of every table, in one text of bytes."""
    found: list[bytes] = []
    for table in schema.metadata.sorted_tables:
        raw = sa.text(f"SELECT * FROM {table.name}")
        for row in conn.execute(raw):
            found += [_as_bytes(value) for value in row]
    return b"\n".join(found)


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return str(value).encode()


def check_values(values: bytes, needles: dict[str, list[bytes]]) -> None:
    wanted = {needle: kind for kind, some in needles.items() for needle in some}
    unpacked = values + b"\n".join(byte_scan.frames(values))
    assert {wanted[each] for each in byte_scan.found(unpacked, wanted)} == set()


def test_a_copy_of_an_sqlite_file(tmp_path: Path):
    path, copy = tmp_path / "data" / "memory.db", tmp_path / "backup" / "memory.db"
    copy.parent.mkdir()
    with open_memory(f"sqlite:///{path}") as memory:
        sealed_memory.fill(memory)
        needles = sealed_memory.needles(memory, VICTIM)
        others = sealed_memory.snapshot(memory, OTHER)
        # As `.backup` of SQLite makes it, and as a copy of the files makes it.
        with closing(sqlite3.connect(path)) as conn, closing(sqlite3.connect(copy)) as there:
            conn.backup(there)
        shutil.copytree(path.parent, tmp_path / "files")
        erase(memory)
        assert sealed_memory.snapshot(memory, OTHER) == others
    for folder in (copy.parent, tmp_path / "files", path.parent):
        assert byte_scan.search(folder, needles) == []
    for restored in (copy, tmp_path / "files" / "memory.db"):
        engine = sa.create_engine(f"sqlite:///{restored}")
        with engine.connect() as read:
            check_values(values_of(read), needles)
        engine.dispose()
        with open_memory(f"sqlite:///{restored}") as memory:
            check_restored(memory, others)


def test_without_keys_the_same_search_finds_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """So the searches above would find what is there to be found."""
    monkeypatch.setenv("OCTOPUS_KEYS", "off")
    path = tmp_path / "data" / "memory.db"
    with open_memory(f"sqlite:///{path}") as memory:
        sealed_memory.fill(memory)
        needles = sealed_memory.needles(memory, VICTIM)
        shutil.copytree(path.parent, tmp_path / "files")
        assert memory.tenant().erase_user(VICTIM).copies is None
    found = byte_scan.search(tmp_path / "files", needles)
    assert {hit.kind for hit in found} == {"word", "name", "packed"}
    assert byte_scan.search(path.parent, needles) == []


class _Restored(LocalServer):
    """A server on a base backup."""

    def __init__(self, programs: Programs, primary: LocalServer) -> None:
        self._primary = primary
        super().__init__(programs)

    def _initialize(self) -> str:
        options = ["-D", str(self.data), "-d", self._primary.url(), "-X", "stream", "-c", "fast"]
        self._programs.run("pg_basebackup", *options, cwd=self._folder)
        return self._primary._url.password or ""


@pytest.fixture
def programs() -> Programs:
    try:
        return installed(15)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def server(programs: Programs) -> Iterator[LocalServer]:
    server = LocalServer(programs)
    yield server
    server.close()


def test_a_dump_and_a_base_backup_of_postgresql(server: LocalServer, programs: Programs):
    url = server.url()
    with open_memory(url) as memory:
        sealed_memory.fill(memory)
        needles = sealed_memory.needles(memory, VICTIM)
        others = sealed_memory.snapshot(memory, OTHER)
        dumped = programs.run("pg_dump", "-d", url, cwd=server.data.parent)
        backup = _Restored(programs, server)
        try:
            erase(memory)
            check_values(dumped.encode(), needles)
            assert byte_scan.search(backup.data, needles) == []
            with open_memory(backup.url()) as restored:
                check_restored(restored, others)
        finally:
            backup.close()
        assert sealed_memory.snapshot(memory, OTHER) == others
    name = server.create()
    dump = server.data.parent / "dump.sql"
    dump.write_text(dumped)
    dump.chmod(0o644)
    programs.run("psql", "-q", "-d", server.url(name), "-f", str(dump), cwd=server.data.parent)
    engine = sa.create_engine(server.url(name).replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as read:
        check_values(values_of(read), needles)
    engine.dispose()
    with open_memory(server.url(name)) as restored:
        check_restored(restored, others)
