"""Redaction of messages: personal data is replaced, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.redactors.patterns import PatternRedactor
from octopus_memory.domain.message import Message, parse_message
from octopus_memory.domain.text.pii import PiiKind, PiiSpan
from octopus_memory.engine.core.redaction import (
    found_in,
    redact_json,
    redact_message,
    redact_text,
)

REDACTOR = PatternRedactor()


def left_of(**body: Any) -> dict[str, Any]:
    message = parse_message(body, max_bytes=1_000_000)
    return dict(redact_message(message, REDACTOR).value.body)


def numbering() -> Any:
    seen: dict[tuple[PiiKind, str], int] = {}
    counts: dict[PiiKind, int] = {}

    def number_of(kind: PiiKind, value: str) -> int:
        if (kind, value) not in seen:
            counts[kind] = seen[kind, value] = counts.get(kind, 0) + 1
        return seen[kind, value]

    return number_of


def test_text_content():
    left = left_of(role="user", content="I'm Tully, tully@example.com")
    assert left == {"role": "user", "content": "I'm [PERSON_NAME], [EMAIL]"}


def test_text_parts_are_read_and_files_written_out_are_not():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,415-555-0134"}}
    audio = {"type": "input_audio", "input_audio": {"data": "415-555-0134", "format": "wav"}}
    linked = {"type": "image_url", "image_url": {"url": "https://example.com/?to=a@example.com"}}
    text = {"type": "text", "text": "call 415-555-0134"}
    left = left_of(role="user", content=[text, image, audio, linked])["content"]
    assert left[0] == {"type": "text", "text": "call [PHONE_NUMBER]"}
    assert left[1:3] == [image, audio]
    assert left[3]["image_url"]["url"] == "https://example.com/?to=[EMAIL]"


def test_text_that_begins_like_a_file_is_read():
    assert left_of(role="user", content="data: a@example.com")["content"] == "data: [EMAIL]"
    content = "data:text/plain;base64,QUJD or a@example.com"
    assert "[EMAIL]" in left_of(role="user", content=content)["content"]


def test_calls_of_other_forms_are_read_too():
    custom = {"id": "1", "type": "custom", "custom": {"name": "f", "input": "a@example.com"}}
    left = left_of(role="assistant", content="ok", tool_calls=[custom])
    assert left["tool_calls"][0]["custom"] == {"name": "f", "input": "[EMAIL]"}
    old = {"name": "f", "arguments": '{"to": "a@example.com"}'}
    left = left_of(role="assistant", content="ok", function_call=old)
    assert left["function_call"] == {"name": "f", "arguments": '{"to": "[EMAIL]"}'}


def test_a_users_name_is_replaced_and_known_in_what_they_say():
    left = left_of(role="user", name="Tully_Quell", content="it's tully. QUELL, yes")
    assert left["name"] == "[PERSON_NAME]"
    assert left["content"] == "it's [PERSON_NAME]. [PERSON_NAME], yes"


def test_the_name_of_a_tool_or_of_an_agent_is_not_a_persons():
    assert left_of(role="tool", tool_call_id="1", name="maria", content="ok")["name"] == "maria"
    assert left_of(role="assistant", name="helper", content="ok")["name"] == "helper"


def test_arguments_in_a_text_stay_the_json_they_were():
    arguments = (
        '{ "firstName": "Tully",\n  "phone": 4155550134, "n": 1.4155550134, "ok": true,\n'
        '  "note": "caf\\u00e9 \\"x\\"", "ssn":"078051120", "tags": ["a@example.com", null] }'
    )
    call = {"id": "1", "type": "function", "function": {"name": "save", "arguments": arguments}}
    left = left_of(role="assistant", content=None, tool_calls=[call])["tool_calls"][0]
    assert left["id"] == "1"
    assert left["function"]["name"] == "save"
    assert left["function"]["arguments"] == (
        '{ "firstName": "[PERSON_NAME]",\n  "phone": "[PHONE_NUMBER]", "n": 1.4155550134, '
        '"ok": true,\n  "note": "caf\\u00e9 \\"x\\"", "ssn":"[US_SSN]", "tags": ["[EMAIL]", null] }'
    )


def test_arguments_that_are_json_themselves_and_results():
    left = left_of(
        role="tool",
        tool_call_id="1",
        function_name="look_up",
        arguments={"dob": "1990-01-02", "ids": [123456789]},
        content='[{"name": "Blue Widget"}, {"customer_name": "Tully Quell"}]',
        result={"a@example.com": {"address": "12 main street"}},
        duration_ms=4155550134,
    )
    assert left["arguments"] == {"dob": "[DATE_OF_BIRTH]", "ids": [123456789]}
    assert json.loads(left["content"])[1] == {"customer_name": "[PERSON_NAME]"}
    assert json.loads(left["content"])[0] == {"name": "Blue Widget"}
    assert left["result"] == {"a@example.com": {"address": "[ADDRESS]"}}
    assert left["duration_ms"] == 4155550134


def test_a_result_that_is_no_json_is_read_as_text():
    left = left_of(role="tool", tool_call_id="1", content='{"a@example.com"')
    assert left["content"] == '{"[EMAIL]"'


def test_a_name_said_in_one_part_is_known_in_the_others():
    parts = [{"type": "text", "text": "tully wrote it"}, {"type": "text", "text": "I'm Tully."}]
    left = left_of(role="user", content=parts)["content"]
    assert [part["text"] for part in left] == ["[PERSON_NAME] wrote it", "I'm [PERSON_NAME]."]


def test_words_of_one_part_do_not_explain_another():
    parts = [{"type": "text", "text": "my dob"}, {"type": "text", "text": "1990-01-02"}]
    assert left_of(role="user", content=parts)["content"] == parts


def test_values_are_numbered_by_what_they_are():
    text = "a@example.com, b@example.com, A@example.com"
    message = Message({"role": "user", "name": "Tully", "content": f"{text}. tully"})
    left = redact_message(message, REDACTOR, number_of=numbering()).value
    assert left.content.startswith("[EMAIL_1], [EMAIL_2], [EMAIL_1]")
    assert left.content.endswith("[PERSON_NAME_1]")
    assert left.name == "[PERSON_NAME_1]"


def test_names_of_earlier_turns_are_given_and_new_ones_come_back():
    first = redact_message(Message({"role": "user", "content": "I'm Tully Quell."}), REDACTOR)
    assert first.names == ("Tully Quell",)
    second = Message({"role": "assistant", "content": "Hello again, dear tully"})
    assert redact_message(second, REDACTOR).value is second
    again = redact_message(second, REDACTOR, names=first.names)
    assert again.value.content == "Hello again, dear [PERSON_NAME]"


def test_where_nothing_is_found_the_same_message_comes_back():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1]}'}}
    message = Message({"role": "assistant", "content": [{"type": "text"}], "tool_calls": [call]})
    done = redact_message(message, REDACTOR)
    assert done.value is message
    assert done.kinds == done.names == ()


def test_found_says_what_would_be_replaced_and_replaces_nothing():
    message = Message({"role": "user", "name": "Tully", "content": "call 415-555-0134"})
    found = found_in(message, REDACTOR)
    assert found.value is message
    assert found.kinds == (PiiKind.PERSON_NAME, PiiKind.PHONE_NUMBER)
    assert found.kinds == redact_message(message, REDACTOR).kinds


def test_texts_and_metadata():
    summary = redact_text("Tully wants a refund.", REDACTOR, names=["Tully"])
    assert summary.value == "[PERSON_NAME] wants a refund."
    metadata = {"channel": "web", "ip": "192.0.2.7", "visits": [{"phone": "4155550134"}], "n": 7}
    assert redact_json(metadata, REDACTOR).value == {
        "channel": "web",
        "ip": "[IP_ADDRESS]",
        "visits": [{"phone": "[PHONE_NUMBER]"}],
        "n": 7,
    }
    plain = {"channel": "web"}
    assert redact_json(plain, REDACTOR).value is plain


def test_deeply_nested_values_are_found():
    value: Any = {"phone": ["4155550134", 1.5, "hello"]}
    for _ in range(90):
        value = [value, {"x": 1}]
    message = parse_message({"role": "user", "content": "hi", "x": value}, max_bytes=1_000_000)
    left: Any = redact_message(message, REDACTOR).value.body["x"]
    for _ in range(90):
        left, beside = left
        assert beside == {"x": 1}
    assert left == {"phone": ["[PHONE_NUMBER]", 1.5, "hello"]}


class WholeText:
    """A redactor that marks the whole text as personal data."""

    def find(self, text: str, *, names: Sequence[str] = ()) -> list[PiiSpan]:
        return [PiiSpan(0, len(text), PiiKind.ADDRESS)]


def test_a_span_across_parts_is_cut_to_each():
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    left = redact_message(Message({"role": "user", "content": parts}), WholeText()).value
    assert [part["text"] for part in left.content] == ["[ADDRESS]", "[ADDRESS]"]


_TEXTS = st.sampled_from(
    [
        "I'm Tully.",
        "a@example.com",
        "415-555-0134",
        "hello",
        '{"name": "Tully"}',
        "[1",
        "data:x",
        "",
    ]
)
_VALUES = st.recursive(
    _TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(_VALUES)
def test_json_keeps_its_form_and_redacting_twice_changes_nothing(value: Any):
    arguments = json.dumps(value)
    call = {"id": "1", "function": {"name": "f", "arguments": arguments}}
    message = Message({"role": "assistant", "content": "ok", "tool_calls": [call], "x": value})
    once = redact_message(message, REDACTOR).value
    assert redact_message(once, REDACTOR).value is once
    assert _form(once.body["x"]) == _form(value)
    redacted = once.requests[0]["function"]["arguments"]
    if isinstance(value, dict | list):
        assert _form(json.loads(redacted)) == _form(value)


def _form(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _form(inner) for key, inner in value.items()}
    return [_form(inner) for inner in value] if isinstance(value, list) else None


@pytest.mark.parametrize("text", ["I'm Tully. ", '{"phone": "415-555-0134"}'])
def test_a_large_message_is_read_to_its_end(text: str):
    content = "word " * 40_000 + text
    left = redact_message(Message({"role": "user", "content": content}), REDACTOR).value
    assert left.content != content
    assert left.content.startswith("word " * 40_000)
