"""Store suite: settings, statistics, the secret, and durability."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from ...domain.errors import SettingsChanged
from ...domain.facts import FactOrigin
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import Append
from ..fakes import (
    make_append,
    make_closing,
    make_fact,
    make_key,
    make_next,
    make_scope,
    make_summary,
)
from .base import ANA, BEN, FAR, Reopen, StoreTests, after, claim_all, snapshot, texts
from .retention import make_entry


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
