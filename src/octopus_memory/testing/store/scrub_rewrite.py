"""Store suite: rewrites that are refused, and what the mirror is told of a rewrite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ...domain.errors import EpisodeChanged, EpisodeNotFound, LegalHold
from ...domain.ids import new_id
from ...domain.retention import Hold
from ...ports.recall_rows import RecallRow, Removal, RowPart, WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import (
    SUMMARY_ORDINAL,
    Append,
    Closing,
    Placeholder,
    StoredEpisode,
    SummarySource,
    Target,
)
from ..fakes import START, make_append, make_closing, make_next, make_summary
from .base import ANA, BEN, FAR, StoreTests, after, claim_all, snapshot
from .erasure import erase
from .retention import LATER
from .scrub import rewritten, rows_of, stored, told


def hold_on(**subject: Any) -> Hold:
    return Hold(
        id=new_id(), tenant=ANA.tenant, reason="a case", placed_at=START, placed_by="s", **subject
    )


class RewriteRefusalTests(StoreTests):
    def _refused(
        self, store: EpisodeStore, was: StoredEpisode, error: type[Exception], **more: Any
    ) -> None:
        before, made = snapshot(store, ANA), store.state().removals
        more = more or {
            "turns": [rewritten(0, "x")],
            "summary": make_summary("y"),
            "metadata": {},
            "placeholders": [Placeholder(kind="EMAIL", digest=b"d", number=9)],
        }
        with pytest.raises(error):
            store.rewrite(was, now=LATER, **more)
        assert (snapshot(store, ANA), store.state().removals) == (before, made)
        assert store.placeholders(ANA, was.episode.id) == list(was.placeholders)

    @pytest.mark.parametrize(
        "change",
        [
            lambda store, write: store.append(
                make_next(write, "more", at=after(hours=2), target=Target.RESUME)
            ),
            lambda store, write: store.put_summary(ANA, write.episode_id, make_summary("Better.")),
            lambda store, write: store.archive(ANA, write.episode_id, at=LATER),
            lambda store, write: store.archive(ANA, write.episode_id, cold=True, at=LATER),
            lambda store, write: store.delete(ANA, write.episode_id, at=LATER),
        ],
        ids=["went on", "summed up", "archived", "cold", "deleted"],
    )
    def test_one_that_changed_meanwhile(
        self, store: EpisodeStore, change: Callable[[EpisodeStore, Append], object]
    ) -> None:
        write = told(store)
        was = stored(store, write)
        change(store, write)
        self._refused(store, was, EpisodeChanged)

    def test_one_that_is_gone(self, store: EpisodeStore) -> None:
        write = told(store)
        was = stored(store, write)
        theirs = replace(was.record, episode=replace(was.episode, scope=BEN))
        foreign = replace(was, record=theirs)
        self._refused(store, foreign, EpisodeNotFound)
        erase(store, ANA, episode_id=write.episode_id)
        with pytest.raises(EpisodeNotFound):
            store.rewrite(was, turns=[rewritten(0, "x")], now=LATER)
        assert store.recall_rows(ANA, after=0)[1] == []

    def test_metadata_that_is_another_by_now(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", metadata={"n": 1})
        store.append(write)
        was = stored(store, write)
        store.rewrite(was, metadata={"n": 2}, now=LATER)
        self._refused(store, was, EpisodeChanged)
        # A rewrite without metadata ignores changed metadata.
        store.rewrite(was, turns=[rewritten(0, "x")], now=LATER)
        assert stored(store, write).metadata == {"n": 2}

    def test_a_number_that_is_taken(self, store: EpisodeStore) -> None:
        write = told(store, placeholders=[Placeholder(kind="EMAIL", digest=b"a", number=1)])
        taken = [Placeholder(kind="EMAIL", digest=b"b", number=1)]
        turns = [rewritten(0, "x")]
        was = stored(store, write)
        self._refused(store, was, EpisodeChanged, turns=turns, placeholders=taken)

    def test_a_turn_that_is_not_there(self, store: EpisodeStore) -> None:
        was = stored(store, told(store))
        self._refused(store, was, EpisodeChanged, turns=[rewritten(0, "x"), rewritten(3, "y")])

    def test_what_is_held_stays_as_it_is(self, store: EpisodeStore) -> None:
        write = told(store)
        was = stored(store, write)
        for hold in (hold_on(user=ANA.user), hold_on(episode_id=write.episode_id)):
            store.place_hold(hold)
            self._refused(store, was, LegalHold)
            for one in ({"turns": [rewritten(0, "x")]}, {"summary": make_summary("y")}):
                self._refused(store, was, LegalHold, **one)
            store.lift_hold(ANA.tenant, hold.id)
        store.rewrite(was, turns=[rewritten(0, "x")], now=LATER)

    def test_metadata_is_held_with_any_episode_of_the_session(self, store: EpisodeStore) -> None:
        first = told(store)
        write = told(store, at=after(hours=2), closing=make_closing(after(hours=3)))
        store.place_hold(hold_on(episode_id=first.episode_id))
        self._refused(store, stored(store, write), LegalHold, metadata={})
        store.rewrite(stored(store, write), turns=[rewritten(0, "x")], now=LATER)


class RewrittenMeanwhileTests(StoreTests):
    """A summary of text that was rewritten meanwhile is refused."""

    def _late(self, store: EpisodeStore, write: Append, ordinal: int = 1) -> Closing:
        """Every way of closing an episode with a summary of turns that were rewritten since."""
        state = store.recall_state(ANA)
        assert state is not None
        made_of = SummarySource(turns=len(write.turns), newest=state.newest)
        store.rewrite(stored(store, write), turns=[rewritten(ordinal, "[NAME]")], now=LATER)
        closing = make_closing(after(hours=1))
        assert closing.summary is not None
        return replace(closing, summary=replace(closing.summary, made_of=made_of))

    def test_the_episode_stays_open(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "Ana", "c")
        store.append(write)
        closing = self._late(store, write)
        before = snapshot(store, ANA)
        with pytest.raises(EpisodeChanged):
            store.close_episode(ANA, write.episode_id, closing, expect_messages=3)
        with pytest.raises(EpisodeChanged):
            store.append(make_next(write, closing=closing))
        assert snapshot(store, ANA) == before

    def test_the_summary_stays_the_one_it_was(self, store: EpisodeStore) -> None:
        write = told(store)
        late = self._late(store, write).summary
        assert late is not None
        before = snapshot(store, ANA)
        with pytest.raises(EpisodeChanged):
            store.put_summary(ANA, write.episode_id, late)
        assert snapshot(store, ANA) == before

    def test_what_happens_to_others_does_not_matter(self, store: EpisodeStore) -> None:
        write, other = make_append(ANA, "a"), make_append(ANA, "Ana", session_id="other")
        store.append(other)
        store.append(write)
        closing = self._late(store, other, 0)
        # Nor do later turns of the episode itself.
        store.append(make_next(write, "b"))
        store.append(make_next(write, closing=closing))
        assert not store.episodes(ANA, [write.episode_id])[write.episode_id].is_open


class RewriteMirrorTests(StoreTests):
    """The mirror deletes by episode, so that every remaining row is sent again."""

    def _rewrite(self, store: EpisodeStore) -> tuple[Append, dict[int, RecallRow], list[Removal]]:
        write = told(store)
        store.use_mirror("somewhere/else")
        store.finish(claim_all(store, WorkKind.INDEX))
        before = rows_of(store, write)
        store.rewrite(stored(store, write), turns=[rewritten(1, "Hello [NAME]")], now=LATER)
        until = FAR + timedelta(days=1)
        return (
            write,
            before,
            store.claim(WorkKind.UNINDEX, worker_id="s", limit=9, now=FAR, until=until),
        )

    def test_what_it_has_of_the_turns_is_removed(self, store: EpisodeStore) -> None:
        write, before, [removal] = self._rewrite(store)
        assert (removal.episode_id, removal.part) == (write.episode_id, RowPart.TURNS)
        turns = {ordinal: row for ordinal, row in rows_of(store, write).items() if ordinal >= 0}
        assert max(row.seq for row in before.values()) < removal.before_seq
        assert removal.before_seq <= min(row.seq for row in turns.values())

    def test_what_stays_is_given_again_with_its_vector(self, store: EpisodeStore) -> None:
        write, before, _ = self._rewrite(store)
        rows = rows_of(store, write)
        assert rows[SUMMARY_ORDINAL] == before[SUMMARY_ORDINAL]
        for ordinal in (0, 2):
            assert rows[ordinal] == replace(before[ordinal], seq=rows[ordinal].seq)
        queued = [(work.ordinal, work.seq) for work in claim_all(store, WorkKind.INDEX)]
        assert sorted(queued) == [(0, rows[0].seq), (2, rows[2].seq)]
        assert [work.ordinal for work in claim_all(store)] == [1]
        refs = [turn.embedding_ref for turn in store.turns(ANA, write.episode_id)]
        assert refs == [f"m/{rows[0].seq}", None, f"m/{rows[2].seq}"]

    def test_what_waited_for_a_vector_still_waits(self, store: EpisodeStore) -> None:
        store.use_model("m")
        store.use_mirror("somewhere/else")
        write = make_append(ANA, "a", "b", "c")
        store.append(write)
        first, *rest = claim_all(store)
        store.put_vectors("m", [(first, b"\x01")])
        store.rewrite(stored(store, write), turns=[rewritten(1, "x")], now=LATER)
        rows = rows_of(store, write)
        assert [(w.ordinal, w.seq) for w in claim_all(store)] == [
            (1, rows[1].seq),
            (2, rows[2].seq),
        ]
        assert [(w.ordinal, w.seq) for w in claim_all(store, WorkKind.INDEX)] == [(0, rows[0].seq)]
        store.put_vectors("m", [(work, b"\x02") for work in rest])
        assert rows_of(store, write)[2].vector is None

    def test_a_second_rewrite_does_not_take_back_the_first_removal(
        self, store: EpisodeStore
    ) -> None:
        write = told(store)
        store.use_mirror("somewhere/else")
        for text in ("x", "y"):
            turns = [rewritten(place, text) for place in range(3)]
            store.rewrite(stored(store, write), turns=turns, now=LATER)
        assert store.backlog()[WorkKind.UNINDEX].waiting == 2
