"""Store suite: reading sessions, episodes and turns."""

from __future__ import annotations

import pytest

from ...domain.ids import new_id
from ...ports.store import EpisodeStore
from ...ports.values import Append, EpisodeQuery, Placeholder, Target
from ..fakes import START, make_append, make_closing, make_next, make_scope
from .base import ANA, BEN, FAR, StoreTests, after, find, session_episodes


class SessionReadTests(StoreTests):
    def test_what_was_never_written_reads_empty(self, store: EpisodeStore) -> None:
        store.append(make_append(BEN, "a"))
        assert store.session(ANA, "session") is None
        assert store.replay(ANA, "session") is None
        assert store.episodes(ANA, [new_id()]) == {}
        assert store.episode_ids(ANA, "session") == {}
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=9)) == ([], 0)
        assert store.turns(ANA, new_id()) == []
        assert store.turns_at(ANA, [(new_id(), 0)]) == []
        assert store.recall_state(ANA) is None
        assert store.recall_rows(ANA, after=0)[1] == []

    def test_a_session_shows_its_last_episode(self, store: EpisodeStore) -> None:
        for day in range(3):
            write = make_append(ANA, "a", at=after(days=day))
            store.append(write)
            state = store.session(ANA, "session")
            assert state is not None
            assert state.episode == find(store, write)
            closing = make_closing(after(days=day, hours=1))
            store.close_episode(ANA, write.episode_id, closing, expect_messages=1)
            state = store.session(ANA, "session")
            assert state is not None
            assert state.episode == find(store, write)
            assert state.session.last_seen_at == after(days=day)

    def test_an_open_episode_is_the_last_whatever_its_time(self, store: EpisodeStore) -> None:
        # The clock that makes ids may be set back, and a past conversation may be imported.
        lower = new_id()
        closing = make_closing(after(days=6))
        store.append(make_append(ANA, "a", at=after(days=5), closing=closing))
        write = make_append(ANA, "b", episode_id=lower, at=after(days=1))
        store.append(write)
        state = store.session(ANA, "session")
        assert state is not None
        assert state.episode == find(store, write)

    def test_the_episodes_of_a_session_are_read_oldest_first(self, store: EpisodeStore) -> None:
        writes = [
            make_append(
                ANA,
                "a",
                at=after(days=day),
                now=after(days=9),
                closing=make_closing(after(days=day)),
            )
            for day in (2, 0, 1)
        ]
        for write in [*writes, make_append(ANA, "b", session_id="other")]:
            store.append(write)
        found = session_episodes(store, ANA, "session")
        assert found == [find(store, writes[place]) for place in (1, 2, 0)]
        assert store.episode_ids(ANA, "session") == dict.fromkeys((each.id for each in found), 0)
        assert store.episode_ids(ANA, "another") == {}

    def test_a_replay_is_the_session_whole(self, store: EpisodeStore) -> None:
        past = [_past(day, day * 5) for day in (2, 0, 1)]
        open_now = make_append(ANA, "now", at=after(days=1, hours=1), now=after(days=9))
        for write in [*past, open_now, make_append(ANA, "b", session_id="other")]:
            store.append(write)
        replay, state = store.replay(ANA, "session"), store.session(ANA, "session")
        assert replay is not None
        assert state is not None
        assert replay.session == state.session
        ids = store.episode_ids(ANA, "session")
        assert sorted(each.episode.id for each in replay.episodes) == sorted(ids)
        for each in replay.episodes:
            assert list(each.turns) == store.turns(ANA, each.episode.id)
        assert len(replay.turns) == 16

    def test_the_last_turns_of_a_session(self, store: EpisodeStore) -> None:
        # From the first to the last: empty, three turns, archived, open, two turns, archived.
        past = {day: _past(day, count) for day, count in ((0, 0), (1, 3), (2, 4), (4, 2), (5, 3))}
        open_now = make_append(ANA, "a", "b", at=after(days=3), now=after(days=9))
        for write in [*past.values(), open_now, make_append(ANA, "x", session_id="other")]:
            store.append(write)
        for day in (2, 5):
            store.archive(ANA, past[day].episode_id, cold=day == 5)
        whole = store.replay(ANA, "session")
        assert whole is not None
        assert len(whole.turns) == 7
        for last, begins in enumerate((4, 4, 3, 3, 1, 1, 1), 1):
            replay = store.replay(ANA, "session", last=last)
            assert replay is not None
            assert replay.session == whole.session
            assert replay.turns == whole.turns[-last:]
            assert [each.episode for each in replay.episodes] == [
                each.episode for each in whole.episodes[begins:]
            ]
        assert store.replay(ANA, "session", last=8) == whole
        assert store.replay(ANA, "session", last=1_000_000) == whole
        assert store.replay(ANA, "another", last=1) is None
        assert store.replay(BEN, "session", last=1) is None

    @pytest.mark.parametrize("open_since", [20, 5.5])
    def test_the_last_turns_of_many_episodes(self, store: EpisodeStore, open_since: float) -> None:
        for day in range(12):
            store.append(_past(day, 2))
        store.append(make_append(ANA, at=after(days=open_since), now=after(days=20)))
        whole = store.replay(ANA, "session")
        assert whole is not None
        ids = [each.episode.id for each in whole.episodes]
        for last in (1, 2, 5, 13, 23, 24):
            replay = store.replay(ANA, "session", last=last)
            assert replay is not None
            assert replay.session == whole.session
            assert replay.turns == whole.turns[-last:]
            begins = ids.index(replay.turns[0].episode_id)
            assert [each.episode.id for each in replay.episodes] == ids[begins:]


