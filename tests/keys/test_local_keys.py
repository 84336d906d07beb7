"""The local key store: its suite, and how it fails, rotates, backs up and leaves no byte."""

from __future__ import annotations

import base64
import os
import random
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from octopus_memory.adapters.keys.local import LocalKeys
from octopus_memory.adapters.keys.masters import MasterFile, MasterText, new_master
from octopus_memory.domain.errors import (
    InvalidSetting,
    KeyMissing,
    KeyUnavailable,
)
from octopus_memory.ports.scope_keys import ScopeKeys
from octopus_memory.testing import ScopeKeysSuite
from octopus_memory.testing.scope_keys import new_ref
from tests.support.child_process import kill, read_to_end, running
from tests.support.key_child_actions import create_and_destroy, open_keys, rotate_for_ever

posix = pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def connect(folder: Path) -> Callable[..., LocalKeys]:
    def connect(**options) -> LocalKeys:
        masters = MasterFile(folder / "master.key")
        masters.create()
        keys = LocalKeys(folder / "keys.db", masters, **options)
        keys.init()
        return keys

    return connect


class TestLocalKeys(ScopeKeysSuite):
    @pytest.fixture
    def connect(self, connect) -> Callable[[], ScopeKeys]:
        return connect


class TestKeysByEnvironment(ScopeKeysSuite):
    @pytest.fixture
    def connect(self, folder: Path) -> Callable[[], ScopeKeys]:
        text = base64.b64encode(new_master()).decode()

        def connect() -> ScopeKeys:
            keys = LocalKeys(folder / "keys.db", MasterText(text))
            keys.init()
            return keys

        return connect


def bytes_of(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir() if each.name != "master.key")


def sealed(folder: Path) -> dict[bytes, bytes]:
    with sqlite3.connect(folder / "keys.db") as database:
        rows = dict(database.execute("SELECT ref, sealed FROM keys").fetchall())
    database.close()
    return rows


def test_no_file_holds_a_key_in_the_clear(connect, folder: Path):
    keys = connect()
    made = [keys.create(new_ref()) for _ in range(20)] + [keys.name_key()]
    found = bytes_of(folder)
    assert not any(key[:8] in found or key[-8:] in found for key in made)


def test_a_destroyed_key_leaves_no_byte_in_any_file(connect, folder: Path):
    """Destroys at random among many, so that pages fill, split and are written many times."""
    keys = connect()
    chance = random.Random(7)
    live: list[str] = []
    blobs: dict[bytes, bytes] = {}
    for _ in range(30):
        for _ in range(10):
            live.append(new_ref())
            keys.create(live[-1])
        blobs = sealed(folder)
        chance.shuffle(live)
        gone = [live.pop() for _ in range(4)]
        before = {blob for blob in blobs.values() if any(blob[:4])}
        keys.destroy(gone)
        left = {blob for blob in sealed(folder).values() if any(blob[:4])}
        found = bytes_of(folder)
        assert len(before - left) == 4
        for blob in before - left:
            pieces = [blob[start : start + 8] for start in range(4, 64, 8)]
            assert not any(piece in found for piece in pieces)
    assert len(keys.get(live)) == len(live) == 180


@posix
def test_the_files_are_for_their_owner_alone(connect, folder: Path):
    connect().create(new_ref())
    assert {each.name: oct(each.stat().st_mode & 0o777) for each in folder.iterdir()} == {
        "keys.db": "0o600",
        "keys.db-journal": "0o600",
        "master.key": "0o600",
    }
    assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_backups_of_the_key_store_say_how_long_a_key_may_be_in_them(connect):
    found = connect(backup_days=14).destroy([new_ref()])
    assert found.copies_until == found.at + timedelta(days=14)
    assert connect(backup_days=0).destroy([new_ref()]).copies_until is None


