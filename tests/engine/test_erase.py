"""Erasing through the public calls: receipts, caches, writers beside it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from octopus_memory import (
    EpisodeNotFound,
    EpisodicMemory,
    InvalidInput,
    LegalHold,
    MemoryScope,
    NotFound,
    Turn,
)
from octopus_memory.domain.erasure import EraseReceipt, is_genuine
from octopus_memory.faces.rest import app
from octopus_memory.ports.admin import StoreState
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.ports.values import Append
from tests.support.polling import wait_until
from tests.support.rest_server import serving

pytestmark = pytest.mark.both_databases(as_owner=True)

TALK = [("user", "My passport is in the blue folder."), ("assistant", "I will remember that.")]


def test_an_erased_scope_is_gone_at_once(memory: EpisodicMemory, scope: MemoryScope):
    other = memory.scope(tenant="acme", agent="it", user="user-17")
    for each in (scope, other):
        each.store(TALK, session_id="s", idempotency_key="k")
    memory.run_pending()
    assert scope.recall("passport")
    receipt = scope.erase(actor="support:1")
    assert receipt.is_complete
    assert receipt.removed["turns"] == 2
    assert receipt.removed["recall rows"] == 3
    assert scope.recall("passport") == []
    assert scope.recent() == []
    assert scope.episodes().total_count == 0
    assert scope.context("Where is my passport?").text == ""
    with pytest.raises(NotFound):
        scope.session("s")
    assert len(other.recall("passport")) == 1
    # The key is free again, and so is the session's name.
    assert scope.store(TALK, session_id="s", idempotency_key="k").message_count == 2


def test_an_erased_user_is_gone_from_every_agent(memory: EpisodicMemory, scope: MemoryScope):
    other = memory.scope(tenant="acme", agent="it", user="user-17")
    stranger = memory.scope(tenant="acme", agent="it", user="user-18")
    for each in (scope, other, stranger):
        each.store(TALK)
    receipt = memory.tenant("acme").erase_user("user-17")
    assert receipt.removed["scopes"] == 2
    assert (len(scope.recent()), len(other.recent()), len(stranger.recent())) == (0, 0, 1)


def test_erasing_for_one_agent_keeps_the_others(memory: EpisodicMemory, scope: MemoryScope):
    other = memory.scope(tenant="acme", agent="it", user="user-17")
    for each in (scope, other):
        each.store(TALK)
    assert memory.tenant("acme").erase_user("user-17", agent="it").removed["scopes"] == 1
    assert (len(scope.recent()), len(other.recent())) == (1, 0)


@pytest.mark.parametrize("as_what", [lambda e: e, lambda e: e.id, lambda e: str(e.id)])
def test_one_episode(memory: EpisodicMemory, scope: MemoryScope, as_what):
    kept, gone = scope.store(TALK), scope.store(TALK)
    receipt = scope.erase_episode(as_what(gone))
    assert receipt.is_complete
    assert receipt.removed["episodes"] == 1
    assert [found.episode_id for found in scope.recall("passport")] == [kept.id]
    with pytest.raises(EpisodeNotFound):
        scope.get(gone.id)


def test_erasing_an_unknown_episode_or_user_erases_nothing(
    memory: EpisodicMemory, scope: MemoryScope
):
    episode = scope.store(TALK)
    elsewhere = memory.scope(tenant="acme", agent="hr", user="user-18")
    for where, given in ((scope, uuid4()), (scope, "no id"), (elsewhere, episode.id)):
        with pytest.raises(EpisodeNotFound):
            where.erase_episode(given)
    receipt = memory.tenant("acme").erase_user("nobody")
    assert receipt.is_complete
    assert set(receipt.removed.values()) == {0}
    assert len(scope.recent()) == 1


@pytest.mark.sqlite_alone
@pytest.mark.parametrize("field", ["user", "agent", "actor"])
def test_names_are_checked(memory: EpisodicMemory, field: str):
    given = {"user": "u", "agent": "a", "actor": "me"} | {field: ""}
    with pytest.raises(InvalidInput) as refused:
        memory.tenant("acme").erase_user(**given)
    assert refused.value.field == field


def test_ids_are_checked(memory: EpisodicMemory, scope: MemoryScope):
    tenant = memory.tenant(scope.scope.tenant)
    receipt = scope.erase()
    assert tenant.receipt(receipt) == tenant.receipt(str(receipt.id)) == receipt
    assert tenant.receipts(before=str(receipt.id)) == []
    assert tenant.locate("x") is None
    with pytest.raises(NotFound, match="no receipt 'x'"):
        tenant.receipt("x")
    with pytest.raises(InvalidInput, match="before"):
        tenant.receipts(before="x")
    for field, call in (("erasure_id", tenant.receipt), ("episode_id", tenant.locate)):
        with pytest.raises(InvalidInput, match=f"{field}: must be a UUID or text, not int"):
            call(5)  # type: ignore[operator]


def test_a_hold_refuses_and_the_log_says_so(memory: EpisodicMemory, scope: MemoryScope):
    episode = scope.store(TALK)
    tenant = memory.tenant("acme")
    hold = tenant.hold(user="user-17", reason="case 17", actor="legal")
    for erase in (scope.erase, lambda: scope.erase_episode(episode)):
        with pytest.raises(LegalHold):
            erase()
    assert len(scope.recent()) == 1
    refused = [entry for entry in tenant.audit() if entry.action == "erase"]
    assert [entry.outcome for entry in refused] == ["LegalHold"] * 2
    assert {entry.subject for entry in refused} == {tenant.subject("user-17")}
    tenant.lift(hold.id)
    assert scope.erase().is_complete


class TestReceipts:
    def test_a_receipt_is_kept_and_genuine(self, memory: EpisodicMemory, scope: MemoryScope):
        scope.store(TALK)
        tenant = memory.tenant("acme")
        receipt = scope.erase()
        assert tenant.receipt(receipt.id) == receipt
        assert tenant.receipts() == [receipt]
        assert memory.tenant("other").receipts() == []
        shown = receipt.to_dict()
        assert is_genuine(shown)
        assert EraseReceipt.from_dict(shown) == receipt
        for field, value in (("removed", {}), ("at", "2025-01-01"), ("complete", False)):
            assert not is_genuine(shown | {field: value})
        with pytest.raises(NotFound):
            tenant.receipt(uuid4())
        with pytest.raises(NotFound):
            memory.tenant("other").receipt(receipt.id)

    def test_the_receipts_hash_is_in_the_audit_log(
        self, memory: EpisodicMemory, scope: MemoryScope
    ):
        scope.store(TALK)
        receipt = scope.erase(actor="support:1")
        begun, kept = memory.tenant("acme").audit()
        assert begun.detail["removed"] == receipt.removed
        assert kept.detail == {"erasure": str(receipt.id), "sha256": receipt.sha256}
        assert (kept.outcome, kept.actor, kept.subject) == ("complete", "support:1", begun.subject)

    def test_receipts_are_listed_newest_first_in_pages(self, memory: EpisodicMemory):
        tenant = memory.tenant("acme")
        made = [tenant.erase_user(f"user {number}") for number in range(5)]
        assert [r.id for r in tenant.receipts(limit=2)] == [made[4].id, made[3].id]
        assert [r.id for r in tenant.receipts(before=made[3].id, limit=2)] == [
            made[2].id,
            made[1].id,
        ]

    def test_a_receipt_and_the_log_hold_no_names(self, memory: EpisodicMemory, scope: MemoryScope):
        scope.store(TALK, session_id="zanzibar")
        receipt = scope.erase(actor="user:user-17")
        entries = memory.tenant("acme").audit()
        assert {entry.actor for entry in entries} == {"user:subject"}
        for text in (str(receipt.to_dict()), str(entries)):
            assert "user-17" not in text
            assert "zanzibar" not in text
        assert receipt.subject == memory.tenant("acme").subject("user-17")
        assert receipt.subject != memory.tenant("other").subject("user-17")


class TestCaches:
    def test_this_process_clears_its_caches_at_once(
        self, memory: EpisodicMemory, scope: MemoryScope
    ):
        scope.store(TALK)
        memory.run_pending()
        runtime = memory.runtime
        scope.recall("asking about zanzibar")
        index, queries = runtime.index._cache._slots, runtime._queries
        assert (len(index), len(queries)) == (1, 1)
        assert runtime._hasher.cache_info().currsize
        assert runtime.lexicon._known
        assert any(runtime.analyzer._of_word.values())
        runtime.topics._heard[scope.scope, "s"] = {}
        scope.erase()
        assert (len(index), len(queries), len(runtime.topics._heard)) == (0, 0, 0)
        assert runtime._hasher.cache_info().currsize == 0
        assert not runtime.lexicon._known
        assert not any(runtime.analyzer._of_word.values())
        assert not runtime.analyzer._told

    def test_cached_scopes_of_other_users_stay(self, memory: EpisodicMemory, scope: MemoryScope):
        other = memory.scope(tenant="acme", agent="hr", user="user-18")
        for each in (scope, other):
            each.store(TALK)
            each.recall("passport")
        scope.erase()
        assert [key[0] for key in memory.runtime.index._cache._slots] == [other.scope]

    def test_another_memory_clears_its_caches_at_its_next_check(
        self, memory: EpisodicMemory, scope: MemoryScope, database_url: str
    ):
        scope.store(TALK)
        with EpisodicMemory.open(database_url, embedder="hashing", background=False) as second:
            again = second.scope(tenant="acme", agent="hr", user="user-17")
            assert again.recall("passport")
            scope.erase()
            assert len(second.runtime.index._cache._slots) == 1
            assert again.recall("passport") == []
            scope.store(TALK)
            assert again.recall("passport")
            scope.erase()
            second.runtime.check_for_removals()
            assert len(second.runtime.index._cache._slots) == 0
            assert len(second.runtime._queries) == 0

    def test_a_service_without_a_worker_clears_its_caches_too(
        self, scope: MemoryScope, database_url: str, monkeypatch
    ):
        monkeypatch.setattr(app, "_CHECK_SECONDS", 0.01)
        scope.store(TALK)
        with (
            EpisodicMemory.open(database_url, embedder="hashing", background=False) as second,
            serving(second, development=True),
        ):
            assert second.scope(tenant="acme", agent="hr", user="user-17").recall("passport")
            scope.erase()
            assert wait_until(lambda: not second.runtime.index._cache._slots)

    def test_checks_for_removals_are_rate_limited(self, memory: EpisodicMemory, monkeypatch):
        looks = []
        kind = type(memory.runtime.store)
        made = kind.state

        def counted(store: EpisodeStore) -> StoreState:
            looks.append(1)
            return made(store)

        monkeypatch.setattr(kind, "state", counted)
        for _ in range(3):
            memory.runtime.check_for_removals(every=1_000)
        assert len(looks) == 1


def test_a_turn_erased_right_after_storing_is_not_found(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    kind = type(memory.runtime.store)
    append = kind.append

    def append_and_erase(store: EpisodeStore, write: Append) -> list[Turn]:
        done = append(store, write)
        monkeypatch.undo()
        scope.erase()
        return done

    for call in (lambda: scope.store(TALK), lambda: scope.open_episode("s")):
        monkeypatch.setattr(kind, "append", append_and_erase)
        with pytest.raises(EpisodeNotFound):
            call()


def test_concurrent_writers_start_afresh_after_an_erasure(database_url: str):
    """What was acknowledged before is gone or was erased; what comes after is whole."""
    with EpisodicMemory.open(database_url, embedder="hashing") as memory:
        scope = memory.scope(user="u")
        stop = threading.Event()
        last: dict[int, int] = {}

        def write(number: int) -> None:
            place = 0
            while not stop.is_set():
                place += 1
                scope.add(f"session {number}", ("user", f"word{number}x{place}"))
                last[number] = place

        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write, number) for number in range(3)]
            receipts = []
            while len(receipts) < 4:
                if len(last) == 3:
                    receipts.append(scope.erase(physical=len(receipts) == 2))
            stop.set()
            for writer in writers:
                writer.result()
        assert all(not any(receipt.left.values()) for receipt in receipts)
        for number, place in last.items():
            found = [turn.text for turn in scope.session(f"session {number}").turns]
            # The end of what was said, without a gap.
            expected = [f"word{number}x{each}" for each in range(place - len(found) + 1, place + 1)]
            assert found == expected
            ordinals = [
                [turn.ordinal for turn in episode.turns]
                for episode in scope.session(f"session {number}").episodes
            ]
            assert ordinals == [list(range(len(each))) for each in ordinals]
        memory.compact()
        assert all(receipt.is_complete for receipt in memory.tenant().receipts())
        final = scope.erase()
        assert final.is_complete
        assert memory.stats().turns == 0