class EpisodeReadTests(StoreTests):
    def test_the_known_of_the_ids_are_found(self, store: EpisodeStore) -> None:
        writes = [make_append(ANA, "a", session_id=str(number)) for number in range(3)]
        for write in writes:
            store.append(write)
        wanted = [writes[2].episode_id, new_id(), writes[0].episode_id, writes[2].episode_id]
        found = store.episodes(ANA, wanted)
        assert set(found) == {writes[0].episode_id, writes[2].episode_id}
        assert all(episode.id == key for key, episode in found.items())
        assert store.episodes(ANA, []) == {}

    def test_any_number_of_ids_can_be_asked_for(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        many = [new_id() for _ in range(3_000)]
        assert set(store.episodes(ANA, [*many, write.episode_id])) == {write.episode_id}


def _past(day: int, count: int) -> Append:
    """An episode with this number of turns that ended on the day it began."""
    return make_append(
        ANA,
        *(f"{day} {number}" for number in range(count)),
        at=after(days=day),
        now=after(days=9),
        closing=make_closing(after(days=day)),
    )


def _tell(store: EpisodeStore, session_id: str, start: int, end: int | None) -> Append:
    """An episode from one day to another; without an end it stays open."""
    closing = None if end is None else make_closing(after(days=end))
    write = make_append(ANA, "a", session_id=session_id, at=after(days=start), closing=closing)
    store.append(write)
    return write


def _listed(store: EpisodeStore, **wanted: object) -> list[str]:
    given: dict[str, object] = {"offset": 0, "limit": 100} | wanted
    found, count = store.list_episodes(EpisodeQuery(of=ANA, **given))  # type: ignore[arg-type]
    assert count == len(found)
    return [episode.session_id for episode in found]


class ListTests(StoreTests):
    def test_newest_first_by_end_and_open_ones_before(self, store: EpisodeStore) -> None:
        _tell(store, "ended second", 0, 8)
        _tell(store, "open early", 1, None)
        _tell(store, "ended last", 2, 9)
        _tell(store, "ended first", 3, 4)
        _tell(store, "open late", 5, None)
        listed = _listed(store)
        assert set(listed[:2]) == {"open early", "open late"}
        assert listed[2:] == ["ended last", "ended second", "ended first"]

    def test_listed_episodes_are_whole(self, store: EpisodeStore) -> None:
        write = _tell(store, "s", 0, 1)
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=1)) == ([find(store, write)], 1)

    def test_pages_cover_everything_once(self, store: EpisodeStore) -> None:
        for number in range(7):
            # Equal ends, so that only a total order keeps the pages apart.
            _tell(store, str(number), 0, 1 if number < 4 else 2)
        whole, _ = store.list_episodes(EpisodeQuery(of=ANA, limit=100))
        for size in (1, 2, 3, 7):
            paged = []
            for offset in range(0, 7, size):
                page, count = store.list_episodes(EpisodeQuery(of=ANA, offset=offset, limit=size))
                assert count == 7
                paged += page
            assert paged == whole
        assert store.list_episodes(EpisodeQuery(of=ANA, offset=7, limit=5)) == ([], 7)
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=0)) == ([], 7)
        assert store.list_episodes(EpisodeQuery(of=ANA, offset=2, limit=3, count=False)) == (
            whole[2:5],
            3,
        )

    def test_filters_and_their_count(self, store: EpisodeStore) -> None:
        _tell(store, "archived", 0, 1)
        _tell(store, "closed", 0, 2)
        _tell(store, "both", 0, 3)
        _tell(store, "both", 4, None)
        store.archive(ANA, session_episodes(store, ANA, "archived")[0].id)
        assert _listed(store) == ["both", "both", "closed", "archived"]
        assert _listed(store, include_archived=False) == ["both", "both", "closed"]
        assert _listed(store, leave_out_sessions=["both"]) == ["closed", "archived"]
        assert _listed(store, leave_out_sessions=["both", "closed", "none"]) == ["archived"]
        page, count = store.list_episodes(
            EpisodeQuery(of=ANA, offset=1, limit=1, include_archived=False)
        )
        assert ([episode.session_id for episode in page], count) == (["both"], 3)


