"""The audit log through the public calls: what is recorded, what never is, and tampering."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from octopus_memory import (
    EpisodicMemory,
    InvalidInput,
    MemoryConfig,
    MemoryScope,
    NotFound,
    SessionConfig,
)
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.testing import FixedClock

TALK = [("user", "My passport is in the blue folder."), ("assistant", "I will remember that.")]


def actions(memory: EpisodicMemory, tenant: str = "acme") -> list[str]:
    return [entry.action for entry in memory.runtime.store.audit(tenant)]


def test_nothing_that_only_writes_a_conversation_is_recorded(
    memory: EpisodicMemory, scope: MemoryScope
):
    scope.store(TALK)
    scope.recall("passport")
    memory.run_pending()
    assert memory.runtime.store.audit("") == []


def test_a_change_of_an_agents_settings_is_recorded(memory: EpisodicMemory):
    config = MemoryConfig(session=SessionConfig(idle_timeout_minutes=5))
    memory.configure("hr", config, tenant="acme", actor="ops:1")
    memory.configure("hr", config)
    [own] = memory.tenant("acme").audit()
    assert (own.action, own.actor, own.detail) == ("configure", "ops:1", {"agent": "hr"})
    assert own.at == memory.runtime.clock.now()
    assert actions(memory, "") == ["configure"]
    with pytest.raises(InvalidInput):
        memory.configure("hr", config, actor="")


def test_settings_and_keys_never_change_without_their_entry(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    """As if the process died where a second transaction would begin."""
    monkeypatch.setattr(memory.runtime.store, "record", lambda _: 1 / 0)
    memory.configure("hr", MemoryConfig(), tenant="acme")
    made = memory.api_keys.create(tenant="acme", role="user", name="n", user="u", actor="a")
    again = memory.api_keys.rotate(made.key.id, grace=timedelta(0), actor="a")
    memory.api_keys.revoke(again.key.id, actor="a")
    done = ["configure", "make_key", "make_key", "rotate_key", "revoke_key"]
    assert actions(memory) == done


def test_a_change_of_the_embedding_model_is_recorded(
    memory: EpisodicMemory, scope: MemoryScope, tmp_path: Path
):
    scope.store(TALK)
    memory.run_pending()
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    for dimension in (256, 64, 64):
        with EpisodicMemory.open(
            url, embedder=HashingEmbedder(dimension), background=False
        ) as again:
            again.run_pending()
    [changed] = memory.runtime.store.audit("")
    assert changed.action == "use_model"
    assert changed.detail == {"model": "hashing-64", "before": "hashing-256", "queued": 3}


def test_a_scope_says_once_who_acts(memory: EpisodicMemory):
    acting = memory.scope(tenant="acme", agent="hr", user="user-17", actor="ops:1")
    one, other = acting.store(TALK), acting.store(TALK)
    acting.delete(one.id)
    acting.restore(one.id)
    acting.erase_episode(one.id)
    acting.erase_episode(other.id, actor="ops:2")
    acting.erase()
    acted = [(entry.action, entry.actor) for entry in memory.tenant("acme").audit()]
    assert {action for action, _ in acted} >= {"delete", "restore", "erase"}
    assert [actor for action, actor in acted if action == "erase"] == ["ops:1", "ops:2", "ops:1"]
    assert {actor for action, actor in acted if action != "erase"} <= {"ops:1", "ops:2"}


def test_deleting_restoring_and_holding_are_recorded(memory: EpisodicMemory, scope: MemoryScope):
    episode = scope.store(TALK)
    scope.delete(episode.id, actor="a")
    scope.restore(episode.id, actor="b")
    hold = memory.tenant("acme").hold(user="user-17", reason="case", actor="c")
    memory.tenant("acme").lift(hold.id, actor="d")
    entries = memory.tenant("acme").audit()
    assert [entry.actor for entry in entries] == ["a", "b", "c", "d"]
    assert {entry.outcome for entry in entries} == {"done"}
    assert {entry.subject for entry in entries} == {memory.tenant("acme").subject("user-17")}


class TestReads:
    @pytest.fixture
    def watched(self, tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OCTOPUS_AUDIT_READS", "true")
        url = f"sqlite:///{tmp_path / 'watched.db'}"
        with EpisodicMemory.open(url, embedder="hashing", clock=clock, background=False) as opened:
            yield opened

    def test_each_read_is_one_entry(self, watched: EpisodicMemory):
        scope = watched.scope(tenant="acme", user="user-17", actor="agent:hr")
        episode = scope.store(TALK, session_id="s")
        reads: dict[str, Callable[[], object]] = {
            "recall": lambda: scope.recall("zanzibar"),
            "context": lambda: scope.context("zanzibar"),
            "session": lambda: scope.session("s"),
            "get": lambda: scope.get(episode.id),
            "recent": scope.recent,
            "episodes": scope.episodes,
            "deleted": scope.deleted,
        }
        for read in reads.values():
            read()
        entries = watched.tenant("acme").audit()
        assert [entry.action for entry in entries] == list(reads)
        assert {entry.actor for entry in entries} == {"agent:hr"}
        assert {entry.subject for entry in entries} == {watched.tenant("acme").subject("user-17")}
        assert "zanzibar" not in str(entries)
        scope.recall_turns("zanzibar")
        assert actions(watched)[-1] == "recall"

    def test_reading_across_users_is_one_entry(self, watched: EpisodicMemory):
        tenant = watched.tenant("acme")
        tenant.episodes(actor="ops:1")
        tenant.episodes(user="user-17", actor="ops:2")
        everybody, one = tenant.audit()
        assert (everybody.action, everybody.actor, everybody.subject) == ("episodes", "ops:1", None)
        assert (one.actor, one.subject) == ("ops:2", tenant.subject("user-17"))

    def test_a_read_that_finds_nothing_says_so(self, watched: EpisodicMemory):
        scope = watched.scope(tenant="acme", user="user-17")
        for read in (lambda: scope.session("s"), lambda: scope.get("no id")):
            with pytest.raises(NotFound):
                read()
        assert [entry.outcome for entry in watched.tenant("acme").audit()] == [
            "SessionNotFound",
            "EpisodeNotFound",
        ]

    def test_a_read_that_cannot_be_recorded_returns_nothing(
        self, watched: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
    ):
        scope = watched.scope(tenant="acme", user="user-17")
        scope.store(TALK)
        monkeypatch.setattr(watched.runtime.store, "record", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scope.recent()


def test_no_entry_holds_a_word_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every call that is recorded, with a marker in each place that is a person's."""
    monkeypatch.setenv("OCTOPUS_AUDIT_READS", "true")
    path = tmp_path / "memory.db"
    with EpisodicMemory.open(f"sqlite:///{path}", embedder="hashing", background=False) as memory:
        scope = memory.scope(tenant="acme", agent="hr", user="MARKuser", actor="key:MARKuser")
        tenant = memory.tenant("acme")
        said = [{"role": "user", "content": "my MARKword", "name": "MARKname"}]
        kept = {
            "session_id": "MARKsession",
            "metadata": {"MARKkey": "MARKvalue"},
            "summary": "MARKsummary",
            "key_facts": ["MARKfact"],
            "idempotency_key": "MARKidempotent",
        }
        episode = scope.store(said, **kept)
        scope.recall("MARKquery")
        scope.context("MARKquery")
        scope.session("MARKsession")
        with pytest.raises(NotFound):
            scope.session("MARKunknown")
        with pytest.raises(NotFound):
            scope.get("MARKunknown")
        with pytest.raises(NotFound):
            scope.erase_episode("MARKunknown")
        scope.delete(episode.id, actor="MARKuser")
        scope.restore(episode.id, actor="cli:MARKuser")
        hold = tenant.hold(user="MARKuser", reason="MARKreason", actor="legal")
        tenant.lift(hold.id)
        memory.run_retention()
        lines = list(tenant.export_user("MARKuser", actor="MARKuser"))
        tenant.import_user(lines, user="MARKuser2", actor="MARKuser2")
        memory.configure("hr", MemoryConfig(), tenant="acme")
        memory.compact()
        tenant.erase_user("MARKuser", actor="MARKuser")
        tenant.erase_user("MARKuser2")
        seen = set(actions(memory))
        assert {"erase", "erase_receipt", "delete", "restore", "export", "import"} <= seen
        assert {"recall", "context", "session", "get", "configure"} <= seen
        assert tenant.verify_audit().is_whole
    conn = sqlite3.connect(path)
    try:
        rows = [
            *conn.execute("SELECT * FROM octopus_audit"),
            *conn.execute("SELECT * FROM octopus_erasures"),
        ]
    finally:
        conn.close()
    assert len(rows) > 15
    assert "MARK" not in str(rows)
    # Erased by then, so that nothing else in the file has them either.
    assert b"MARK" not in path.read_bytes()


