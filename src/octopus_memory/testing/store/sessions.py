"""Store suite: message keys, session resets, and turns that are never recalled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ...domain.erasure import Erasure, Subject
from ...domain.errors import SessionNotFound
from ...domain.ids import new_id
from ...ports.store import EpisodeStore
from ...ports.values import Append, KeyTaken, MessageKeys
from ..fakes import make_append, make_closing, make_next, make_summary, make_turn
from .base import ANA, BEN, Reopen, StoreTests, after, at_once, raised, texts
from .removals import removal
from .retention import LATER, make_entry
from .scrub import rows_of

ONE, TWO = b"1" * 16, b"2" * 16


def replayed(store: EpisodeStore, last: int | None = None) -> list[str]:
    replay = store.replay(ANA, "session", last=last)
    assert replay is not None
    return [turn.text for turn in replay.turns]


def ended(store: EpisodeStore, *said: str, hours: int = 0) -> Append:
    closing = make_closing(after(hours=hours + 1), summary=make_summary("They met."))
    write = make_append(ANA, *said, at=after(hours=hours), closing=closing)
    store.append(write)
    return write


class MessageKeyTests(StoreTests):
    def test_a_key_is_known_in_its_session_alone(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        store.append(make_append(ANA, "a", "b", keys=[ONE, TWO]))
        again = reopened()
        assert again.message_keys(ANA, "session", [ONE, b"3" * 16]).digests == [ONE]
        assert again.message_keys(ANA, "other", [ONE]).digests == []
        assert again.message_keys(BEN, "session", [ONE]).digests == []
        assert again.message_keys(ANA, "session", []).digests == []

    def test_an_append_with_a_known_key_stores_nothing(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", keys=[ONE])
        store.append(write)
        with pytest.raises(KeyTaken):
            store.append(make_next(write, "b", "c", keys=[TWO, ONE]))
        assert texts(store, write) == ["a"]
        assert store.message_keys(ANA, "session", [TWO]).digests == []
        store.append(make_append(BEN, "a", keys=[ONE]))

    def test_of_many_at_once_one_stores_it(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        done = at_once(lambda _: store.append(make_next(write, "b", keys=[ONE])))
        assert raised(done) == [KeyTaken] * (len(done) - 1)
        assert texts(store, write) == ["a", "b"]

    def test_a_key_outlives_its_turn_and_goes_with_its_session(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", keys=[ONE])
        store.append(write)
        store.remove_turns([removal(store, write, 0, 1)], now=LATER)
        assert store.message_keys(ANA, "session", [ONE]).digests == [ONE]
        erase(store, episode_id=write.episode_id)
        assert store.message_keys(ANA, "session", [ONE]).digests == []

    def test_keys_and_salts_are_brought_into_a_session(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        salts, three = [b"s" * 32, b"t" * 32], b"3" * 16
        keys = MessageKeys(digests=[ONE, TWO], salts=salts[:1])
        assert store.import_keys(ANA, "session", keys) == 0
        write = make_append(ANA, "a", keys=[ONE])
        store.append(write)
        assert store.message_keys(ANA, "session") == MessageKeys([ONE], [])
        assert store.import_keys(BEN, "session", keys) == 0
        assert store.import_keys(ANA, "session", keys) == 1
        assert store.import_keys(ANA, "session", keys) == 0
        more = MessageKeys(digests=[three], salts=salts)
        assert store.import_keys(ANA, "session", more) == 1
        again = reopened()
        assert again.message_keys(ANA, "session") == MessageKeys([ONE, TWO, three], salts)
        assert again.message_keys(BEN, "session") == MessageKeys([], [])
        assert again.message_keys(ANA, "session", [TWO]) == MessageKeys([TWO], salts)
        with pytest.raises(KeyTaken):
            again.append(make_next(write, "b", keys=[TWO]))
        erase(again, episode_id=write.episode_id)
        again.append(make_append(ANA, "a", keys=[TWO]))
        assert again.message_keys(ANA, "session") == MessageKeys([TWO], [])

    def test_a_key_is_erased_with_its_scope(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a", keys=[ONE]))
        done = erase(store)
        assert done.removed["message keys"] == 1
        store.append(make_append(ANA, "a", keys=[ONE]))


class ResetTests(StoreTests):
    def test_turns_from_before_a_reset_are_not_replayed(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        ended(store, "a", "b")
        write = make_append(ANA, "c", at=after(hours=5))
        store.append(write)
        store.reset_session(ANA, "session")
        assert replayed(store) == []
        store.append(make_next(write, "d", "e", at=after(hours=6)))
        again = reopened()
        assert replayed(again) == ["d", "e"]
        assert replayed(again, 1) == ["e"]
        assert replayed(again, 9) == ["d", "e"]
        assert texts(again, write) == ["c", "d", "e"]
        [first, last] = again.episode_ids(ANA, "session").items()
        assert first[1] is None
        assert last == (write.episode_id, 1)

    def test_what_is_ended_and_hidden_is_not_shown_at_all(self, store: EpisodeStore) -> None:
        first = ended(store, "a")
        store.reset_session(ANA, "session")
        replay = store.replay(ANA, "session")
        assert replay is not None
        assert replay.episodes == ()
        assert store.episode_ids(ANA, "session") == {first.episode_id: None}
        second = ended(store, "b", hours=5)
        assert replayed(store) == ["b"]
        assert replayed(store, 5) == ["b"]
        shown = {first.episode_id: None, second.episode_id: 0}
        assert store.episode_ids(ANA, "session") == shown
        store.archive(ANA, first.episode_id)
        replay = store.replay(ANA, "session")
        assert replay is not None
        assert [each.episode.id for each in replay.episodes] == [second.episode_id]

    def test_recall_rows_stay(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        store.append(write)
        before = rows_of(store, write)
        store.reset_session(ANA, "session")
        assert rows_of(store, write) == before

    def test_a_removal_moves_the_point(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", "c")
        store.append(write)
        store.reset_session(ANA, "session")
        store.append(make_next(write, "d"))
        store.remove_turns([removal(store, write, 1)], now=LATER)
        assert replayed(store) == ["d"]

    def test_an_unknown_session_is_refused(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        for scope, name in ((ANA, "nowhere"), (BEN, "session")):
            with pytest.raises(SessionNotFound):
                store.reset_session(scope, name)
        assert replayed(store) == ["a"]


class SessionListTests(StoreTests):
    def test_the_last_seen_comes_first(self, store: EpisodeStore) -> None:
        for hours, name in ((3, "b"), (1, "a"), (2, "c")):
            at = after(hours=hours)
            store.append(make_append(ANA, "x", session_id=name, at=at, metadata={"n": hours}))
        gone = make_append(ANA, "x", session_id="gone", closing=make_closing())
        store.append(gone)
        store.delete(ANA, gone.episode_id, at=LATER)
        store.append(make_append(BEN, "x", session_id="theirs"))
        listed, count = store.list_sessions(ANA, offset=0, limit=2)
        assert ([session.id for session in listed], count) == (["b", "c"], 3)
        assert listed[0].metadata == {"n": 3}
        assert listed[0].last_seen_at == after(hours=3)
        rest, _ = store.list_sessions(ANA, offset=2, limit=2)
        assert [session.id for session in rest] == ["a"]
        assert store.list_sessions(replace(ANA, user="nobody"), offset=0, limit=2) == ([], 0)

    def test_a_session_is_erased_with_its_episodes(self, store: EpisodeStore) -> None:
        first = ended(store, "a", "b")
        second = make_append(ANA, "c", at=after(hours=5), keys=[ONE])
        store.append(second)
        store.append(make_append(ANA, "stays", session_id="other"))
        store.delete(ANA, first.episode_id, at=LATER)
        done = erase(store, session_id="session")
        assert set(done.episode_ids) == {first.episode_id, second.episode_id}
        assert (done.removed["turns"], done.removed["episodes"]) == (3, 2)
        assert (done.removed["sessions"], done.removed["message keys"]) == (1, 1)
        assert not any(store.left_of(done).values())
        assert store.erasures(unfinished=True) == [done]
        assert [s.id for s in store.sessions(ANA, deleted=True, limit=9)] == ["other"]
        with pytest.raises(SessionNotFound):
            erase(store, session_id="session")


class UnindexedTurnTests(StoreTests):
    def test_such_a_turn_has_no_recall_row(self, store: EpisodeStore, reopened: Reopen) -> None:
        hidden = replace(make_turn("opaque"), lexical=None, embed=False, indexed=False)
        write = make_append(ANA, "a", hidden, "b")
        store.append(write)
        assert sorted(rows_of(store, write)) == [0, 2]
        turns = reopened().turns(ANA, write.episode_id)
        assert [turn.indexed for turn in turns] == [True, False, True]
        assert [turn.text for turn in turns] == ["a", "opaque", "b"]

    def test_it_stays_so_in_an_archive(self, store: EpisodeStore) -> None:
        hidden = replace(make_turn("opaque"), lexical=None, embed=False, indexed=False)
        write = make_append(ANA, hidden, "b", closing=make_closing(summary=make_summary("Met.")))
        store.append(write)
        store.archive(ANA, write.episode_id, cold=True, at=LATER)
        kept = store.stored_episode(ANA, write.episode_id)
        assert kept is not None
        assert [turn.indexed for turn in kept.turns] == [False, True]


def erase(store: EpisodeStore, **only: object) -> Erasure:
    subject = Subject(tenant=ANA.tenant, agent=ANA.agent, user=ANA.user, **only)  # type: ignore[arg-type]
    begun = Erasure(id=new_id(), tenant=ANA.tenant, at=LATER, subject="hash")
    return store.erase(subject, begun, make_entry(action="erase"))


class TurnByIdTests(StoreTests):
    def test_a_turn_is_found_by_its_id_in_its_scope_alone(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        [_, turn] = store.append(write)
        assert store.turn(ANA, turn.id) == turn
        assert store.turn(BEN, turn.id) is None
        assert store.turn(ANA, new_id()) is None

    def test_a_turn_of_a_deleted_episode_is_not_found(self, store: EpisodeStore) -> None:
        write = ended(store, "a")
        [turn] = store.turns(ANA, write.episode_id)
        store.delete(ANA, write.episode_id, at=LATER)
        assert store.turn(ANA, turn.id) is None
