"""`wrap` stores each message once, whatever a caller does with its list between two calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import octopus_memory
from octopus_memory import EpisodicMemory
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support.integrations import texts

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

Message = dict[str, Any]
MODEL = {"model": "m"}


class Talk:
    """A wrapped client of each kind, in one session, against the fake server."""

    def __init__(self, server: FakeOpenAIServer, memory: EpisodicMemory) -> None:
        self.server, self.scope = server, memory.scope(user="ana")

    def openai(self, client: Any = None) -> Any:
        made = client or openai.OpenAI(base_url=self.server.base_url, api_key="any", max_retries=0)
        return octopus_memory.wrap(made, self.scope, session_id="s")

    def anthropic(self) -> Any:
        url = self.server.base_url.removesuffix("/v1")
        made = anthropic.Anthropic(base_url=url, api_key="any", max_retries=0)
        return octopus_memory.wrap(made, self.scope, session_id="s")

    def stored(self) -> list[str]:
        return texts(self.scope, "s")


@pytest.fixture
def talk(server: FakeOpenAIServer, kept: EpisodicMemory) -> Talk:
    return Talk(server, kept)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def call(number: int, name: str = "look") -> Message:
    function = {"name": name, "arguments": f'{{"turn": {number}}}'}
    return {"id": f"c{number}", "type": "function", "function": function}


def keeps_only_the_output_text(talk: Talk) -> None:
    client, items = talk.openai(), []
    for number in range(6):
        items.append(user(f"question {number}"))
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        talk.server.answer(f"answer {number}", reasoning_items=[thought])
        answer = client.responses.create(input=items, **MODEL)
        items.append(said(answer.output_text))


def drops_tool_messages(talk: Talk) -> None:
    client, messages = talk.openai(), []
    for number in range(6):
        messages.append(user(f"question {number}"))
        talk.server.answer(tool_calls=[call(number)], finish_reason="tool_calls")
        asked = client.chat.completions.create(messages=messages, **MODEL)
        result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number}"}
        talk.server.answer(f"answer {number}")
        client.chat.completions.create(
            messages=[*messages, asked.choices[0].message, result], **MODEL
        )
        messages.append(said(f"answer {number}"))


def sends_parallel_results(talk: Talk) -> None:
    client, messages = talk.anthropic(), [user("question")]
    for number in range(4):
        calls = [call(10 * number + each) for each in range(5)]
        talk.server.answer(tool_calls=calls, finish_reason="tool_calls")
        asked = client.messages.create(messages=messages, max_tokens=99, **MODEL)
        messages.append({"role": "assistant", "content": [b.model_dump() for b in asked.content]})
        results = [
            {"type": "tool_result", "tool_use_id": each["id"], "content": f"of {each['id']}"}
            for each in calls
        ]
        messages.append({"role": "user", "content": results})
    talk.server.answer("done")
    client.messages.create(messages=messages, max_tokens=99, **MODEL)


def has_a_new_key_for_each_call(talk: Talk) -> None:
    client, messages = talk.openai(), []
    for number in range(5):
        messages.append(user(f"question {number}"))
        talk.server.answer(f"answer {number}")
        client.chat.completions.create(messages=messages, octopus_key=f"run-{number}", **MODEL)
        messages.append(said(f"answer {number}"))


def drops_what_failed(talk: Talk) -> None:
    client, messages = talk.openai(), []
    for number in range(6):
        messages.append(user(f"question {number}"))
        if number == 3:
            talk.server.fail(status=500)
            with pytest.raises(openai.InternalServerError):
                client.chat.completions.create(messages=[*messages[:-1], user("lost")], **MODEL)
        talk.server.answer(f"answer {number}")
        client.chat.completions.create(messages=messages, **MODEL)
        messages.append(said(f"answer {number}"))


def puts_a_changing_message_in_front(talk: Talk) -> None:
    client, messages = talk.openai(), []
    for number in range(6):
        messages.append(user(f"question {number}"))
        talk.server.answer(f"answer {number}")
        front = user(f"It is {number} o'clock.")
        client.chat.completions.create(messages=[front, *messages], **MODEL)
        messages.append(said(f"answer {number}"))


def edits_the_first_of_forty(talk: Talk) -> None:
    client, messages = talk.openai(), []
    for number in range(20):
        messages.append(user(f"question {number}"))
        talk.server.answer(f"answer {number}")
        client.chat.completions.create(messages=messages, **MODEL)
        messages.append(said(f"answer {number}"))
    talk.server.answer("answer 20")
    edited = [user("question zero"), *messages[1:]]
    client.chat.completions.create(messages=edited, **MODEL)


def has_two_clients(talk: Talk) -> None:
    clients = {"A": talk.openai(), "B": talk.openai()}
    histories: dict[str, list[Message]] = {"A": [], "B": []}
    for number in range(6):
        for name, client in clients.items():
            histories[name].append(user(f"question {number} of {name}"))
            talk.server.answer(f"answer {number} to {name}")
            client.chat.completions.create(messages=histories[name], **MODEL)
            histories[name].append(said(f"answer {number} to {name}"))


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        (keeps_only_the_output_text, 18),
        (drops_tool_messages, 24),
        (sends_parallel_results, 26),
        (has_a_new_key_for_each_call, 10),
        (drops_what_failed, 13),
        (puts_a_changing_message_in_front, 18),
        (edits_the_first_of_forty, 42),
        (has_two_clients, 24),
    ],
)
def test_each_message_is_stored_once(does: Callable[[Talk], None], expected: int, talk: Talk):
    does(talk)
    stored = talk.stored()
    assert len(stored) == expected
    spoken = [text for text in stored if text]
    assert len(set(spoken)) == len(spoken)


def test_of_two_choices_the_one_that_the_caller_keeps_is_stored(talk: Talk):
    client = talk.openai()
    choice = {"finish_reason": "stop", "logprobs": None}
    both = [
        {**choice, "index": index, "message": {"role": "assistant", "content": text}}
        for index, text in enumerate(["the first", "the second"])
    ]
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": both}
    talk.server.send(body)
    client.chat.completions.create(messages=[user("Which?")], n=2, **MODEL)
    assert talk.stored() == ["Which?", "the first"]
    talk.server.answer("Good.")
    messages = [user("Which?"), said("the second"), user("Go on.")]
    client.chat.completions.create(messages=messages, **MODEL)
    assert talk.stored() == ["Which?", "the second", "Go on.", "Good."]


def test_what_was_forgotten_is_not_stored_again_by_its_history(talk: Talk):
    client = talk.openai()
    talk.server.answer("Noted.")
    messages = [user("My code is 4711.")]
    client.chat.completions.create(messages=messages, **MODEL)
    [turn] = [turn for turn in talk.scope.session("s").turns if "4711" in turn.text]
    talk.scope.remove_turns("s", ids=[turn])
    talk.server.answer("Yes.")
    client.chat.completions.create(messages=[*messages, said("Noted."), user("Ready?")], **MODEL)
    assert talk.stored() == ["Noted.", "Ready?", "Yes."]


def test_a_generator_of_messages_reaches_the_model_and_the_memory(talk: Talk):
    client = talk.openai()
    talk.server.answer("Hello.")
    client.chat.completions.create(messages=(each for each in [user("Hi.")]), **MODEL)
    assert talk.server.requests[-1].body["messages"] == [user("Hi.")]
    talk.server.answer("Hello.")
    client.responses.create(input=(each for each in [user("Hi again.")]), **MODEL)
    assert talk.server.requests[-1].body["input"] == [user("Hi again.")]
    assert talk.stored() == ["Hi.", "Hello.", "Hi again.", "Hello."]


TEXT = {"type": "text", "text": "Read this."}
LARGE = {"type": "file", "file": {"filename": "a.pdf", "file_data": "x" * (9 << 20)}}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}, ""),
        ({"role": "function", "name": "f", "content": "42"}, "42"),
        ({"role": "assistant", "content": None, "audio": {"id": "audio_1"}}, ""),
        ({"role": "tool", "tool_call_id": "", "content": "found"}, "found"),
        ({"role": "user", "content": None}, ""),
        (
            {"role": "user", "content": [{"type": "text", "text": "Read this."}, LARGE]},
            "Read this.",
        ),
        ({"role": "critic", "content": "of another role"}, "of another role"),
    ],
)
def test_what_the_memory_cannot_store_does_not_stop_the_call(
    message: Message, words: str, talk: Talk
):
    talk.server.answer("Fine.")
    client = talk.openai()
    answer = client.chat.completions.create(messages=[user("Hi."), message], **MODEL)
    assert answer.choices[0].message.content == "Fine."
    assert talk.stored() == ["Hi.", words, "Fine."]
