"""Store suite: standing facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from ...domain.errors import FactNotFound, LegalHold, OctopusError
from ...domain.facts import MOST_FACTS_READ, Fact, FactKind, FactOrigin, consolidate, current
from ...domain.ids import new_id
from ...domain.retention import Hold
from ...ports.store import EpisodeStore
from ...ports.values import Append, Target
from ...testing.store.base import episode_facts
from ..fakes import START, make_append, make_closing, make_fact, make_next, make_summary
from .base import ANA, BEN, Reopen, StoreTests, after, at_once, raised, snapshot
from .isolation import crowd
from .retention import LATER, make_entry, tell

HOME: dict[str, Any] = {"kind": FactKind.HOME, "slot": ""}


def told(store: EpisodeStore, *facts: Fact, **more: Any) -> Append:
    """A closed episode with these facts."""
    return tell(store, closing=make_closing(summary=make_summary("They met.", facts=facts)), **more)


def given(text: str = "Prefers tea.", **more: Any) -> Fact:
    """A fact that a caller gives."""
    more = {"kind": FactKind.PREFERENCE, "origin": FactOrigin.CALLER, "ordinal": None} | more
    return make_fact(text, **more)


def texts(facts: Iterable[Fact]) -> list[str]:
    return sorted(fact.text for fact in facts)


def better(store: EpisodeStore, write: Append, *facts: Fact, by: str = "model") -> None:
    summary = make_summary("They met again.", by=by, facts=facts)
    store.put_summary(write.scope, write.episode_id, summary)


def as_read(fact: Fact, write: Append) -> Fact:
    return replace(fact, episode_id=write.episode_id)


def hold(store: EpisodeStore, **about: Any) -> None:
    store.place_hold(
        Hold(
            id=new_id(),
            tenant=ANA.tenant,
            reason="a case",
            placed_at=START,
            placed_by="suite",
            **about,
        )
    )


class FactTests(StoreTests):
    def test_an_unknown_scope_has_no_facts(self, store: EpisodeStore) -> None:
        assert store.facts(ANA) == []
        assert store.facts(ANA, given=True) == []
        with pytest.raises(FactNotFound):
            store.pin_fact(ANA, new_id(), pinned=True)
        with pytest.raises(FactNotFound):
            store.delete_fact(ANA, new_id(), at=LATER)
        assert store.stats().scopes == 0

    def test_facts_are_stored_with_the_end_of_their_episode(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        fact = make_fact(
            "Is allergic to 🥜 and \u00e9clairs.",
            slot="allergies",
            ordinal=1,
            turn_id=new_id(),
            origin=FactOrigin.MODEL,
            ends=True,
            since=after(microseconds=1),
        )
        write = told(store, fact)
        opened = make_append(ANA, "x", session_id="another")
        store.append(opened)
        moved = make_fact("Lives in Ghent.", **HOME)
        closing = make_closing(summary=make_summary(facts=[moved]))
        store.close_episode(ANA, opened.episode_id, closing, expect_messages=1)
        expected = [as_read(fact, write), as_read(moved, opened)]
        for each in (store, reopened()):
            found = {known.id: known for known in each.facts(ANA)}
            assert found == {known.id: known for known in expected}
            assert each.stats().facts == 2

    def test_a_write_of_facts_bumps_the_version(self, store: EpisodeStore) -> None:
        def version() -> int:
            state = store.recall_state(ANA)
            assert state is not None
            return state.version

        told(store, make_fact())
        tea, seen = given(), version()
        store.add_facts(ANA, [tea])
        for change in (
            lambda: store.pin_fact(ANA, tea.id, pinned=True),
            lambda: store.rewrite_scope(ANA, facts=[replace(tea, text="Prefers [X].")]),
            lambda: store.delete_fact(ANA, tea.id, at=LATER),
            lambda: store.add_facts(ANA, [given("Prefers milk.")]),
        ):
            assert version() > seen
            seen = version()
            change()
        assert version() > seen

    def test_a_caller_may_give_the_first_fact_of_a_scope(self, store: EpisodeStore) -> None:
        tea = given(is_pinned=True)
        store.add_facts(ANA, [tea], entry=make_entry(action="fact_add"))
        assert store.facts(ANA) == [tea]
        assert store.facts(BEN) == []
        assert [entry.action for entry in store.audit(ANA.tenant)] == ["fact_add"]
        assert [scope for _, scope in store.scopes(tenant=ANA.tenant, user=ANA.user)] == [ANA]

    def test_only_facts_said_by_then(self, store: EpisodeStore) -> None:
        store.add_facts(ANA, [given("early", since=after(days=1))])
        store.add_facts(ANA, [given("late", since=after(days=3), is_pinned=True)])
        assert texts(store.facts(ANA, until=after(days=1))) == ["early"]
        assert texts(store.facts(ANA, until=after(days=3))) == ["early", "late"]
        assert store.facts(ANA, until=START) == []

    def test_the_newest_are_read_and_all_that_are_pinned(self, store: EpisodeStore) -> None:
        most = MOST_FACTS_READ
        many = [given(f"{n}", since=after(minutes=n)) for n in range(most)]
        first = given("first", since=after(days=-2))
        pinned = given("pinned", since=after(days=-1), is_pinned=True)
        assert store.add_facts(ANA, [first, pinned, *many]) == most + 2
        found = store.facts(ANA)
        assert len(found) == most + 1
        assert {fact.text for fact in found} == {"pinned", *(str(n) for n in range(most))}

    def test_a_pin_is_set_and_cleared(self, store: EpisodeStore) -> None:
        fact = make_fact()
        write = told(store, fact)
        for pinned in (True, True, False):
            entry = make_entry(action="fact_pin")
            found = store.pin_fact(ANA, fact.id, pinned=pinned, entry=entry)
            assert found == replace(as_read(fact, write), is_pinned=pinned)
            assert store.facts(ANA) == [found]
        assert len(store.audit(ANA.tenant)) == 3

    def test_a_deleted_fact_loses_its_text_and_keeps_its_slot_empty(
        self, store: EpisodeStore
    ) -> None:
        old = make_fact("Lives in Ghent.", **HOME)
        new = make_fact("Lives in Lyon.", **HOME, since=after(days=2))
        told(store, old)
        told(store, new, session_id="another")
        store.pin_fact(ANA, new.id, pinned=True)
        removals = store.state().removals
        store.delete_fact(ANA, new.id, at=LATER, entry=make_entry(action="fact_delete"))
        assert store.state().removals == removals + 1
        found = {fact.id: fact for fact in store.facts(ANA)}
        assert found[new.id].is_deleted
        assert not found[new.id].is_pinned
        assert (found[new.id].text, found[new.id].slot) == ("", "")
        assert current(store.facts(ANA)) == []
        assert store.stats().facts == 1
        for again in (
            lambda: store.delete_fact(ANA, new.id, at=LATER),
            lambda: store.pin_fact(ANA, new.id, pinned=True),
        ):
            with pytest.raises(FactNotFound):
                again()
        newest = make_fact("Lives in Rome.", **HOME, since=after(days=9))
        told(store, newest, session_id="last")
        assert texts(current(store.facts(ANA))) == ["Lives in Rome."]

    def test_a_deleted_fact_that_was_alone_in_its_slot_meets_no_other(
        self, store: EpisodeStore
    ) -> None:
        store.add_facts(ANA, [given("Likes milk.", slot="milk")])
        alone = given(slot="tea", since=after(days=5))
        store.add_facts(ANA, [alone])
        store.delete_fact(ANA, alone.id, at=LATER)
        assert texts(current(store.facts(ANA))) == ["Likes milk."]

    def test_a_hold_keeps_facts(self, store: EpisodeStore) -> None:
        fact, tea = make_fact(), given()
        write = told(store, fact)
        store.add_facts(ANA, [tea])
        hold(store, episode_id=write.episode_id)
        with pytest.raises(LegalHold):
            store.delete_fact(ANA, fact.id, at=LATER)
        hold(store, user=ANA.user)
        before = store.facts(ANA)
        with pytest.raises(LegalHold):
            store.delete_fact(ANA, tea.id, at=LATER)
        with pytest.raises(LegalHold):
            store.rewrite_scope(ANA, facts=[replace(tea, text="[X]")])
        assert store.facts(ANA) == before
        # A pin does not change the text.
        assert store.pin_fact(ANA, tea.id, pinned=True).is_pinned

    def test_facts_are_brought_once(self, store: EpisodeStore) -> None:
        tea, gone = given(is_pinned=True), given("", slot="milk", is_deleted=True)
        milk = given("Likes milk.", slot="milk", since=after(days=-1))
        assert store.add_facts(ANA, [tea, gone, milk]) == 3
        assert store.add_facts(ANA, [tea, gone, milk]) == 0
        assert store.add_facts(BEN, [tea]) == 1
        assert store.add_facts(BEN, []) == 0
        assert texts(current(store.facts(ANA))) == ["Prefers tea."]
        assert sorted(store.facts(ANA), key=lambda fact: fact.id) == [tea, gone, milk]

    def test_a_callers_fact_is_rewritten(self, store: EpisodeStore) -> None:
        fact, tea, gone = make_fact(), given(is_pinned=True), given("Is Ana.")
        write = told(store, fact)
        for each in (tea, gone):
            store.add_facts(ANA, [each])
        store.delete_fact(ANA, gone.id, at=LATER)
        removals = store.state().removals
        changed = [replace(each, text="[X]", slot="[x]") for each in (fact, tea, gone)]
        store.rewrite_scope(ANA, facts=changed)
        assert store.state().removals == removals + 1
        found = {each.id: each for each in store.facts(ANA)}
        assert found[tea.id] == replace(tea, text="[X]", slot="[x]")
        assert found[fact.id] == as_read(fact, write)
        assert found[gone.id].text == ""
        store.rewrite_scope(BEN, facts=changed)


class BetterFactsTests(StoreTests):
    def test_a_better_summary_replaces_what_was_found(self, store: EpisodeStore) -> None:
        same, worse = make_fact(), make_fact("Has a cat.")
        write = told(store, same, worse)
        other = told(store, make_fact("Is of another episode."), session_id="another")
        store.add_facts(ANA, [given()])
        again, new = replace(same, id=new_id()), make_fact("Has two cats.")
        better(store, write, again, new)
        found = {fact.text: fact for fact in store.facts(ANA)}
        assert set(found) == {same.text, new.text, "Is of another episode.", "Prefers tea."}
        assert found[same.text].id == same.id
        assert found["Is of another episode."].episode_id == other.episode_id
        better(store, write)
        assert texts(store.facts(ANA)) == ["Is of another episode.", "Prefers tea."]

    def test_a_summary_that_says_nothing_of_facts_leaves_them(self, store: EpisodeStore) -> None:
        write = told(store, make_fact())
        store.put_summary(ANA, write.episode_id, make_summary("better"))
        assert texts(store.facts(ANA)) == ["Is allergic to peanuts."]

    def test_a_pinned_fact_stays(self, store: EpisodeStore) -> None:
        pinned = make_fact()
        write = told(store, pinned)
        store.pin_fact(ANA, pinned.id, pinned=True)
        better(store, write, make_fact("Has a cat."), replace(pinned, id=new_id()))
        found = {fact.text: fact for fact in store.facts(ANA)}
        assert set(found) == {pinned.text, "Has a cat."}
        assert found[pinned.text] == replace(as_read(pinned, write), is_pinned=True)

    def test_a_better_summary_does_not_undo_a_deletion(self, store: EpisodeStore) -> None:
        fact = make_fact("Lives in Ghent.", **HOME, ordinal=0)
        write = told(store, fact)
        store.delete_fact(ANA, fact.id, at=LATER)
        for words in (fact.text, "Their home is Ghent."):
            better(store, write, replace(fact, id=new_id(), text=words))
            assert current(store.facts(ANA)) == []
        # A fact from a later turn is new.
        moved = make_fact("Lives in Lyon.", **HOME, ordinal=1, since=after(seconds=10))
        better(store, write, replace(fact, id=new_id()), moved)
        assert texts(current(store.facts(ANA))) == ["Lives in Lyon."]

    def test_what_is_deleted_in_one_episode_may_be_said_in_another(
        self, store: EpisodeStore
    ) -> None:
        fact = make_fact("Lives in Ghent.", **HOME)
        told(store, fact)
        store.delete_fact(ANA, fact.id, at=LATER)
        again = replace(fact, id=new_id(), since=after(days=2))
        told(store, again, session_id="another")
        assert texts(current(store.facts(ANA))) == ["Lives in Ghent."]

    def test_an_episode_that_goes_on_keeps_its_facts_until_it_ends(
        self, store: EpisodeStore
    ) -> None:
        write = told(store, make_fact())
        store.append(make_next(write, "more", target=Target.RESUME))
        assert texts(store.facts(ANA)) == ["Is allergic to peanuts."]
        closing = make_closing(after(hours=2), make_summary(facts=[make_fact("Has a cat.")]))
        store.append(make_next(write, "the end", closing=closing))
        assert texts(store.facts(ANA)) == ["Has a cat."]

    def test_pins_against_newer_facts_and_callers(self, store: EpisodeStore) -> None:
        old = make_fact("Lives in Ghent.", **HOME)
        told(store, old)
        told(store, make_fact("Lives in Lyon.", **HOME, since=after(days=2)), session_id="another")
        assert texts(current(store.facts(ANA))) == ["Lives in Lyon."]
        store.pin_fact(ANA, old.id, pinned=True)
        assert texts(current(store.facts(ANA))) == ["Lives in Ghent."]
        rome = make_fact(
            "Lives in Rome.", **HOME, since=after(days=3), origin=FactOrigin.CALLER, ordinal=None
        )
        store.add_facts(ANA, [rome])
        assert texts(current(store.facts(ANA))) == ["Lives in Rome."]
        by_then = store.facts(ANA, until=after(days=2))
        assert texts(current(by_then)) == ["Lives in Ghent."]


class FactAtomicityTests(StoreTests):
    def test_facts_that_cannot_be_stored_end_no_episode(self, store: EpisodeStore) -> None:
        unfit: Any = object()
        spoiled = make_summary(facts=[make_fact(), make_fact(unfit, slot="x")])
        opened = make_append(ANA, "a")
        store.append(opened)
        closed = told(store, make_fact("Has a cat."), session_id="closed")
        before = snapshot(store, ANA), store.facts(ANA)
        with pytest.raises(OctopusError):
            store.close_episode(
                ANA, opened.episode_id, make_closing(summary=spoiled), expect_messages=1
            )
        with pytest.raises(OctopusError):
            store.append(make_append(BEN, "b", closing=make_closing(summary=spoiled)))
        with pytest.raises(OctopusError):
            store.put_summary(ANA, closed.episode_id, spoiled)
        with pytest.raises(OctopusError):
            store.add_facts(BEN, [given(unfit, slot="x")])
        assert (snapshot(store, ANA), store.facts(ANA)) == before
        assert store.scopes(tenant=BEN.tenant, user=BEN.user) == []

    def test_an_entry_is_recorded_with_the_change_or_not_at_all(self, store: EpisodeStore) -> None:
        told(store, make_fact())
        with pytest.raises(FactNotFound):
            store.pin_fact(ANA, new_id(), pinned=True, entry=make_entry())
        with pytest.raises(FactNotFound):
            store.delete_fact(ANA, new_id(), at=LATER, entry=make_entry())
        assert store.audit(ANA.tenant) == []

    def test_of_many_that_delete_a_fact_one_does(self, store: EpisodeStore) -> None:
        fact = make_fact()
        told(store, fact)
        outcomes = at_once(lambda _: store.delete_fact(ANA, fact.id, at=LATER))
        assert raised(outcomes) == [FactNotFound] * (len(outcomes) - 1)

    def test_callers_give_facts_at_once(self, store: EpisodeStore) -> None:
        def give(number: int) -> None:
            for place in range(5):
                since = START + timedelta(minutes=number)
                store.add_facts(ANA, [given(f"{number}/{place}", since=since)])

        assert raised(at_once(give)) == []
        assert len(store.facts(ANA)) == 40
        assert store.stats().scopes == 1


class FactIsolationTests(StoreTests):
    def test_a_scope_sees_and_changes_its_own_facts_alone(self, store: EpisodeStore) -> None:
        scopes = crowd()
        own: dict[Any, Sequence[Fact]] = {}
        for number, scope in enumerate(scopes):
            found, tea = make_fact(f"found {number}"), given(f"given {number}")
            told(store, found, scope=scope)
            store.add_facts(scope, [tea])
            own[scope] = [found, tea]
        for number, scope in enumerate(scopes):
            assert texts(store.facts(scope)) == [f"found {number}", f"given {number}"]
            assert texts(store.facts(scope, given=True)) == [f"given {number}"]
        for scope, other in pairwise(scopes):
            for fact in own[other]:
                with pytest.raises(FactNotFound):
                    store.pin_fact(scope, fact.id, pinned=True)
                with pytest.raises(FactNotFound):
                    store.delete_fact(scope, fact.id, at=LATER)
            store.rewrite_scope(scope, facts=[replace(own[other][1], text="[X]")])
            source = store.facts(other)[0].episode_id or store.facts(other)[1].episode_id
            assert source is not None
            assert episode_facts(store, scope, source) == []
            [found] = episode_facts(store, other, source)
            assert found.id == own[other][0].id
        for number, scope in enumerate(scopes):
            assert texts(consolidate(store.facts(scope))) == [f"found {number}", f"given {number}"]
