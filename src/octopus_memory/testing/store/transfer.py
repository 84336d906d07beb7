"""Store suite: export and import."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ...domain.episode import EndReason, Episode, Scope, Session, SessionStatus
from ...domain.errors import EpisodeChanged, SettingsChanged
from ...domain.ids import new_id
from ...domain.retention import Stage
from ...domain.transfer.export_format import EpisodeRecord
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, ImportedEpisode, NewTurn, Placeholder
from ...testing.store.base import episode_page
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .base import (
    ANA,
    BEN,
    FAR,
    StoreTests,
    after,
    at_once,
    claim_all,
    cold_turns,
    find,
    snapshot,
)

MANY = 1_000_000
_ANY = UUID(int=1)


def make_brought(
    *texts: str, scope: Scope = ANA, session_id: str = "session", now: Any = None, **more: Any
) -> ImportedEpisode:
    """A closed episode with these turns; `more` are fields of the episode."""
    turns = [make_turn(text, at=after(minutes=place)) for place, text in enumerate(texts)]
    ended = after(hours=1)
    facts: dict[str, Any] = {
        "ended_at": ended,
        "end_reason": EndReason.AGENT_CLOSED,
        "message_count": len(turns),
        "input_tokens": 11,
        "output_tokens": 22,
    }
    episode = Episode(
        id=new_id(),
        scope=scope,
        session_id=session_id,
        started_at=START,
        last_message_at=after(minutes=max(0, len(turns) - 1)),
        **(facts | more),
    )
    session = Session(
        id=session_id,
        scope=scope,
        status=SessionStatus.ENDED,
        metadata={"channel": "web", "é": [1.5, None]},
        created_at=START,
        last_seen_at=START,
    )
    return ImportedEpisode(
        session=session,
        kept=EpisodeRecord(
            episode=episode,
            last_seen_at=after(minutes=40),
            aged_from=None if episode.is_open else after(hours=2),
        ),
        turns=turns,
        summary=None if episode.is_open else make_summary("They talked.", "a fact", by="someone"),
        now=now or after(days=100),
    )


def everything(store: EpisodeStore, scope: Scope) -> list[Any]:
    """Everything that an export reads of a scope, without references to vectors."""
    found: list[Any] = []
    for session in store.sessions(scope, limit=MANY):
        found.append(session)
        for episode_id in store.episode_ids(scope, session.id):
            kept, turns = episode_page(store, scope, episode_id, limit=MANY)
            assert kept is not None
            found += [kept, *(replace(turn, embedding_ref=None) for turn in turns)]
    return found


class ExportTests(StoreTests):
    def test_an_unknown_scope_has_nothing(self, store: EpisodeStore) -> None:
        assert store.sessions(ANA, limit=9) == []
        assert store.episode_ids(ANA, "session") == {}
        assert episode_page(store, ANA, new_id(), limit=9) == (None, [])
        assert store.locate([new_id()]) == {}
        assert store.locate([]) == {}

    def test_sessions_come_in_order_page_by_page(self, store: EpisodeStore) -> None:
        for name in ("b", "a", "d", "c"):
            store.append(make_append(ANA, "x", session_id=name, metadata={"of": name}))
        first = store.sessions(ANA, limit=3)
        assert [session.id for session in first] == ["a", "b", "c"]
        assert first[1].metadata == {"of": "b"}
        rest = store.sessions(ANA, after="c", limit=3)
        assert [session.id for session in rest] == ["d"]
        assert store.sessions(ANA, after="d", limit=3) == []
        assert store.sessions(BEN, limit=3) == []

    def test_episodes_come_by_their_start(self, store: EpisodeStore) -> None:
        writes = [
            make_append(
                ANA,
                "x",
                at=after(days=day),
                now=after(days=9),
                closing=make_closing(after(days=day, hours=1)),
            )
            for day in (2, 0, 1)
        ]
        for write in writes:
            store.append(write)
        by_start = [writes[1].episode_id, writes[2].episode_id, writes[0].episode_id]
        assert list(store.episode_ids(ANA, "session")) == by_start
        first, _ = episode_page(store, ANA, by_start[0], limit=9)
        assert first is not None
        assert first.episode == find(store, writes[1])
        assert first.aged_from == after(hours=1)
        assert first.last_seen_at == START
        assert store.episode_ids(ANA, "other") == {}
        assert store.episode_ids(BEN, "session") == {}

    def test_episodes_that_start_together_are_all_found(self, store: EpisodeStore) -> None:
        writes = [
            make_append(ANA, "x", now=after(days=1), closing=make_closing()) for _ in range(3)
        ]
        for write in writes:
            store.append(write)
        found = list(store.episode_ids(ANA, "session"))
        assert found == sorted(write.episode_id for write in writes)

    def test_turns_come_with_their_episode_page_by_page(self, store: EpisodeStore) -> None:
        write = make_append(ANA, *"abcde")
        store.append(write)
        kept, turns = episode_page(store, ANA, write.episode_id, start=1, limit=3)
        assert kept is not None
        assert kept.episode == find(store, write)
        assert kept.aged_from is None
        assert turns == store.turns(ANA, write.episode_id, start=1, stop=4)
        assert episode_page(store, ANA, write.episode_id, start=5, limit=3) == (kept, [])
        assert episode_page(store, BEN, write.episode_id, limit=3) == (None, [])

    def test_the_turns_of_a_cold_archive_are_kept(self, store: EpisodeStore) -> None:
        for cold in (True, False):
            write = make_append(ANA, "a", "b", session_id=str(cold), closing=make_closing())
            before = store.append(write)
            store.archive(ANA, write.episode_id, cold=cold, at=after(days=90))
            kept, turns = episode_page(store, ANA, write.episode_id, limit=9)
            assert kept is not None
            assert (kept.episode.is_archived, kept.episode.is_cold) == (True, cold)
            assert turns == (before if cold else [])
            assert episode_page(store, ANA, write.episode_id, start=1, limit=9)[1] == turns[1:]

    def test_what_is_deleted_is_not_kept(self, store: EpisodeStore) -> None:
        gone = make_append(ANA, "a", closing=make_closing())
        stays = make_append(ANA, "b", at=after(days=1), closing=make_closing(after(days=2)))
        alone = make_append(ANA, "c", session_id="alone", closing=make_closing())
        for write in (gone, stays, alone):
            store.append(write)
        for write in (gone, alone):
            store.delete(ANA, write.episode_id, at=after(days=3))
        assert [session.id for session in store.sessions(ANA, limit=9)] == ["session"]
        assert list(store.episode_ids(ANA, "session")) == [stays.episode_id]
        assert episode_page(store, ANA, gone.episode_id, limit=9) == (None, [])

    def test_everybody_who_holds_an_id_is_known(self, store: EpisodeStore) -> None:
        other = make_scope("zoe", tenant="other")
        writes = [make_append(scope, "x", closing=make_closing()) for scope in (ANA, other)]
        for write in writes:
            store.append(write)
        store.delete(ANA, writes[0].episode_id, at=after(days=1))
        ids = [write.episode_id for write in writes]
        assert store.locate([*ids, new_id()]) == {ids[0]: ANA, ids[1]: other}


class ImportTests(StoreTests):
    def test_an_episode_is_as_it_was(self, store: EpisodeStore) -> None:
        brought = make_brought("first words", "second words")
        assert store.import_episode(brought) is True
        episode = brought.kept.episode
        kept, turns = episode_page(store, ANA, episode.id, limit=9)
        assert kept == replace(
            brought.kept,
            episode=replace(
                episode, summary="They talked.", key_facts=("a fact",), summarized_by="someone"
            ),
        )
        given = list(brought.turns)
        assert [(t.id, t.ordinal, t.message, t.tokens, t.at) for t in turns] == [
            (new.id, place, new.message, new.tokens, new.at) for place, new in enumerate(given)
        ]
        [session] = store.sessions(ANA, limit=9)
        assert session == replace(brought.session, last_seen_at=after(minutes=40))

    def test_it_can_be_found_at_once_and_waits_for_its_vectors(self, store: EpisodeStore) -> None:
        brought = make_brought("first words", "second words")
        store.import_episode(brought)
        _, rows = store.recall_rows(ANA, after=0)
        given = list(brought.turns)
        assert {(row.ordinal, row.lexical) for row in rows} == {
            (0, given[0].lexical),
            (1, given[1].lexical),
            (SUMMARY_ORDINAL, brought.summary.lexical if brought.summary else None),
        }
        assert len({row.seq for row in rows}) == 3
        assert {work.ordinal for work in claim_all(store)} == {0, 1, SUMMARY_ORDINAL}

    def test_a_turn_that_wants_no_vector_gets_none(self, store: EpisodeStore) -> None:
        plain = make_brought("x")
        turns = [make_turn("x", embed=False, has_pii=True)]
        store.import_episode(replace(plain, turns=turns, summary=None))
        assert claim_all(store) == []
        [turn] = store.turns(ANA, plain.kept.episode.id)
        assert turn.has_pii

    def test_what_is_there_is_passed_over(self, store: EpisodeStore) -> None:
        brought = make_brought("x", "y")
        store.import_episode(brought)
        before = snapshot(store, ANA)
        assert store.import_episode(brought) is False
        assert snapshot(store, ANA) == before
        store.delete(ANA, brought.kept.episode.id, at=after(days=1))
        before = snapshot(store, ANA)
        assert store.import_episode(brought) is False
        assert snapshot(store, ANA) == before

    def test_a_session_that_is_there_is_left_alone(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "x", metadata={"mine": 1}, closing=make_closing())
        store.append(write)
        [before] = store.sessions(ANA, limit=9)
        assert store.import_episode(make_brought("y"))
        [session] = store.sessions(ANA, limit=9)
        assert session == replace(before, last_seen_at=session.last_seen_at)
        assert len(store.episode_ids(ANA, "session")) == 2

    def test_an_open_episode_goes_on(self, store: EpisodeStore) -> None:
        now = after(days=50)
        brought = make_brought("x", ended_at=None, end_reason=None, now=now)
        store.import_episode(brought)
        [found] = store.open_episodes(touched_before=FAR, opened_before=FAR, limit=9)
        assert (found.opened_at, found.touched_at) == (now, now)
        write = make_append(ANA, episode_id=brought.kept.episode.id)
        [turn] = store.append(make_next(write, "y", at=now))
        assert turn.ordinal == 1

    def test_a_session_has_one_open_episode(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "x"))
        before = snapshot(store, ANA)
        with pytest.raises(EpisodeChanged):
            store.import_episode(make_brought("y", ended_at=None, end_reason=None))
        assert snapshot(store, ANA) == before
        assert store.import_episode(make_brought("z"))

    def test_an_open_episode_opens_its_session(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "x", closing=make_closing()))
        store.import_episode(make_brought("y", ended_at=None, end_reason=None))
        [session] = store.sessions(ANA, limit=9)
        assert session.status is SessionStatus.ACTIVE

    @pytest.mark.parametrize("cold", [True, False])
    def test_an_archived_episode_is_found_by_its_summary(
        self, store: EpisodeStore, cold: bool
    ) -> None:
        brought = make_brought(
            *(["x", "y"] if cold else []),
            is_archived=True,
            archived_at=after(days=90),
            is_cold=cold,
            message_count=2,
        )
        store.import_episode(brought)
        _, rows = store.recall_rows(ANA, after=0)
        assert [row.ordinal for row in rows] == [SUMMARY_ORDINAL]
        assert store.turns(ANA, brought.kept.episode.id) == []
        kept = cold_turns(store, ANA, brought.kept.episode.id)
        assert [turn.id for turn in kept] == [new.id for new in brought.turns]
        [aged] = store.aged(Stage.ARCHIVED, before=FAR, limit=9)
        assert (aged.episode.id, aged.since) == (brought.kept.episode.id, after(hours=2))

    def test_retention_counts_from_where_it_did(self, store: EpisodeStore) -> None:
        brought = make_brought("x")
        store.import_episode(brought)
        assert store.aged(Stage.ACTIVE, before=after(hours=1), limit=9) == []
        [aged] = store.aged(Stage.ACTIVE, before=after(hours=2), limit=9)
        assert aged.since == after(hours=2)

    def test_numbers_in_place_of_personal_data_stay_taken(self, store: EpisodeStore) -> None:
        numbers = [Placeholder(kind="EMAIL", digest=b"\x01" * 16, number=1)]
        brought = replace(make_brought("[EMAIL_1]"), placeholders=numbers)
        store.import_episode(brought)
        assert store.placeholders(ANA, brought.kept.episode.id) == numbers

    def test_more_turns_than_fit_in_one_statement(self, store: EpisodeStore) -> None:
        brought = make_brought(*(f"turn {n}" for n in range(701)))
        store.import_episode(brought)
        turns = store.turns(ANA, brought.kept.episode.id)
        assert [turn.ordinal for turn in turns] == list(range(701))
        assert [turn.id for turn in turns] == [new.id for new in brought.turns]
        _, rows = store.recall_rows(ANA, after=0)
        by_ordinal = {row.ordinal: row.lexical for row in rows}
        assert all(by_ordinal[place] == new.lexical for place, new in enumerate(brought.turns))

    def test_turns_that_cannot_be_made_leave_nothing(self, store: EpisodeStore) -> None:
        class Broken:
            def __iter__(self) -> Iterator[NewTurn]:
                yield make_turn("fine")
                raise ValueError("the second is not")

        before = snapshot(store, ANA)
        with pytest.raises(ValueError, match="the second"):
            store.import_episode(replace(make_brought("x"), turns=Broken()))
        assert snapshot(store, ANA) == before
        assert store.locate([new_id()]) == {}

    def test_what_was_decided_by_other_settings_is_not_brought(self, store: EpisodeStore) -> None:
        old = store.config(ANA.tenant, ANA.agent).version
        store.put_config(None, ANA.agent, {"a": 1})
        brought = replace(make_brought("a"), settings=old)
        with pytest.raises(SettingsChanged):
            store.import_episode(brought)
        assert store.sessions(ANA, limit=9) == []
        assert store.import_episode(
            replace(brought, settings=store.config(ANA.tenant, ANA.agent).version)
        )

    def test_the_same_episode_at_once_comes_in_once(self, store: EpisodeStore) -> None:
        brought = make_brought("x", "y")
        outcomes = at_once(lambda _: store.import_episode(brought))
        assert sorted(outcomes, key=str) == [False] * 7 + [True]
        assert len(store.turns(ANA, brought.kept.episode.id)) == 2

    def test_all_that_is_taken_out_can_be_brought_elsewhere(self, store: EpisodeStore) -> None:
        for cold in (True, False):
            write = make_append(ANA, "a", session_id=f"archived {cold}", closing=make_closing())
            store.append(write)
            store.archive(ANA, write.episode_id, cold=cold, at=after(days=90))
        store.append(make_append(ANA, "b", "c", session_id="open", metadata={"k": "v"}))
        taken = everything(store, ANA)
        there = make_scope("zoe", tenant="other")
        for session in store.sessions(ANA, limit=9):
            for episode_id in store.episode_ids(ANA, session.id):
                store.import_episode(_copy(store, episode_id, session, there))
        copied = everything(store, there)
        assert [_without_place(item) for item in copied] == [_without_place(item) for item in taken]


def _copy(store: EpisodeStore, episode_id: UUID, session: Session, there: Scope) -> ImportedEpisode:
    kept, turns = episode_page(store, ANA, episode_id, limit=9)
    assert kept is not None
    episode = replace(kept.episode, id=new_id(), scope=there)
    summary = None
    if episode.summary is not None:
        summary = make_summary(episode.summary, *episode.key_facts, by=episode.summarized_by or "")
    return ImportedEpisode(
        session=replace(session, scope=there),
        kept=replace(kept, episode=episode),
        turns=[
            replace(make_turn(turn.message.body, at=turn.at, tokens=turn.tokens), id=turn.id)
            for turn in turns
        ],
        summary=summary,
        now=START + timedelta(days=200),
    )


def _without_place(item: Any) -> Any:
    """An episode without its scope and id, to compare copies."""
    nowhere = make_scope("nobody")
    if isinstance(item, Session):
        return replace(item, scope=nowhere)
    if isinstance(item, EpisodeRecord):
        episode = replace(item.episode, scope=nowhere, id=_ANY)
        return replace(item, episode=episode)
    return replace(item, episode_id=_ANY)
