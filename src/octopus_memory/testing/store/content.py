"""Store suite: reads return exactly what was written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from ...domain.ids import new_id
from ...domain.message import Json, Message, ToolCall
from ...ports.store import EpisodeStore
from ...ports.values import EpisodeQuery
from ..fakes import make_append, make_closing, make_next, make_summary, make_turn
from .base import ANA, StoreTests, after, find

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
