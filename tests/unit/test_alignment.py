"""What of a caller's list is new to a session, told by content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.domain.checks import parse_messages
from octopus_memory.integrations.alignment import Mark, mark, new_places


def marks(told: str) -> list[Mark]:
    """Marks of words such as `u:hi a:hello t:c1 c:c1`: user, assistant, tool result, tool call."""
    return [_one(word) for word in told.split()]


def _one(word: str) -> Mark:
    kind, _, text = word.partition(":")
    call = {"id": text, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body: dict[str, object] = {
        "u": {"role": "user", "content": text},
        "a": {"role": "assistant", "content": text},
        "t": {"role": "tool", "tool_call_id": text, "content": "result"},
        "c": {"role": "assistant", "content": None, "tool_calls": [call]},
    }[kind]
    [message] = parse_messages([body], max_bytes=1_000)
    return mark(message)


@pytest.mark.parametrize(
    ("stored", "told", "new"),
    [
        pytest.param("", "u:hi", "u:hi", id="the first message"),
        pytest.param("u:1 a:1", "u:1 a:1 u:2", "u:2", id="the whole history"),
        pytest.param("u:1 a:1 u:2 a:2", "a:2 u:3", "u:3", id="the end of the history"),
        pytest.param("u:1 a:1", "u:2", "u:2", id="the last message alone"),
        pytest.param("u:yes a:1", "u:yes", "u:yes", id="the same words alone are said again"),
        pytest.param("u:yes a:1 u:yes", "u:yes", "", id="unless nothing answered them"),
        pytest.param("u:1 a:1 u:2", "u:1 a:1 u:2", "", id="a retry after a failure"),
        pytest.param("u:1 c:1 t:1", "u:1", "", id="a retry after a failure amid tools"),
        pytest.param("u:1 a:1 u:2 a:2", "u:1 a:1 u:2", "", id="another answer is asked for"),
        pytest.param("u:1 a:1 u:2", "u:1 a:1 u:3", "u:3", id="a message that failed is dropped"),
        pytest.param("u:1 c:1 t:1 a:1", "u:1 a:1 u:2", "u:2", id="tool messages are dropped"),
        pytest.param("u:1 a:1 u:2 a:2", "u:0 a:1 u:2 a:2 u:3", "u:0 u:3", id="the first is edited"),
        pytest.param("u:x1 u:1 a:1", "u:x2 u:1 a:1 u:2", "u:x2 u:2", id="one is put in front"),
        pytest.param("u:A1 a:A1 u:B1 a:B1 u:A2 a:A2", "u:B1 a:B1 u:B2", "u:B2", id="two histories"),
        pytest.param("c:1 c:2", "c:1 c:2 t:2 t:1", "t:2 t:1", id="parallel results"),
        pytest.param("u:1 c:1 t:1 t:2", "u:1 c:1 t:2 t:1", "", id="results in another order"),
        pytest.param("u:1 a:ok u:2", "u:1 a:ok u:2 a:ok", "a:ok", id="the same answer again"),
        pytest.param("u:n a:ok u:n a:ok", "a:ok u:n", "u:n", id="a short window that repeats"),
        pytest.param("u:1 a:1 u:2 a:2", "u:1 a:other u:2", "a:other", id="another choice is kept"),
        pytest.param("u:hi a:hi u:hi", "u:hi a:hi", "a:hi", id="the same exchange again"),
        pytest.param("u:1 a:1 u:2 a:2", "u:1 a:1 u:2 a:2", "", id="a run that is stored"),
        pytest.param("u:1 c:1 t:1 a:1", "u:1 c:1 t:1", "", id="a tool's answer is asked for again"),
        pytest.param("u:1 c:1", "u:1 c:1 t:1", "t:1", id="a result alone is new"),
        pytest.param("u:1 c:1 t:1 a:1 u:2 c:1", "u:2 c:1 t:1", "t:1", id="ids that are used again"),
    ],
)
def test_what_is_new(stored: str, told: str, new: str):
    given = marks(told)
    assert [given[at] for at in new_places(given, marks(stored))] == marks(new)


_TURNS = st.lists(st.sampled_from(["u:1", "u:2", "u:3", "a:1", "a:2", "c:1", "t:1"]), max_size=12)


@given(_TURNS)
def test_a_history_that_grows_is_stored_as_it_is(turns: list[str]):
    session: list[Mark] = []
    said = [_one(f"u:{number}:{turn}") for number, turn in enumerate(turns)]
    history: list[Mark] = []
    for number, each in enumerate(said):
        history.append(each)
        session += [history[at] for at in new_places(history, session)]
        answer = _one(f"a:{number}")
        history.append(answer)
        session.append(answer)
    assert session == history


def test_the_same_text_with_another_picture_is_another_message():
    def shown(url: str) -> Mark:
        part = {"type": "image_url", "image_url": {"url": url}}
        content = [{"type": "text", "text": "Who is this?"}, part]
        [message] = parse_messages([{"role": "user", "content": content}], max_bytes=1_000)
        return mark(message)

    assert shown("https://example.org/1.png") != shown("https://example.org/2.png")
    assert shown("https://example.org/1.png") == shown("https://example.org/1.png")