def test_the_log_survives_the_erasure_of_its_subject(memory: EpisodicMemory, scope: MemoryScope):
    tenant = memory.tenant("acme")
    episode = scope.store(TALK)
    scope.delete(episode.id)
    before = tenant.audit()
    scope.erase()
    assert tenant.audit()[: len(before)] == before
    mine = [e for e in tenant.audit() if e.subject == tenant.subject("user-17")]
    assert [entry.action for entry in mine][-2:] == ["erase", "erase_receipt"]
    assert len(mine) == 3


MINE = "tenant = 'acme'"
COPIED = (
    "INSERT INTO octopus_audit SELECT tenant, {0}, at, actor, 'export', subject, outcome, detail"
)
TAMPERS: dict[str, tuple[list[str], int]] = {
    "changed": ([f"UPDATE octopus_audit SET actor = 'x' WHERE seq = 3 AND {MINE}"], 3),
    "deleted": ([f"DELETE FROM octopus_audit WHERE seq = 3 AND {MINE}"], 3),
    "cut off": ([f"DELETE FROM octopus_audit WHERE seq > 4 AND {MINE}"], 5),
    "emptied": ([f"DELETE FROM octopus_audit WHERE {MINE}"], 1),
    "swapped": (
        [
            f"UPDATE octopus_audit SET seq = 90 WHERE seq = 2 AND {MINE}",
            f"UPDATE octopus_audit SET seq = 2 WHERE seq = 3 AND {MINE}",
            f"UPDATE octopus_audit SET seq = 3 WHERE seq = 90 AND {MINE}",
        ],
        2,
    ),
    "put in between": (
        [
            f"UPDATE octopus_audit SET seq = seq + 100 WHERE seq > 2 AND {MINE}",
            f"{COPIED.format(3)}, hash, hash FROM octopus_audit WHERE seq = 2 AND {MINE}",
            f"UPDATE octopus_audit SET seq = seq - 99 WHERE seq > 100 AND {MINE}",
        ],
        3,
    ),
    "put behind": (
        [f"{COPIED.format(6)}, hash, hash FROM octopus_audit WHERE seq = 5 AND {MINE}"],
        6,
    ),
    "back-dated": ([f"UPDATE octopus_audit SET at = at - 1 WHERE seq = 1 AND {MINE}"], 1),
    "renamed": ([f"UPDATE octopus_audit SET subject = 'ab' WHERE seq = 5 AND {MINE}"], 5),
    "other counts": ([f"UPDATE octopus_audit SET detail = '{{}}' WHERE seq = 2 AND {MINE}"], 2),
}


