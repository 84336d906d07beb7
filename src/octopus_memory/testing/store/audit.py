"""Store suite: the audit log."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

from ...domain.audit import GENESIS, AuditDraft, AuditHead, check, check_end
from ...ports.store import EpisodeStore
from ..fakes import START
from .base import THREADS, Reopen, StoreTests, after, at_once, raised


def draft(tenant: str = "acme", **more: Any) -> AuditDraft:
    given = {"at": START, "actor": "tester", "action": "erase", **more}
    return AuditDraft(tenant=tenant, **given)


class AuditTests(StoreTests):
    def test_what_is_recorded_is_read_back(self, store: EpisodeStore) -> None:
        given = draft(
            at=after(microseconds=7),
            actor="Zoë \U0001f419\0",
            subject="ab" * 32,
            outcome="refused",
            detail={"count": 3, "deep": {"list": [1, None, "é\0"]}, "big": 2**60},
        )
        entry = store.record(given)
        [found] = store.audit("acme")
        assert found == entry
        for name in ("tenant", "at", "actor", "action", "subject", "outcome", "detail"):
            assert getattr(found, name) == getattr(given, name)

    def test_entries_are_numbered_and_chained(self, store: EpisodeStore) -> None:
        entries = [store.record(draft(detail={"n": number})) for number in range(4)]
        assert [entry.seq for entry in entries] == [1, 2, 3, 4]
        assert entries[0].previous == GENESIS
        assert [e.previous for e in entries[1:]] == [e.hash for e in entries[:-1]]
        assert store.audit("acme") == entries
        assert check(store.audit("acme")).is_whole
        assert store.audit_head("acme") == AuditHead(seq=4, hash=entries[-1].hash)

    def test_a_time_zone_does_not_break_the_chain(self, store: EpisodeStore) -> None:
        store.record(draft(at=START.astimezone(timezone(timedelta(hours=5, minutes=30)))))
        store.record(draft(at=START.replace(microsecond=0)))
        assert check(store.audit("acme")).is_whole

    def test_pages(self, store: EpisodeStore) -> None:
        entries = [store.record(draft()) for _ in range(5)]
        assert store.audit("acme", limit=2) == entries[:2]
        assert store.audit("acme", after=2, limit=2) == entries[2:4]
        assert store.audit("acme", after=5) == []

    def test_each_tenant_has_a_log_of_its_own(self, store: EpisodeStore) -> None:
        assert store.audit_head("acme") == AuditHead()
        for tenant in ("acme", "", "Acme", "acme", "other"):
            store.record(draft(tenant))
        counts = {"": 1, "Acme": 1, "acme": 2, "other": 1, "unknown": 0}
        assert {tenant: len(store.audit(tenant)) for tenant in counts} == counts
        logs = [store.audit(tenant) for tenant, count in counts.items() if count]
        assert len({log[0].hash for log in logs}) == 4
        assert all(check(log).is_whole for log in logs)

    def test_appends_at_once_keep_the_chain_whole(self, store: EpisodeStore) -> None:
        def act(number: int) -> None:
            for place in range(5):
                store.record(draft(actor=f"{number}", detail={"n": place}))

        assert raised(at_once(act)) == []
        entries = store.audit("acme")
        assert len(entries) == THREADS * 5
        found = check_end(check(entries), store.audit_head("acme"))
        assert (found.broken_at, found.entries) == (None, THREADS * 5)
        for number in range(THREADS):
            mine = [e.detail["n"] for e in entries if e.actor == f"{number}"]
            assert mine == [0, 1, 2, 3, 4]

    def test_the_log_outlives_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        first = store.record(draft())
        again = reopened()
        second = again.record(draft())
        assert again.audit("acme") == [first, second]
        assert second == replace(second, previous=first.hash, seq=2)
