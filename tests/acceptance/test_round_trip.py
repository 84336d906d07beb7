"""What is read back is what was written: any JSON, any size, in order, from another connection."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from octopus_memory import EpisodicMemory, InvalidInput, MemoryScope, Message, Role, ToolCall

START = datetime(2024, 2, 29, 23, 59, 58, 999_999, tzinfo=UTC)
SOME = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)

# An empty set of excluded categories lets lone surrogates in, which are left out by default.
TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
KNOWN_KEYS = {
    "role",
    "content",
    "name",
    "agent",
    "tool_calls",
    "tool_call_id",
    "function_name",
    "duration_ms",
    "is_error",
}
EXTRA = st.dictionaries(TEXT.filter(lambda key: key not in KNOWN_KEYS), JSON, max_size=3)
PARTS = st.lists(
    st.builds(
        lambda more, kind: more | {"type": kind},
        st.dictionaries(TEXT, JSON, max_size=2)
        | st.fixed_dictionaries({"text": TEXT | JSON})
        | st.fixed_dictionaries({"image_url": st.fixed_dictionaries({"url": TEXT})}),
        TEXT,
    ),
    max_size=4,
)
SPOKEN = st.builds(
    lambda extra, named, role, content: extra | named | {"role": role, "content": content},
    EXTRA,
    st.fixed_dictionaries({}, optional={"name": st.none() | TEXT, "agent": st.none() | TEXT}),
    st.sampled_from(["user", "assistant", "system"]),
    TEXT | PARTS,
)
REQUEST = st.builds(
    lambda extra, name, arguments: (
        extra | {"type": "function", "function": {"name": name, "arguments": arguments}}
    ),
    EXTRA,
    TEXT,
    TEXT,
)
RESULT = st.fixed_dictionaries({"content": TEXT | PARTS}, optional={"is_error": st.booleans()})
CARRIED = st.builds(
    ToolCall,
    tool_call_id=TEXT.filter(bool),
    function_name=TEXT.filter(bool),
    arguments=JSON,
    result=JSON,
    duration_ms=st.none() | st.integers(0, 10**6),
    is_error=st.booleans(),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages that may follow each other: every bare tool result has its call before it."""
    said: list[dict[str, Any]] = []
    for place in range(draw(st.integers(1, 4))):
        match draw(st.sampled_from(["spoken", "spoken", "called", "carried"])):
            case "spoken":
                said.append(draw(SPOKEN))
            case "called":
                requests = draw(st.lists(REQUEST, min_size=1, max_size=3))
                calls = [r | {"id": f"{place}.{n}{draw(TEXT)}"} for n, r in enumerate(requests)]
                content = draw(st.none() | TEXT)
                said.append({"role": "assistant", "content": content, "tool_calls": calls})
                said += [
                    draw(RESULT) | {"role": "tool", "tool_call_id": call["id"]} for call in calls
                ]
            case "carried":
                said.append(dict(Message.tool(draw(CARRIED)).body))
    return said


class Ends(NamedTuple):
    """Two memories on one file: nothing that `there` reads can come from `here`'s own caches."""

    here: EpisodicMemory
    there: EpisodicMemory

    def scopes(self) -> tuple[MemoryScope, MemoryScope]:
        user = str(uuid4())
        return self.here.scope(user=user), self.there.scope(user=user)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ends]:
    url = f"sqlite:///{tmp_path_factory.mktemp('round-trip') / 'memory.db'}"
    with (
        EpisodicMemory.open(url, embedder="hashing", background=False) as here,
        EpisodicMemory.open(url, embedder="hashing", background=False) as there,
    ):
        yield Ends(here, there)


def is_same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way down: True is not 1, nor -0.0 the same as 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return repr(one) == repr(other)


def bodies(scope: MemoryScope, session_id: str) -> list[dict[str, Any]]:
    return [dict(turn.message.body) for turn in scope.session(session_id).turns]


