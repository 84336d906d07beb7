"""`wrap`, with the SDKs of OpenAI and Anthropic against the fake server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import octopus_memory
from octopus_memory import EpisodicMemory, InvalidInput, StoreUnavailable
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support import byte_scan
from tests.support.integrations import FACT, QUESTION, Scopes, texts

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "note", "arguments": '{"what": "passport"}'},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "chat": {"model": "m"},
    "responses": {"model": "m"},
    "messages": {"model": "m", "max_tokens": 100},
}


class Api:
    """One call of one SDK, sync or async, streamed or not."""

    def __init__(self, name: str, mode: str) -> None:
        self.name, self.is_async, self.streams = name, "async" in mode, "stream" in mode

    def client(self, server: FakeOpenAIServer) -> Any:
        prefix = "Async" if self.is_async else ""
        if self.name == "messages":
            made = getattr(anthropic, f"{prefix}Anthropic")
            return made(base_url=server.base_url.removesuffix("/v1"), api_key="any", max_retries=0)
        made = getattr(openai, f"{prefix}OpenAI")
        return made(base_url=server.base_url, api_key="any", max_retries=0)

    def ask(self, client: Any, messages: list[Any], **more: Any) -> Any:
        """The answer, or the events of its stream."""
        given = {"input" if self.name == "responses" else "messages": messages}
        named = {**ARGUMENTS[self.name], **given, **more}
        if self.streams:
            named["stream"] = True
        create = {
            "chat": lambda: client.chat.completions.create,
            "responses": lambda: client.responses.create,
            "messages": lambda: client.messages.create,
        }[self.name]()
        if not self.is_async:
            answer = create(**named)
            return list(answer) if self.streams else answer

        async def run() -> Any:
            answer = await create(**named)
            return [event async for event in answer] if self.streams else answer

        return asyncio.run(run())

    def result(self) -> list[dict[str, Any]]:
        """The message that answers `CALL`."""
        match self.name:
            case "chat":
                return [{"role": "tool", "tool_call_id": "c1", "content": "noted"}]
            case "responses":
                return [{"type": "function_call_output", "call_id": "c1", "output": "noted"}]
            case _:
                block = {"type": "tool_result", "tool_use_id": "c1", "content": "noted"}
                return [{"role": "user", "content": [block]}]


MODES = ["sync", "sync stream", "async", "async stream"]


@pytest.fixture(params=ARGUMENTS)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=MODES)
def api(request: pytest.FixtureRequest, name: str) -> Api:
    return Api(name, request.param)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_the_second_session_is_told_what_the_first_one_heard(
    api: Api, server: FakeOpenAIServer, scopes: Scopes, kept: EpisodicMemory
):
    first = octopus_memory.wrap(api.client(server), scopes(), session_id="one")
    server.answer(tool_calls=[CALL], finish_reason="tool_calls")
    api.ask(first, [user(FACT)])
    server.answer("I noted your passport.")
    api.ask(first, api.result())
    assert texts(scopes(), "one") == [FACT, "", "noted", "I noted your passport."]
    chat = scopes().session("one").messages()
    assert chat[1]["tool_calls"][0]["function"]["name"] == "note"
    assert json.loads(chat[1]["tool_calls"][0]["function"]["arguments"]) == {"what": "passport"}
    kept.flush()
    second = octopus_memory.wrap(api.client(server), scopes(), session_id="two")
    server.answer("It is X4.")
    api.ask(second, [user(QUESTION)])
    assert "X4-Zanzibar-77" in json.dumps(server.requests[-1].body)
    # The block is in the request, and in no session.
    assert texts(scopes(), "two") == [QUESTION, "It is X4."]
    stranger = octopus_memory.wrap(api.client(server), scopes("ben"), session_id="two")
    api.ask(stranger, [user(QUESTION)])
    assert "X4-Zanzibar-77" not in json.dumps(server.requests[-1].body)


def test_a_history_that_is_sent_again_is_stored_once(
    api: Api, server: FakeOpenAIServer, scopes: Scopes
):
    client = octopus_memory.wrap(api.client(server), scopes(), session_id="s")
    history: list[Any] = [user("Yes.")]
    for answer in ("First.", "Second."):
        server.answer(answer)
        api.ask(client, history)
        history += [{"role": "assistant", "content": answer}, user("Yes.")]
    assert texts(scopes(), "s") == ["Yes.", "First.", "Yes.", "Second."]
    # The same words alone are a new message, unless nothing has answered them yet.
    server.fail(status=400, times=2)
    for _ in range(2):
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
            api.ask(client, [user("Yes.")])
    assert texts(scopes(), "s") == ["Yes.", "First.", "Yes.", "Second.", "Yes."]


def test_a_repeated_run_with_a_key_stores_once(api: Api, server: FakeOpenAIServer, scopes: Scopes):
    client = octopus_memory.wrap(api.client(server), scopes(), session_id="s")
    for _ in range(2):
        server.answer("Hello.")
        api.ask(client, [user("Hi.")], octopus_key="run-1")
    assert texts(scopes(), "s") == ["Hi.", "Hello."]
    assert "octopus_key" not in json.dumps(server.requests[-1].body)


def test_instructions_stay_and_are_not_stored(
    name: str, server: FakeOpenAIServer, scopes: Scopes, kept: EpisodicMemory
):
    api = Api(name, "sync")
    scopes().store([("user", FACT)], session_id="old")
    kept.flush()
    client = octopus_memory.wrap(api.client(server), scopes(), session_id="s")
    told: dict[str, Any] = {
        "chat": {},
        "responses": {"instructions": "Be brief."},
        "messages": {"system": "Be brief."},
    }[name]
    messages = [user(QUESTION)]
    if name == "chat":
        messages.insert(0, {"role": "system", "content": "Be brief."})
    api.ask(client, messages, **told)
    sent = server.requests[-1].body
    assert "Be brief." in json.dumps(sent)
    assert "X4-Zanzibar-77" in json.dumps(sent)
    if name == "chat":
        assert [m["role"] for m in sent["messages"]] == ["system", "system", "user"]
    assert all("Be brief" not in text for text in texts(scopes(), "s"))
    assert messages[-1] == user(QUESTION)


def test_items_come_back_exactly(server: FakeOpenAIServer, scopes: Scopes):
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    client = octopus_memory.wrap(Api("responses", "sync").client(server), scopes(), session_id="r")
    server.answer("Hello.", reasoning_items=[reasoning])
    answer = client.responses.create(model="m", input="Hi.")
    stored = scopes().session("r").messages(form="responses")
    assert stored[1:] == [item.model_dump(exclude_none=True) for item in answer.output]
    thought = {"type": "thinking", "thinking": "Well.", "signature": "c2ln"}
    other = octopus_memory.wrap(Api("messages", "sync").client(server), scopes(), session_id="m")
    for stream in (False, True):
        server.answer("Hello.", thinking_blocks=[thought])
        made = other.messages.create(model="m", max_tokens=9, messages=[user("Hi.")], stream=stream)
        if stream:
            list(made)
        blocks = scopes().session("m").messages(form="anthropic")[-1]["content"]
        assert blocks == [thought, {"type": "text", "text": "Hello."}]


def test_helpers_that_stream_are_remembered(server: FakeOpenAIServer, scopes: Scopes):
    client = octopus_memory.wrap(Api("messages", "sync").client(server), scopes(), session_id="m")
    server.answer("Hello there.")
    with client.messages.stream(model="m", max_tokens=9, messages=[user("Hi.")]) as stream:
        assert "".join(stream.text_stream) == "Hello there."
    assert texts(scopes(), "m") == ["Hi.", "Hello there."]
    plain = octopus_memory.wrap(Api("chat", "sync").client(server), scopes(), session_id="c")
    server.answer("Hello again.")
    with plain.chat.completions.stream(model="m", messages=[user("Hi.")]) as events:
        list(events)
    assert texts(scopes(), "c") == ["Hi.", "Hello again."]
    other = octopus_memory.wrap(Api("responses", "sync").client(server), scopes(), session_id="r")
    server.answer("Hello once more.")
    with other.responses.stream(model="m", input="Hi.") as more:
        assert more.get_final_response().output_text == "Hello once more."
    assert texts(scopes(), "r") == ["Hi.", "Hello once more."]

    async def awaited() -> None:
        made = Api("messages", "async").client(server)
        talker = octopus_memory.wrap(made, scopes(), session_id="a")
        server.answer("Hello, too.")
        async with talker.messages.stream(model="m", max_tokens=9, messages=[user("Hi.")]) as said:
            assert await said.get_final_text() == "Hello, too."

    asyncio.run(awaited())
    assert texts(scopes(), "a") == ["Hi.", "Hello, too."]


def test_a_stream_that_is_left_keeps_what_was_said(
    name: str, server: FakeOpenAIServer, scopes: Scopes
):
    api = Api(name, "sync")
    client = octopus_memory.wrap(api.client(server), scopes(), session_id="s")
    server.answer("One two three four five six seven eight nine ten eleven twelve.")
    given = {"input" if name == "responses" else "messages": [user("Count.")]}
    create: Callable[..., Any] = {
        "chat": lambda: client.chat.completions.create,
        "responses": lambda: client.responses.create,
        "messages": lambda: client.messages.create,
    }[name]()
    with create(**ARGUMENTS[name], **given, stream=True) as stream:
        for number, _ in enumerate(stream):
            if number == 6:
                break
    said = texts(scopes(), "s")
    assert said[0] == "Count."
    assert said[1].startswith("One")
    assert not said[1].endswith("twelve.")


def test_a_cancelled_call_and_two_writers_lose_nothing(server: FakeOpenAIServer, scopes: Scopes):
    client = octopus_memory.wrap(
        Api("chat", "async").client(server), scopes(), session_id="cancelled"
    )

    async def cancelled() -> None:
        server.delay(5)
        asking = asyncio.create_task(
            client.chat.completions.create(model="m", messages=[user("Do not forget me.")])
        )
        while not server.requests:  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(cancelled())
    assert texts(scopes(), "cancelled") == ["Do not forget me."]
    both = octopus_memory.wrap(Api("chat", "sync").client(server), scopes(), session_id="both")

    def talk(number: int) -> None:
        both.chat.completions.create(model="m", messages=[user(f"number {number}")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(talk, range(8)))
    said = texts(scopes(), "both")
    assert {f"number {n}" for n in range(8)} <= set(said)
    assert len(said) == 16


def test_an_erased_user_leaves_no_trace(
    server: FakeOpenAIServer, kept: EpisodicMemory, tmp_path: Path
):
    scope = kept.scope(user="ana")
    for name in ARGUMENTS:
        client = octopus_memory.wrap(Api(name, "sync").client(server), scope, session_id=name)
        server.answer("Zanzibarquark is noted, in every detail of it.")
        Api(name, "sync").ask(client, [user("Remember zanzibarquark for me, please.")])
    kept.flush()
    wanted = {"word": [b"zanzibarquark", b"Zanzibarquark"]}
    assert scope.erase().is_complete
    assert byte_scan.search(tmp_path / "db", wanted) == []


def test_memory_that_is_away_does_not_keep_the_block_from_the_model(
    server: FakeOpenAIServer,
    kept: EpisodicMemory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(Api("chat", "sync").client(server), scope, session_id="s")

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(type(scope), "context", away)
    server.answer("Hello.")
    answer = client.chat.completions.create(model="m", messages=[user("Hi.")])
    assert answer.choices[0].message.content == "Hello."
    assert "without its memory" in caplog.text


def test_what_is_no_client_is_refused(kept: EpisodicMemory):
    with pytest.raises(InvalidInput, match="client"):
        octopus_memory.wrap(object(), kept.scope(user="ana"), session_id="s")


def test_what_is_missing_is_named_with_an_example(server: FakeOpenAIServer, kept: EpisodicMemory):
    client = Api("chat", "sync").client(server)
    with pytest.raises(InvalidInput, match=r'scope: must be .* memory\.scope\(user="ana"\)'):
        octopus_memory.wrap(client, kept)  # type: ignore[type-var]
    with pytest.raises(InvalidInput, match=r'session_id: must .* session_id="monday"'):
        octopus_memory.wrap(client, kept.scope(user="ana"))


def test_the_client_that_was_given_stays_as_it_was(server: FakeOpenAIServer, kept: EpisodicMemory):
    client = Api("chat", "sync").client(server)
    wrapped = octopus_memory.wrap(client, kept.scope(user="ana"), session_id="s")
    assert isinstance(wrapped, openai.OpenAI)
    client.chat.completions.create(model="m", messages=[user("Not for the memory.")])
    assert kept.scope(user="ana").sessions().total_count == 0
