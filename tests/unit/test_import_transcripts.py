"""Readers of other programs' transcripts, fed in chunks of any size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from octopus_memory import InvalidInput
from octopus_memory.domain.transfer.transcripts import (
    ImportSource,
    as_time,
    chatgpt_conversations,
    detect,
    json_values,
    openai_conversations,
)

VALUES = [{"a": [1, {"b": "],}"}], "é": '\\" 🐙'}, {}, {"c": -1.5e3}, {"d": None}]


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_is_read_value_by_value(size: int, indent: int | None):
    text = "\ufeff  " + json.dumps(VALUES, indent=indent) + "\n"
    assert [value for in_array, value in json_values(cut(text, size)) if in_array] == VALUES


@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_values_that_follow_each_other_are_read_too(size: int):
    text = "\n".join(map(json.dumps, VALUES))
    assert list(json_values(cut(text, size))) == [(False, value) for value in VALUES]


def test_no_more_is_read_than_is_asked_for():
    read = []

    def chunks() -> Iterator[str]:
        yield "["
        for number in range(1_000):
            read.append(number)
            yield json.dumps({"n": number}) + ","

    values = json_values(chunks())
    assert next(values) == (True, {"n": 0})
    assert next(values) == (True, {"n": 1})
    assert len(read) <= 3


def test_a_large_value_is_not_read_over_and_over(monkeypatch: pytest.MonkeyPatch):
    from octopus_memory.domain.transfer import transcripts

    scanned = []

    def counting(text: str, at: int) -> Any:
        scanned.append(len(text) - at)
        return json.JSONDecoder().raw_decode(text, at)

    monkeypatch.setattr(transcripts, "_DECODE", counting)
    text = json.dumps([{"text": "x" * 200_000}])
    assert len(list(json_values(cut(text, 100)))) == 1
    assert sum(scanned) < 4 * len(text)


@pytest.mark.parametrize("text", ["[1, 2", '[{"a": ', '{"a": ', "[{},", "nonsense", '{"a": 1} x'])
def test_truncated_or_invalid_json_is_refused(text: str):
    with pytest.raises(InvalidInput, match="is not JSON"):
        list(json_values([text]))


def test_nothing_may_follow_an_array():
    with pytest.raises(InvalidInput, match="must end after its array"):
        list(json_values(["[{}] ", "\n", "[{}]"]))
    assert list(json_values(["[{}] ", "\n", " "])) == [(True, {})]


MESSAGES = [
    {"role": "developer", "content": "Be formal."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Good morning."},
]


@pytest.mark.parametrize(
    ("first", "source"),
    [
        ('{"kind":"header","format":"octopus-export","version":1}\n', ImportSource.OCTOPUS),
        (json.dumps(MESSAGES), ImportSource.OPENAI),
        (json.dumps({"messages": MESSAGES}), ImportSource.OPENAI),
        (json.dumps([{"messages": MESSAGES}]), ImportSource.OPENAI),
        (
            '[{"messages": [{"role": "user", "content": "what does \\"mapping\\" me',
            ImportSource.OPENAI,
        ),
        (json.dumps([{"title": "x", "mapping": {}}]), ImportSource.CHATGPT),
        ('[{"title": "x", "mapping": {"a": {"message": {"author": {"role"', ImportSource.CHATGPT),
    ],
)
def test_the_format_is_told_from_how_it_begins(first: str, source: ImportSource):
    assert detect(first) is source


@pytest.mark.parametrize("first", ["hello", "[]", "{}", "[1]", '[{"text": "x"}]'])
def test_an_unknown_format_is_to_be_named(first: str):
    with pytest.raises(InvalidInput, match="source: cannot be detected"):
        detect(first)


@pytest.mark.parametrize("first", ["", " \n", "\ufeff"])
def test_an_empty_file_is_said_to_be_empty(first: str):
    with pytest.raises(InvalidInput, match="file: is empty"):
        detect(first)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MESSAGES),
        json.dumps({"messages": MESSAGES}),
        json.dumps([{"messages": MESSAGES}]),
        json.dumps({"messages": MESSAGES}) + "\n",
    ],
)
def test_every_form_of_a_transcript_is_taken(text: str):
    [found] = openai_conversations(cut(text, 11))
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant"]
    assert found.times == [None] * 3
    [again] = openai_conversations([text])
    assert (again.key, again.session_id) == (found.key, found.session_id)


def test_metadata_of_a_conversation_is_taken():
    line = {
        "id": "conv-1",
        "created_at": "2025-03-14T09:26:53Z",
        "metadata": {"channel": "web"},
        "messages": [MESSAGES[1], {**MESSAGES[2], "created_at": 1_741_944_500}],
    }
    [found] = openai_conversations([json.dumps(line)])
    assert found.session_id == "openai:conv-1"
    assert found.metadata == {"channel": "web"}
    assert found.times == [
        datetime(2025, 3, 14, 9, 26, 53, tzinfo=UTC),
        datetime(2025, 3, 14, 9, 28, 20, tzinfo=UTC),
    ]


def test_the_same_words_twice_are_two_conversations():
    text = "\n".join([json.dumps({"messages": MESSAGES})] * 2)
    assert len({found.session_id for found in openai_conversations([text])}) == 2


def test_functions_of_older_transcripts_are_tool_calls():
    older = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "function_call": {"name": "w", "arguments": "{}"}},
        {"role": "function", "name": "w", "content": "rain"},
    ]
    [found] = openai_conversations([json.dumps(older)])
    _, asks, answers = found.messages
    assert asks["tool_calls"][0]["function"] == {"name": "w", "arguments": "{}"}
    assert answers["role"] == "tool"
    assert answers["tool_call_id"] == asks["tool_calls"][0]["id"]
    assert "function_call" not in asks


@pytest.mark.parametrize("value", [[1], {"messages": "x"}, {"messages": [1]}, {"text": 1}])
def test_an_invalid_transcript_is_refused_with_its_position(value: Any):
    good = json.dumps({"messages": MESSAGES})
    with pytest.raises(InvalidInput, match=r"^conversations\[1\]\.messages: must be a list"):
        list(openai_conversations([good, "\n", json.dumps(value)]))
    with pytest.raises(InvalidInput, match="is empty"):
        list(openai_conversations([""]))


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1.5, datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        ("2025-03-14T10:00:00+02:00", datetime(2025, 3, 14, 8, tzinfo=UTC)),
        ("2025-03-14T10:00:00", datetime(2025, 3, 14, 10, tzinfo=UTC)),
        (True, None),
        (None, None),
        ("soon", None),
        (1e300, None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_times_in_every_form(value: Any, moment: datetime | None):
    assert as_time(value) == moment


# ChatGPT's conversations.json


def node(key: str, parent: str | None, role: str = "user", content: Any = None, **more: Any) -> Any:
    if not isinstance(content, dict):
        content = {"content_type": "text", "parts": [content]}
    author = {"role": role, "name": more.pop("name", None), "metadata": {}}
    message = {"id": key, "author": author, "content": content, "weight": 1.0, "metadata": {}}
    return {"id": key, "parent": parent, "children": [], "message": message | more}


def conversation(*nodes: Any, current: str | None = "", **more: Any) -> dict[str, Any]:
    mapping = {each["id"]: each for each in nodes}
    for each in nodes:
        if each["parent"] in mapping:
            mapping[each["parent"]]["children"].append(each["id"])
    found = {
        "title": "Tea",
        "create_time": 1_741_944_000.25,
        "update_time": 1_741_945_000,
        "mapping": mapping,
        "current_node": nodes[-1]["id"] if current == "" else current,
        "conversation_id": "c-1",
        "default_model_slug": "gpt-4o",
    }
    return found | more


def read(*conversations: Any, size: int = 97) -> Any:
    text = json.dumps(list(conversations))
    found = list(chatgpt_conversations(cut(text, size)))
    return found[0] if len(found) == 1 else found


ROOT = {"id": "root", "parent": None, "children": [], "message": None}


def test_the_branch_that_was_shown_last_is_taken():
    found = read(
        conversation(
            ROOT,
            node("q", "root", "user", "Which tea?"),
            node("a1", "q", "assistant", "Black."),
            node("a2", "q", "assistant", "Green."),
            node("q2", "a2", "user", "Thanks"),
        )
    )
    assert [m["content"] for m in found.messages] == ["Which tea?", "Green.", "Thanks"]
    assert found.session_id == "chatgpt:c-1"
    assert found.metadata == {"source": "chatgpt", "title": "Tea", "model": "gpt-4o"}
    assert found.left_out == 0


def test_without_a_current_node_the_last_written_is_taken():
    nodes = [
        ROOT,
        node("q", "root", "user", "Which tea?", create_time=1.0),
        node("a2", "q", "assistant", "Green.", create_time=3.0),
        node("a1", "q", "assistant", "Black.", create_time=2.0),
    ]
    found = read(conversation(*nodes, current=None))
    assert [m["content"] for m in found.messages] == ["Which tea?", "Green."]
    # A time in another form, or what is no time at all, is no reason to stop.
    nodes[2]["message"]["create_time"] = "1970-01-01T00:00:03Z"
    assert read(conversation(*nodes, current=None)) == found
    nodes[3]["message"] = "Black."
    assert read(conversation(*nodes, current=None)) == found


def test_times_are_the_messages_own_or_the_last_known():
    found = read(
        conversation(
            node("q", None, "user", "a"),
            node("a", "q", "assistant", "b", create_time=1_741_944_100.5),
            node("q2", "a", "user", "c"),
        )
    )
    start = datetime(2025, 3, 14, 9, 20, 0, 250_000, tzinfo=UTC)
    later = datetime(2025, 3, 14, 9, 21, 40, 500_000, tzinfo=UTC)
    assert found.times == [start, later, later]


@pytest.mark.parametrize(
    "hidden",
    [
        {"role": "system", "content": ""},
        {
            "role": "system",
            "content": "x",
            "metadata": {"is_visually_hidden_from_conversation": True},
        },
        {"role": "user", "content": {"content_type": "user_editable_context", "user_profile": "x"}},
        {
            "role": "assistant",
            "content": {"content_type": "thoughts", "thoughts": [{"content": "x"}]},
        },
        {"role": "assistant", "content": {"content_type": "reasoning_recap", "content": "x"}},
        {"role": "assistant", "content": {"content_type": "text", "parts": []}},
        {"role": "assistant", "content": "x", "weight": 0},
        {"role": "critic", "content": "x"},
        {"role": "user", "content": {"content_type": ["text"]}},
        {"role": "user", "content": "", "metadata": "x"},
        {"role": "user", "content": "x", "author": "user"},
        {"role": "user", "content": "", "author": ["user"]},
    ],
)
def test_hidden_messages_are_left_out_and_counted(hidden: Any):
    found = read(
        conversation(
            node("h", None, hidden.pop("role"), hidden.pop("content"), **hidden),
            node("q", "h", "user", "Hello"),
        )
    )
    assert [m["content"] for m in found.messages] == ["Hello"]
    assert found.left_out == 1


def test_content_of_another_form_is_left_out_and_counted():
    other = node("h", None)
    other["message"]["content"] = "x"
    found = read(conversation(other, node("q", "h", "user", "Hello")))
    assert ([m["content"] for m in found.messages], found.left_out) == (["Hello"], 1)


def test_a_visible_instruction_is_a_system_message():
    found = read(conversation(node("s", None, "system", "Be formal.")))
    assert list(found.messages) == [{"role": "system", "content": "Be formal."}]


def test_a_tool_and_who_called_it():
    code = {"content_type": "code", "language": "python", "text": "print(1)"}
    output = {"content_type": "execution_output", "text": "1"}
    quote = {"content_type": "tether_quote", "url": "u", "text": "quoted"}
    found = read(
        conversation(
            node("q", None, "user", "run it"),
            node("call", "q", "assistant", code, recipient="python"),
            node("out", "call", "tool", output, name="python"),
            node("more", "out", "tool", quote, name="browser"),
            node("a", "more", "assistant", "It prints 1.", recipient="all"),
        )
    )
    function = {"name": "python", "arguments": "print(1)"}
    request = {"id": "call", "type": "function", "function": function}
    assert found.messages[1:4] == [
        {"role": "assistant", "content": None, "tool_calls": [request]},
        {"role": "tool", "tool_call_id": "call", "content": "1"},
        {
            "role": "tool",
            "tool_call_id": "more",
            "content": "quoted",
            "function_name": "browser",
            "arguments": None,
        },
    ]


def test_pictures_and_recordings_are_kept_by_their_address():
    parts = [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1", "width": 1},
        {"content_type": "audio_transcription", "text": "What is this?", "direction": "in"},
        {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://f2"},
        "",
        None,
    ]
    content = {"content_type": "multimodal_text", "parts": parts}
    found = read(conversation(node("q", None, "user", content)))
    assert found.messages[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "file-service://f1"}},
        {"type": "text", "text": "What is this?"},
        {"type": "audio_asset_pointer", "asset_pointer": "sediment://f2"},
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"mapping": []}, "mapping"),
        ({"conversation_id": None}, "conversation_id"),
        ({"current_node": "nowhere"}, "mapping"),
    ],
)
def test_an_invalid_conversation_is_refused_with_its_position(change: Any, field: str):
    good = conversation(node("q", None, "user", "Hello"))
    with pytest.raises(InvalidInput, match=rf"^conversations\[1\]\.{field}: "):
        read(good, good | change)


def test_a_tree_that_bites_its_tail_is_refused():
    with pytest.raises(InvalidInput, match="must contain the parent"):
        read(conversation(node("a", "b", "user", "x"), node("b", "a", "user", "y")))
