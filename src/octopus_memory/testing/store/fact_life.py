"""Store suite: facts through the stages of their episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ...domain.erasure import Erasure, Subject
from ...domain.errors import EpisodeChanged, FactNotFound
from ...domain.facts import Fact, FactOrigin, current
from ...domain.ids import new_id
from ...ports.store import EpisodeStore
from ...ports.values import Append
from ...testing.store.base import episode_facts
from ..fakes import START, make_fact, make_summary
from .base import ANA, BEN, StoreTests, after
from .facts import HOME, as_read, given, texts, told
from .retention import LATER, index_entries, make_entry
from .scrub import rewritten, stored
from .transfer import make_brought


def erase(store: EpisodeStore, write: Append | None = None) -> Erasure:
    episode_id = None if write is None else write.episode_id
    subject = Subject(tenant=ANA.tenant, user=ANA.user, agent=ANA.agent, episode_id=episode_id)
    begun = Erasure(id=new_id(), tenant=ANA.tenant, at=START, subject="5e" * 32, actor="suite")
    return store.erase(subject, begun, make_entry(action="erase"))


class FactLifeTests(StoreTests):
    def test_a_deleted_episode_hides_its_facts(self, store: EpisodeStore) -> None:
        fact = make_fact()
        write = told(store, fact)
        store.add_facts(ANA, [given()])
        before = store.facts(ANA)
        store.delete(ANA, write.episode_id, at=LATER)
        assert texts(store.facts(ANA)) == ["Prefers tea."]
        hidden = store.stored_episode(ANA, write.episode_id)
        assert hidden is not None
        assert (hidden.is_deleted, [each.id for each in hidden.facts]) == (True, [fact.id])
        with pytest.raises(FactNotFound):
            store.pin_fact(ANA, fact.id, pinned=True)
        with pytest.raises(FactNotFound):
            store.delete_fact(ANA, fact.id, at=LATER)
        store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        assert sorted(store.facts(ANA), key=_id) == sorted(before, key=_id)

    @pytest.mark.parametrize("cold", [True, False])
    def test_an_archived_episode_keeps_its_facts(self, store: EpisodeStore, cold: bool) -> None:
        fact = make_fact()
        write = told(store, fact)
        store.archive(ANA, write.episode_id, cold=cold, at=LATER)
        assert store.facts(ANA) == [as_read(fact, write)]

    def test_a_purge_removes_an_episodes_facts(self, store: EpisodeStore) -> None:
        write = told(store, make_fact(), make_fact("Has a cat."))
        other = told(store, make_fact("Has a dog."), session_id="another")
        for each in (write, other):
            store.delete(ANA, each.episode_id, at=LATER)
        assert store.purge(ANA, write.episode_id)["facts"] == 2
        assert store.stats().facts == 1
        assert store.purge(ANA, other.episode_id)["scopes"] == 1
        assert store.stats().facts == 0

    def test_facts_that_are_kept_outlive_their_episode(self, store: EpisodeStore) -> None:
        pinned, kept, gone = make_fact("Is Ana."), make_fact("Has a cat."), make_fact("Is 40.")
        write, other = told(store, pinned, kept, gone), told(store, make_fact(), session_id="b")
        store.pin_fact(ANA, pinned.id, pinned=True)
        version = store.recall_state(ANA)
        store.delete(ANA, write.episode_id, at=LATER, keep_facts=[kept.id])
        assert store.recall_state(ANA) != version
        found = {fact.text: fact for fact in store.facts(ANA)}
        assert set(found) == {"Is Ana.", "Has a cat.", "Is allergic to peanuts."}
        assert (found["Has a cat."].id, found["Has a cat."].episode_id) == (kept.id, None)
        assert (found["Is Ana."].turn_id, found["Is Ana."].ordinal) == (None, None)
        assert store.purge(ANA, write.episode_id)["facts"] == 1
        assert set(texts(store.facts(ANA))) == set(found)
        # With the last episode goes what was kept of others, but not what is pinned.
        store.delete(ANA, other.episode_id, at=LATER)
        assert store.purge(ANA, other.episode_id)["facts"] == 2
        assert texts(store.facts(ANA)) == ["Is Ana."]

    def test_a_scope_stays_for_what_the_caller_gave(self, store: EpisodeStore) -> None:
        purged, erased = told(store, make_fact()), told(store, make_fact(), session_id="b")
        store.add_facts(ANA, [given()])
        store.delete(ANA, purged.episode_id, at=LATER)
        store.purge(ANA, purged.episode_id)
        assert erase(store, erased).removed["scopes"] == 0
        assert texts(store.facts(ANA)) == ["Prefers tea."]
        assert [scope for _, scope in store.scopes(tenant=ANA.tenant, user=ANA.user)] == [ANA]

    def test_an_erasure_removes_facts_and_counts_them(self, store: EpisodeStore) -> None:
        write = told(store, make_fact(), make_fact("Has a cat."))
        told(store, make_fact("Has a dog."), session_id="another")
        tea = given()
        store.add_facts(ANA, [tea])
        store.delete_fact(ANA, tea.id, at=LATER)
        store.add_facts(BEN, [given("Is Ben's.")])
        done = erase(store, write)
        assert done.removed["facts"] == 2
        assert store.left_of(done)["facts"] == 0
        done = erase(store)
        assert done.removed["facts"] == 2
        assert store.left_of(done)["facts"] == 0
        assert store.facts(ANA) == []
        assert texts(store.facts(BEN)) == ["Is Ben's."]

    def test_facts_of_an_episode_are_rewritten_with_it(self, store: EpisodeStore) -> None:
        fact, kept, gone = make_fact("Is Ana."), make_fact("Has a cat."), make_fact("Is 40.")
        write = told(store, fact, kept, gone)
        store.pin_fact(ANA, fact.id, pinned=True)
        store.delete_fact(ANA, gone.id, at=LATER)
        was = stored(store, write)
        assert [known.id for known in was.facts] == [fact.id, kept.id]
        new = replace(was.facts[0], text="Is [NAME].", slot="[name]")
        store.rewrite(was, turns=[rewritten(0, "[NAME]")], facts=[new], now=LATER)
        found = {known.id: known for known in store.facts(ANA)}
        assert found[fact.id] == new
        assert found[kept.id] == was.facts[1]
        assert new.is_pinned
        store.delete(ANA, write.episode_id, at=LATER)
        hidden = stored(store, write)
        # The pinned fact lost its source.
        assert texts(hidden.facts) == ["Has a cat."]
        assert texts(store.facts(ANA)) == ["Is [NAME]."]
        removals = store.state().removals
        store.rewrite(hidden, facts=[replace(kept, text="Has [X].")], now=LATER)
        assert store.state().removals == removals + 1
        assert texts(stored(store, write).facts) == ["Has [X]."]

    def test_facts_found_meanwhile_are_not_left_as_they_are(self, store: EpisodeStore) -> None:
        write = told(store, make_fact())
        was = stored(store, write)
        summary = make_summary("They met.", facts=[make_fact("Is Ana Ng.")])
        store.put_summary(ANA, write.episode_id, summary)
        with pytest.raises(EpisodeChanged):
            store.rewrite(was, turns=[rewritten(0, "[NAME]")], now=LATER)

    def test_facts_are_taken_out_and_brought_in(self, store: EpisodeStore) -> None:
        old = make_fact("Lives in Ghent.", **HOME)
        new = make_fact("Lives in Lyon.", **HOME, since=after(days=2), turn_id=new_id())
        alone = make_fact("Is 40.")
        write = told(store, new, alone, make_fact("Has a cat."))
        told(store, old, session_id="another")
        for fact in (new, alone):
            store.delete_fact(ANA, fact.id, at=LATER)
        kept = episode_facts(store, ANA, write.episode_id)
        assert [(fact.text, fact.slot) for fact in kept if fact.is_deleted] == [("", "")]
        assert texts(fact for fact in kept if not fact.is_deleted) == ["Has a cat."]
        rest = store.stored_episode(ANA, write.episode_id, start=1, limit=9)
        assert rest is not None
        assert rest.facts == ()
        brought = replace(make_brought("a", scope=BEN), facts=kept)
        assert store.import_episode(brought)
        episode_id = brought.kept.episode.id
        store.add_facts(BEN, [replace(old, id=new_id(), origin=FactOrigin.CALLER)])
        assert texts(current(store.facts(BEN))) == ["Has a cat."]
        expected = [replace(fact, episode_id=episode_id) for fact in kept]
        assert episode_facts(store, BEN, episode_id) == expected
        assert not store.import_episode(brought)
        # A fact imported as deleted is not restored by a summary of its episode either.
        again = replace(new, id=new_id())
        store.put_summary(BEN, episode_id, make_summary("better", facts=[again]))
        assert current(store.facts(BEN)) == []


def _id(fact: Fact) -> int:
    return fact.id.int