HALVES = "\ude00\ud83d and \ud83d\ude00 in two halves, and whole: 😀"
AWKWARD = [
    {"role": "user", "content": ""},
    {"role": "user", "content": "\x00", "name": "\x00", "agent": "\ud800" * 300},
    {"role": "user", "content": HALVES, "name": "\ud800", HALVES: HALVES},
    {"role": "assistant", "content": [], "nothing": None, "": {"": [None, [], {}]}},
    {"role": "assistant", "content": None, "refusal": "no", "tool_calls": None},
    {"role": "assistant", "content": "é e\u0301 \ufeff \u202e \u2028", "tool_calls": []},
    {"role": "system", "content": [{"type": "text", "text": 5}, {"type": "", "text": None}]},
    {"role": "user", "content": "x", "n": [-0.0, 0, 0.0, True, 1, 1.0, 2**200, 1e-320]},
    {"role": "tool", "tool_call_id": "c", "function_name": "f", "result": None},
    {"role": "tool", "tool_call_id": "c", "function_name": "f", "content": "x", "result": [1]},
    {"role": "tool", "tool_call_id": "c", "function_name": "f", "content": "", "arguments": None},
    {"role": "user", "content": "x", "result": 1, "arguments": None, "function_name": 0},
]


@SOME
@given(said=conversations(), whole=st.booleans(), at_once=st.booleans())
@example(said=AWKWARD, whole=True, at_once=True)
@example(said=AWKWARD, whole=False, at_once=True)
@example(said=AWKWARD, whole=False, at_once=False)
def test_any_conversation_comes_back_as_it_went_in(
    ends: Ends, said: list[dict[str, Any]], whole: bool, at_once: bool
):
    here, there = ends.scopes()
    times = [START + timedelta(microseconds=place) for place in range(len(said))]
    if whole:
        here.store(said, session_id="s", at=times)
    elif at_once:
        here.add("s", said, at=times)
    else:
        for message, at in zip(said, times, strict=True):
            here.add("s", message, at=at)
    replay = there.session("s")
    assert is_same([dict(turn.message.body) for turn in replay.turns], said)
    assert [turn.ordinal for turn in replay.turns] == list(range(len(said)))
    assert [turn.at for turn in replay.turns] == times
    [episode] = there.episodes()
    assert there.get(episode.id).turns == replay.turns
    assert episode.message_count == len(said)
    made = sum(turn.tokens for turn in replay.turns if turn.role is Role.ASSISTANT)
    assert episode.output_tokens == made
    assert episode.input_tokens + made == sum(turn.tokens for turn in replay.turns)


@settings(SOME, max_examples=25)
@given(said=conversations())
@example(said=AWKWARD)
def test_any_conversation_can_be_closed_recalled_and_shown(ends: Ends, said: list[dict[str, Any]]):
    here, there = ends.scopes()
    with here.episode(session_id="s") as ep:
        ep.add(said)
    ends.here.flush()
    for query in [turn.text for turn in there.session("s").turns] + ["leave days"]:
        there.recall(query)
        there.recall_turns(query, mode="semantic")
        there.context(query, history=there.session("s").messages())
    assert [s.episode_id for s in there.recent()] == [ep.id]


@SOME
@given(call=CARRIED)
def test_a_tool_turn_carries_its_call_whole(ends: Ends, call: ToolCall):
    here, there = ends.scopes()
    with here.episode(session_id="s") as ep:
        ep.add_tool_call(
            call.function_name,
            call.arguments,
            call.result,
            tool_call_id=call.tool_call_id,
            duration_ms=call.duration_ms,
            is_error=call.is_error,
        )
    [turn] = there.session("s").turns
    assert turn.tool_call == call
    request, result = there.session("s").messages()
    assert request["tool_calls"][0]["id"] == result["tool_call_id"] == call.tool_call_id


@SOME
@given(metadata=st.dictionaries(TEXT, JSON, max_size=5))
@example({"two halves": "\ud83d\ude00"})
@example({"half": "\ud800", "nul\x00": "\x00", "none": None, "nested": [{"": [[]]}]})
def test_a_sessions_metadata_comes_back_or_is_refused(ends: Ends, metadata: dict[str, Any]):
    here, there = ends.scopes()
    # Two halves of one character, side by side: JSON text cannot say that they are apart.
    if re.search("[\ud800-\udbff][\udc00-\udfff]", words(metadata)):
        with pytest.raises(InvalidInput, match="metadata"):
            here.open_episode("s", metadata=metadata)
        assert there.episodes().total_count == 0
        return
    here.open_episode("s", metadata=metadata)
    assert is_same(dict(there.session("s").session.metadata), metadata)