def test_a_backup_opens_with_the_master_key_and_old_ones_are_removed(connect, folder, tmp_path):
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    keys = connect(backup_days=7, now=lambda: now)
    ref = new_ref()
    key = keys.create(ref)
    first, removed = keys.backup(tmp_path / "copies")
    assert removed == []
    assert first.name == "octopus-keys-20260301T120000Z.db"
    restored = LocalKeys(first, MasterFile(folder / "master.key"))
    assert restored.get([ref]) == {ref: key}
    (tmp_path / "copies" / "octopus-keys-other.db").touch()
    now += timedelta(days=7, seconds=1)
    second, removed = keys.backup(tmp_path / "copies")
    assert removed == [first]
    assert {each.name for each in (tmp_path / "copies").iterdir()} == {
        second.name,
        "octopus-keys-other.db",
    }


def test_the_check_counts_scopes_and_tells_what_is_wrong_with_the_backups(connect, tmp_path):
    now, copies = datetime(2026, 3, 1, 12, tzinfo=UTC), tmp_path / "copies"
    keys = connect(backup_days=7, backups=copies, now=lambda: now)
    gone = new_ref()
    keys.create(new_ref())
    assert keys.check().keys == 1
    keys.name_key()
    keys.destroy([gone])
    assert (keys.check().keys, keys.check().destroyed) == (1, 1)
    [problem] = keys.check().problems
    assert problem == f"there is no backup of the keys in {copies}: octopus scope-keys backup"
    keys.backup(copies)
    assert list(keys.check().problems) == []
    now += timedelta(days=2)
    [problem] = keys.check().problems
    assert "the newest backup of the keys is 2 days old" in problem
    now += timedelta(days=6)
    assert "the oldest backup of the keys is 8 days old" in keys.check().problems[1]
    keys.backup(copies)
    assert list(keys.check().problems) == []


def test_a_backup_is_refused_where_copies_may_not_be_kept(connect, tmp_path):
    with pytest.raises(InvalidSetting, match="keys_backup_days"):
        connect(backup_days=0).backup(tmp_path / "copies")
    with pytest.raises(InvalidSetting, match="must not be in"):
        connect(data=tmp_path / "data").backup(tmp_path / "data" / "copies")


def test_rotation_wraps_every_key_anew_and_removes_the_old_master_key(connect, folder: Path):
    keys, other = connect(), connect()
    refs = [new_ref() for _ in range(30)]
    made = {ref: keys.create(ref) for ref in refs}
    names = other.name_key()
    gone = new_ref()
    keys.create(gone)
    at = keys.destroy([gone]).at
    old_master, old = (folder / "master.key").read_text(), sealed(folder)
    assert keys.rotate() == (31, True)
    assert (folder / "master.key").read_text() != old_master
    assert len((folder / "master.key").read_text().split()) == 1
    assert not set(sealed(folder).values()) & {blob for blob in old.values() if any(blob[:4])}
    for each in (keys, other, connect()):
        assert each.get(refs) == made
        assert each.name_key() == names
        assert each.destroyed([gone]) == {gone: at}
    found = bytes_of(folder)
    assert not any(blob[16:32] in found for blob in old.values() if any(blob[:4]))


def test_a_rotation_that_was_cut_short_is_finished(connect, folder: Path, monkeypatch):
    keys = connect()
    refs = [new_ref() for _ in range(8)]
    made = {ref: keys.create(ref) for ref in refs}
    monkeypatch.setattr("octopus_memory.adapters.keys.local._BATCH", 3)
    real, calls = LocalKeys._seal, []

    def failing(self, *given):
        calls.append(given)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(self, *given)

    monkeypatch.setattr(LocalKeys, "_seal", failing)
    with pytest.raises(KeyboardInterrupt):
        keys.rotate()
    monkeypatch.setattr(LocalKeys, "_seal", real)
    again = connect()
    assert again.get(refs) == made
    assert "rotation is not finished (5 keys to go)" in again.check().problems[0]
    made["late"] = again.create("late")
    assert again.rotate() == (5, True)
    assert connect().get([*refs, "late"]) == made
    assert list(connect().check().problems) == []


