"""What a memory tells its operator, so that no face has to ask the store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from octopus_memory import (
    EpisodicMemory,
    EpisodicRetentionPolicy,
    InvalidInput,
    MemoryClosed,
    MemoryConfig,
    Scope,
)

POLICY = MemoryConfig(retention=EpisodicRetentionPolicy(active_retention_days=7))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[EpisodicMemory]:
    path = tmp_path / "memory.db"
    with EpisodicMemory.open(path, embedder="hashing", background=False, config=POLICY) as opened:
        yield opened


def talk(memory: EpisodicMemory, user: str, *, agent: str = "hr", sessions: int = 1) -> None:
    scope = memory.scope(tenant="acme", agent=agent, user=user)
    for number in range(sessions):
        with scope.episode(f"{user}-{number}") as episode:
            episode.add("user", f"My parking space is number {number}.")


def test_the_backlog_counts_what_waits(memory: EpisodicMemory):
    assert {work.waiting for work in memory.backlog().values()} == {0}
    talk(memory, "ana")
    memory.scope(tenant="acme", agent="hr", user="ana").recall("parking")
    assert memory.backlog()["embed"].waiting > 0
    assert memory.backlog()["embed"].oldest is not None
    memory.flush()
    assert memory.backlog()["embed"].waiting == 0


def test_scopes_are_listed_up_to_a_limit(memory: EpisodicMemory):
    talk(memory, "ana")
    talk(memory, "ben")
    first, second = (Scope(tenant="acme", agent="hr", user=user) for user in ("ana", "ben"))
    assert memory.scopes() == [first, second]
    assert memory.scopes(limit=1) == [first]
    with pytest.raises(InvalidInput, match="limit"):
        memory.scopes(limit=0)


def test_agents_with_stored_settings_are_listed(memory: EpisodicMemory):
    assert memory.default_config().retention.active_retention_days == 7
    assert memory.configured_agents() == []
    memory.configure("sales", {"recall": {"enabled": False}}, tenant="acme")
    memory.configure("hr", {"recall": {"enabled": False}})
    assert memory.configured_agents() == [(None, "hr"), ("acme", "sales")]
    assert memory.default_config().recall.enabled


def test_the_installation_has_a_log_of_its_own(memory: EpisodicMemory):
    memory.configure("hr", {"recall": {"enabled": False}}, actor="root")
    memory.configure("hr", {"recall": {"enabled": True}}, tenant="acme", actor="root")
    [entry] = memory.audit()
    assert (entry.action, entry.actor, entry.tenant) == ("configure", "root", "")
    assert memory.audit(after=entry.seq) == []
    checked = memory.verify_audit()
    assert (checked.is_whole, checked.entries) == (True, 1)
    assert memory.verify_audit(head=checked.head).knows_head is True
    assert len(memory.tenant("acme").audit()) == 1


def test_erasable_counts_what_an_erasure_removes(memory: EpisodicMemory):
    talk(memory, "ana", sessions=2)
    talk(memory, "ana", agent="sales")
    talk(memory, "ben")
    tenant = memory.tenant("acme")
    assert tenant.erasable("ana") == 3
    assert tenant.erasable("ana", agent="hr") == 2
    assert tenant.erasable("nobody") == 0
    assert memory.tenant("other").erasable("ana") == 0
    assert tenant.erase_user("ana").removed["episodes"] == 3
    assert tenant.erasable("ana") == 0


def test_a_trace_finds_what_is_stored_until_it_is_erased(memory: EpisodicMemory):
    talk(memory, "ana")
    tenant = memory.tenant("acme")
    trace = tenant.trace("ana")
    assert trace is not None
    assert trace.search().found
    tenant.erase_user("ana")
    assert not trace.search().found


def test_keys_are_created_listed_rotated_and_revoked(memory: EpisodicMemory):
    keys, ring = memory.api_keys, memory.api_keys.ring()
    made = keys.create(tenant="acme", role="agent", name="bot", agents=["hr"])
    assert keys.find(made.key.id) == made.key
    assert keys.find("unknown") is None
    assert [key.id for key in keys.list("acme")] == [made.key.id]
    assert keys.list("other") == []
    assert ring.who(made.token) is not None
    new = keys.rotate(made.key.id, grace=timedelta(hours=1))
    assert (new.key.role, new.key.agents) == (made.key.role, made.key.agents)
    keys.revoke(new.key.id)
    assert ring.who(new.token) is None
    assert ring.who(made.token) is not None


def test_a_memory_without_a_remote_index_has_no_drift(memory: EpisodicMemory):
    talk(memory, "ana")
    memory.flush()
    assert memory.mirror.rows() > 0
    report = memory.mirror.verify()
    assert (report.index, report.is_true) == ("exact", True)
    assert memory.mirror.rebuild() == report
    assert memory.mirror.drop() == []


def test_a_closed_memory_does_not_answer(memory: EpisodicMemory):
    memory.ping()
    memory.close()
    with pytest.raises(MemoryClosed):
        memory.ping()
