"""What two processes may do to one database with scope keys, and what an interrupt leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")

from octopus_memory import EpisodicMemory, KeyDestroyed, KeyMissing, LegalHold, StoreBusy
from octopus_memory.adapters.stores.sql import key_ring
from octopus_memory.adapters.stores.sql.statements import append, encrypt, erasure
from octopus_memory.adapters.stores.sql.transactions import Every
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from tests.support import sealed_memory

ALICE, BOB = "alice", "bob"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/memory.db"


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return use_keys(tmp_path / "keys", monkeypatch)


@pytest.fixture
def memory(url: str, keys: Path) -> Iterator[EpisodicMemory]:
    with open_memory(url) as memory:
        yield memory


def use_keys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sealed_memory.use_keys(monkeypatch, folder)
    return folder


def open_memory(url: str) -> EpisodicMemory:
    Path(url.removeprefix("sqlite:///")).parent.mkdir(exist_ok=True)
    return EpisodicMemory.open(url, embedder="hashing", background=False)


def fill_without_keys(url: str, *users: str) -> None:
    with open_memory(url) as memory:
        for user in users:
            memory.scope(user=user).store([("user", f"the plum of {user}")])


def column(url: str, query: str) -> list[Any]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn:
        return [row[0] for row in conn.execute(query)]


def test_a_key_of_an_attempt_that_was_rolled_back_goes_to_nobody_else(
    url: str, memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    insert, fetch = append._insert, key_ring.KeyRing._fetch
    seen: list[str] = []

    def rolled_back(conn: Any, *args: Any) -> Any:
        done = insert(conn, *args)
        if not seen:
            seen.append("rolled back")
            raise key_ring.KeysNeeded
        return done

    def meanwhile(ring: Any, *args: Any) -> Any:
        if seen == ["rolled back"]:
            seen.append("made by another")
            with open_memory(url) as other:
                other.scope(user=ALICE).store([("user", "from another process")])
        return fetch(ring, *args)

    monkeypatch.setattr(append, "_insert", rolled_back)
    monkeypatch.setattr(key_ring.KeyRing, "_fetch", meanwhile)
    memory.scope(user=ALICE).store([("user", "from this one")])
    memory.scope(user=BOB).store([("user", "of another user")])
    assert seen == ["rolled back", "made by another"]
    assert sorted(scope.user for scope in memory.scopes()) == [ALICE, BOB]
    refs = column(url, "SELECT key_ref FROM octopus_scopes")
    assert len(set(refs)) == 2


def test_an_interrupted_call_gives_no_key_back(url: str, memory: EpisodicMemory):
    """Its transaction may still be committed, by the thread that leads a group."""
    ring = memory.runtime.store._ring
    interrupted: list[Any] = []

    def attempt() -> None:
        if not ring.held.spares:
            raise key_ring.KeysNeeded(new=1)
        interrupted.append(ring.held)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ring.run(attempt)
    [held] = interrupted
    memory.scope(user=BOB).add("s", ("user", "a plum"))
    assert held.spares[0].ref not in column(url, "SELECT key_ref FROM octopus_scopes")


def test_a_hold_and_an_api_key_of_a_user_who_is_not_sealed_yet(url: str, tmp_path, monkeypatch):
    fill_without_keys(url, ALICE)
    use_keys(tmp_path / "keys", monkeypatch)
    with open_memory(url) as memory:
        hold = memory.tenant().hold(reason="a case", user=ALICE)
        memory.api_keys.create(name="hers", role="user", tenant="default", user=ALICE)
        memory.encrypt()
        assert ALICE not in column(url, "SELECT user FROM octopus_holds")
        assert ALICE not in column(url, "SELECT user FROM octopus_keys")
        with pytest.raises(LegalHold):
            memory.tenant().erase_user(ALICE)
        memory.tenant().lift(hold)
        assert memory.tenant().erase_user(ALICE).removed["api keys"] == 1


def test_a_process_without_keys_that_wrote_late_is_sealed_by_the_next_call(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    late = open_memory(url)
    use_keys(tmp_path / "keys", monkeypatch)
    with open_memory(url) as memory, late:
        memory.scope(user=BOB).store([("user", "sealed from the beginning")])
        late.scope(user=ALICE).store([("user", "a plum in the clear")])
        late.close()
        assert memory.encrypt().users_left == 0
        assert memory.scope(user=ALICE).recall("plum")
        assert ALICE not in column(url, "SELECT user FROM octopus_scopes")


def test_the_hash_of_a_name_is_no_name(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fill_without_keys(url, ALICE, BOB)
    use_keys(tmp_path / "keys", monkeypatch)
    with open_memory(url) as memory:
        store = memory.runtime.store
        store._write(Every.TENANT, encrypt.begin, store._read(Every.TENANT, encrypt.next_person))
        [hashed] = {*column(url, "SELECT user FROM octopus_scopes")} - {ALICE, BOB}
        assert memory.scope(user=hashed).recall("plum") == []
        memory.scope(user=hashed).erase()
        assert all(memory.scope(user=user).recall("plum") for user in (ALICE, BOB))


def test_two_key_stores_at_the_first_opening(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    use_keys(tmp_path / "keys", monkeypatch)
    check = SqliteStore._check_keys

    def another_is_first(store: Any, kept: Any) -> None:
        monkeypatch.setattr(SqliteStore, "_check_keys", check)
        use_keys(tmp_path / "first", monkeypatch)
        with open_memory(url) as first:
            first.scope(user=ALICE).store([("user", "a plum")])
        check(store, kept)

    monkeypatch.setattr(SqliteStore, "_check_keys", another_is_first)
    with pytest.raises(KeyMissing, match="not the one"):
        open_memory(url)
    with open_memory(url) as memory:  # by the first key store
        assert memory.scope(user=ALICE).recall("plum")


def test_a_user_who_is_sealed_while_they_are_erased(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fill_without_keys(url, ALICE, BOB)
    use_keys(tmp_path / "keys", monkeypatch)
    begin = erasure.begin
    with open_memory(url) as memory, open_memory(url) as other:
        write = memory.runtime.store._write

        def sealed_between(reach: Any, do: Any, *args: Any, **named: Any) -> Any:
            done = write(reach, do, *args, **named)
            if do is begin and done is None:
                other.encrypt()
            return done

        monkeypatch.setattr(memory.runtime.store, "_write", sealed_between)
        assert memory.tenant().erase_user(ALICE).is_complete
        [erased] = memory.runtime.store.erasures("default")
        [ref] = erased.key_refs
        assert memory.runtime.store._ring.keys.get([ref]) == {}
        assert other.scope(user=BOB).recall("plum")


def test_a_key_leaves_memory_when_its_time_is_over(
    url: str, memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    memory.scope(user=ALICE).store([("user", "a plum")])
    ring = memory.runtime.store._ring
    assert len(ring._seals) == 1
    clock = ring._clock
    monkeypatch.setattr(ring, "_clock", lambda: clock() + 3_600)
    memory.tenants()
    assert not ring._seals


def test_an_erasure_whose_rows_are_locked_is_pending(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    memory.scope(user=ALICE).store([("user", "a plum")])
    remove_rows = erasure.remove_rows

    def locked(*_: Any) -> Any:
        raise StoreBusy("locked; try again")

    monkeypatch.setattr(erasure, "remove_rows", locked)
    receipt = memory.tenant().erase_user(ALICE)
    assert not receipt.is_complete
    with pytest.raises(KeyDestroyed):
        memory.scope(user=ALICE).recall("plum")
    monkeypatch.setattr(erasure, "remove_rows", remove_rows)
    memory.run_pending()
    assert memory.tenant().receipts()[0].is_complete
    assert memory.scope(user=ALICE).recall("plum") == []


def test_a_user_whose_key_is_gone_does_not_stop_the_sealing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another process erases them, and was killed before their rows went."""
    fill_without_keys(url, ALICE, BOB)
    use_keys(tmp_path / "keys", monkeypatch)
    with open_memory(url) as memory:
        store = memory.runtime.store
        store._write(Every.TENANT, encrypt.begin, store._read(Every.TENANT, encrypt.next_person))
        [ref] = column(url, "SELECT key_ref FROM octopus_scopes WHERE key_ref IS NOT NULL")
        store._ring.destroy([ref])
        assert memory.encrypt().users_left == 0
        assert None not in column(url, "SELECT key_ref FROM octopus_scopes")
