"""Store suite: the ledger of injections."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from ...domain.episode import Scope
from ...domain.erasure import Subject
from ...domain.ids import new_id
from ...domain.ledger import EpisodeUses, Injected, InjectedKind, Injection
from ...ports.store import EpisodeStore
from ...ports.values import Append, Target
from ..fakes import START, make_append, make_closing, make_fact, make_next, make_scope
from .base import ANA, BEN, Reopen, StoreTests, after, snapshot
from .erasure import begin, entry
from .retention import index_entries, tell

_TOKENS = {"budget_tokens": 800, "block_tokens": 120}


def passage(of: Append | UUID, ordinal: int = 0, **more: Any) -> Injected:
    episode_id = of if isinstance(of, UUID) else of.episode_id
    given: dict[str, Any] = {"rank": 1, "score": 0.75, "reason": "meaning, words", "tokens": 12}
    return Injected(
        kind=InjectedKind.PASSAGE, episode_id=episode_id, ordinal=ordinal, **(given | more)
    )


def given_fact(**more: Any) -> Injected:
    return Injected(kind=InjectedKind.FACT, rank=1, reason="pinned", fact_id=new_id(), **more)


def make_injection(
    *shown: Injected,
    cut: Iterable[Injected] = (),
    session_id: str = "now",
    at: datetime = START,
    **more: Any,
) -> Injection:
    left = tuple(cut)
    return Injection(
        id=new_id(),
        session_id=session_id,
        at=at,
        shown=shown,
        cut=left,
        left_out=len(left),
        block_hash="5e" * 32,
        **(_TOKENS | more),
    )


def record(store: EpisodeStore, *entries: Injection, scope: Scope = ANA) -> int:
    return store.record_injections(scope.tenant, [(scope, each) for each in entries])


def read(store: EpisodeStore, session_id: str | None = "now", **more: Any) -> list[Injection]:
    given: dict[str, Any] = {"scope": ANA, "limit": 1_000} | more
    return store.injections(given.pop("scope"), session_id=session_id, **given)


class LedgerTests(StoreTests):
    def test_an_unknown_scope_has_no_entries_and_gets_none(self, store: EpisodeStore) -> None:
        assert record(store, make_injection(given_fact())) == 0
        assert read(store) == read(store, None) == []
        assert store.episode_uses(ANA, new_id(), limit=5).times == 0
        store.rewrite_scope(ANA, queries={new_id(): "nothing"})
        assert record(store) == 0
        assert store.stats().scopes == 0

    def test_an_entry_is_read_as_it_was_recorded(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        old = tell(store, "a", "b")
        summary = Injected(
            kind=InjectedKind.SUMMARY, rank=2, reason="recent", episode_id=old.episode_id
        )
        cut = passage(old, 1, rank=7, score=0.1234, reason="budget")
        made = make_injection(
            given_fact(),
            passage(old, contributions={"meaning": 0.31, "question": -1.5}),
            summary,
            cut=[cut],
            session_id="né\U0001f419",
            query="What about 🥜\u0000?",
        )
        before = snapshot(store, ANA)
        assert record(store, made) == 1
        assert snapshot(store, ANA) == before
        assert read(reopened(), made.session_id) == [made]

    def test_an_entry_without_items_is_kept(self, store: EpisodeStore) -> None:
        tell(store)
        made = replace(make_injection(), block_hash="")
        assert record(store, made) == 1
        assert read(store) == [made]

    def test_an_entry_is_recorded_once(self, store: EpisodeStore) -> None:
        old = tell(store)
        made, other = make_injection(passage(old)), make_injection(passage(old, 1))
        assert record(store, made) == 1
        assert record(store, made, other) == 1
        assert read(store) == [made, other]

    def test_items_of_episodes_that_are_not_in_the_scope_are_passed_over(
        self, store: EpisodeStore
    ) -> None:
        old, others = tell(store), tell(store, scope=BEN)
        fact = given_fact()
        made = make_injection(fact, passage(old), passage(others), cut=[passage(new_id())])
        record(store, made)
        [kept] = read(store)
        assert (kept.shown, kept.cut, kept.left_out) == ((fact, passage(old)), (), 1)

    def test_entries_are_in_order_and_in_pages(self, store: EpisodeStore) -> None:
        old = tell(store)
        made = [make_injection(passage(old, n % 2)) for n in range(5)]
        elsewhere = make_injection(passage(old), session_id="elsewhere")
        record(store, *reversed(made), elsewhere)
        assert read(store) == made
        assert read(store, limit=2) == made[:2]
        assert read(store, after=made[1].id, limit=2) == made[2:4]
        assert read(store, None) == [*made, elsewhere]

    def test_entries_of_several_scopes_are_recorded_together(self, store: EpisodeStore) -> None:
        old, others = tell(store), tell(store, scope=BEN)
        mine, theirs = make_injection(passage(old)), make_injection(passage(others))
        unknown = make_scope("nobody")
        entries = [(BEN, theirs), (ANA, mine), (unknown, make_injection())]
        assert store.record_injections(ANA.tenant, entries) == 2
        assert read(store) == [mine]
        assert read(store, scope=BEN) == [theirs]

    def test_other_scopes_see_nothing(self, store: EpisodeStore) -> None:
        old = tell(store)
        record(store, made := make_injection(passage(old), query="q"))
        for scope in (
            BEN,
            make_scope("Ana"),
            make_scope("ana", agent="another"),
            make_scope("ana", tenant="other"),
        ):
            tell(store, scope=scope)
            assert read(store, scope=scope) == read(store, None, scope=scope) == []
            assert store.episode_uses(scope, old.episode_id, limit=5).times == 0
            store.rewrite_scope(scope, queries={made.id: "other"})
        assert read(store) == [made]

    def test_the_turn_is_the_first_that_was_stored_afterwards(self, store: EpisodeStore) -> None:
        old = tell(store)
        early = make_injection(passage(old))
        write = make_append(ANA, "hello", "good morning", session_id="now")
        store.append(write)
        between = make_injection(passage(old))
        store.append(make_next(write, "and now?", "now this"))
        late = make_injection(passage(old))
        record(store, early, between, late)
        turns = [(each.episode_id, each.ordinal) for each in read(store)]
        assert turns == [(write.episode_id, 0), (write.episode_id, 2), (None, None)]

    def test_uses_tell_how_often_and_when_last(self, store: EpisodeStore) -> None:
        old, other = tell(store), tell(store, session_id="other")
        entries = [
            make_injection(passage(old), passage(old, 1), at=after(minutes=n), session_id=f"s{n}")
            for n in range(3)
        ]
        record(store, *entries, make_injection(passage(other), cut=[passage(old)]))
        uses = store.episode_uses(ANA, old.episode_id, limit=2)
        assert (uses.times, uses.cut, uses.last) == (3, 1, after(minutes=2))
        assert [(each.session_id, each.items) for each in uses.recent] == [("s2", 2), ("s1", 2)]
        assert [each.injection_id for each in uses.recent] == [entries[2].id, entries[1].id]
        unknown = new_id()
        assert store.episode_uses(ANA, unknown, limit=2) == EpisodeUses(episode_id=unknown)

    def test_queries_are_rewritten(self, store: EpisodeStore) -> None:
        tell(store)
        spoken, silent = make_injection(query="call 555-0100"), make_injection()
        record(store, spoken, silent)
        removals = store.state().removals
        store.rewrite_scope(
            ANA, queries={spoken.id: "call [PHONE]", silent.id: "new", new_id(): "x"}
        )
        assert [each.query for each in read(store)] == ["call [PHONE]", None]
        assert store.state().removals > removals


class LedgerLifeTests(StoreTests):
    def test_a_deleted_episode_is_not_shown_and_comes_back(self, store: EpisodeStore) -> None:
        old = tell(store)
        record(store, made := make_injection(passage(old), cut=[passage(old, 1)]))
        store.delete(ANA, old.episode_id, at=after(days=1))
        [hidden] = read(store)
        assert (hidden.shown, hidden.cut) == ((), ())
        assert store.episode_uses(ANA, old.episode_id, limit=5).times == 0

        store.restore(ANA, old.episode_id, index_entries(store, old), at=after(days=2))
        assert read(store) == [made]

    def test_a_purge_takes_the_items_of_an_episode(self, store: EpisodeStore) -> None:
        old, other = tell(store), tell(store, session_id="other")
        record(store, make_injection(passage(old), passage(other), cut=[passage(old, 1)]))
        store.delete(ANA, old.episode_id, at=after(days=1))
        removed = store.purge(ANA, old.episode_id)
        assert removed["ledger items"] == 1
        [kept] = read(store)
        assert (kept.shown, kept.cut) == ((passage(other),), ())

    def test_an_entry_goes_with_the_episode_of_its_turn(self, store: EpisodeStore) -> None:
        old = tell(store)
        first = make_append(ANA, "a", session_id="now", now=after(minutes=1))
        store.append(first)
        store.append(make_next(first, closing=make_closing(), now=after(minutes=2)))
        second = make_append(ANA, "b", session_id="now", at=after(hours=2), now=after(hours=2))
        store.append(second)
        of_first = [make_injection(passage(old), at=after(seconds=n)) for n in (1, 59)]
        of_second = [
            make_injection(passage(old), at=when) for when in (after(hours=1), after(hours=3))
        ]
        record(store, *of_first, *of_second)
        erase_episode(store, first.episode_id)
        assert {each.id for each in read(store)} == {each.id for each in of_second}
        erase_episode(store, second.episode_id)
        assert read(store) == []
        assert store.episode_uses(ANA, old.episode_id, limit=5).times == 0

    def test_erasing_a_later_episode_leaves_the_entries_of_earlier_ones(
        self, store: EpisodeStore
    ) -> None:
        old = tell(store)
        first = make_append(ANA, "a", session_id="now", now=after(minutes=1))
        store.append(first)
        store.append(make_next(first, closing=make_closing(), now=after(minutes=2)))
        second = make_append(ANA, "b", session_id="now", at=after(hours=2), now=after(hours=2))
        store.append(second)
        early, late = (
            make_injection(passage(old), at=START),
            make_injection(passage(old), at=after(hours=1)),
        )
        record(store, early, late)
        erase_episode(store, second.episode_id)
        assert [each.id for each in read(store)] == [early.id]

    def test_an_erasure_takes_the_whole_ledger_of_a_scope(self, store: EpisodeStore) -> None:
        old, others = tell(store), tell(store, scope=BEN)
        record(store, make_injection(passage(old), query="q"), make_injection(session_id="never"))
        record(store, kept := make_injection(passage(others)), scope=BEN)
        subject = Subject(tenant=ANA.tenant, agent=ANA.agent, user=ANA.user)
        erasure = store.erase(subject, begin(), entry())
        assert (erasure.removed["ledger items"], erasure.removed["ledger entries"]) == (1, 2)
        left = store.left_of(erasure)
        assert not any(left.values())
        tell(store)
        assert read(store, None) == []
        assert read(store, scope=BEN) == [kept]

    def test_a_scope_that_is_left_empty_keeps_no_entries(self, store: EpisodeStore) -> None:
        old = tell(store)
        record(store, make_injection(passage(old), session_id="never stored"))
        erase_episode(store, old.episode_id)
        assert store.stats().scopes == 0
        tell(store)
        assert read(store, None) == []

    def test_a_purge_that_empties_the_scope_takes_all_entries(self, store: EpisodeStore) -> None:
        old = tell(store)
        record(store, make_injection(passage(old), session_id="never stored"))
        store.delete(ANA, old.episode_id, at=after(days=1))
        store.purge(ANA, old.episode_id)
        tell(store)
        assert read(store, None) == []

    def test_archiving_keeps_the_ledger(self, store: EpisodeStore) -> None:
        old = tell(store)
        record(store, made := make_injection(passage(old)))
        store.archive(ANA, old.episode_id)
        assert read(store) == [made]
        assert store.episode_uses(ANA, old.episode_id, limit=1).times == 1

    def test_a_fact_of_an_episode_goes_with_it(self, store: EpisodeStore) -> None:
        old, kept = tell(store), given_fact()
        store.add_facts(ANA, [make_fact("Prefers tea.")])
        record(store, make_injection(kept, given_fact(episode_id=old.episode_id)))
        erase_episode(store, old.episode_id)
        assert [each.shown for each in read(store)] == [(kept,)]

    def test_a_resumed_episode_keeps_its_entries(self, store: EpisodeStore) -> None:
        old = tell(store)
        first = make_append(ANA, "a", session_id="now", closing=make_closing())
        store.append(first)
        made = make_injection(passage(old), at=START + timedelta(hours=3))
        resumed = make_next(first, "b", target=Target.RESUME, at=after(hours=4))
        store.append(resumed)
        record(store, made)
        assert [each.id for each in read(store)] == [made.id]
        erase_episode(store, first.episode_id)
        assert read(store) == []


def erase_episode(store: EpisodeStore, episode_id: UUID) -> None:
    subject = Subject(tenant=ANA.tenant, agent=ANA.agent, user=ANA.user, episode_id=episode_id)
    store.erase(subject, begin(), entry())