def words(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(words(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return " ".join(map(words, value))
    return value if isinstance(value, str) else ""


@SOME
@given(
    summary=st.text(st.characters(exclude_categories=()), max_size=2_000),
    facts=st.lists(TEXT, max_size=5),
)
def test_a_given_summary_comes_back_as_it_went_in(ends: Ends, summary: str, facts: list[str]):
    here, there = ends.scopes()
    stored = here.store([("user", "x")], summary=summary, key_facts=facts)
    kept = there.get(stored.id).episode
    assert (kept.summary, kept.key_facts) == (summary, tuple(facts))


@pytest.mark.parametrize("kind", ["noise", "one letter", "lone surrogates", "many parts"])
def test_a_turn_of_a_megabyte(ends: Ends, kind: str):
    noise = random.Random(7)
    content: Any
    match kind:
        case "noise":
            content = "".join(map(chr, noise.choices(range(1, 0xD800), k=400_000)))
        case "one letter":
            content = "a" * 1_048_576
        case "lone surrogates":
            content = "\udc80" * 350_000
        case _:
            content = [{"type": "text", "text": f"part {n} " * 10} for n in range(10_000)]
    here, there = ends.scopes()
    with here.episode(session_id="s") as ep:
        ep.add([("user", content), ("assistant", "That was long.")])
    ends.here.flush()
    assert bodies(there, "s")[0] == {"role": "user", "content": content}
    assert there.recall("long")[0].episode_id == ep.id


def test_an_episode_of_ten_thousand_turns(ends: Ends):
    here, there = ends.scopes()
    said = [
        ("assistant" if place % 2 else "user", f"turn {place}: {uuid4()}")
        for place in range(10_000)
    ]
    sizes = random.Random(11)
    place = 0
    while place < len(said):
        batch = sizes.choice([1, 2, 50, 1_000])
        here.add("s", said[place : place + batch])
        place += batch
    [episode] = here.episodes()
    here.close_episode(episode.id)
    replay = there.session("s")
    assert [turn.ordinal for turn in replay.turns] == list(range(10_000))
    assert [(turn.role, turn.text) for turn in replay.turns] == said
    assert [(m["role"], m["content"]) for m in replay.messages()] == said
    [closed] = there.episodes()
    assert closed.message_count == 10_000
    assert closed.input_tokens == sum(turn.tokens for turn in replay.turns[::2])
    assert closed.output_tokens == sum(turn.tokens for turn in replay.turns[1::2])
    [best] = there.recall_turns(said[7_654][1], limit=1)
    assert best.ordinal == 7_654


def test_token_counts_given_by_the_caller_are_kept(ends: Ends):
    here, there = ends.scopes()
    here.add("s", [("user", "one"), ("assistant", "two"), ("user", "three")], tokens=[11, 5, 0])
    assert [turn.tokens for turn in there.session("s").turns] == [11, 5, 0]
    [episode] = there.episodes()
    assert (episode.input_tokens, episode.output_tokens) == (11, 5)


def test_changes_the_caller_makes_afterwards_do_not_reach_the_store(ends: Ends):
    here, there = ends.scopes()
    message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "as it was"}]}
    before = copy.deepcopy(message)
    [turn] = here.add("s", message)
    message["content"][0]["text"] = "changed"
    assert turn.text == "as it was"
    assert bodies(there, "s") == [before]


def test_a_file_that_is_opened_again_holds_the_same(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="u")
        scope.store(AWKWARD, session_id="s", metadata={"channel": "web"})
        before = scope.session("s")
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        assert memory.scope(user="u").session("s") == before
        assert is_same(bodies(memory.scope(user="u"), "s"), AWKWARD)
