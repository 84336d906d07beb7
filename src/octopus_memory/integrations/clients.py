"""`wrap`: a client of OpenAI's or Anthropic's that remembers.

    client = octopus_memory.wrap(OpenAI(), memory.scope(user="ana"), session_id="monday")

Its calls stay as they are. Each one stores what is new in its messages, adds the memory block to
its instructions, and stores the answer. The block is never stored, nor are instructions. Nothing
that goes wrong with the memory stops a call.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from ..domain.errors import InvalidInput
from ..domain.message import Json
from .client_apis import APIS, Api, Messages
from .client_streams import (
    AsyncStreamManager,
    Keeper,
    StreamManager,
    remember,
    remember_bytes,
)
from .client_tools import FORMS, MOST_ROUNDS, OwnTools
from .core import AnyScope, Conversation, OnError, last_said
from .json_values import plain

C = TypeVar("C")
KEY = "octopus_key"
"""An argument of a wrapped call: a call that is repeated with the same key stores nothing twice."""
_RAW = "x-stainless-raw-response"
"""The header by which the clients' `with_raw_response` and `with_streaming_response` are told."""


def wrap(
    client: C,
    scope: AnyScope,
    *,
    session_id: str = "",
    budget_tokens: int | None = None,
    tools: bool = False,
    on_error: OnError = "continue",
) -> C:
    """A copy of a client that remembers one session of one user.

    With `tools`, the model is offered the tools of the memory beside the caller's own, and its
    calls of them are answered here. With `on_error="raise"`, an error of the memory is raised in
    place of the model's answer.

    :raises InvalidInput: for an object that is no client of OpenAI's or Anthropic's, for another
        object than a user's memory, and without a `session_id`
    """
    copied: Any = getattr(client, "copy", None)
    found = [api for api in APIS if copied is not None and api.fits(client)]
    if not found:
        raise InvalidInput(
            "client", "must be a client of the openai or anthropic package, sync or async"
        )
    talk = Conversation(
        scope, session_id, budget_tokens=budget_tokens, on_error=on_error, skip_seen=True
    )
    own = {api: OwnTools(FORMS[type(api).__name__], talk) for api in found} if tools else {}
    result: C = _wrapped(copied, found, talk, own)
    return result


def _wrapped(
    copied: Callable[..., Any], found: list[Api], talk: Conversation, own: dict[Api, OwnTools]
) -> Any:
    wrapped = copied()
    is_async = hasattr(type(wrapped), "__aenter__")
    for api in found:
        calls = api.resource(wrapped)
        for name in api.calls:
            if hasattr(calls, name):
                made = _acall if is_async else _call
                setattr(calls, name, made(getattr(calls, name), api, talk, own.get(api)))
        # OpenAI's helpers that stream go through `create`.
        if isinstance(api, Messages):
            managed = _astream if is_async else _stream
            calls.stream = managed(calls.stream, api, talk)

    def again(**options: Any) -> Any:
        """Copy the client with other options; the copy remembers, too."""
        return _wrapped(functools.partial(copied, **options), found, talk, own)

    wrapped.copy = wrapped.with_options = again
    return wrapped


class _Asked:
    """A call: its messages, and the keys of what it stores."""

    def __init__(self, api: Api, named: dict[str, Any], talk: Conversation) -> None:
        self.key = named.pop(KEY, None)
        self.api, self.named, self.talk = api, api.whole(named), talk
        self.given = api.inputs(self.named)

    def keys(self, part: str, count: int) -> list[str | None] | None:
        return None if self.key is None else [f"{self.key}:{part}:{i}" for i in range(count)]

    @property
    def is_raw(self) -> bool:
        headers = self.named.get("extra_headers") or {}
        return any(name.lower() == _RAW for name in headers)

    def before(self) -> dict[str, Any]:
        """Store the messages that are new; returns the arguments with the block in them."""
        block = self.talk.block(last_said(self.given))
        self.talk.add_new(self.given, self.keys("in", len(self.given)))
        return self.api.inject(self.named, block)

    async def abefore(self) -> dict[str, Any]:
        block = await self.talk.ablock(last_said(self.given))
        await self.talk.aadd_new(self.given, self.keys("in", len(self.given)))
        return self.api.inject(self.named, block)

    def store(self, said: list[Json]) -> Future[bool]:
        """Begin to store an answer, without waiting."""
        return self.talk.hand_over(said, self.keys("out", len(said)))

    def keeper(self) -> Keeper:
        return Keeper(self.api.collector(), self.store, self.talk)

    def after(self, answer: Any) -> Future[bool] | None:
        """Remember an answer: at once, or when its stream or body is read."""
        if self.is_raw:
            return remember_bytes(answer, self.api, self.keeper(), self.store)
        if self.named.get("stream"):
            remember(answer, self.keeper())
            return None
        said = self.api.outputs(answer)
        if len(choices := self.api.choices(answer)) > 1:
            self.talk.offer(choices)
        return self.store(said) if said else None


