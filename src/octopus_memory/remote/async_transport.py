"""Requests to the service from an event loop, and the calls of `RemoteScope` over them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from ..domain.errors import MemoryClosed, OctopusError
from .transport import Failed, Transport, failure_of, read_answer, seconds_before

if TYPE_CHECKING:
    import httpx

    from .memory import RemoteMemory

T = TypeVar("T")


class AsyncTransport:
    """Sends what a `Transport` would, awaited. One connection pool for each event loop."""

    def __init__(self, memory: RemoteMemory) -> None:
        self._twin, self._timeout = memory._transport, memory._timeout  # noqa: SLF001 - its twin
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            WeakKeyDictionary()
        )
        self._is_closed = False

    async def run(self, call: Callable[[Transport], T]) -> T:
        """Run a synchronous call whose requests are awaited.

        The call is made again from its beginning after each answer, with the answers so far. So it
        must ask the same things in the same order each time, as the calls of a remote memory do.
        """
        answers: list[Any] = []
        while True:
            try:
                return call(_Answered(self._twin, answers))
            except _Asks as asks:
                try:
                    answers.append(await self.send(**asks.request))
                except OctopusError as error:
                    answers.append(error)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        safe: bool,
        headers: Mapping[str, str] | None = None,
        done: type[OctopusError] | None = None,
    ) -> Any:
        """As `Transport.send`."""
        if self._is_closed:
            raise MemoryClosed
        asked = self._twin.arguments(query=query, body=body, headers=headers)
        perhaps_done = False
        for attempt in itertools.count():
            try:
                return await self._try(method, self._twin.url(path), asked, safe=safe)
            except Failed as failed:
                if attempt == self._twin.retries or not (safe or failed.untouched):
                    raise failed.error from failed.__cause__
                perhaps_done = perhaps_done or not failed.untouched
                await asyncio.sleep(seconds_before(attempt, failed.retry_after))
            except OctopusError as refused:
                if done is not None and perhaps_done and isinstance(refused, done):
                    return None
                raise
        raise AssertionError

    async def _try(self, method: str, url: str, asked: Mapping[str, Any], *, safe: bool) -> Any:
        import httpx

        try:
            response = await self._client().request(method, url, **asked)
        except httpx.RequestError as error:
            raise failure_of(error, method, asked, safe=safe) from error
        return read_answer(response)

    def _client(self) -> httpx.AsyncClient:
        """The pool of the loop that runs: connections belong to the loop that made them."""
        import httpx

        loop = asyncio.get_running_loop()
        known = self._clients.get(loop)
        if known is None:
            limit = httpx.Timeout(self._timeout, connect=min(self._timeout, 5.0))
            known = httpx.AsyncClient(timeout=limit, headers=self._twin.headers)
            self._clients[loop] = known
        return known

    async def close(self) -> None:
        """Close the connections of this loop; those of others end with their loops."""
        self._is_closed = True
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


class _Asks(BaseException):
    """A call needs the answer to a request. No `except` of the call may stop it."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__()
        self.request = request


class _Answered(Transport):
    """Gives a call the answers that are there, and asks for the next one."""

    def __init__(self, twin: Transport, answers: list[Any]) -> None:
        self._twin, self._answers, self._next = twin, answers, 0

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        safe: bool,
        headers: Mapping[str, str] | None = None,
        done: type[OctopusError] | None = None,
    ) -> Any:
        if self._next == len(self._answers):
            asked = {"method": method, "path": path, "query": query, "body": body}
            raise _Asks(asked | {"safe": safe, "headers": headers, "done": done})
        answer = self._answers[self._next]
        self._next += 1
        if isinstance(answer, OctopusError):
            raise answer
        return answer
