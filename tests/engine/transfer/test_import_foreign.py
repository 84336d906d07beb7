"""Import of what other programs wrote, up to recall."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    InvalidInput,
    InvalidMessage,
    MemoryConfig,
    MemoryScope,
    PiiMode,
    PrivacyConfig,
    ToolResultWithoutCall,
)
from octopus_memory.testing import FixedClock

TALK = [
    {"role": "user", "content": "My favourite tea is Darjeeling."},
    {"role": "assistant", "content": "Noted."},
]


def transcripts(*conversations: Any) -> list[str]:
    return ["".join(json.dumps(each) + "\n" for each in conversations)]


def chatgpt(key: str, *texts: str) -> dict[str, Any]:
    mapping: dict[str, Any] = {"root": {"id": "root", "parent": None, "message": None}}
    parent = "root"
    for place, text in enumerate(texts):
        name = f"{key}-{place}"
        mapping[name] = {
            "id": name,
            "parent": parent,
            "message": {
                "author": {"role": "assistant" if place % 2 else "user"},
                "create_time": 1_700_000_000 + place,
                "content": {"content_type": "text", "parts": [text]},
            },
        }
        parent = name
    return {
        "title": key,
        "create_time": 1_700_000_000,
        "mapping": mapping,
        "current_node": parent,
        "conversation_id": key,
    }


def test_a_transcript_becomes_a_finished_episode(memory: EpisodicMemory, clock: FixedClock):
    given = {"id": "crm-1", "created_at": "2025-01-02T03:04:05Z", "messages": TALK}
    report = memory.tenant("acme").import_user(transcripts(given), user="ana", agent="hr")
    assert (report.source, report.episodes, report.turns) == ("openai", 1, 2)
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    replay = scope.session("openai:crm-1")
    assert [dict(turn.message.body) for turn in replay.turns] == TALK
    [episode] = scope.episodes()
    at = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (episode.started_at, episode.ended_at, episode.end_reason) == (at, at, "user_closed")
    assert "Darjeeling" in (episode.summary or "")
    assert episode.input_tokens > episode.output_tokens > 0
    assert episode.id.version == 7
    memory.flush()
    assert scope.recall("which tea?")[0].episode_id == episode.id


def test_blank_lines_may_come_first(memory: EpisodicMemory):
    acme = memory.tenant("acme")
    lines = ["\n", "", *transcripts({"messages": TALK})]
    assert acme.import_user(lines, user="ana").source == "openai"
    with pytest.raises(InvalidInput, match="^file: is empty"):
        acme.import_user(["\n", ""], user="ana")


def test_the_same_file_again_brings_nothing(memory: EpisodicMemory):
    for source in (
        [json.dumps([chatgpt("a", "x"), chatgpt("b", "y", "z")])],
        transcripts({"messages": TALK}, {"messages": TALK}),
    ):
        tenant = memory.tenant("acme")
        first = tenant.import_user(source, user="ana")
        assert (first.episodes, first.passed_over) == (2, 0)
        again = tenant.import_user(source, user="ana")
        assert (again.episodes, again.passed_over) == (0, 2)
        assert tenant.import_user(source, user="ben").episodes == 2


def test_a_conversation_that_went_on_brings_only_what_is_new(memory: EpisodicMemory):
    tenant = memory.tenant("acme")
    tenant.import_user([json.dumps([chatgpt("a", "one", "two")])], user="ana")
    longer = [json.dumps([chatgpt("a", "one", "two", "three", "four")])]
    report = tenant.import_user(longer, user="ana")
    assert (report.episodes, report.turns) == (1, 2)
    scope = memory.scope(tenant="acme", user="ana")
    replay = scope.session("chatgpt:a")
    assert [turn.text for turn in replay.turns] == ["one", "two", "three", "four"]
    assert len(replay.episodes) == 2
    assert tenant.import_user(longer, user="ana").passed_over == 1


def test_what_was_deleted_here_does_not_come_back(memory: EpisodicMemory):
    tenant, scope = memory.tenant("acme"), memory.scope(tenant="acme", user="ana")
    file = [json.dumps([chatgpt("a", "one", "two", "three")])]
    tenant.import_user(file, user="ana")
    scope.delete(next(iter(scope.episodes())).id)
    assert tenant.import_user(file, user="ana").passed_over == 1
    assert len(scope.episodes()) == 0


def test_a_chatgpt_export_can_be_recalled(memory: EpisodicMemory):
    conversations = [
        chatgpt("tea", "Which tea do you recommend?", "A second flush Darjeeling."),
        chatgpt("car", "My car makes a strange noise.", "Have the brakes looked at."),
    ]
    text = json.dumps(conversations)
    pieces = [text[start : start + 100] for start in range(0, len(text), 100)]
    report = memory.tenant("acme").import_user(pieces, user="ana", source="chatgpt")
    assert (report.source, report.episodes, report.turns) == ("chatgpt", 2, 4)
    assert report.overdue == 2
    scope = memory.scope(tenant="acme", user="ana")
    memory.flush()
    assert scope.recall("brakes of the car")[0].session_id == "chatgpt:car"
    replay = scope.session("chatgpt:tea")
    assert replay.session.metadata == {"source": "chatgpt", "title": "tea"}
    assert replay.episodes[0].episode.started_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_wrong_message_is_named_and_what_stands_before_it_is_in(memory: EpisodicMemory):
    tenant = memory.tenant("acme")
    bad = {"messages": [TALK[0], {"role": "robot", "content": "SECRET"}]}
    with pytest.raises(
        InvalidMessage, match=r"^conversations\[1\]\.messages\[1\]\.role: "
    ) as error:
        tenant.import_user(transcripts({"messages": TALK}, bad), user="ana")
    assert "the 1 before it are in" in str(error.value)
    assert "SECRET" not in str(error.value)
    result = {"role": "tool", "tool_call_id": "c", "content": "x"}
    with pytest.raises(ToolResultWithoutCall, match=r"^conversations\[0\]\.messages\[1\]"):
        tenant.import_user(transcripts({"messages": [TALK[0], result]}), user="ana")


def test_transcripts_name_no_user(memory: EpisodicMemory):
    with pytest.raises(InvalidInput, match="^user: must be given"):
        memory.tenant("acme").import_user(transcripts({"messages": TALK}))


def test_a_conversation_in_which_nobody_spoke_is_none(memory: EpisodicMemory, scope: MemoryScope):
    report = memory.tenant("acme").import_user([json.dumps([chatgpt("a", "")])], user="user-17")
    assert (report.episodes, report.left_out) == (0, 1)


def test_personal_data_of_transcripts_is_kept_out_too(memory: EpisodicMemory):
    privacy = PrivacyConfig(pii=PiiMode.REDACT)
    memory.configure("hr", MemoryConfig(privacy=privacy))
    talk = [{"role": "user", "content": "Write to ana@example.com"}]
    given = {"id": "x", "metadata": {"of": "ana@example.com"}, "messages": talk}
    memory.tenant("acme").import_user(transcripts(given), user="u", agent="hr")
    text = "".join(memory.tenant("acme").export_user("u"))
    assert "[EMAIL]" in text
    assert "example.com" not in text