def test_a_key_made_during_a_rotation_is_not_lost(connect, folder: Path, monkeypatch):
    """The old master key goes only when no key is wrapped by it, whoever wrote last."""
    keys, other = connect(), connect()
    other.create(new_ref())
    real, late = MasterFile.store, {}

    def store(self, masters):
        if len(masters) == 2 and not late:
            # Another process had read the old master key alone, and is slower.
            late["a"] = other.create("a")
        return real(self, masters)

    monkeypatch.setattr(MasterFile, "store", store)
    assert keys.rotate() == (2, True)
    late["b"] = other.create("b")
    assert connect().get(["a", "b"]) == late
    assert list(connect().check().problems) == []


def test_master_keys_of_the_environment_rotate_by_two_values(folder: Path):
    old, new = (base64.b64encode(new_master()).decode() for _ in range(2))
    keys = LocalKeys(folder / "keys.db", MasterText(old))
    keys.init()
    ref = new_ref()
    key = keys.create(ref)
    with pytest.raises(InvalidSetting, match="put a new key before the old"):
        keys.rotate()
    assert LocalKeys(folder / "keys.db", MasterText(f"{new},{old}")).rotate() == (1, False)
    assert LocalKeys(folder / "keys.db", MasterText(new)).get([ref]) == {ref: key}
    with pytest.raises(KeyUnavailable, match="another master key"):
        LocalKeys(folder / "keys.db", MasterText(old)).get([ref])


def test_a_wrong_master_key_is_told_and_nothing_is_changed(connect, folder: Path):
    keys = connect()
    ref = new_ref()
    key = keys.create(ref)
    right = (folder / "master.key").read_text()
    (folder / "master.key").write_text(base64.b64encode(new_master()).decode())
    wrong = connect()
    with pytest.raises(KeyUnavailable, match="another master key than"):
        wrong.get([ref])
    with pytest.raises(KeyUnavailable, match="another master key than"):
        wrong.create(ref)
    assert "1 of the keys were wrapped by another master key" in wrong.check().problems[0]
    assert not wrong.check().is_usable
    (folder / "master.key").write_text(right)
    assert wrong.get([ref]) == {ref: key}
    assert wrong.check().is_usable


def test_a_lost_master_file_or_key_store_is_told_with_its_remedy(connect, folder: Path):
    keys = connect()
    ref = new_ref()
    keys.create(ref)
    (folder / "master.key").rename(folder / "elsewhere")
    keys.close()
    with pytest.raises(KeyUnavailable, match="master.key cannot be read .No such file.*restore"):
        keys.get([ref])
    (folder / "elsewhere").rename(folder / "master.key")
    (folder / "keys.db").rename(folder / "elsewhere")
    for call in (keys.name_key, lambda: keys.get([ref]), lambda: keys.destroy([ref])):
        with pytest.raises(KeyUnavailable, match="no key store at .*keys.db: restore it"):
            call()
    assert "no key store at" in keys.check().problems[0]
    assert not keys.check().is_usable
    assert not (folder / "keys.db").exists()


def test_a_file_that_is_no_key_store_is_told(connect, folder: Path):
    keys = connect()
    (folder / "keys.db").write_bytes(b"no database at all" * 400)
    with pytest.raises(KeyUnavailable, match="damaged: restore it from its backup"):
        keys.get([new_ref()])
    (folder / "keys.db").write_bytes(b"")
    with pytest.raises(KeyUnavailable, match="no key store at"):
        keys.get([new_ref()])


@posix
def test_a_master_key_that_everybody_can_read_is_refused(connect, folder: Path):
    keys = connect()
    (folder / "master.key").chmod(0o644)
    with pytest.raises(KeyUnavailable, match="open to every user of this machine: chmod 600"):
        keys.create(new_ref())
    (folder / "master.key").chmod(0o640)
    keys.create(new_ref())
    assert "a group can read" in keys.check().problems[0]
    (folder / "master.key").chmod(0o600)
    (folder / "keys.db").chmod(0o644)
    assert "chmod 600" in keys.check().problems[0]
    assert keys.check().is_usable


