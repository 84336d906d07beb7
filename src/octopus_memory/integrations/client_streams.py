"""Streams that store what was said when they end, whole or cut short."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Self

from ..domain.message import Json
from .client_apis import Collector, Messages


class _Ended:
    """Gives what a stream said to be stored, once."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self._done = False

    def said(self) -> list[Json]:
        if self._done:
            return []
        self._done = True
        return self.collector.messages()


class Stream:
    """A client's stream. Everything else of it is reached through this one."""

    def __init__(
        self, inner: Any, collector: Collector, store: Callable[[list[Json]], None]
    ) -> None:
        self._inner, self._store = inner, store
        self._ended = _Ended(collector)
        self._events = self._read()

    def _read(self) -> Iterator[Any]:
        try:
            for event in self._inner:
                self._ended.collector.take(event)
                yield event
        finally:
            self._keep()

    def _keep(self) -> None:
        said = self._ended.said()
        if said:
            self._store(said)

    def __iter__(self) -> Iterator[Any]:
        return self._events

    def __next__(self) -> Any:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._inner.close()
        self._keep()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class AsyncStream:
    """As `Stream`, for an asynchronous client."""

    def __init__(
        self, inner: Any, collector: Collector, store: Callable[[list[Json]], Awaitable[None]]
    ) -> None:
        self._inner, self._store = inner, store
        self._ended = _Ended(collector)
        self._events = self._read()

    async def _read(self) -> AsyncIterator[Any]:
        try:
            async for event in self._inner:
                self._ended.collector.take(event)
                yield event
        finally:
            await self._keep()

    async def _keep(self) -> None:
        said = self._ended.said()
        if said:
            await self._store(said)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events

    async def __anext__(self) -> Any:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._inner.close()
        await self._keep()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class StreamManager:
    """The `with client.messages.stream(…) as stream` of Anthropic's client."""

    def __init__(
        self, begin: Callable[[], Any], api: Messages, store: Callable[[list[Json]], None]
    ) -> None:
        self._begin, self._api, self._store = begin, api, store
        self._inner: Any = None
        self._stream: Any = None

    def __enter__(self) -> Any:
        self._inner = self._begin()
        self._stream = self._inner.__enter__()
        return self._stream

    def __exit__(self, *error: object) -> None:
        said = self._api.snapshot(self._stream)
        self._inner.__exit__(*error)
        if said:
            self._store(said)


class AsyncStreamManager:
    """As `StreamManager`, with `async with`."""

    def __init__(
        self,
        begin: Callable[[], Awaitable[Any]],
        api: Messages,
        store: Callable[[list[Json]], Awaitable[None]],
    ) -> None:
        self._begin, self._api, self._store = begin, api, store
        self._inner: Any = None
        self._stream: Any = None

    async def __aenter__(self) -> Any:
        self._inner = await self._begin()
        self._stream = await self._inner.__aenter__()
        return self._stream

    async def __aexit__(self, *error: object) -> None:
        said = self._api.snapshot(self._stream)
        await self._inner.__aexit__(*error)
        if said:
            await self._store(said)