def _call(
    create: Callable[..., Any], api: Api, talk: Conversation, own: OwnTools | None
) -> Callable[..., Any]:
    @functools.wraps(create)
    def call(**named: Any) -> Any:
        asked = _Asked(api, named, talk)
        answer = _answer(create, asked.before(), api, None if asked.is_raw else own)
        settled = talk.guarded(lambda: asked.after(answer))
        if settled is not None:
            talk.wait(settled)
        return answer

    return call


def _answer(
    create: Callable[..., Any], named: dict[str, Any], api: Api, own: OwnTools | None
) -> Any:
    """Ask the model, and again after it called memory's tools."""
    if own is None:
        return create(**named)
    named = own.offered(named)
    answer = create(**named)
    if named.get("stream"):
        answer._iterator = _rounds(answer._iterator, create, named, api, own)  # noqa: SLF001
        return answer
    for number in range(1, MOST_ROUNDS + 1):
        said = api.outputs(answer)
        if not (calls := own.calls(said)):
            return answer
        answers = own.answer(calls)
        if not own.goes_on(said):
            own.keep(said, answers)
            break
        named = own.followed(named, said, answers)
        answer = create(**(named if number < MOST_ROUNDS else own.last(named)))
    return own.without_own(answer)


def _rounds(
    events: Iterator[Any],
    create: Callable[..., Any],
    named: dict[str, Any],
    api: Api,
    own: OwnTools,
) -> Iterator[Any]:
    """Yield the events of an answer, for which the model may be asked several times."""
    streamed = own.stream()
    for number in range(1, MOST_ROUNDS + 2):
        collector = api.collector()
        for event in events:
            collector.take(plain(event))
            yield from streamed.take(event)
        said = collector.messages()
        calls = own.calls(said) if number <= MOST_ROUNDS else []
        answers = own.answer(calls)
        if not calls or not own.goes_on(said):
            if calls:
                own.keep(said, answers)
            yield from streamed.released()
            return
        named = own.followed(named, said, answers)
        streamed.next_round()
        events = iter(create(**(named if number < MOST_ROUNDS else own.last(named))))


def _acall(
    create: Callable[..., Any], api: Api, talk: Conversation, own: OwnTools | None
) -> Callable[..., Any]:
    @functools.wraps(create)
    async def call(**named: Any) -> Any:
        asked = _Asked(api, named, talk)
        answer = await _aanswer(create, await asked.abefore(), api, None if asked.is_raw else own)
        settled = talk.guarded(lambda: asked.after(answer))
        if settled is not None:
            await talk.await_(settled)
        return answer

    return call


async def _aanswer(
    create: Callable[..., Any], named: dict[str, Any], api: Api, own: OwnTools | None
) -> Any:
    if own is None:
        return await create(**named)
    named = own.offered(named)
    answer = await create(**named)
    if named.get("stream"):
        answer._iterator = _arounds(answer._iterator, create, named, api, own)  # noqa: SLF001
        return answer
    for number in range(1, MOST_ROUNDS + 1):
        said = api.outputs(answer)
        if not (calls := own.calls(said)):
            return answer
        answers = await own.aanswer(calls)
        if not own.goes_on(said):
            own.keep(said, answers)
            break
        named = own.followed(named, said, answers)
        answer = await create(**(named if number < MOST_ROUNDS else own.last(named)))
    return own.without_own(answer)


async def _arounds(
    events: AsyncIterator[Any],
    create: Callable[..., Any],
    named: dict[str, Any],
    api: Api,
    own: OwnTools,
) -> AsyncIterator[Any]:
    streamed = own.stream()
    for number in range(1, MOST_ROUNDS + 2):
        collector = api.collector()
        async for event in events:
            collector.take(plain(event))
            for each in streamed.take(event):
                yield each
        said = collector.messages()
        calls = own.calls(said) if number <= MOST_ROUNDS else []
        answers = await own.aanswer(calls)
        if not calls or not own.goes_on(said):
            if calls:
                own.keep(said, answers)
            for each in streamed.released():
                yield each
            return
        named = own.followed(named, said, answers)
        streamed.next_round()
        events = aiter(await create(**(named if number < MOST_ROUNDS else own.last(named))))


def _stream(stream: Callable[..., Any], api: Messages, talk: Conversation) -> Callable[..., Any]:
    @functools.wraps(stream)
    def call(**named: Any) -> Any:
        asked = _Asked(api, named, talk)
        return StreamManager(lambda: stream(**asked.before()), asked.keeper())

    return call


def _astream(stream: Callable[..., Any], api: Messages, talk: Conversation) -> Callable[..., Any]:
    @functools.wraps(stream)
    def call(**named: Any) -> Any:
        asked = _Asked(api, named, talk)

        async def begin() -> Any:
            return stream(**await asked.abefore())

        return AsyncStreamManager(begin, asked.keeper())

    return call
