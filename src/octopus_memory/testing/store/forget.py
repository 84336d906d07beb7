"""Store suite: previews of what is to be forgotten, and its removal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from ...domain.erasure import Erasure
from ...domain.errors import EpisodeChanged, EpisodeNotFound, LegalHold, NotFound
from ...domain.forget import FORGOTTEN, Chosen, text_digest
from ...domain.ids import new_id
from ...domain.ledger import Injected, InjectedKind, Injection
from ...ports.privacy import ForgottenEpisode
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, Append
from ..fakes import START, make_append, make_closing, make_fact, make_next, make_summary
from .base import ANA, BEN, Reopen, StoreTests, after, at_once, find, raised, snapshot, texts
from .erasure import begin, entry, erase, hold
from .retention import LATER
from .scrub import rewritten, rows_of, stored

TOKEN = "abcdefghjk"
SOON = after(hours=1)


def keep(store: EpisodeStore, chosen: Chosen, token: str = TOKEN) -> None:
    store.keep_preview(ANA, token, chosen, expires_at=SOON, now=START)


def told(store: EpisodeStore, **more: Any) -> Append:
    """A closed episode of four turns, with a fact of the third and one of the last."""
    write = make_append(ANA, "zero", "one. uno.", "two", "three", **more)
    facts = [
        make_fact("Has two.", ordinal=2, turn_id=write.turns[2].id, episode_id=write.episode_id),
        make_fact("Has three.", ordinal=3, turn_id=write.turns[3].id, episode_id=write.episode_id),
    ]
    summary = make_summary("one and two", facts=facts)
    write = replace(write, closing=make_closing(after(hours=1), summary=summary))
    store.append(write)
    return write


def digest(store: EpisodeStore, text: str) -> str:
    return text_digest(store.salt, ANA.tenant, text)


def plan(store: EpisodeStore, write: Append) -> tuple[Chosen, ForgottenEpisode]:
    """Forget a sentence of the second turn and the third turn whole, with its fact."""
    was = stored(store, write)
    fact = next(fact for fact in was.facts if fact.text == "Has two.")
    uno, two = was.turns[1].id, was.turns[2].id
    chosen = Chosen(
        turns={write.episode_id: {uno: (digest(store, "uno."),), two: None}}, facts=(fact.id,)
    )
    summary = make_summary("what is left")
    episode = ForgottenEpisode(
        was=was, turns=[rewritten(1, "one.")], removed=frozenset({two}), summary=summary
    )
    return chosen, episode


def forget(
    store: EpisodeStore, chosen: Chosen, *episodes: ForgottenEpisode, token: str = TOKEN
) -> Erasure:
    return store.forget(ANA, token, chosen, episodes, begin(), entry(action="forget"))


def shown(store: EpisodeStore, write: Append, *, fact_id: UUID | None = None) -> Injection:
    """An entry of the ledger, in another session, that names turns 0 to 2 and a fact."""
    store.append(make_append(ANA, "asks", session_id="asking"))
    items = [
        Injected(kind=InjectedKind.PASSAGE, rank=i, episode_id=write.episode_id, ordinal=i)
        for i in range(3)
    ]
    items.append(
        Injected(kind=InjectedKind.FACT, rank=1, episode_id=write.episode_id, fact_id=fact_id)
    )
    made = Injection(id=new_id(), session_id="asking", at=START, shown=tuple(items), query="uno?")
    store.record_injections(ANA.tenant, [(ANA, made)])
    return made


class PreviewTests(StoreTests):
    def test_a_preview_is_read_by_its_scope_until_it_expires(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        store.append(make_append(BEN, "b"))
        chosen = Chosen(turns={new_id(): {new_id(): ("5e",)}}, facts=(new_id(),))
        keep(store, chosen)
        assert store.preview(ANA, TOKEN, now=START) == chosen
        assert store.preview(ANA, "another", now=START) is None
        assert store.preview(BEN, TOKEN, now=START) is None
        assert store.preview(ANA, TOKEN, now=SOON) is None

    def test_an_unknown_scope_gets_no_preview(self, store: EpisodeStore) -> None:
        keep(store, Chosen(facts=(new_id(),)))
        assert store.preview(ANA, TOKEN, now=START) is None
        assert store.recall_state(ANA) is None

    def test_expired_previews_are_deleted(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        chosen = Chosen(facts=(new_id(),))
        keep(store, chosen)
        keep(store, chosen, "second")
        assert store.prune_previews(before=START) == 0
        assert store.prune_previews(before=SOON) == 2
        keep(store, chosen)
        store.keep_preview(ANA, "later", chosen, expires_at=after(hours=2), now=SOON)
        assert store.prune_previews(before=LATER) == 1

    def test_removing_an_episode_deletes_previews(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        store.append(make_append(ANA, "b", session_id="other"))
        keep(store, Chosen(turns={write.episode_id: {new_id(): ("5e",)}}))
        done = erase(store, ANA, episode_id=write.episode_id)
        assert done.removed["forget previews"] == 1
        assert store.preview(ANA, TOKEN, now=START) is None


class ForgetTests(StoreTests):
    def test_sentences_turns_and_facts_go(self, store: EpisodeStore) -> None:
        write = told(store)
        chosen, episode = plan(store, write)
        keep(store, chosen)
        done = forget(store, chosen, episode)
        assert texts(store, write) == ["zero", "one.", "three"]
        left = stored(store, write)
        assert [fact.text for fact in left.facts if not fact.is_deleted] == ["Has three."]
        assert find(store, write).summary == "what is left"
        assert sorted(rows_of(store, write)) == [SUMMARY_ORDINAL, 0, 1, 2]
        assert done.removed == {
            "turns": 1,
            "rewritten turns": 1,
            "summaries": 1,
            "forget previews": 1,
            "facts": 1,
            "ledger items": 0,
            "ledger queries": 0,
        }
        assert store.left_of(done) == {"turns": 0, "facts": 0, "ledger queries": 0}
        assert store.state().removals == done.number

    def test_the_search_after_forgetting_finds_what_is_there(self, store: EpisodeStore) -> None:
        """A control, so that the zeros after it mean something."""
        write = told(store)
        chosen, _ = plan(store, write)
        state = store.recall_state(ANA)
        assert state is not None
        made = shown(store, write)
        chosen = replace(chosen, queries=(made.id,))
        unharmed = replace(begin(), scope_ids=(state.scope_id,), chosen=chosen)
        assert store.left_of(unharmed) == {"turns": 2, "facts": 1, "ledger queries": 1}

    def test_the_erasure_is_recorded_without_digests(self, store: EpisodeStore) -> None:
        chosen, episode = plan(store, told(store))
        keep(store, chosen)
        done = forget(store, chosen, episode)
        assert done.chosen == chosen
        [kept] = store.erasures("acme", unfinished=True)
        assert kept == replace(done, chosen=chosen.ids())
        assert set(store.left_of(kept).values()) == {0}
        assert store.audit("acme")[-1].detail["removed"] == dict(done.removed)

    def test_a_preview_is_used_once(self, store: EpisodeStore) -> None:
        write = told(store)
        chosen, episode = plan(store, write)
        with pytest.raises(NotFound):
            forget(store, chosen, episode)
        keep(store, chosen)
        forget(store, chosen, episode)
        before = snapshot(store, ANA)
        with pytest.raises(NotFound):
            forget(store, chosen, episode)
        assert snapshot(store, ANA) == before

    def test_of_many_that_forget_at_once_one_succeeds(self, store: EpisodeStore) -> None:
        write = told(store)
        chosen, episode = plan(store, write)
        keep(store, chosen)
        outcomes = at_once(lambda _: forget(store, chosen, episode))
        assert set(raised(outcomes)) <= {NotFound, EpisodeChanged}
        assert len(raised(outcomes)) == len(outcomes) - 1
        assert texts(store, write) == ["zero", "one.", "three"]

    def test_text_that_changed_since_is_not_overwritten(self, store: EpisodeStore) -> None:
        """Else it would restore what another call removed."""
        write = told(store)
        chosen, episode = plan(store, write)
        keep(store, chosen)
        store.rewrite(stored(store, write), turns=[rewritten(0, "nothing")], now=LATER)
        before = snapshot(store, ANA)
        with pytest.raises(EpisodeChanged):
            forget(store, chosen, episode)
        assert snapshot(store, ANA) == before
        assert store.preview(ANA, TOKEN, now=START) == chosen

    def test_an_erased_episode_is_not_forgotten_again(self, store: EpisodeStore) -> None:
        write = told(store)
        chosen, episode = plan(store, write)
        store.append(make_append(ANA, "b", session_id="other"))
        erase(store, ANA, episode_id=write.episode_id)
        keep(store, chosen)
        with pytest.raises(EpisodeNotFound):
            forget(store, chosen, episode)

    @pytest.mark.parametrize("of_episode", [False, True])
    def test_a_hold_stops_forgetting(self, store: EpisodeStore, of_episode: bool) -> None:
        write = told(store)
        chosen, episode = plan(store, write)
        keep(store, chosen)
        store.place_hold(hold(ANA, write.episode_id if of_episode else None))
        before = snapshot(store, ANA)
        with pytest.raises(LegalHold):
            forget(store, chosen, episode)
        assert snapshot(store, ANA) == before

    def test_a_given_fact_goes_and_its_slot_stays_empty(self, store: EpisodeStore) -> None:
        older, newer = (
            make_fact("Old.", slot="s"),
            make_fact("New.", slot="s", since=after(hours=2)),
        )
        store.add_facts(ANA, [older, newer])
        chosen = Chosen(facts=(newer.id,))
        keep(store, chosen)
        assert forget(store, chosen).removed["facts"] == 1
        by_id = {fact.id: fact for fact in store.facts(ANA)}
        assert by_id[newer.id].is_deleted
        assert by_id[newer.id].slot == by_id[older.id].slot

    def test_the_ledger_forgets_items_and_queries(self, store: EpisodeStore) -> None:
        write = told(store)
        chosen, episode = plan(store, write)
        made = shown(store, write, fact_id=chosen.facts[0])
        chosen = replace(chosen, queries=(made.id,))
        keep(store, chosen)
        done = forget(store, chosen, episode)
        [left] = store.injections(ANA, limit=9)
        assert [item.ordinal for item in left.shown] == [0]
        assert left.query is None
        assert done.removed["ledger items"] == 2
        assert done.removed["ledger queries"] == 1

    def test_text_of_a_deleted_episode_is_forgotten(self, store: EpisodeStore) -> None:
        write = told(store)
        store.delete(ANA, write.episode_id, at=LATER)
        was = stored(store, write)
        chosen = Chosen(turns={write.episode_id: {was.turns[2].id: None}})
        keep(store, chosen)
        turns = [rewritten(2, FORGOTTEN)]
        done = forget(
            store, chosen, ForgottenEpisode(was=was, turns=turns, summary=make_summary("new"))
        )
        left = stored(store, write)
        assert [turn.text for turn in left.turns] == ["zero", "one. uno.", FORGOTTEN, "three"]
        assert left.episode.summary == "new"
        assert store.left_of(done)["turns"] == 0

    def test_an_open_episode_goes_on_after_forgetting(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "zero", "one")
        store.append(write)
        was = stored(store, write)
        chosen = Chosen(turns={write.episode_id: {was.turns[0].id: None}})
        keep(store, chosen)
        forget(store, chosen, ForgottenEpisode(was=was, removed=frozenset({was.turns[0].id})))
        store.append(make_next(write, "two"))
        assert texts(store, write) == ["one", "two"]

    def test_forgetting_is_durable(self, store: EpisodeStore, reopened: Reopen) -> None:
        write = told(store)
        chosen, episode = plan(store, write)
        keep(store, chosen)
        again = reopened()
        assert again.preview(ANA, TOKEN, now=START) == chosen
        done = forget(again, chosen, replace(episode, was=stored(again, write)))
        last = reopened()
        assert texts(last, write) == ["zero", "one.", "three"]
        assert [each.id for each in last.erasures("acme", unfinished=True)] == [done.id]