@pytest.mark.parametrize("how", TAMPERS)
def test_tampering_by_sql_is_seen(memory: EpisodicMemory, tmp_path: Path, how: str):
    for number in range(5):
        memory.configure(f"agent {number}", MemoryConfig(), tenant="acme")
        memory.configure(f"agent {number}", MemoryConfig(), tenant="other")
    assert memory.tenant("acme").verify_audit().is_whole
    statements, where = TAMPERS[how]
    conn = sqlite3.connect(tmp_path / "memory.db")
    try:
        for statement in statements:
            assert conn.execute(statement).rowcount
        conn.commit()
    finally:
        conn.close()
    found = memory.tenant("acme").verify_audit()
    assert (found.broken_at, found.is_whole) == (where, False)
    assert memory.tenant("other").verify_audit().is_whole


def test_a_log_that_grows_while_it_is_read_is_whole(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    store = memory.runtime.store
    read = store.audit_head
    late = [2]

    def head(tenant: str) -> object:
        if late[0]:
            late[0] -= 1
            memory.configure("late", MemoryConfig(), tenant="acme")
        return read(tenant)

    memory.configure("hr", MemoryConfig(), tenant="acme")
    monkeypatch.setattr(store, "audit_head", head)
    found = memory.tenant("acme").verify_audit()
    assert (found.entries, found.is_whole) == (3, True)


def test_a_rebuilt_log_does_not_match_a_noted_head(memory: EpisodicMemory):
    tenant = memory.tenant("acme")
    memory.configure("hr", MemoryConfig(), tenant="acme")
    noted = tenant.verify_audit().head
    memory.configure("it", MemoryConfig(), tenant="acme")
    assert tenant.verify_audit(head=noted).is_whole
    other = memory.tenant("other").verify_audit(head=noted)
    assert (other.broken_at, other.is_whole) == (None, False)


def test_a_long_log_is_read_in_pages(memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("octopus_memory.engine.core.audit._PAGE", 2)
    for number in range(5):
        memory.configure(f"agent {number}", MemoryConfig(), tenant="acme")
    found = memory.tenant("acme").verify_audit()
    assert (found.entries, found.is_whole) == (5, True)
