"""Store suite: reads across a tenant, and API keys."""

from __future__ import annotations

from datetime import timedelta

from ...domain.identity import AccessRole, ApiKey, secret_hash
from ...domain.ids import new_id
from ...ports.store import EpisodeStore
from ...ports.values import EpisodeQuery, TenantScopes
from ..fakes import START, make_append, make_closing, make_scope
from .base import StoreTests, after, find
from .retention import make_entry


def make_key(key_id: str = "k1", *, tenant: str = "acme", role: str = "admin") -> ApiKey:
    return ApiKey(id=key_id, tenant=tenant, role=AccessRole(role), name="a key", created_at=START)


class TenantReadTests(StoreTests):
    def test_an_episode_is_located_in_its_own_tenant_only(self, store: EpisodeStore) -> None:
        scope = make_scope("ana")
        write = make_append(scope, "a")
        store.append(write)
        ids = [write.episode_id, new_id()]
        assert store.locate(ids, tenant=scope.tenant) == {write.episode_id: scope}
        assert store.locate(ids, tenant="other") == {}
        assert store.locate(ids) == {write.episode_id: scope}
        assert store.locate(ids[1:]) == store.locate([]) == {}

    def test_a_page_goes_over_scopes_newest_first(self, store: EpisodeStore) -> None:
        writes = []
        for hour, user in enumerate(("ana", "ben", "cy")):
            closing = make_closing(at=after(hours=hour))
            writes.append(make_append(make_scope(user), "a", closing=closing))
            store.append(writes[-1])
        store.append(make_append(make_scope("ana", tenant="other"), "a"))
        ana, ben, cy = (find(store, write) for write in writes)
        tenant = ana.scope.tenant
        assert store.list_episodes(EpisodeQuery(of=TenantScopes(tenant), limit=10)) == (
            [cy, ben, ana],
            3,
        )
        assert store.list_episodes(EpisodeQuery(of=TenantScopes(tenant), offset=1, limit=1)) == (
            [ben],
            3,
        )
        assert store.list_episodes(EpisodeQuery(of=TenantScopes(tenant, user="ben"), limit=9)) == (
            [ben],
            1,
        )
        assert store.list_episodes(EpisodeQuery(of=TenantScopes("nobody"), limit=9)) == ([], 0)

    def test_agents_keep_apart(self, store: EpisodeStore) -> None:
        one, two = make_scope("ana"), make_scope("ana", agent="second")
        for scope in (one, two):
            store.append(make_append(scope, "a"))
        page, total = store.list_episodes(
            EpisodeQuery(of=TenantScopes(one.tenant, agents=["second"]), limit=9)
        )
        assert ([episode.scope for episode in page], total) == ([two], 1)
        assert store.list_episodes(
            EpisodeQuery(of=TenantScopes(one.tenant, agents=[]), limit=9)
        ) == ([], 0)

    def test_archived_and_deleted_episodes(self, store: EpisodeStore) -> None:
        scope = make_scope("ana")
        kept, gone = (make_append(scope, "a", closing=make_closing()) for _ in range(2))
        for write in (kept, gone):
            store.append(write)
        store.archive(scope, kept.episode_id, at=START)
        store.delete(scope, gone.episode_id, at=START)
        this = {gone.episode_id: scope}
        assert store.locate([gone.episode_id], tenant=scope.tenant, deleted=False) == {}
        assert store.locate([gone.episode_id], tenant=scope.tenant) == this
        assert store.locate([gone.episode_id], tenant="other") == {}
        page, total = store.list_episodes(EpisodeQuery(of=TenantScopes(scope.tenant), limit=9))
        assert ([episode.id for episode in page], total) == ([kept.episode_id], 1)
        without = store.list_episodes(
            EpisodeQuery(of=TenantScopes(scope.tenant), include_archived=False, limit=9)
        )
        assert without == ([], 0)
        hidden, total = store.list_episodes(
            EpisodeQuery(of=TenantScopes(scope.tenant), deleted=True)
        )
        assert ([episode.id for episode in hidden], total) == ([gone.episode_id], 1)


class KeyTests(StoreTests):
    def test_a_key_is_kept_without_its_secret(self, store: EpisodeStore) -> None:
        key = ApiKey(
            id="k1",
            tenant="acme",
            role=AccessRole.USER,
            name="Ana's phone",
            agents=("hr", "Ünï\0"),
            user="ana",
            created_at=START,
            expires_at=after(days=1),
        )
        store.put_key(key, secret_hash("s"))
        assert store.find_key("k1") == (key, secret_hash("s"))
        assert store.find_key("K1") is None
        assert store.find_key("k") is None
        assert store.find_key("k1\0") is None

    def test_keys_are_listed_by_tenant(self, store: EpisodeStore) -> None:
        for key_id, tenant in (("a", "acme"), ("b", "other"), ("c", "acme")):
            store.put_key(make_key(key_id, tenant=tenant), b"h")
        assert [key.id for key in store.list_keys("acme")] == ["a", "c"]
        assert sorted(key.id for key in store.list_keys()) == ["a", "b", "c"]
        assert store.list_keys("nobody") == []

    def test_an_end_is_never_put_off(self, store: EpisodeStore) -> None:
        store.put_key(make_key(), b"h")
        assert store.update_key("k1", expires_at=after(days=1))
        assert store.update_key("k1", revoked_at=after(hours=1), expires_at=after(days=9))
        assert store.update_key("k1", expires_at=after(days=9))
        [key] = store.list_keys()
        assert (key.expires_at, key.revoked_at) == (after(days=1), after(hours=1))
        assert not store.update_key("k2", revoked_at=START, expires_at=START)

    def test_what_is_done_with_a_key_is_recorded_with_it(self, store: EpisodeStore) -> None:
        store.put_key(make_key(), b"h", entry=make_entry(action="make_key"))
        end = make_entry(action="revoke_key")
        assert store.update_key("k1", revoked_at=START, expires_at=START, entry=end)
        assert not store.update_key("k2", revoked_at=START, expires_at=START, entry=end)
        assert [entry.action for entry in store.audit("acme")] == ["make_key", "revoke_key"]

    def test_the_last_use_is_noted(self, store: EpisodeStore) -> None:
        store.put_key(make_key(), b"h")
        moment = START + timedelta(microseconds=1)
        store.update_key("k1", used_at=moment)
        assert [key.last_used_at for key in store.list_keys()] == [moment]
