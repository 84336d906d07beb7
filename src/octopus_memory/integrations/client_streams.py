"""Streams that store what was said when they end, whole or cut short.

A stream stays the provider's own object: only what it reads from is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any

from ..domain.message import Json
from .client_apis import Api, Collector
from .core import Conversation
from .json_values import loaded, plain

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

    def wait(self) -> None:
        if self._settled is not None:
            self._talk.wait(self._settled)

    async def await_(self) -> None:
        if self._settled is not None:
            await self._talk.await_(self._settled)


def remember(stream: Any, keeper: Keeper) -> Any:
    """Make a stream of the openai or anthropic package store what it says."""
    close = stream.close
    events = stream._iterator  # noqa: SLF001 - the one place from which it reads
    if hasattr(type(stream), "__anext__"):

        async def aclosing() -> None:
            try:
                await close()
            finally:
                keeper.keep()
            await keeper.await_()

        stream._iterator, stream.close = _aevents(events, keeper), aclosing  # noqa: SLF001
        return stream

    def closing() -> None:
        try:
            close()
        finally:
            keeper.keep()
        keeper.wait()

    stream._iterator, stream.close = _events(events, keeper), closing  # noqa: SLF001
    return stream


def _events(events: Iterator[Any], keeper: Keeper) -> Iterator[Any]:
    try:
        for event in events:
            keeper.take(event)
            yield event
    finally:
        keeper.keep()
    keeper.wait()


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
    await keeper.await_()


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
    """The `with client.messages.stream(…) as stream` of Anthropic's client."""

    def __init__(self, begin: Callable[[], Any], keeper: Keeper) -> None:
        self._begin, self._keeper = begin, keeper
        self._inner: Any = None

    def __enter__(self) -> Any:
        self._inner = self._begin()
        stream = self._inner.__enter__()
        remember(stream._raw_stream, self._keeper)  # noqa: SLF001 - its events, before the helper's
        return stream

    def __exit__(self, *error: object) -> None:
        try:
            self._inner.__exit__(*error)
        finally:
            self._keeper.keep()
        self._keeper.wait()


class AsyncStreamManager:
    """As `StreamManager`, with `async with`."""

    def __init__(self, begin: Callable[[], Awaitable[Any]], keeper: Keeper) -> None:
        self._begin, self._keeper = begin, keeper
        self._inner: Any = None

    async def __aenter__(self) -> Any:
        self._inner = await self._begin()
        stream = await self._inner.__aenter__()
        remember(stream._raw_stream, self._keeper)  # noqa: SLF001 - its events, before the helper's
        return stream

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._inner.__aexit__(*error)
        finally:
            self._keeper.keep()
        await self._keeper.await_()
