"""Store suite: overview, statistics, settings, audit log and life of the whole store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta, timezone
from functools import partial
from typing import Any

import pytest

from ...domain.audit import GENESIS, AuditDraft, AuditHead, check, check_end
from ...domain.errors import SettingsChanged
from ...domain.facts import FactOrigin
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import Append
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_fact,
    make_key,
    make_next,
    make_scope,
    make_summary,
)
from .base import (
    ANA,
    BEN,
    FAR,
    THREADS,
    Reopen,
    StoreTests,
    after,
    at_once,
    claim_all,
    raised,
    snapshot,
    texts,
)
from .retention import make_entry, tell


class OverviewTests(StoreTests):
    def test_a_new_store_knows_nobody(self, store: EpisodeStore) -> None:
        assert store.tenants(limit=5) == []
        assert store.people("acme", limit=5).found == ()

    def test_tenants_are_listed_by_name_and_in_pages(self, store: EpisodeStore) -> None:
        for tenant, user in (("b", "x"), ("a", "x"), ("a", "y"), ("ä", "x")):
            tell(store, scope=make_scope(user, tenant=tenant))
        found = store.tenants(limit=10)
        assert [(each.tenant, each.scopes) for each in found] == [("a", 2), ("b", 1), ("ä", 1)]
        assert [each.tenant for each in store.tenants(after="a", limit=1)] == ["b"]

    def test_people_have_their_counts(self, store: EpisodeStore) -> None:
        tell(store, "a", "b", session_id="one")
        archived = tell(store, "c", session_id="two")
        store.archive(ANA, archived.episode_id)
        gone = tell(store, "d", session_id="three", closing=make_closing(summary=None))
        store.delete(ANA, gone.episode_id, at=after(days=1))
        last = make_append(ANA, "e", "f", "g", session_id="four", at=after(hours=5))
        store.append(last)
        store.add_facts(ANA, [make_fact("Prefers tea.")])
        [found] = store.people("acme", limit=5).found
        assert found.scope == ANA
        assert (found.episodes, found.open_episodes, found.archived_episodes) == (3, 1, 1)
        assert (found.messages, found.facts) == (6, 1)
        assert found.tokens == 6 * 7
        assert found.last_message_at == last.turns[-1].at

    def test_people_are_in_order_and_in_pages(self, store: EpisodeStore) -> None:
        scopes = [
            make_scope(user, agent=agent)
            for user in ("ana", "anb", "b\U0001f419")
            for agent in "pq"
        ]
        for scope in reversed(scopes):
            tell(store, scope=scope)
        tell(store, scope=make_scope("ana", tenant="other"))
        assert [each.scope for each in store.people("acme", limit=10).found] == scopes
        page = store.people("acme", limit=3).found
        rest = store.people("acme", after=page[-1].scope, limit=10).found
        assert [each.scope for each in (*page, *rest)] == scopes

    def test_people_are_found_by_the_beginning_agent_and_name(self, store: EpisodeStore) -> None:
        for user in ("ana", "anabel", "Ana", "ban"):
            tell(store, scope=make_scope(user))
        tell(store, scope=make_scope("ana", agent="other"))
        assert [p.scope.user for p in store.people("acme", starts="ana", limit=9).found] == [
            "ana",
            "ana",
            "anabel",
        ]
        [other] = store.people("acme", starts="an", agents=["other"], limit=9).found
        assert other.scope.agent == "other"
        found = store.people("acme", user="ban", agents=["helper", "x"], limit=9).found
        assert [each.scope.user for each in found] == ["ban"]
        assert store.people("acme", agents=[], limit=9).found == ()

    def test_people_are_searched_in_any_case(self, store: EpisodeStore) -> None:
        for user in ("ana", "Banana", "Zo\u00c9", "100%_[a]", "zo\0e", "stra\u00dfe"):
            tell(store, scope=make_scope(user))
        tell(store, scope=make_scope("ben", agent="Travel-ANA"))
        tell(store, scope=make_scope("anabel", tenant="other"))

        def users(text: str) -> list[str]:
            search = store.people("acme", contains=text, limit=9)
            assert search.reached is None
            return [each.scope.user for each in search.found]

        assert users("aNa") == ["Banana", "ana", "ben"]
        assert users("\u00e9") == ["Zo\u00c9"]
        assert users("%_[") == ["100%_[a]"]
        assert users("O\0") == ["zo\0e"]
        assert users("ASS") == ["stra\u00dfe"]
        assert users("\u00e9 x") == []
        assert users("xyz") == []
        assert len(users("")) == 7

    def test_a_search_is_in_pages_and_bounded(self, store: EpisodeStore) -> None:
        for number in range(6):
            tell(store, scope=make_scope(f"user-{number}", agent="p"))
            tell(store, scope=make_scope(f"user-{number}", agent="q"))
        first = store.people("acme", contains="USER-", limit=5)
        assert first.reached == first.found[-1].scope == make_scope("user-2", agent="p")
        rest = store.people("acme", contains="USER-", after=first.reached, limit=50)
        assert (len(rest.found), rest.reached) == (7, None)
        assert not {each.scope for each in first.found} & {each.scope for each in rest.found}
        cut = store.people("acme", contains="-5", limit=5, most_read=4)
        assert (cut.found, cut.reached) == ((), make_scope("user-1", agent="q"))
        end = store.people("acme", contains="-5", after=cut.reached, limit=5, most_read=8)
        assert [each.scope.agent for each in end.found] == ["p", "q"]

    def test_a_search_stays_with_its_agents_and_user(self, store: EpisodeStore) -> None:
        for user, agent in (("ana", "p"), ("ana", "q"), ("anb", "p")):
            tell(store, scope=make_scope(user, agent=agent))
        some = store.people("acme", contains="a", agents=["p"], user="ana", limit=9)
        assert [each.scope for each in some.found] == [make_scope("ana", agent="p")]
        assert store.people("acme", contains="a", agents=[], limit=9).found == ()

    def test_agents_are_listed_by_name(self, store: EpisodeStore) -> None:
        for user, agent in (("ana", "b"), ("ben", "b"), ("ana", "a")):
            tell(store, scope=make_scope(user, agent=agent))
        tell(store, scope=make_scope("ana", agent="c", tenant="other"))
        assert store.agents("acme") == ["a", "b"]
        assert store.agents("nobody") == []

    def test_a_scope_with_facts_alone_is_listed(self, store: EpisodeStore) -> None:
        store.add_facts(BEN, [make_fact("Prefers tea.")])
        [found] = store.people(BEN.tenant, limit=9).found
        assert (found.scope, found.episodes, found.facts) == (BEN, 0, 1)
        assert found.last_message_at is None


def _writes_decided_by(
    store: EpisodeStore, started: Append, settings: str
) -> Iterator[Callable[[], object]]:
    """Every kind of write that stores text."""
    scope, episode_id = started.scope, started.episode_id
    for append in (
        make_next(started, "b", settings=settings),
        make_append(scope, "b", session_id="new", settings=settings),
        make_append(BEN, "b", settings=settings),
    ):
        yield partial(store.append, append)
    closing = make_closing(summary=make_summary(settings=settings))
    yield partial(store.close_episode, scope, episode_id, closing, expect_messages=1)
    yield partial(
        store.touch, scope, "session", seen_at=FAR, now=FAR, metadata={}, settings=settings
    )
    fact = make_fact("Likes tea.", ordinal=None, origin=FactOrigin.CALLER)
    yield partial(store.add_facts, scope, [fact], settings=settings, entry=make_entry())
    yield partial(store.add_facts, scope, [fact], settings=settings)


class ConfigTests(StoreTests):
    def test_a_tenants_own_settings_stand_beside_those_for_all(self, store: EpisodeStore) -> None:
        assert store.config("acme", "helper")[:2] == (None, None)
        store.put_config(None, "helper", {"who": "all"})
        assert store.config("acme", "helper")[:2] == ({"who": "all"}, None)
        assert store.config(None, "helper")[:2] == ({"who": "all"}, None)
        store.put_config("acme", "helper", {"who": "acme"})
        assert store.config("acme", "helper")[:2] == ({"who": "all"}, {"who": "acme"})
        assert store.config("other", "helper")[:2] == ({"who": "all"}, None)
        assert store.config("acme", "another agent")[:2] == (None, None)

    def test_settings_are_replaced_whole_or_removed(self, store: EpisodeStore) -> None:
        for tenant, place in ((None, 0), ("acme", 1)):
            store.put_config(tenant, "helper", {"a": 1, "b": {"c": [1.5, None, "é\0"]}})
            kept = store.config("acme", "helper")[place]
            assert kept == {"a": 1, "b": {"c": [1.5, None, "é\0"]}}
            store.put_config(tenant, "helper", {})
            assert store.config("acme", "helper")[place] == {}
            store.put_config(tenant, "helper", None)
            store.put_config(tenant, "helper", None)
            assert store.config("acme", "helper")[place] is None
        assert store.configs() == {}

    def test_the_version_of_settings_changes_with_either(self, store: EpisodeStore) -> None:
        versions = [store.config("acme", "helper").version]
        for tenant, config in ((None, {"a": 1}), ("acme", {"a": 1}), (None, {"a": 2})):
            store.put_config(tenant, "helper", config)
            versions.append(store.config("acme", "helper").version)
        assert len(set(versions)) == 4
        store.put_config("other", "helper", {"a": 3})
        store.put_config("acme", "another", {"a": 3})
        assert store.config("acme", "helper").version == versions[-1]

    def test_settings_changed_since_they_were_seen_are_left(self, store: EpisodeStore) -> None:
        for tenant in (None, "acme"):
            seen = store.config(tenant, "helper").version
            store.put_config(tenant, "helper", {"a": 1}, seen=seen)
            with pytest.raises(SettingsChanged):
                store.put_config(tenant, "helper", {"a": 2}, seen=seen)
            with pytest.raises(SettingsChanged):
                store.put_config(tenant, "helper", None, seen=seen)
            assert store.config(tenant, "helper")[0 if tenant is None else 1] == {"a": 1}
            store.put_config(
                tenant, "helper", {"a": 2}, seen=store.config(tenant, "helper").version
            )

    def test_what_was_decided_by_other_settings_is_not_stored(self, store: EpisodeStore) -> None:
        who = ANA.tenant, ANA.agent
        old = store.config(*who).version
        write = make_append(ANA, "a", settings=old)
        store.append(write)
        for tenant in (None, ANA.tenant):
            store.put_config(tenant, ANA.agent, {"privacy": {"pii": "redact"}})
            before = snapshot(store, ANA)
            for refused in _writes_decided_by(store, write, old):
                with pytest.raises(SettingsChanged):
                    refused()
            assert snapshot(store, ANA) == before
            assert store.recall_state(BEN) is None
            assert store.facts(ANA) == []
            old = store.config(*who).version
        store.append(make_next(write, "b", settings=old))
        store.add_facts(ANA, [make_fact()], settings=old)
        assert store.add_facts(ANA, [make_fact("Likes tea.")], settings=old) == 1
        store.close_episode(ANA, write.episode_id, make_closing(summary=None), expect_messages=2)
        store.put_config(*who, None)
        with pytest.raises(SettingsChanged):
            store.put_summary(ANA, write.episode_id, make_summary(settings=old))
        store.put_summary(ANA, write.episode_id, make_summary("by the new ones"))
        assert store.episodes(ANA, [write.episode_id])[write.episode_id].summary

    def test_a_repeated_call_is_answered_whatever_the_settings_are(
        self, store: EpisodeStore
    ) -> None:
        old = store.config(ANA.tenant, ANA.agent).version
        write = make_append(ANA, "a", idempotency=make_key(), settings=old)
        [turn] = store.append(write)
        store.put_config(None, ANA.agent, {"a": 1})
        assert [again.id for again in store.append(write)] == [turn.id]

    def test_a_change_of_settings_is_recorded_with_it(self, store: EpisodeStore) -> None:
        for tenant in (None, "acme"):
            entry = make_entry(tenant=tenant or "", action="configure")
            store.put_config(tenant, "helper", {}, entry=entry)
            [kept] = store.audit(tenant or "")
            assert kept.action == "configure"

    def test_all_settings_can_be_read(self, store: EpisodeStore) -> None:
        assert store.configs() == {}
        for tenant, agent in ((None, "x"), ("acme", "x"), ("acme", "y"), ("other", "x")):
            store.put_config(tenant, agent, {"of": [tenant, agent]})
        assert store.configs() == {
            key: {"of": list(key)}
            for key in ((None, "x"), ("acme", "x"), ("acme", "y"), ("other", "x"))
        }


class StatsTests(StoreTests):
    def test_an_empty_store(self, store: EpisodeStore) -> None:
        stats = store.stats()
        assert stats.product
        assert stats.schema
        counts = stats.tenants, stats.scopes, stats.sessions, stats.episodes, stats.turns
        assert counts == (0, 0, 0, 0, 0)
        assert stats.open_episodes == 0
        assert stats.vectors == {}
        assert {each.waiting for each in stats.backlog.values()} == {0}

    def test_counts_over_every_tenant(self, store: EpisodeStore) -> None:
        closing = make_closing(summary=make_summary(improve=True))
        for user in ("ana", "ben"):
            store.append(make_append(make_scope(user), "a", "b", closing=closing))
        store.append(make_append(ANA, "c", at=after(days=1)))
        store.append(make_append(make_scope(tenant="other"), "d", session_id="s"))
        first, *_ = claim_all(store)
        store.put_vectors("m", [(first, b"\x01")])
        stats = store.stats()
        assert (stats.tenants, stats.scopes, stats.sessions) == (2, 3, 3)
        assert (stats.episodes, stats.open_episodes, stats.turns) == (4, 2, 6)
        assert stats.vectors == {"m": 1}
        assert stats.backlog[WorkKind.EMBED].waiting == 7
        assert stats.backlog[WorkKind.SUMMARIZE].waiting == 2
        assert stats.size_bytes is None or stats.size_bytes > 0


class LifeTests(StoreTests):
    def test_the_salt_is_a_secret_of_its_own(self, store: EpisodeStore) -> None:
        assert len(store.salt) >= 16
        assert len(set(store.salt)) > 4
        assert store.salt == store.salt

    def test_closing_twice_does_nothing(self, store: EpisodeStore) -> None:
        store.close()
        store.close()

    def test_everything_outlives_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        write = make_append(ANA, "a", "b", metadata={"channel": "web"}, idempotency=make_key())
        closed = make_append(BEN, "c", closing=make_closing(summary=make_summary(improve=True)))
        stored = store.append(write)
        store.append(closed)
        store.put_config("acme", "helper", {"kept": True})
        first, *_ = claim_all(store)
        store.put_vectors("m", [(first, b"\x01\x02")])
        store.touch(ANA, "session", seen_at=after(hours=5), now=after(hours=6))
        before, salt = snapshot(store, ANA, BEN), store.salt
        again = reopened()
        assert snapshot(again, ANA, BEN) == before
        assert again.salt == salt
        assert again.config("acme", "helper").own == {"kept": True}
        retried = again.append(make_next(write, "a", "b", idempotency=make_key()))
        assert [turn.id for turn in retried] == [turn.id for turn in stored]
        assert [turn.ordinal for turn in again.append(make_next(write, "d"))] == [2]
        assert texts(again, write) == ["a", "b", "d"]
        [found] = again.open_episodes(touched_before=FAR, opened_before=FAR, limit=9)
        assert found.episode.id == write.episode_id


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
