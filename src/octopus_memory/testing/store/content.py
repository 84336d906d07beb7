"""Store suite: an append is stored as it was given, whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ...domain.episode import Summary
from ...domain.errors import EpisodeChanged, EpisodeNotFound, IdempotencyConflict, OctopusError
from ...domain.ids import new_id
from ...domain.message import Json, Message, ToolCall
from ...ports.store import EpisodeStore
from ...ports.values import Append, EpisodeQuery, NewSummary, NewTurn, Target
from ..fakes import (
    make_append,
    make_closing,
    make_key,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .base import ANA, BEN, StoreTests, after, at_once, find, raised, snapshot, texts

_PLANE = 0x10000
_ODD = (
    "tab\t nul\0 quote'\" back\\slash %_ \x7f\u2028\ufeff e\u0301 é 🐙 "
    "\ud83d alone \ude00 \udc00\ud800 \ud83d\ude00"
)
_BODIES: dict[str, Mapping[str, Json]] = {
    "odd text": {"role": "user", "content": _ODD},
    "empty text": {"role": "user", "content": ""},
    "odd keys": {"role": "user", "content": "x", _ODD: {_ODD: [_ODD]}, "": None},
    "speaker": {"role": "assistant", "content": "x", "name": "Ana Ng", "agent": "planner"},
    "odd speaker": {"role": "assistant", "content": "x", "name": _ODD, "agent": _ODD},
    "long speaker": {"role": "assistant", "content": "x", "agent": "long " * 300},
    "parts": {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        ],
    },
    "numbers": {
        "role": "user",
        "content": "x",
        "n": [0, -1, 1.0, -0.0, 1e300, 5e-324, 0.1, 2**53 + 1, 10**40, True, False, None],
    },
    "requests": {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    },
    "no requests": {"role": "assistant", "content": "x", "tool_calls": []},
    "bare result": {"role": "tool", "tool_call_id": "c1", "content": "7"},
    "whole call": Message.tool(
        ToolCall(
            tool_call_id="c2",
            function_name="look_up",
            arguments={"q": _ODD},
            result={"rows": [1, 2.5, None]},
            duration_ms=12,
            is_error=True,
        )
    ).body,
    "result without content": {
        "role": "tool",
        "tool_call_id": "c3",
        "function_name": "f",
        "arguments": None,
        "result": None,
    },
    "deep": {"role": "user", "content": "x", "deep": [[[[[[[[{"a": [{}]}]]]]]]]]},
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(2300, 1, 1, tzinfo=UTC)
_MOMENTS = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2025, 3, 30, 1, 30, 0, 123_457, tzinfo=UTC),
    datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC),
    # A float of seconds cannot represent this one.
    datetime(2106, 2, 7, 6, 28, 16, 997, tzinfo=UTC),
    datetime(2200, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2025, 7, 1, 12, 0, 0, 7, tzinfo=timezone(timedelta(hours=5, minutes=45))),
]


class MessageTests(StoreTests):
    def test_messages_are_kept_key_by_key(self, store: EpisodeStore) -> None:
        write = make_append(ANA, *(make_turn(body) for body in _BODIES.values()))
        stored = store.append(write)
        read = store.turns(ANA, write.episode_id)
        assert read == stored
        for turn, (name, body) in zip(read, _BODIES.items(), strict=True):
            assert turn.message.body == body, name
            # 1, 1.0 and True are equal, but not the same.
            assert _exactly(turn.message.body) == _exactly(body), name

    def test_every_character_is_kept(self, store: EpisodeStore) -> None:
        planes = [
            "".join(map(chr, range(start, start + _PLANE))) for start in range(0, 0x110000, _PLANE)
        ]
        write = make_append(ANA, *(make_turn(plane, embed=False) for plane in planes))
        store.append(write)
        read = [turn.text for turn in store.turns(ANA, write.episode_id)]
        assert [len(text) for text in read] == [_PLANE] * 17
        assert all(text == plane for text, plane in zip(read, planes, strict=True))

    def test_a_long_message(self, store: EpisodeStore) -> None:
        text = " ".join(map(str, range(300_000)))
        write = make_append(ANA, make_turn(text))
        store.append(write)
        [read] = store.turns(ANA, write.episode_id)
        assert read.text == text

    def test_a_long_episode(self, store: EpisodeStore) -> None:
        like = make_turn("x", embed=False)
        given = [dataclasses.replace(like, id=new_id()) for _ in range(10_000)]
        write = make_append(ANA, *given[:-1])
        assert [turn.ordinal for turn in store.append(write)] == list(range(9_999))
        assert [turn.ordinal for turn in store.append(make_next(write, given[-1]))] == [9_999]
        assert find(store, write).message_count == 10_000
        read = store.turns(ANA, write.episode_id)
        assert [turn.id for turn in read] == [turn.id for turn in given]
        assert store.turns(ANA, write.episode_id, start=9_998, stop=9_999) == read[9_998:9_999]

    def test_summaries_and_key_facts(self, store: EpisodeStore) -> None:
        told = [("", ()), (_ODD, (_ODD, "", _ODD)), ("x" * 2_000, tuple(map(str, range(200))))]
        for number, (text, facts) in enumerate(told):
            write = make_append(ANA, "a", session_id=str(number))
            store.append(write)
            closing = make_closing(summary=make_summary(text, *facts))
            store.close_episode(ANA, write.episode_id, closing, expect_messages=1)
            assert (find(store, write).summary, find(store, write).key_facts) == (text, facts)

    def test_metadata(self, store: EpisodeStore) -> None:
        metadata = {"": None, "nul\0": "é e\u0301 🐙 \ud800", "n": [1, 1.0, True, {"deep": {}}]}
        store.append(make_append(ANA, "a", metadata=metadata))
        state = store.session(ANA, "session")
        assert state is not None
        assert _exactly(state.session.metadata) == _exactly(metadata)

    def test_large_counts(self, store: EpisodeStore) -> None:
        write = make_append(ANA, *(make_turn("a", tokens=2**31 - 1) for _ in range(3)))
        store.append(write)
        assert find(store, write).input_tokens == 3 * (2**31 - 1)
        assert [turn.tokens for turn in store.turns(ANA, write.episode_id)] == [2**31 - 1] * 3


class TimeTests(StoreTests):
    def test_times_are_kept_to_the_microsecond(self, store: EpisodeStore) -> None:
        for moment in _MOMENTS:
            seen = _times(store, moment)
            assert seen == [moment] * len(seen)
            assert {time.utcoffset() for time in seen if time} == {timedelta(0)}
        micros = [(moment - _EPOCH) // timedelta(microseconds=1) for moment in _MOMENTS]
        rows = store.recall_rows(ANA, after=0)[1]
        assert [row.at for row in rows] == [at for at in micros for _ in ("turn", "summary")]

    def test_a_microsecond_decides_the_order(self, store: EpisodeStore) -> None:
        for micro in (1, 0, 2):
            end = after(microseconds=micro)
            store.append(make_append(ANA, "a", session_id=str(micro), closing=make_closing(end)))
        found, _ = store.list_episodes(EpisodeQuery(of=ANA, limit=9))
        assert [episode.session_id for episode in found] == ["2", "1", "0"]


def _times(store: EpisodeStore, moment: datetime) -> list[datetime | None]:
    """Every time that can be read of an episode of one moment."""
    session_id = str(moment)
    write = make_append(
        ANA, make_turn("a", at=moment), at=moment, now=moment, session_id=session_id
    )
    store.append(write)
    state = store.session(ANA, session_id)
    assert state is not None
    [turn] = store.turns(ANA, write.episode_id)
    [found] = store.open_episodes(touched_before=_END, opened_before=_END, limit=1)
    closed = store.close_episode(ANA, write.episode_id, make_closing(moment), expect_messages=1)
    return [
        turn.at,
        state.session.created_at,
        state.session.last_seen_at,
        found.opened_at,
        found.touched_at,
        closed.started_at,
        closed.last_message_at,
        closed.ended_at,
    ]


def _exactly(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _no_json_turn() -> NewTurn:
    return make_turn({"role": "user", "content": "fine", "extra": object()})


def _no_json_summary() -> NewSummary:
    unfit: Any = object()
    fine = make_summary("fine")
    return dataclasses.replace(fine, summary=Summary(text="fine", key_facts=(unfit,)))


_Spoil = Callable[[Append], Append]
_FAILING: Sequence[tuple[str, type[Exception], _Spoil]] = [
    ("session has an open one", EpisodeChanged, lambda open_: make_append(ANA, "x", "y")),
    ("scope is new", EpisodeNotFound, lambda open_: make_next(make_append(BEN), "x")),
    ("episode is unknown", EpisodeNotFound, lambda open_: make_next(make_append(ANA), "x")),
    ("not closed", EpisodeChanged, lambda open_: make_next(open_, "x", target=Target.RESUME)),
    (
        "key was used otherwise",
        IdempotencyConflict,
        lambda open_: make_next(open_, "x", idempotency=make_key("used", b"other")),
    ),
    (
        "id is taken",
        OctopusError,
        lambda open_: make_append(ANA, "x", session_id="new", episode_id=open_.episode_id),
    ),
    (
        "message is no JSON",
        OctopusError,
        lambda open_: make_next(
            open_, "x", _no_json_turn(), metadata={"new": 1}, idempotency=make_key("new")
        ),
    ),
    (
        "message is no JSON in a new scope",
        OctopusError,
        lambda open_: make_append(BEN, "x", _no_json_turn(), closing=make_closing()),
    ),
    (
        "summary is no JSON",
        OctopusError,
        lambda open_: make_next(open_, "x", closing=make_closing(summary=_no_json_summary())),
    ),
]


class AtomicityTests(StoreTests):
    def test_an_append_that_fails_leaves_nothing(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", idempotency=make_key("used"), metadata={"old": 0})
        store.append(write)
        before = snapshot(store, ANA, BEN)
        for what, error, spoil in _FAILING:
            with pytest.raises(error):
                store.append(spoil(write))
            assert snapshot(store, ANA, BEN) == before, what
        after_all = store.append(make_next(write, "b", idempotency=make_key("new")))
        assert [turn.ordinal for turn in after_all] == [1]

    def test_a_close_that_fails_leaves_nothing(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        before = snapshot(store, ANA)
        spoiled = make_closing(summary=_no_json_summary())
        with pytest.raises(OctopusError):
            store.close_episode(ANA, write.episode_id, spoiled, expect_messages=1)
        assert snapshot(store, ANA) == before


class ConcurrentAppendTests(StoreTests):
    def test_appends_of_many_threads_leave_no_gap(self, store: EpisodeStore) -> None:
        write = make_append(ANA)
        store.append(write)

        def add(thread: int) -> list[list[int]]:
            said = [(f"{thread}/{n}/first", f"{thread}/{n}/second") for n in range(8)]
            stored = [store.append(make_next(write, *pair)) for pair in said]
            return [[turn.ordinal for turn in turns] for turns in stored]

        outcomes = at_once(add)
        assert raised(outcomes) == []
        pairs = [pair for done in outcomes if isinstance(done, list) for pair in done]
        assert all(second == first + 1 for first, second in pairs)
        turns = store.turns(ANA, write.episode_id)
        assert [turn.ordinal for turn in turns] == list(range(128))
        assert find(store, write).message_count == 128
        assert [turn.text.split("/")[2] for turn in turns] == ["first", "second"] * 64
        seqs = [row.seq for row in store.recall_rows(ANA, after=0)[1]]
        assert len(set(seqs)) == 128

    def test_of_many_that_start_an_episode_one_does(self, store: EpisodeStore) -> None:
        outcomes = at_once(lambda thread: store.append(make_append(ANA, f"by {thread}")))
        assert raised(outcomes) == [EpisodeChanged] * (len(outcomes) - 1)
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=10))[1] == 1

    def test_many_may_be_the_first_in_a_scope(self, store: EpisodeStore) -> None:
        outcomes = at_once(lambda n: store.append(make_append(ANA, "a", session_id=str(n))))
        assert raised(outcomes) == []
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=10))[1] == len(outcomes)
        assert store.stats().scopes == 1

    def test_scopes_do_not_wait_for_each_other_in_vain(self, store: EpisodeStore) -> None:
        def converse(thread: int) -> list[str]:
            write = make_append(make_scope(f"user {thread}"), "0")
            store.append(write)
            for number in range(1, 6):
                store.append(make_next(write, str(number)))
            return texts(store, write)

        assert at_once(converse) == [["0", "1", "2", "3", "4", "5"]] * 8

    def test_a_reader_never_sees_half_an_append(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", "c")
        store.append(write)

        def use(thread: int) -> set[int]:
            if thread % 2:
                for _ in range(10):
                    store.append(make_next(write, "a", "b", "c"))
                return set()
            counts = [len(store.recall_rows(ANA, after=0)[1]) for _ in range(10)]
            counts += [len(store.turns(ANA, write.episode_id)) for _ in range(10)]
            counts += [find(store, write).message_count for _ in range(10)]
            return {count % 3 for count in counts}

        outcomes = at_once(use)
        assert raised(outcomes) == []
        assert {rest for seen in outcomes if isinstance(seen, set) for rest in seen} == {0}

    def test_an_episode_closes_with_the_turns_it_was_judged_by(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)

        def use(thread: int) -> int:
            if thread:
                store.append(make_next(write, f"by {thread}"))
                return 0
            while True:
                count = find(store, write).message_count
                try:
                    store.close_episode(
                        ANA, write.episode_id, make_closing(), expect_messages=count
                    )
                except EpisodeChanged:
                    continue
                return count

        outcomes = at_once(use)
        assert set(raised(outcomes)) <= {EpisodeChanged}
        assert outcomes[0] == find(store, write).message_count
        assert outcomes[0] == len(store.turns(ANA, write.episode_id))
