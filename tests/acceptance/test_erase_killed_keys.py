"""A process can be killed at any moment of an erasure that destroys keys: the next finishes it."""

from __future__ import annotations

import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")

from octopus_memory import EpisodicMemory, KeyDestroyed
from octopus_memory.ports.scope_keys import ScopeKeys
from octopus_memory.settings import load
from octopus_memory.wiring_keys import find_keys
from tests.support import byte_scan, child_actions, child_process, erase_child_actions
from tests.support.erase_child_actions import VICTIM, open_memory
from tests.support.sealed_memory import use_keys

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
    ),
]
WORDS = [f"Zanzibar{number:08d}" for number in range(4)]


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A database and its key store."""
    use_keys(monkeypatch, tmp_path / "keys")
    path = tmp_path / "filled" / "memory.db"
    with open_memory(f"sqlite:///{path}") as memory:
        fill(memory)
    return path, tmp_path / "keys"


def fill(memory: EpisodicMemory) -> None:
    for number, word in enumerate(WORDS):
        scope = memory.scope(user=VICTIM, agent=f"agent {number % 2}")
        scope.store([("user", f"I went to {word} by boat.")], idempotency_key=word)
        memory.scope(user=f"user {number}").store([("user", "I stayed at home.")])
    memory.run_pending()


def check_after_the_kill(path: Path, keys: Path) -> str:
    """How far the erasure was; it is finished here, unless it had not begun."""
    url = f"sqlite:///{path}"
    erase_child_actions.use_keys(str(keys), url)
    with open_memory(url) as memory:
        store, tenant = memory.runtime.store, memory.tenant()
        begun = store.erasures("default")
        if not begun:
            for number in range(2):
                assert memory.scope(user=VICTIM, agent=f"agent {number}").recall("boat")
            state = "not begun"
        else:
            [erasure] = begun
            assert len(erasure.key_refs) == 2
            key_store = find_keys(load(database_url=url))
            assert key_store is not None
            gone = key_store.destroyed(erasure.key_refs)
            rows = store._read("default", lambda conn: _count(conn))
            state = f"{'rows' if rows else 'no rows'}, {len(gone)} destroyed"
            # The rows never go first.
            assert rows or len(gone) == 2
            memory.run_pending()
            [receipt] = tenant.receipts()
            assert receipt.is_complete
            assert receipt.copies is not None
            assert receipt.copies.unreadable_since == max(
                key_store.destroyed(erasure.key_refs).values()
            )
            assert receipt.removed["turns"] == len(WORDS)
            actions = [entry.action for entry in tenant.audit()]
            assert actions.count("erase") == 1
            assert tenant.verify_audit().is_whole
            assert store.erasures(unfinished=True) == []
            assert memory.scope(user=VICTIM, agent="agent 0").recall("boat") == []
        for number in range(len(WORDS)):
            assert len(memory.scope(user=f"user {number}").recall("home")) == 1
    return state


def _count(conn) -> int:
    from octopus_memory.adapters.stores.sql.statements import scopes

    hashed = conn.seals.hashed_user("default", VICTIM)
    return len(scopes.user_forms(conn, "default", hashed, VICTIM))


def test_killed_at_every_moment(filled: tuple[Path, Path], tmp_path: Path):
    path, keys = filled
    do = partial(erase_child_actions.erase_with_keys, str(keys))
    runs = tmp_path / "runs"
    runs.mkdir()
    with child_process.running(child_actions.be_killed_at_each, do, str(path), str(runs), 3) as (
        _,
        pipe,
    ):
        ends = child_process.read_to_end(pipe)
    assert [code for _, code in ends] == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    states = [check_after_the_kill(Path(where), keys) for where, _ in ends]
    assert {"not begun", "rows, 0 destroyed", "rows, 2 destroyed", "no rows, 2 destroyed"} == set(
        states
    )
    # It never goes back.
    order = list(dict.fromkeys(states))
    assert [states.index(each) for each in order] == sorted(states.index(each) for each in order)
    words = {"words": [word.encode() for word in WORDS], "name": [VICTIM.encode()]}
    assert byte_scan.search(runs, words) == []


def test_a_key_store_that_does_not_answer_is_waited_for(filled: tuple[Path, Path]):
    path, keys = filled
    with open_memory(f"sqlite:///{path}") as memory:
        others = memory.scope(user="user 1")
        others.recall("home")
        (keys / "keys.db").rename(keys / "away.db")
        receipt = memory.tenant().erase_user(VICTIM)
        assert receipt.pending == ("keys",)
        assert not receipt.is_complete
        assert sum(receipt.left.values()) == 0
        assert others.recall("home")
        memory.run_pending()
        assert memory.tenant().receipt(receipt).pending == ("keys",)
        (keys / "away.db").rename(keys / "keys.db")
        memory.run_pending()
        done = memory.tenant().receipt(receipt)
        assert done.is_complete
        assert done.copies is not None
        assert done.copies.unreadable_since is not None


def test_another_process_forgets_the_key_in_time(
    filled: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    """Even where the process that erased was killed between the keys and the rows."""
    path, keys = filled
    monkeypatch.setenv("OCTOPUS_KEYS_CACHE_SECONDS", "1")
    with open_memory(f"sqlite:///{path}") as memory:
        scope = memory.scope(user=VICTIM, agent="agent 0")
        assert scope.recall("boat")
        refs = memory.runtime.store._read("default", _refs)
        _keys_in(keys).destroy(refs)
        time.sleep(1.1)
        for call in (scope.episodes, lambda: scope.session("x"), lambda: scope.recall("boat")):
            with pytest.raises(KeyDestroyed):
                call()
        with pytest.raises(KeyDestroyed):
            scope.store([("user", "more")])
        assert memory.scope(user="user 1").recall("home")
        memory.tenant().erase_user(VICTIM)
        scope.store([("user", "I am back by boat.")])
        assert scope.recall("boat")


def _keys_in(folder: Path) -> ScopeKeys:
    keys = find_keys(load(keys="local", keys_path=str(folder / "keys.db")))
    assert keys is not None
    return keys


def _refs(conn) -> list[str]:
    import sqlalchemy as sa

    from octopus_memory.adapters.stores.sql import schema

    hashed = conn.seals.hashed_user("default", VICTIM)
    own = sa.select(schema.scopes.c.key_ref).where(schema.scopes.c.user == hashed)
    return list(conn.execute(own).scalars())


def test_a_worker_that_embeds_and_two_that_erase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing of the user is left or comes back, and no call of another user fails."""
    use_keys(monkeypatch, tmp_path / "keys")
    url = f"sqlite:///{tmp_path}/data/memory.db"
    failed: list[BaseException] = []
    with open_memory(url) as one, open_memory(url) as two:
        stop = threading.Event()

        def talk() -> None:
            number = 0
            try:
                while not stop.is_set():
                    number += 1
                    one.scope(user="other").store([("user", f"It is number {number}.")])
            except BaseException as error:  # noqa: BLE001 - shown below
                failed.append(error)

        def work() -> None:
            try:
                while not stop.is_set():
                    two.run_pending()
            except BaseException as error:  # noqa: BLE001
                failed.append(error)

        threads = [threading.Thread(target=each) for each in (talk, work)]
        for each in threads:
            each.start()
        for turn in range(6):
            scope = (one, two)[turn % 2].scope(user=VICTIM)
            for number in range(5):
                scope.store([("user", f"I went to {WORDS[0]} for time {number}.")])
            erased = (two, one)[turn % 2].tenant().erase_user(VICTIM)
            assert erased.removed["turns"] == 5
            assert erased.pending == ()
            assert scope.recall("went") == []
        stop.set()
        for each in threads:
            each.join()
        assert failed == []
        one.run_pending()
        assert one.scope(user="other").recall("number", limit=3)
        assert one.stats().scopes == 1
