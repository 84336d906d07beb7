"""`wrap` never gets in the agent's way: not when memory fails, nor in what it does to a call."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import octopus_memory
from octopus_memory import EpisodicMemory, MemoryClosed, StoreUnavailable
from octopus_memory.integrations import core, outbox
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support.integrations import texts

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

HI = {"role": "user", "content": "Hi."}
PAY = {
    "id": "c1",
    "type": "function",
    "function": {"name": "pay", "arguments": '{"amount": 123456789}'},
}


@pytest.fixture(autouse=True)
def own_outbox(monkeypatch: pytest.MonkeyPatch) -> outbox.Outbox:
    """An outbox of its own for each test, and a short time limit."""
    made = outbox.Outbox()
    monkeypatch.setattr(outbox, "OUTBOX", made)
    monkeypatch.setattr(core, "time_limit", lambda: 0.3)
    monkeypatch.setattr(outbox, "_FIRST_WAIT", 0.05)
    return made


def client_of(server: FakeOpenAIServer, name: str = "chat", *, is_async: bool = False) -> Any:
    prefix = "Async" if is_async else ""
    if name == "messages":
        url = server.base_url.removesuffix("/v1")
        made = getattr(anthropic, f"{prefix}Anthropic")
        return made(base_url=url, api_key="any", max_retries=0)
    return getattr(openai, f"{prefix}OpenAI")(
        base_url=server.base_url, api_key="any", max_retries=0
    )


def create(client: Any, name: str, **more: Any) -> Any:
    match name:
        case "chat":
            return client.chat.completions.create(model="m", messages=[HI], **more)
        case "responses":
            return client.responses.create(model="m", input=[HI], **more)
        case _:
            return client.messages.create(model="m", max_tokens=9, messages=[HI], **more)


def said(name: str, answer: Any) -> str:
    match name:
        case "chat":
            return str(answer.choices[0].message.content)
        case "responses":
            return str(answer.output_text)
        case _:
            return str(answer.content[0].text)


def ask(client: Any, name: str, *, is_async: bool) -> str:
    if not is_async:
        return said(name, create(client, name))

    async def run() -> Any:
        return await create(client, name)

    return said(name, asyncio.run(run()))


NAMES = ["chat", "responses", "messages"]
every_client = [
    pytest.mark.parametrize("name", NAMES),
    pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"]),
]


def for_every_client(test: Callable[..., None]) -> Callable[..., None]:
    for mark in every_client:
        test = mark(test)
    return test


@for_every_client
def test_a_closed_memory_does_not_stop_the_agent(
    name: str,
    is_async: bool,
    server: FakeOpenAIServer,
    kept: EpisodicMemory,
    caplog: pytest.LogCaptureFixture,
    own_outbox: outbox.Outbox,
):
    client = octopus_memory.wrap(
        client_of(server, name, is_async=is_async), kept.scope(user="ana"), session_id="s"
    )
    kept.close()
    for _ in range(2):
        server.answer("Hello.")
        assert ask(client, name, is_async=is_async) == "Hello."
    assert own_outbox.counts() == (0, 4)
    lost = [each for each in caplog.records if "are lost" in each.getMessage()]
    assert len(lost) == 1
    assert "MemoryClosed" in lost[0].getMessage()


@pytest.mark.slow
@for_every_client
def test_a_locked_database_delays_and_loses_nothing(
    name: str,
    is_async: bool,
    server: FakeOpenAIServer,
    kept: EpisodicMemory,
    tmp_path: Path,
    own_outbox: outbox.Outbox,
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server, name, is_async=is_async), scope, session_id="s")
    server.answer("Hello.")
    ask(client, name, is_async=is_async)
    lock = sqlite3.connect(tmp_path / "db" / "memory.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    try:
        server.answer("Still here.")
        began = time.monotonic()
        assert ask(client, name, is_async=is_async) == "Still here."
        assert time.monotonic() - began < 10
        assert own_outbox.counts().waiting == 2
    finally:
        lock.execute("ROLLBACK")
        lock.close()
    for _ in range(200):
        if own_outbox.flush(1):
            break
    assert texts(scope, "s") == ["Hi.", "Hello.", "Hi.", "Still here."]
    assert own_outbox.counts() == (0, 0)


def away(*_: object, **__: object) -> None:
    raise StoreUnavailable("the database is away")


@for_every_client
def test_what_could_not_be_stored_is_tried_again_in_order(
    name: str,
    is_async: bool,
    server: FakeOpenAIServer,
    kept: EpisodicMemory,
    monkeypatch: pytest.MonkeyPatch,
    own_outbox: outbox.Outbox,
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server, name, is_async=is_async), scope, session_id="s")
    with monkeypatch.context() as broken:
        for call in ("add", "context", "session"):
            broken.setattr(type(scope), call, away)
        for answer in ("One.", "Two."):
            server.answer(answer)
            assert ask(client, name, is_async=is_async) == answer
        assert own_outbox.counts().waiting == 4
    for _ in range(100):
        if own_outbox.flush(1):
            break
    assert texts(scope, "s") == ["Hi.", "One.", "Hi.", "Two."]


def test_a_service_that_is_down_does_not_stop_the_agent(server: FakeOpenAIServer):
    with EpisodicMemory.connect("http://127.0.0.1:9", api_key="any", retries=0) as remote:
        client = octopus_memory.wrap(client_of(server), remote.scope(user="ana"), session_id="s")
        server.answer("Hello.")
        assert said("chat", create(client, "chat")) == "Hello."


def test_what_is_lost_is_counted_in_the_database(
    server: FakeOpenAIServer, kept: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server), scope, session_id="s")
    with monkeypatch.context() as broken:
        broken.setattr(type(scope), "add", lambda *_, **__: 1 / 0)
        server.answer("Hello.")
        create(client, "chat")
    assert kept.database_state().lost == 2


def test_the_queue_is_bounded(
    kept: EpisodicMemory, monkeypatch: pytest.MonkeyPatch, own_outbox: outbox.Outbox
):
    monkeypatch.setattr(outbox, "_MOST", 10)
    monkeypatch.setattr(outbox, "_FIRST_WAIT", 60.0)
    own_outbox._wait = 60.0
    scope = kept.scope(user="ana")
    monkeypatch.setattr(type(scope), "add", away)
    talk = core.Conversation(scope, "s")
    for number in range(30):
        talk.add([{"role": "user", "content": str(number)}])
    assert own_outbox.counts() == (10, 20)
    monkeypatch.undo()
    monkeypatch.setattr(outbox, "OUTBOX", own_outbox)
    assert own_outbox.flush(10)
    assert texts(scope, "s") == [str(number) for number in range(20, 30)]


@for_every_client
def test_who_wants_errors_gets_them(
    name: str, is_async: bool, server: FakeOpenAIServer, kept: EpisodicMemory
):
    client = octopus_memory.wrap(
        client_of(server, name, is_async=is_async),
        kept.scope(user="ana"),
        session_id="s",
        on_error="raise",
    )
    server.answer("Hello.")
    assert ask(client, name, is_async=is_async) == "Hello."
    assert texts(kept.scope(user="ana"), "s") == ["Hi.", "Hello."]
    kept.close()
    with pytest.raises(MemoryClosed):
        ask(client, name, is_async=is_async)


@for_every_client
def test_the_callers_own_error_is_the_one_that_is_raised(
    name: str, is_async: bool, server: FakeOpenAIServer, kept: EpisodicMemory
):
    client = octopus_memory.wrap(
        client_of(server, name, is_async=is_async), kept.scope(user="ana"), session_id="s"
    )
    kept.close()
    server.fail(status=400)
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
        ask(client, name, is_async=is_async)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_is_cut_off_is_no_call(
    name: str, server: FakeOpenAIServer, kept: EpisodicMemory
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server, name), scope, session_id="s")
    server.answer("Wait.", tool_calls=[PAY], finish_reason="tool_calls")
    events = list(create(client_of(server, name), name, stream=True))
    for count in range(1, len(events)):
        server.answer("Wait.", tool_calls=[PAY], finish_reason="tool_calls")
        with create(client, name, stream=True) as stream:
            for number, _ in enumerate(stream, 1):
                if number == count:
                    break
    calls = [
        request["function"]["arguments"]
        for turn in scope.session("s").turns
        for request in turn.message.requests
    ]
    assert all(json.loads(each) == {"amount": 123456789} for each in calls)


def test_a_helper_that_is_left_amid_a_call_stores_no_call(
    server: FakeOpenAIServer, kept: EpisodicMemory
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server, "messages"), scope, session_id="s")
    server.answer("Wait.", tool_calls=[PAY], finish_reason="tool_calls")
    with client.messages.stream(model="m", max_tokens=9, messages=[HI]) as stream:
        for event in stream:
            if event.type == "input_json":
                break
    assert all(not turn.message.requests for turn in scope.session("s").turns)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stream", [False, True])
def test_raw_responses_are_remembered(
    name: str, stream: bool, server: FakeOpenAIServer, kept: EpisodicMemory
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server, name), scope, session_id="s")
    for attribute in ("with_raw_response", "with_streaming_response"):
        server.answer(f"Hello, {attribute}.")
        calls = {
            "chat": lambda a: getattr(client.chat.completions, a),
            "responses": lambda a: getattr(client.responses, a),
            "messages": lambda a: getattr(client.messages, a),
        }[name](attribute)
        given: dict[str, Any] = {"input": [HI]} if name == "responses" else {"messages": [HI]}
        if name == "messages":
            given["max_tokens"] = 9
        made = calls.create(model="m", stream=stream, **given)
        if attribute == "with_streaming_response":
            with made as response:
                answer = response.parse()
                if stream:
                    list(answer)
        else:
            answer = made.parse()
            if stream:
                list(answer)
    assert outbox.flush(5)
    expected = ["Hi.", "Hello, with_raw_response.", "Hi.", "Hello, with_streaming_response."]
    assert texts(scope, "s") == expected


def test_a_body_that_is_read_line_by_line_is_remembered(
    server: FakeOpenAIServer, kept: EpisodicMemory
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server), scope, session_id="s")
    server.answer("Hello.")
    calls = client.chat.completions.with_streaming_response
    with calls.create(model="m", messages=[HI], stream=True) as response:
        assert any("Hello" in line for line in response.iter_lines())
    assert outbox.flush(5)
    assert texts(scope, "s") == ["Hi.", "Hello."]


@for_every_client
def test_other_options_of_a_client_remember_too(
    name: str, is_async: bool, server: FakeOpenAIServer, kept: EpisodicMemory
):
    scope = kept.scope(user="ana")
    wrapped = octopus_memory.wrap(client_of(server, name, is_async=is_async), scope, session_id="s")
    server.answer("Hello.")
    ask(wrapped.with_options(timeout=9).copy(max_retries=1), name, is_async=is_async)
    assert texts(scope, "s") == ["Hi.", "Hello."]


def test_subclasses_are_told_by_their_class(server: FakeOpenAIServer, kept: EpisodicMemory):
    class Traced(openai.AsyncOpenAI):  # type: ignore[misc,name-defined]
        pass

    scope = kept.scope(user="ana")
    made = Traced(base_url=server.base_url, api_key="any", max_retries=0)
    client = octopus_memory.wrap(made, scope, session_id="s")
    assert isinstance(client, Traced)
    server.answer("Hello.")
    assert ask(client, "chat", is_async=True) == "Hello."
    assert texts(scope, "s") == ["Hi.", "Hello."]


@pytest.mark.parametrize("name", NAMES)
def test_streams_keep_the_providers_types(
    name: str, server: FakeOpenAIServer, kept: EpisodicMemory
):
    scope = kept.scope(user="ana")
    library = anthropic if name == "messages" else openai
    client = octopus_memory.wrap(client_of(server, name), scope, session_id="s")
    assert isinstance(create(client, name, stream=True), library.Stream)
    other = octopus_memory.wrap(client_of(server, name, is_async=True), scope, session_id="a")

    async def run() -> None:
        stream = await create(other, name, stream=True)
        assert isinstance(stream, library.AsyncStream)
        await stream.close()

    asyncio.run(run())


@pytest.mark.parametrize("name", NAMES)
def test_a_cancelled_stream_stores_its_part_and_logs_nothing(
    name: str, server: FakeOpenAIServer, kept: EpisodicMemory, caplog: pytest.LogCaptureFixture
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server, name, is_async=True), scope, session_id="s")

    async def story() -> None:
        began = asyncio.Event()

        async def read() -> None:
            number = 0
            async for _ in await create(client, name, stream=True):
                number += 1
                if number == 8:
                    began.set()
                    await asyncio.sleep(60)

        server.answer("One two three four five six seven eight nine ten eleven twelve.")
        task = asyncio.create_task(read())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # At once, and not when the stream is collected.
        assert outbox.flush(5)
        heard = texts(scope, "s")
        assert heard[0] == "Hi."
        assert heard[1].startswith("One")

    asyncio.run(story())
    assert not [each for each in caplog.records if each.name.startswith("octopus")]


def test_what_was_said_at_the_same_time_is_not_mixed(
    server: FakeOpenAIServer, kept: EpisodicMemory
):
    scope = kept.scope(user="ana")
    client = octopus_memory.wrap(client_of(server), scope, session_id="s")

    def talk(number: int) -> None:
        client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": f"number {number}"}]
        )

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert outbox.flush(10)
    assert len(texts(scope, "s")) == 16
