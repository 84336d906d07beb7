"""`wrap`: a client of OpenAI's or Anthropic's that remembers.

    client = octopus_memory.wrap(OpenAI(), memory.scope(user="ana"), session_id="monday")

Its calls stay as they are. Each one stores what is new in its messages, adds the memory block to
its instructions, and stores the answer. The block is never stored, nor are instructions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from ..domain.errors import InvalidInput
from .client_apis import APIS, Api, Messages
from .client_streams import AsyncStream, AsyncStreamManager, Stream, StreamManager
from .core import AnyScope, Conversation, last_said, new_ones

C = TypeVar("C")
KEY = "octopus_key"
"""An argument of a wrapped call: a call that is repeated with the same key stores nothing twice."""


def wrap(client: C, scope: AnyScope, *, session_id: str, budget_tokens: int | None = None) -> C:
    """A copy of a client that remembers one session of one user.

    :raises InvalidInput: for an object that is no client of OpenAI's or Anthropic's
    """
    copied: Any = getattr(client, "copy", None)
    found = [api for api in APIS if copied is not None and api.fits(client)]
    if not found:
        raise InvalidInput(
            "client", "must be a client of the openai or anthropic package, sync or async"
        )
    wrapped = copied()
    talk = Conversation(scope, session_id, budget_tokens=budget_tokens)
    is_async = type(client).__name__.startswith("Async")
    for api in found:
        calls = api.resource(wrapped)
        for name in api.calls:
            if hasattr(calls, name):
                made = _acall if is_async else _call
                setattr(calls, name, made(getattr(calls, name), api, talk))
        # OpenAI's helpers that stream go through `create`.
        if isinstance(api, Messages):
            managed = _astream if is_async else _stream
            calls.stream = managed(calls.stream, api, talk)
    result: C = wrapped
    return result


class _Asked:
    """A call: its messages, and the keys of what it stores."""

    def __init__(self, api: Api, named: dict[str, Any]) -> None:
        self.key = named.pop(KEY, None)
        self.api, self.named = api, named
        self.given = api.inputs(named)

    def keys(self, part: str, count: int) -> list[str] | None:
        return None if self.key is None else [f"{self.key}:{part}:{i}" for i in range(count)]

    @property
    def streams(self) -> bool:
        return bool(self.named.get("stream"))


def _before(talk: Conversation, asked: _Asked) -> dict[str, Any]:
    """Store the messages that are new; returns the arguments with the block in them."""
    block = talk.block(last_said(asked.given))
    new = asked.given
    if asked.key is None:
        new = new_ones(asked.given, talk.tail(len(asked.given) + 8))
    talk.add(new, asked.keys("in", len(new)))
    return asked.api.inject(asked.named, block)


async def _abefore(talk: Conversation, asked: _Asked) -> dict[str, Any]:
    block = await talk.ablock(last_said(asked.given))
    new = asked.given
    if asked.key is None:
        new = new_ones(asked.given, await talk.atail(len(asked.given) + 8))
    await talk.aadd(new, asked.keys("in", len(new)))
    return asked.api.inject(asked.named, block)


def _call(create: Callable[..., Any], api: Api, talk: Conversation) -> Callable[..., Any]:
    @functools.wraps(create)
    def call(**named: Any) -> Any:
        asked = _Asked(api, named)
        answer = create(**_before(talk, asked))

        def store(said: list[Any]) -> None:
            talk.add(said, asked.keys("out", len(said)))

        if asked.streams:
            return Stream(answer, api.collector(), store)
        store(api.outputs(answer))
        return answer

    return call


def _acall(create: Callable[..., Any], api: Api, talk: Conversation) -> Callable[..., Any]:
    @functools.wraps(create)
    async def call(**named: Any) -> Any:
        asked = _Asked(api, named)
        answer = await create(**await _abefore(talk, asked))

        async def store(said: list[Any]) -> None:
            await talk.aadd(said, asked.keys("out", len(said)))

        if asked.streams:
            return AsyncStream(answer, api.collector(), store)
        await store(api.outputs(answer))
        return answer

    return call


def _stream(stream: Callable[..., Any], api: Messages, talk: Conversation) -> Callable[..., Any]:
    @functools.wraps(stream)
    def call(**named: Any) -> Any:
        asked = _Asked(api, named)

        def store(said: list[Any]) -> None:
            talk.add(said, asked.keys("out", len(said)))

        return StreamManager(lambda: stream(**_before(talk, asked)), api, store)

    return call


def _astream(stream: Callable[..., Any], api: Messages, talk: Conversation) -> Callable[..., Any]:
    @functools.wraps(stream)
    def call(**named: Any) -> Any:
        asked = _Asked(api, named)

        async def begin() -> Any:
            return stream(**await _abefore(talk, asked))

        async def store(said: list[Any]) -> None:
            await talk.aadd(said, asked.keys("out", len(said)))

        return AsyncStreamManager(begin, api, store)

    return call
