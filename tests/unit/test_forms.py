"""Messages of other providers' forms: understood, kept exactly, given back."""

from __future__ import annotations

from typing import Any

import pytest

from octopus_memory import EpisodicMemory, InvalidInput, MemoryConfig, MemoryScope, PrivacyConfig

ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "How warm is it in Oslo and Bergen?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "zirconium plan", "signature": "c2ln"},
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": "tu1", "name": "weather", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "tu2", "name": "weather", "input": {"city": "Bergen"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "tu1", "content": "7 degrees"},
            {
                "type": "tool_result",
                "tool_use_id": "tu2",
                "content": [{"type": "text", "text": "9 degrees"}],
                "is_error": False,
            },
            {"type": "text", "text": "Tell me in one line."},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Oslo 7, Bergen 9 degrees."}]},
]
RESPONSES: list[dict[str, Any]] = [
    {"role": "user", "content": "How warm is it in Oslo?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zirconium"},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "weather",
        "arguments": '{"city": "Oslo"}',
        "status": "completed",
    },
    {"type": "function_call_output", "call_id": "c1", "output": "7 degrees"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Oslo has 7 degrees.", "annotations": []}],
    },
]
GEMINI: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "How warm is it in Oslo?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "zirconium plan", "thought": True},
            {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}},
        ],
    },
    {
        "role": "user",
        "parts": [{"functionResponse": {"name": "weather", "response": {"degrees": 7}}}],
    },
    {"role": "model", "parts": [{"text": "Oslo has 7 degrees."}]},
]
FORMS = {"anthropic": ANTHROPIC, "responses": RESPONSES, "gemini": GEMINI}


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_comes_back_exactly(scope: MemoryScope, form: str):
    scope.add("s", FORMS[form])
    assert scope.session("s").messages(form=form) == FORMS[form]
    [replay] = scope.session("s").episodes
    assert replay.messages(form=form) == FORMS[form]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("other", [*FORMS, "openai"])
def test_a_message_is_written_in_every_other_form(scope: MemoryScope, form: str, other: str):
    scope.add("s", FORMS[form])
    given = scope.session("s").messages(form=other)
    text = str(given)
    for word in ("Oslo", "weather", "7", "How warm"):
        assert word in text
    if other != form:
        assert "zirconium" not in text
        # What one form wrote, that form reads.
        scope.add("again", given)
        assert scope.session("again").messages(form=other) == given


@pytest.mark.parametrize("form", FORMS)
def test_calls_are_paired_and_thoughts_are_not_recalled(
    scope: MemoryScope, memory: EpisodicMemory, form: str
):
    scope.add("s", FORMS[form])
    chat = scope.session("s").messages()
    [asks] = [m for m in chat if m.get("tool_calls")]
    calls = [call["id"] for call in asks["tool_calls"]]
    assert [m["tool_call_id"] for m in chat if m["role"] == "tool"] == calls
    assert asks["tool_calls"][0]["function"]["name"] == "weather"
    memory.flush()
    hits = scope.recall_turns("zirconium plan degrees in Oslo", limit=20)
    assert any("7" in hit.text for hit in hits)
    assert all("zirconium" not in hit.text for hit in hits)
    assert all(hit.text for hit in hits)


def test_a_call_without_a_result_is_left_out(scope: MemoryScope):
    scope.add("s", ANTHROPIC[:2])
    assert scope.session("s").messages(form="anthropic") == [
        ANTHROPIC[0],
        {"role": "assistant", "content": "I will look."},
    ]
    scope.add("r", RESPONSES[:3])
    assert scope.session("r").messages(form="responses") == RESPONSES[:2]
    scope.add("r", RESPONSES[3:])
    assert scope.session("r", last=2).messages(form="responses") == RESPONSES[4:]


def test_keys_and_times_count_messages_and_not_turns(scope: MemoryScope):
    stored = scope.add("s", ANTHROPIC, keys=["a", "b", "c", "d"], tokens=[1, 2, 3, 4])
    assert [turn.tokens for turn in stored] == [1, 2, 3, 0, 0, 4]
    assert scope.add("s", ANTHROPIC, keys=["a", "b", "c", "d"]) == []
    assert scope.session("s").messages(form="anthropic") == ANTHROPIC


def test_a_result_that_is_removed_is_gone_from_every_form(scope: MemoryScope):
    stored = scope.add("s", ANTHROPIC)
    scope.remove_turns("s", ids=[stored[3].id])
    for form in (*FORMS, "openai"):
        assert "9 degrees" not in str(scope.session("s").messages(form=form)[:-1])


def test_personal_data_is_redacted_in_the_item_too(memory: EpisodicMemory):
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="redact")))
    scope = memory.scope(agent="hr", user="u")
    item = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "Write to ana@example.com please."}],
    }
    scope.add("s", item)
    for form in (*FORMS, "openai"):
        assert "ana@example.com" not in str(scope.session("s").messages(form=form))


def test_an_unknown_form_is_refused(scope: MemoryScope):
    scope.add("s", ("user", "hello"))
    with pytest.raises(InvalidInput, match="form"):
        scope.session("s").messages(form="morse")