@pytest.mark.parametrize("text", ["", "short", "!", base64.b64encode(b"x" * 31).decode()])
def test_what_is_no_master_key_is_refused_without_being_repeated(text: str, folder: Path):
    with pytest.raises(InvalidSetting, match="must hold") as raised:
        LocalKeys(folder / "keys.db", MasterText(text)).init()
    assert not text or text not in str(raised.value).replace("keys", "")


def test_keys_in_the_data_folder_are_refused(tmp_path: Path):
    data = tmp_path / "data"
    (data / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(data / "below")
    for path in (data / "keys.db", data / "below" / "keys.db", tmp_path / "link" / "keys.db"):
        with pytest.raises(InvalidSetting, match="keys_path: must not be in .*every backup"):
            LocalKeys(path, MasterFile(tmp_path / "master.key"), data=data)
    LocalKeys(tmp_path / "keys.db", MasterFile(tmp_path / "master.key"), data=data)


def test_a_damaged_key_harms_its_scope_alone(connect, folder: Path):
    keys = connect()
    whole, damaged = new_ref(), new_ref()
    key = keys.create(whole)
    keys.create(damaged)
    database = sqlite3.connect(folder / "keys.db")
    half = bytes(sealed(folder)[sha256(damaged.encode()).digest()][:40]) + bytes(24)
    database.execute("UPDATE keys SET sealed = ? WHERE id = 2", (half,))
    database.commit()
    database.close()
    assert keys.get([whole, damaged]) == {whole: key}
    with pytest.raises(KeyMissing, match="is damaged: restore"):
        keys.create(damaged)
    with pytest.raises(KeyMissing, match="damaged: restore the key store"):
        keys.rotate()
    assert connect().get([whole]) == {whole: key}


def test_a_key_cannot_be_moved_to_another_scope(connect, folder: Path):
    keys = connect()
    one, two = new_ref(), new_ref()
    keys.create(one)
    keys.create(two)
    database = sqlite3.connect(folder / "keys.db")
    database.execute("UPDATE keys SET sealed = (SELECT sealed FROM keys WHERE id = 1) WHERE id = 2")
    database.commit()
    database.close()
    assert set(keys.get([one, two])) == {one}


@pytest.mark.process
@pytest.mark.slow
def test_killed_processes_lose_no_key_and_bring_none_back(folder: Path):
    """Two that create and destroy, and one that rotates, killed together, again and again."""
    open_keys(folder)
    said: list[tuple[str, bytes | None]] = []
    rotations = 0
    for turn in range(4):
        with (
            running(create_and_destroy, folder, f"a{turn}") as (one, from_one),
            running(create_and_destroy, folder, f"b{turn}") as (two, from_two),
            running(rotate_for_ever, folder) as (three, from_three),
        ):
            assert all(pipe.poll(60) for pipe in (from_one, from_two, from_three))
            time.sleep(0.3 + 0.31 * turn)
            for process in (three, two, one):
                kill(process)
            said += read_to_end(from_one) + read_to_end(from_two)
            rotations += len(read_to_end(from_three))
    keys = open_keys(folder)
    wanted = dict(said)  # the last word on each
    destroyed = {ref for ref, key in wanted.items() if key is None}
    found = keys.get(list(wanted))
    assert rotations >= 4
    assert destroyed
    assert not destroyed & set(found)
    assert destroyed <= set(keys.destroyed(list(wanted)))
    # The last of each process may have been destroyed before it could say so.
    lost = {ref for ref, key in wanted.items() if key is not None and found.get(ref) != key}
    assert lost <= set(keys.destroyed(list(wanted)))
    assert len(lost) <= 8
    keys.rotate()
    assert list(keys.check().problems) == []
    assert open_keys(folder).get(list(wanted)) == found