class TurnReadTests(StoreTests):
    def test_a_range_of_ordinals(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", "c", "d", "e")
        store.append(write)
        store.append(make_append(ANA, "x", session_id="other"))

        def read(start: int, stop: int | None) -> str:
            found = store.turns(ANA, write.episode_id, start=start, stop=stop)
            assert [turn.ordinal for turn in found] == list(range(5))[start:stop]
            return "".join(turn.text for turn in found)

        assert read(0, None) == "abcde"
        assert read(3, None) == "de"
        assert read(0, 2) == "ab"
        assert read(1, 4) == "bcd"
        assert read(0, 99) == "abcde"
        assert read(2, 2) == read(5, None) == read(9, 12) == ""

    def test_turns_at_places(self, store: EpisodeStore) -> None:
        first = make_append(ANA, *(f"first {n}" for n in range(40)))
        second = make_append(ANA, *(f"second {n}" for n in range(3)), session_id="second")
        for write in (first, second):
            store.append(write)
        places = [
            (second.episode_id, 1),
            (first.episode_id, 39),
            (first.episode_id, 0),
            (first.episode_id, 2),
            (first.episode_id, 40),
            (second.episode_id, -1),
            (new_id(), 0),
        ]
        found = store.turns_at(ANA, places)
        assert {(turn.episode_id, turn.ordinal) for turn in found} == set(places[:4])
        assert sorted(turn.text for turn in found) == ["first 0", "first 2", "first 39", "second 1"]
        assert store.turns_at(ANA, []) == []

    def test_episodes_and_turns(self, store: EpisodeStore) -> None:
        one, other = make_append(ANA, "one", "two"), make_append(ANA, "three", session_id="other")
        for write in (one, other):
            store.append(write)
        ids = [one.episode_id, new_id(), other.episode_id]
        places = [(one.episode_id, 1), (other.episode_id, 0), (other.episode_id, 1)]
        episodes, turns = store.episodes_and_turns(ANA, ids, places)
        assert episodes == store.episodes(ANA, ids)
        assert sorted(turn.text for turn in turns) == ["three", "two"]
        assert {turn.id for turn in store.turns_at(ANA, places)} == {turn.id for turn in turns}
        assert store.episodes_and_turns(ANA, ids, [])[0] == episodes
        assert len(store.episodes_and_turns(ANA, [], places)[1]) == 2
        assert store.episodes_and_turns(ANA, [], []) == ({}, [])
        assert store.episodes_and_turns(BEN, ids, places) == ({}, [])

    def test_turns_at_many_places(self, store: EpisodeStore) -> None:
        write = make_append(ANA, *(str(number) for number in range(900)))
        store.append(write)
        places = [(write.episode_id, ordinal) for ordinal in range(0, 900, 7)]
        found = store.turns_at(ANA, places)
        assert sorted(turn.ordinal for turn in found) == [ordinal for _, ordinal in places]

    def test_a_read_with_a_body_in_the_port_answers_as_the_store_does(
        self, store: EpisodeStore
    ) -> None:
        first = make_append(
            ANA, "a", "b", placeholders=(Placeholder(kind="EMAIL", number=1, digest=b"d" * 32),)
        )
        others = [make_scope(user, tenant=tenant) for tenant in ("b", "c") for user in ("x", "y")]
        store.append(first)
        for scope in others:
            store.append(make_append(scope, "c"))
        ports = EpisodeStore
        numbers = store.placeholders(ANA, first.episode_id)
        assert ports.placeholders(store, ANA, first.episode_id) == numbers != []
        assert ports.placeholders(store, BEN, first.episode_id) == []
        assert ports.agents(store, ANA.tenant) == store.agents(ANA.tenant) == [ANA.agent]
        assert ports.backlog(store) == store.backlog()
        for name, limit in ((None, 9), (None, 1), ("b", 9), ("c", 1)):
            known = store.tenants(after=name, limit=limit)
            assert ports.tenants(store, after=name, limit=limit) == known


class OpenEpisodesTests(StoreTests):
    def test_idle_or_long_open_episodes_of_every_tenant(self, store: EpisodeStore) -> None:
        idle = make_append(make_scope(tenant="a"), "a", now=after(hours=5))
        long = make_append(make_scope(tenant="b"), "a", now=after(hours=1))
        busy = make_append(make_scope(tenant="c"), "a", now=after(hours=6))
        closed = make_append(ANA, "a", now=after(hours=1), closing=make_closing())
        for write in (idle, long, busy, closed):
            store.append(write)
        store.append(make_next(long, "b", now=after(hours=9)))
        store.append(make_next(busy, "b", now=after(hours=9)))

        def found(*, touched: int, opened: int) -> list[object]:
            episodes = store.open_episodes(
                touched_before=after(hours=touched), opened_before=after(hours=opened), limit=99
            )
            return [each.episode for each in episodes]

        assert found(touched=0, opened=0) == []
        assert found(touched=7, opened=0) == [find(store, idle)]
        assert found(touched=0, opened=3) == [find(store, long)]
        assert found(touched=7, opened=3) == [find(store, idle), find(store, long)]
        assert len(found(touched=10, opened=0)) == 3

    def test_times_are_those_of_the_clock(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", at=START, now=after(days=400))
        store.append(write)
        store.append(make_next(write, "b", at=after(hours=1), now=after(days=401)))
        [found] = store.open_episodes(touched_before=FAR, opened_before=FAR, limit=9)
        assert (found.opened_at, found.touched_at) == (after(days=400), after(days=401))

    def test_a_resumed_episode_is_opened_anew(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        store.append(make_next(write, "b", target=Target.RESUME, now=after(days=5)))
        [found] = store.open_episodes(touched_before=FAR, opened_before=FAR, limit=9)
        assert (found.opened_at, found.touched_at) == (after(days=5), after(days=5))

    def test_pages_go_by_id(self, store: EpisodeStore) -> None:
        ids = [new_id() for _ in range(7)]
        for number in (3, 0, 6, 1, 5, 2, 4):
            now = after(hours=-number)
            store.append(make_append(make_scope(str(number)), episode_id=ids[number], now=now))
        read, last = [], None
        while True:
            page = store.open_episodes(touched_before=FAR, opened_before=FAR, after=last, limit=3)
            if not page:
                break
            assert len(page) <= 3
            read += [found.episode.id for found in page]
            last = read[-1]
        assert read == ids
