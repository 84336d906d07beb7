"""The store suite: who a store knows, with counts."""

from __future__ import annotations

from ...ports.store import EpisodeStore
from ..fakes import make_append, make_closing, make_fact, make_scope
from .base import ANA, BEN, StoreTests, after
from .retention import tell


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
