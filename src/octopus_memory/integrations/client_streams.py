"""Streams that store what was said when they end, whole or cut short.

A stream stays the provider's own object: only what it reads from is replaced.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from operator import methodcaller
from typing import Any

from ..domain.message import Json
from ..flow import Steps, arun, ask, awaits, both, run
from .client_apis import Api, Collector
from .core import Conversation
from .repair import loaded, plain

HandOver = Callable[[list[Json]], Future[bool]]
"""Begins to store messages, without waiting."""


class Keeper:
    """Collects the events of one answer, and hands them over to be stored, once."""

    def __init__(self, collector: Collector, hand_over: HandOver, talk: Conversation) -> None:
        self._collector, self._hand_over, self._talk = collector, hand_over, talk
        self._settled: Future[bool] | None = None
        self._is_done = False

    def take(self, event: Any) -> None:
        self._talk.guarded(
            lambda: self._collector.take(event if isinstance(event, dict) else plain(event))
        )

    def keep(self) -> None:
        """Begin to store what was said; it goes on whatever becomes of the caller."""
        if not self._is_done:
            self._is_done = True
            said = self._talk.guarded(self._collector.messages)
            self._settled = self._hand_over(said) if said else None

    def wait(self) -> Steps[None]:
        yield from ask(self._talk, "wait", self._settled)


def as_called(
    call: Callable[..., Any], steps: Callable[..., Steps[Any]], *, is_async: bool
) -> Callable[..., Any]:
    """Replace a provider's call by steps, called or awaited as it is."""
    if not is_async:
        return functools.wraps(call)(both(steps))

    @functools.wraps(call)
    async def acall(*args: Any, **named: Any) -> Any:
        return await arun(steps(*args, **named))

    return acall


def remember(stream: Any, keeper: Keeper) -> Any:
    """Make a stream of the openai or anthropic package store what it says."""
    close = stream.close
    events = stream._iterator  # noqa: SLF001 - the one place from which it reads
    is_async = hasattr(type(stream), "__anext__")

    def closing() -> Steps[None]:
        try:
            yield close, close
        finally:
            keeper.keep()
        yield from keeper.wait()

    stream._iterator = (_aevents if is_async else _events)(events, keeper)  # noqa: SLF001
    stream.close = as_called(close, closing, is_async=is_async)
    return stream


def _events(events: Iterator[Any], keeper: Keeper) -> Iterator[Any]:
    try:
        for event in events:
            keeper.take(event)
            yield event
    finally:
        keeper.keep()
    run(keeper.wait())


async def _aevents(events: AsyncIterator[Any], keeper: Keeper) -> AsyncIterator[Any]:
    if (reader := asyncio.current_task()) is not None:
        # A task that is cancelled amid its own work leaves the stream open until it is collected.
        reader.add_done_callback(lambda task: keeper.keep() if task.cancelled() else None)
    try:
        async for event in events:
            keeper.take(event)
            yield event
    finally:
        # Nothing is awaited here, because the task may be cancelled.
        keeper.keep()
    await arun(keeper.wait())


def remember_bytes(
    response: Any, api: Api, keeper: Keeper, hand_over: HandOver
) -> Future[bool] | None:
    """Make a raw response store the answer, in whatever way its body is read."""
    http = response.http_response
    if hasattr(http, "_content"):
        said = api.outputs(loaded(http.content))
        return hand_over(said) if said else None
    is_stream = "text/event-stream" in http.headers.get("content-type", "")
    body = _Body(keeper if is_stream else None)
    read, aread = http.iter_bytes, http.aiter_bytes

    def ended() -> None:
        if is_stream:
            keeper.keep()
        elif said := api.outputs(loaded(bytes(body.whole))):
            hand_over(said)

    def reading(*size: Any) -> Iterator[bytes]:
        try:
            for chunk in read(*size):
                body.take(chunk)
                yield chunk
        finally:
            ended()

    async def areading(*size: Any) -> AsyncIterator[bytes]:
        try:
            async for chunk in aread(*size):
                body.take(chunk)
                yield chunk
        finally:
            ended()

    http.iter_bytes, http.aiter_bytes = reading, areading
    return None


class _Body:
    """The bytes of a response: a document, or the events of a stream."""

    def __init__(self, keeper: Keeper | None) -> None:
        self._keeper = keeper
        self.whole = bytearray()

    def take(self, chunk: bytes) -> None:
        self.whole += chunk
        if self._keeper is None:
            return
        *lines, rest = bytes(self.whole).split(b"\n")
        self.whole = bytearray(rest)
        for line in lines:
            name, _, data = line.partition(b":")
            if name == b"data" and isinstance(event := loaded(data), dict):
                self._keeper.take(event)


class StreamManager:
    """The `with client.messages.stream(…) as stream` of Anthropic's clients, or `async with`."""

    def __init__(self, begin: Callable[[], Steps[Any]], keeper: Keeper) -> None:
        self._begin, self._keeper = begin, keeper
        self._inner: Any = None

    @both
    def __enter__(self) -> Steps[Any]:
        inner = self._inner = yield from self._begin()
        enter, aenter = methodcaller("__enter__"), methodcaller("__aenter__")
        stream = yield partial(enter, inner), partial(aenter, inner)
        remember(stream._raw_stream, self._keeper)  # noqa: SLF001 - its events, before the helper's
        return stream

    @both
    def __exit__(self, *error: object) -> Steps[None]:
        inner = self._inner
        try:
            yield lambda: inner.__exit__(*error), lambda: inner.__aexit__(*error)
        finally:
            self._keeper.keep()
        yield from self._keeper.wait()

    __aenter__, __aexit__ = awaits(__enter__), awaits(__exit__)
