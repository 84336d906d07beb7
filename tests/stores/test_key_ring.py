"""Keys in memory: how long they are used, and what a lost, wrong or unreachable key stops."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")

from octopus_memory import EpisodicMemory, InvalidInput, KeyDestroyed, KeyMissing, StoreCorrupt
from octopus_memory.adapters.keys.local import LocalKeys
from octopus_memory.adapters.stores.sql.key_ring import KeyRing
from octopus_memory.adapters.stores.sql.scope_seals import ScopeSeal
from octopus_memory.adapters.stores.sql.seals import MESSAGE, SUMMARY
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.errors import KeyUnavailable
from octopus_memory.ports.scope_keys import Key
from octopus_memory.settings import load
from octopus_memory.testing import make_append, make_scope
from octopus_memory.testing.store.base import ANA, BEN
from octopus_memory.wiring_keys import init_keys
from tests.support import sealed_memory
from tests.support.keyed_stores import make_keys, make_ring
from tests.support.sealed_memory import open_memory

KEY = bytes(range(32))


class Counting:
    """A key store that counts the keys that are asked of it, and may fail."""

    def __init__(self, keys: LocalKeys) -> None:
        self._keys = keys
        self.asked: list[str] = []
        self.fails = False

    def get(self, refs):
        if self.fails:
            raise KeyUnavailable("the key store does not answer")
        self.asked += refs
        return self._keys.get(refs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keys, name)


@pytest.fixture
def keys(tmp_path: Path) -> Counting:
    return Counting(make_keys(tmp_path / "keys"))


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def store(tmp_path: Path, keys: Counting, now: list[float]) -> Iterator[SqliteStore]:
    ring = KeyRing(keys, seconds=60, clock=lambda: now[0])  # type: ignore[arg-type]
    store = SqliteStore(tmp_path / "data" / "memory.db", ring=ring)
    yield store
    store.close()


def refs_of(path: Path) -> dict[int, str]:
    with closing(sqlite3.connect(path)) as conn:
        return dict(conn.execute("SELECT id, key_ref FROM octopus_scopes"))


def test_a_key_is_asked_for_once_in_its_time(store, keys: Counting, now: list[float]):
    write = make_append(ANA, "a")
    store.append(write)
    for _ in range(3):
        assert store.turns(ANA, write.episode_id)
    assert keys.asked == []  # it was made here
    now[0] = 61.0
    for _ in range(3):
        assert store.turns(ANA, write.episode_id)
        assert store.recall_block(ANA)
    assert len(keys.asked) == 1


def test_a_key_that_another_process_destroyed_is_used_for_a_time_and_no_longer(
    store, keys: Counting, now: list[float], tmp_path: Path
):
    write = make_append(ANA, "a")
    store.append(write)
    store.append(make_append(BEN, "b"))
    ref = refs_of(tmp_path / "data" / "memory.db")[1]
    make_keys(tmp_path / "keys").destroy([ref])
    now[0] = 59.0
    assert store.turns(ANA, write.episode_id)
    now[0] = 61.0
    for call in (
        lambda: store.turns(ANA, write.episode_id),
        lambda: store.recall_block(ANA),
        lambda: store.append(make_append(ANA, "c")),
    ):
        with pytest.raises(KeyDestroyed):
            call()
    assert store.recall_block(BEN)


def test_an_outage_stops_only_whose_keys_are_not_in_memory(store, keys: Counting, now: list[float]):
    first, second = make_append(ANA, "a"), make_append(BEN, "b")
    store.append(first)
    now[0] = 50.0
    store.append(second)
    keys.fails = True
    now[0] = 70.0
    assert store.turns(BEN, second.episode_id)
    with pytest.raises(KeyUnavailable):
        store.turns(ANA, first.episode_id)
    keys.fails = False
    assert store.turns(ANA, first.episode_id)


def test_a_transaction_that_fails_leaves_no_wrong_place_behind(store):
    """Its number is given again, to another scope with another key."""

    def fail(conn, write):
        from octopus_memory.adapters.stores.sql.statements import append

        append.append(conn, write)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store._write("acme", fail, make_append(ANA, "a"))
    write = make_append(BEN, "b")
    store.append(write)
    assert [turn.text for turn in store.turns(BEN, write.episode_id)] == ["b"]
    again = make_append(ANA, "a")
    store.append(again)
    assert [turn.text for turn in store.turns(ANA, again.episode_id)] == ["a"]


def test_a_scope_that_another_process_made_anew_is_found(store, tmp_path: Path):
    path = tmp_path / "data" / "memory.db"
    store.append(make_append(ANA, "a", session_id="s"))
    assert store.session(ANA, "s")
    before = refs_of(path)
    with closing(SqliteStore(path, ring=make_ring(tmp_path / "keys"))) as other:
        from octopus_memory.testing.store.erasure import erase

        erase(other, ANA)
        write = make_append(ANA, "new", session_id="s")
        other.append(write)
    assert set(before.values()).isdisjoint(refs_of(path).values())
    assert [turn.text for turn in store.turns(ANA, write.episode_id)] == ["new"]
    assert store.session(ANA, "s")
    assert store.recall_block(ANA)[1].seq.size == 1


def test_sealed_values_are_bound_to_their_place(tmp_path: Path):
    seal, other = ScopeSeal("one", Key(KEY)), ScopeSeal("two", Key(KEY))
    mark, payload = seal.encode(MESSAGE, b"row", {"role": "user", "content": "hello"})
    assert seal.decode(MESSAGE, b"row", mark, payload) == {"role": "user", "content": "hello"}
    for attempt in (
        lambda: seal.decode(MESSAGE, b"another", mark, payload),
        lambda: seal.decode(SUMMARY, b"row", mark, payload),
        lambda: seal.decode(MESSAGE, b"row", mark + 1, payload),
        lambda: seal.decode(MESSAGE, b"row", mark, payload[:-1]),
        lambda: other.decode(MESSAGE, b"row", mark, payload),
        lambda: seal.open_name(other.name("a session")),
        lambda: seal.open_name("not sealed"),
        lambda: seal.open_text(MESSAGE, b"row", "~not sealed"),
    ):
        with pytest.raises(StoreCorrupt):
            attempt()
    assert seal.encode(MESSAGE, b"row", "x") != seal.encode(MESSAGE, b"row", "x")
    assert seal.name("a") == seal.name("a") != other.name("a")
    for name in ("", "a", "ä🐙\0", "x" * 256, "\ud800"):
        assert seal.open_name(seal.name(name)) == name
    digest = bytes(range(16))
    assert seal.open_digest(seal.digest(digest)) == digest != seal.digest(digest)
    assert seal.fingerprint(digest) != other.fingerprint(digest)


def test_a_name_that_a_product_cannot_store_sealed_is_refused():
    seal = ScopeSeal("one", Key(KEY), longest_name=1_024)
    assert len(seal.name("x" * 256)) < 400
    with pytest.raises(InvalidInput, match="while keys are on"):
        seal.name("🐙" * 256)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sealed_memory.use_keys(monkeypatch, tmp_path / "keys", keys_cache_seconds=0)
    return tmp_path


@pytest.fixture
def memory(folder: Path) -> Iterator[EpisodicMemory]:
    with open_memory(f"sqlite:///{folder}/data/memory.db") as memory:
        for user in ("ana", "ben"):
            memory.scope(user=user).store([("user", f"I am {user} and I like sailing.")])
            memory.scope(user=user).add("open", ("user", "This has no vector yet."))
        yield memory


def damage(folder: Path, memory: EpisodicMemory, *, wrong: bool) -> str:
    """Lose the key of `ana`, or put another in its place."""
    path = folder / "data" / "memory.db"
    ref = refs_of(path)[1]
    with closing(sqlite3.connect(folder / "keys" / "keys.db")) as conn:
        from hashlib import sha256

        digest = sha256(ref.encode()).digest()
        conn.execute("DELETE FROM keys WHERE ref = ?", (digest,))
        conn.commit()
    if wrong:
        keys = memory.runtime.store._ring.keys  # type: ignore[attr-defined]
        keys.create(ref)
    return ref


@pytest.mark.parametrize("wrong", [False, True], ids=["lost", "wrong"])
def test_a_lost_or_wrong_key_is_an_error_of_its_scope_alone(
    folder: Path, memory: EpisodicMemory, wrong: bool
):
    with closing(sqlite3.connect(folder / "keys" / "keys.db")) as conn:
        kept = conn.execute("SELECT ref, sealed FROM keys").fetchall()
    ref = damage(folder, memory, wrong=wrong)
    ana, ben = memory.scope(user="ana"), memory.scope(user="ben")
    for call in (
        lambda: ana.recall("sailing"),
        ana.episodes,
        lambda: ana.store([("user", "more")]),
        lambda: list(memory.tenant().export_user("ana")),
    ):
        with pytest.raises(KeyMissing, match=ref) as raised:
            call()
        assert not isinstance(raised.value, KeyDestroyed)
        assert "restore the key store" in str(raised.value)
    # Work passes over it, and does the others'.
    memory.run_pending()
    memory.run_retention()
    assert ben.recall("sailing")
    assert ben.recall("no vector")
    assert [each.scope.user for each in memory.tenant().people(limit=9)] == ["ben"]
    assert [scope.user for scope in memory.scopes()] == ["ben"]
    # Nothing was lost: with the key, all is there, and its work is done.
    with closing(sqlite3.connect(folder / "keys" / "keys.db")) as conn:
        conn.execute("DELETE FROM keys")
        conn.executemany("INSERT INTO keys (ref, sealed) VALUES (?, ?)", kept)
        conn.commit()
    memory.runtime.store._ring._seals.clear()  # type: ignore[attr-defined]
    memory.run_pending()
    assert ana.recall("sailing")
    assert ana.recall("no vector")
    assert len(ana.episodes().items) == 2


def test_a_database_is_not_opened_with_another_key_store(folder: Path, memory: EpisodicMemory):
    memory.close()
    (folder / "keys").rename(folder / "away")
    with pytest.raises(KeyUnavailable, match="there is no key store"):
        open_memory(f"sqlite:///{folder}/data/memory.db")
    init_keys(load(database_url=f"sqlite:///{folder}/data/memory.db"))
    with pytest.raises(KeyMissing, match="not the one that this database was sealed with"):
        open_memory(f"sqlite:///{folder}/data/memory.db")
    with closing(sqlite3.connect(folder / "data" / "memory.db")) as conn:
        assert conn.execute("SELECT count(*) FROM octopus_turns").fetchone() == (4,)


def test_retention_that_empties_a_scope_destroys_its_key(folder: Path, memory: EpisodicMemory):
    ref = refs_of(folder / "data" / "memory.db")[1]
    ana = memory.scope(user="ana")
    store = memory.runtime.store
    ana.close_session("open")
    for episode in ana.episodes().items:
        store.delete(ana.scope, episode.id, at=memory.now())
        store.purge(ana.scope, episode.id)
    assert 1 not in refs_of(folder / "data" / "memory.db")
    memory.run_pending()
    keys = store._ring.keys  # type: ignore[attr-defined]
    assert set(keys.destroyed([ref])) == {ref}


def test_a_session_says_that_its_key_opens_copies_still(memory: EpisodicMemory):
    scope = memory.scope(user="ana")
    part = scope.erase_session("open")
    assert part.copies is not None
    assert part.copies.unreadable_since is None
    assert part.to_dict()["copies"] == {"unreadable_since": None, "keys_kept_until": None}
    whole = scope.erase()
    assert whole.copies is not None
    assert whole.copies.unreadable_since is not None
    assert make_scope("ana") is not None
