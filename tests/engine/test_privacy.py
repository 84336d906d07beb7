"""Personal data is kept out of everything that is stored, indexed and summarized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, MemoryConfig, MemoryScope, PrivacyConfig, SessionConfig

pytestmark = pytest.mark.both_databases

SECRETS = ["Ana López", "López", "ana.lopez@example.com", "415-555-0134", "4111 1111 1111 1111"]
TALK = [
    {"role": "user", "content": "Hi, my name is Ana López and my card is 4111 1111 1111 1111."},
    {"role": "assistant", "content": "Thanks, Ana López. Shall I write to ana.lopez@example.com?"},
    {"role": "user", "content": [{"type": "text", "text": "Yes, or call 415-555-0134."}]},
]


def _scope(memory: EpisodicMemory, mode: str, **more: Any) -> MemoryScope:
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii=mode, **more)))
    return memory.scope(agent="hr", user="u-17")


def _everything(scope: MemoryScope, session: str) -> str:
    replay = scope.session(session)
    shown: list[object] = [replay, scope.recent(), scope.recall("card mail call", limit=9)]
    return repr(shown)


def test_mode_off_stores_text_unchanged(memory: EpisodicMemory):
    scope = _scope(memory, "off")
    turns = scope.add("s", TALK)
    assert [turn.message.body for turn in turns] == TALK
    assert {turn.has_pii for turn in turns} == {False}


def test_mode_flag_stores_text_unchanged_and_marks_turns(memory: EpisodicMemory):
    scope = _scope(memory, "flag")
    scope.add("s", [*TALK, ("user", "Nothing here.")])
    turns = scope.session("s").turns
    assert [turn.message.body for turn in turns][:3] == TALK
    assert [turn.has_pii for turn in turns] == [True, True, True, False]


def test_mode_redact_keeps_personal_data_out_of_everything(
    memory: EpisodicMemory, tmp_path: Path, database_url: str
):
    scope = _scope(memory, "redact")
    with scope.episode("s", metadata={"mail": "ana.lopez@example.com", "channel": "web"}) as talk:
        for message in TALK:
            talk.add([message])
        talk.add_tool_call(
            "crm", '{"email": "ana.lopez@example.com"}', {"phone": "415-555-0134"}, tool_call_id="c"
        )
        talk.add([{"role": "user", "name": "Ana López", "content": "Bye!"}])
    scope.store(
        TALK,
        session_id="whole",
        summary="Ana López gave her card 4111 1111 1111 1111.",
        key_facts=["Her mail is ana.lopez@example.com"],
        metadata={"who": ["ana.lopez@example.com"]},
    )
    scope.add("given", ("user", "My name is Ana López."))
    scope.close_episode(
        scope.session("given").episodes[0].episode, summary="Ana López came by.", key_facts=[]
    )
    memory.flush()
    for session in ("s", "whole", "given"):
        shown = _everything(scope, session)
        assert not [secret for secret in SECRETS if secret in shown]
    assert scope.session("s").session.metadata == {"mail": "[EMAIL]", "channel": "web"}
    assert all(turn.has_pii for turn in scope.session("s").turns)
    assert scope.session("whole").episodes[0].episode.key_facts == ("Her mail is [EMAIL]",)
    memory.close()
    files = list(tmp_path.glob("memory.db*"))
    # On a server there is no file here to look into.
    assert files or not database_url.startswith("sqlite:")
    for file in files:
        raw = file.read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in raw]


def test_placeholder_numbers_are_stable_within_an_episode(memory: EpisodicMemory):
    scope = _scope(memory, "redact", numbered=True)
    scope.add("s", ("user", "I am Ana López, my mail is ana.lopez@example.com."))
    scope.add("s", ("user", "Write to ANA.LOPEZ@example.com or to ben@example.com."))
    memory.runtime.clear_caches()
    scope.add("s", ("user", "I said ben@example.com, and not cy@example.com."))
    said = [turn.text for turn in scope.session("s").turns]
    assert said[0] == "I am [PERSON_NAME_1], my mail is [EMAIL_1]."
    assert said[1] == "Write to [EMAIL_1] or to [EMAIL_2]."
    assert said[2] == "I said [EMAIL_2], and not [EMAIL_3]."
    scope.close_session("s")
    scope.add("s", ("user", "Again: cy@example.com"))
    assert scope.session("s").turns[-1].text == "Again: [EMAIL_1]"


def test_a_name_said_once_is_known_in_later_calls(memory: EpisodicMemory):
    scope = _scope(memory, "redact")
    scope.add("s", ("user", "My name is Ana López."))
    scope.add("s", ("assistant", "Good morning, Ana López!"))
    assert "López" not in repr(scope.session("s"))


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("named_by", ["id", "text", "episode"])
def test_a_name_said_once_is_known_when_adding_by_episode_id(
    memory: EpisodicMemory, named_by: str, *, numbered: bool
):
    scope = _scope(memory, "redact", numbered=numbered)
    episode = scope.open_episode("s")
    where = {"id": episode.id, "text": str(episode.id), "episode": episode}[named_by]
    scope.add(where, ("user", "My name is Xandrella Quuxley."))
    scope.add(where, ("user", "please ship it; quuxley paid already"))
    assert "quuxley" not in repr(scope.session("s")).casefold()


def test_a_name_said_once_is_known_in_stored_episodes_of_the_session(memory: EpisodicMemory):
    scope = _scope(memory, "redact")
    scope.add("s", ("user", "My name is Xandrella Quuxley."))
    scope.close_session("s")
    scope.store(
        [("user", "quuxley paid already, to Zorblatt"), ("user", "quuxley's son")], session_id="s"
    )
    scope.store([("user", "My name is Zorblatt Vexley.")], session_id="t")
    scope.add("t", ("user", "vexley paid already"))
    said = [turn.text for name in "st" for turn in scope.session(name).turns]
    assert not [text for text in said if "uxley" in text or "vexley" in text]


def test_metadata_of_a_continued_session_keeps_its_placeholder_numbers(memory: EpisodicMemory):
    scope = _scope(memory, "redact", numbered=True)
    scope.add("s", ("user", "Mail me: a@example.com"))
    scope.open_episode("s", metadata={"mail": "zoe@example.org", "other": "a@example.com"})
    assert scope.session("s").session.metadata == {"mail": "[EMAIL_2]", "other": "[EMAIL_1]"}
    scope.add("s", ("user", "Or zoe@example.org, or b@example.com"))
    assert scope.session("s").turns[-1].text == "Or [EMAIL_2], or [EMAIL_3]"


def test_placeholder_numbers_continue_in_a_resumed_episode(memory: EpisodicMemory):
    config = MemoryConfig(
        session=SessionConfig(allow_resume=True),
        privacy=PrivacyConfig(pii="redact", numbered=True),
    )
    memory.configure("hr", config)
    scope = memory.scope(agent="hr", user="u")
    scope.add("s", ("user", "Mail me: a@example.com"))
    scope.close_session("s")
    scope.add("s", ("user", "Or b@example.com, or a@example.com"))
    assert scope.session("s").turns[-1].text == "Or [EMAIL_2], or [EMAIL_1]"


def test_a_retried_call_returns_its_redacted_turns(memory: EpisodicMemory):
    scope = _scope(memory, "redact", numbered=True)
    first = scope.add("s", ("user", "a@example.com"), idempotency_key="k")
    assert scope.add("s", ("user", "a@example.com"), idempotency_key="k") == first
    assert [turn.text for turn in scope.session("s").turns] == ["[EMAIL_1]"]
