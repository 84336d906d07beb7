"""Store suite: rewritten text leaves nothing behind, and changes nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...domain.episode import Scope
from ...domain.ids import new_id
from ...domain.message import Message
from ...ports.recall_rows import RecallRow, WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import (
    SUMMARY_ORDINAL,
    Append,
    EpisodeQuery,
    Placeholder,
    RewrittenTurn,
    StoredEpisode,
)
from ..fakes import make_append, make_closing, make_lexical, make_next, make_summary
from .base import (
    ANA,
    BEN,
    Reopen,
    StoreTests,
    after,
    claim_all,
    cold_turns,
    find,
    marked_turns,
    place,
    snapshot,
)
from .retention import LATER, index_entries, tell

_TOLD = ("I am Ana", "Hello Ana", "It rains")


def told(store: EpisodeStore, **more: Any) -> Append:
    """An episode of three turns, all embedded, and its summary."""
    write = tell(store, *_TOLD, metadata={"mail": "a@example.com"}, **more)
    store.use_model("m")
    store.put_vectors("m", [(work, bytes([work.seq])) for work in claim_all(store)])
    return write


def stored(store: EpisodeStore, write: Append) -> StoredEpisode:
    known = store.stored_episode(write.scope, write.episode_id)
    assert known is not None
    return known


def rewritten(ordinal: int, text: str, *, embed: bool = True) -> RewrittenTurn:
    return RewrittenTurn(
        ordinal=ordinal,
        message=Message({"role": "user", "content": text}),
        tokens=3,
        lexical=make_lexical(text),
        embed=embed,
        has_pii=True,
    )


def rows_of(store: EpisodeStore, write: Append) -> dict[int, RecallRow]:
    found = store.recall_rows(write.scope, after=0)[1]
    return {row.ordinal: row for row in found if row.episode_id == write.episode_id}


class StoredTests(StoreTests):
    def test_every_session_is_listed_in_order(self, store: EpisodeStore) -> None:
        for name in ("c", "a", "b"):
            tell(store, session_id=name)
        gone = tell(store, session_id="d")
        store.delete(ANA, gone.episode_id, at=LATER)
        tell(store, scope=BEN, session_id="e")

        def listed(scope: Scope, after: str | None = None, *, limit: int) -> list[str]:
            found = store.sessions(scope, deleted=True, after=after, limit=limit)
            return [session.id for session in found]

        assert listed(ANA, limit=10) == ["a", "b", "c", "d"]
        assert listed(ANA, limit=2) == ["a", "b"]
        assert listed(ANA, "b", limit=2) == ["c", "d"]
        assert listed(replace(ANA, user="nobody"), limit=2) == []

    def test_episodes_go_by_their_start_in_every_stage(self, store: EpisodeStore) -> None:
        late = tell(store, at=after(hours=2), closing=make_closing(after(hours=3)))
        early = tell(store, now=after(days=1))
        store.delete(ANA, late.episode_id, at=LATER)
        opened = make_append(ANA, "c", at=after(hours=9))
        store.append(opened)
        tell(store, session_id="another")
        expected = [early.episode_id, late.episode_id, opened.episode_id]
        found = store.episode_ids(ANA, "session", deleted=True)
        assert list(found.items()) == list(zip(expected, (0, None, 0), strict=True))
        assert store.episode_ids(BEN, "session", deleted=True) == {}

    def test_the_text_is_read_in_every_stage(self, store: EpisodeStore) -> None:
        write = told(store, placeholders=[Placeholder(kind="EMAIL", digest=b"d", number=1)])
        whole = stored(store, write)
        assert whole.episode == find(store, write)
        assert list(whole.turns) == store.turns(ANA, write.episode_id)
        assert whole.metadata == {"mail": "a@example.com"}
        assert list(whole.placeholders) == store.placeholders(ANA, write.episode_id)
        assert not whole.is_deleted
        store.archive(ANA, write.episode_id, cold=True, at=LATER)
        cold = stored(store, write)
        assert cold.episode.is_cold
        assert [turn.message for turn in cold.turns] == [turn.message for turn in whole.turns]
        store.delete(ANA, write.episode_id, at=LATER)
        marked = stored(store, write)
        assert replace(marked, is_deleted=False) == cold
        assert marked.is_deleted
        for scope, episode_id in ((BEN, write.episode_id), (ANA, new_id())):
            assert store.stored_episode(scope, episode_id) is None


class RewriteTests(StoreTests):
    def test_turns_get_their_new_text_and_keep_the_rest(self, store: EpisodeStore) -> None:
        write = told(store)
        before = store.turns(ANA, write.episode_id)
        episode, state = find(store, write), store.session(ANA, "session")
        store.rewrite(stored(store, write), turns=[rewritten(1, "Hello [NAME]")], now=LATER)
        turns = store.turns(ANA, write.episode_id)
        assert [turns[0], turns[2]] == [before[0], before[2]]
        assert turns[1] == replace(
            before[1],
            message=Message({"role": "user", "content": "Hello [NAME]"}),
            tokens=3,
            has_pii=True,
            embedding_ref=None,
        )
        assert find(store, write) == episode
        assert store.session(ANA, "session") == state

    def test_tool_calls_are_replaced_with_the_message(self, store: EpisodeStore) -> None:
        call = {"role": "tool", "function_name": "f", "arguments": "ana", "result": "ana"}
        write = make_append(ANA, "a")
        store.append(write)
        for body in (call, call | {"arguments": "[NAME]", "result": None}, {"role": "user"}):
            new = replace(rewritten(0, ""), message=Message(body))
            store.rewrite(stored(store, write), turns=[new], now=LATER)
            [turn] = store.turns(ANA, write.episode_id)
            assert turn.message.body == body

    def test_recall_finds_the_new_words_and_waits_for_the_vector(self, store: EpisodeStore) -> None:
        write = told(store)
        before, state = rows_of(store, write), store.recall_state(ANA)
        assert state is not None
        store.rewrite(stored(store, write), turns=[rewritten(1, "Hello [NAME]")], now=LATER)
        rows = rows_of(store, write)
        for ordinal in (0, 2, SUMMARY_ORDINAL):
            assert rows[ordinal] == before[ordinal]
        assert rows[1] == replace(
            before[1],
            seq=rows[1].seq,
            lexical=make_lexical("Hello [NAME]"),
            model=None,
            vector=None,
        )
        assert rows[1].seq > state.newest
        now = store.recall_state(ANA)
        assert now is not None
        assert now.epoch > state.epoch
        assert now.version > state.version
        [work] = claim_all(store)
        assert (place(work), work.seq) == ((ANA, write.episode_id, 1), rows[1].seq)
        store.put_vectors("m", [(work, b"\x09")])
        assert rows_of(store, write)[1].vector == b"\x09"
        assert store.turns(ANA, write.episode_id)[1].embedding_ref == f"m/{work.seq}"

    def test_a_turn_that_is_not_indexed_any_more_loses_its_recall_row(
        self, store: EpisodeStore
    ) -> None:
        write = told(store)
        new = replace(rewritten(1, "x", embed=False), indexed=False)
        store.rewrite(stored(store, write), turns=[new], now=LATER)
        assert [turn.indexed for turn in stored(store, write).turns] == [True, False, True]
        assert sorted(rows_of(store, write)) == [SUMMARY_ORDINAL, 0, 2]

    def test_one_that_wants_no_vector_any_more(self, store: EpisodeStore) -> None:
        write = told(store)
        store.rewrite(stored(store, write), turns=[rewritten(1, "x", embed=False)], now=LATER)
        row = rows_of(store, write)[1]
        assert (row.model, row.vector) == ("", None)
        assert claim_all(store) == []

    def test_a_vector_of_the_old_text_comes_too_late(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "I am Ana", "b")
        store.append(write)
        store.use_model("m")
        begun = claim_all(store)
        store.rewrite(stored(store, write), turns=[rewritten(0, "I am [NAME]")], now=LATER)
        store.put_vectors("m", [(work, b"\x01") for work in begun])
        rows = rows_of(store, write)
        assert (rows[0].model, rows[0].vector) == (None, None)
        assert rows[1].vector == b"\x01"
        assert [work.ordinal for work in claim_all(store)] == [0]

    def test_the_summary_and_its_facts(self, store: EpisodeStore) -> None:
        write = told(store)
        before, turns = find(store, write), store.turns(ANA, write.episode_id)
        new = make_summary("[NAME] came.", "a [NAME]", by="other", improve=True)
        store.rewrite(stored(store, write), summary=new, now=LATER)
        expected = replace(
            before, summary="[NAME] came.", key_facts=("a [NAME]",), summarized_by="other"
        )
        assert find(store, write) == expected
        assert store.turns(ANA, write.episode_id) == turns
        row = rows_of(store, write)[SUMMARY_ORDINAL]
        assert (row.lexical, row.vector) == (new.lexical, None)
        for kind in (WorkKind.EMBED, WorkKind.SUMMARIZE):
            assert [(w.ordinal, w.seq) for w in claim_all(store, kind)] == [
                (SUMMARY_ORDINAL, row.seq)
            ]

    def test_metadata_and_numbers(self, store: EpisodeStore) -> None:
        write = told(store, placeholders=[Placeholder(kind="EMAIL", digest=b"a", number=1)])
        rows = rows_of(store, write)
        more = [
            Placeholder(kind="EMAIL", digest=b"b", number=2),
            Placeholder(kind="IBAN", digest=b"c", number=1),
        ]
        new = {"mail": "[EMAIL_2]", "é": ["\0"]}
        store.rewrite(stored(store, write), metadata=new, placeholders=more, now=LATER)
        state = store.session(ANA, "session")
        assert state is not None
        assert state.session.metadata == new
        assert {each.digest for each in store.placeholders(ANA, write.episode_id)} == {
            b"a",
            b"b",
            b"c",
        }
        assert rows_of(store, write) == rows

    def test_an_open_episode_takes_more(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "I am Ana")
        store.append(write)
        store.rewrite(stored(store, write), turns=[rewritten(0, "I am [NAME]")], now=LATER)
        [turn] = store.append(make_next(write, "b"))
        assert turn.ordinal == 1
        assert sorted(rows_of(store, write)) == [0, 1]

    def test_a_cold_archive_and_what_comes_back_of_it(self, store: EpisodeStore) -> None:
        write = told(store)
        store.archive(ANA, write.episode_id, cold=True, at=LATER)
        before = find(store, write)
        new = [rewritten(0, "I am [NAME]"), rewritten(1, "Hello [NAME]")]
        store.rewrite(
            stored(store, write), turns=new, summary=make_summary("They met.", by="x"), now=LATER
        )
        assert find(store, write) == replace(before, key_facts=(), summarized_by="x")
        kept = [turn.text for turn in cold_turns(store, ANA, write.episode_id)]
        assert kept == ["I am [NAME]", "Hello [NAME]", "It rains"]
        assert store.turns(ANA, write.episode_id) == []
        assert list(rows_of(store, write)) == [SUMMARY_ORDINAL]
        assert [work.ordinal for work in claim_all(store)] == [SUMMARY_ORDINAL]
        store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        assert [turn.text for turn in store.turns(ANA, write.episode_id)] == kept

    def test_a_deleted_one_stays_deleted(self, store: EpisodeStore) -> None:
        write = told(store)
        store.delete(ANA, write.episode_id, at=LATER)
        [before] = store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0]
        store.rewrite(
            stored(store, write),
            turns=[rewritten(0, "I am [NAME]")],
            summary=make_summary("[NAME] came.", by="x"),
            metadata={},
            now=LATER,
        )
        assert store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0] == [
            replace(before, summary="[NAME] came.", key_facts=(), summarized_by="x")
        ]
        kept = [turn.text for turn in marked_turns(store, ANA, write.episode_id)]
        assert kept == ["I am [NAME]", *_TOLD[1:]]
        assert stored(store, write).metadata == {}
        assert rows_of(store, write) == {}
        assert claim_all(store) == []
        assert store.session(ANA, "session") is None

    def test_it_is_a_removal(self, store: EpisodeStore) -> None:
        write = told(store)
        assert not store.state().owes_compaction
        made = store.state().removals
        store.rewrite(stored(store, write), turns=[rewritten(0, "x")], now=LATER)
        assert store.state().removals > made
        assert store.state().owes_compaction

    def test_nothing_given_changes_nothing(self, store: EpisodeStore) -> None:
        write = told(store)
        before, made = snapshot(store, ANA), store.state().removals
        store.rewrite(stored(store, write), now=LATER)
        assert (snapshot(store, ANA), store.state().removals) == (before, made)

    def test_others_are_untouched(self, store: EpisodeStore) -> None:
        write = told(store)
        beside = told(store, session_id="beside")
        told(store, scope=BEN)
        bens, rows = snapshot(store, BEN)[f"of {BEN}"], rows_of(store, beside)
        store.rewrite(
            stored(store, write),
            turns=[rewritten(place, "x") for place in range(3)],
            summary=make_summary("y"),
            metadata={},
            now=LATER,
        )
        assert snapshot(store, BEN)[f"of {BEN}"] == bens
        assert rows_of(store, beside) == rows
        assert [turn.text for turn in store.turns(ANA, beside.episode_id)] == list(_TOLD)
        assert stored(store, beside).metadata == {"mail": "a@example.com"}

    def test_new_text_outlives_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        write = told(store)
        store.rewrite(stored(store, write), turns=[rewritten(0, "x")], metadata={"a": 1}, now=LATER)
        before = stored(store, write)
        assert stored(reopened(), write) == before
