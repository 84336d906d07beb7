"""Reads the bodies of requests, and keeps slow ones from blocking the service."""

from __future__ import annotations

import asyncio
import codecs
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain

import anyio
import anyio.from_thread
import anyio.to_thread
from fastapi import Response
from starlette.types import Message, Receive

from ...domain.errors import InvalidInput
from ...domain.transfer.export_format import is_header
from ...domain.transfer.export_reader import split_lines
from .problems import Refused

_STOP_SECONDS = 1.0
_IMPORTS_AT_ONCE = 16
_LONGEST_HEADER = 64 * 1024
"""Limit on characters of the first line, which tells an export from other files."""
_CLOSE = {"Connection": "close"}


class Uploads:
    """Limits the time until the next part of a body comes, more so while the service stops."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle = idle_seconds
        self._waiting: set[asyncio.Timeout] = set()
        self._ends_at: float | None = None

    async def receive(self, receive: Receive) -> Message:
        """Return the next part of a body.

        :raises Refused: it does not come in time, or the service stops
        """
        until = self._ends_at or asyncio.get_running_loop().time() + self._idle
        try:
            async with asyncio.timeout_at(until) as wait:
                self._waiting.add(wait)
                try:
                    return await receive()
                finally:
                    self._waiting.discard(wait)
        except TimeoutError:
            raise self._refused() from None

    def stop(self) -> None:
        """Stop waiting for bodies. Parts that are on their way may still arrive."""
        self._ends_at = asyncio.get_running_loop().time() + _STOP_SECONDS
        for wait in self._waiting:
            wait.reschedule(self._ends_at)

    def _refused(self) -> Refused:
        if self._ends_at is not None:
            headers = _CLOSE | {"Retry-After": "1"}
            detail = "the service is stopping. Send the request again."
            return Refused(503, "stopping", detail, headers=headers)
        detail = f"the body must not pause for more than {self._idle:g} seconds. Send it again."
        return Refused(408, "request-timeout", detail, headers=_CLOSE)


class Imports:
    """Runs imports on their own threads, a few at once for each tenant.

    An upload may take its time. The threads that credentials are checked on are not held by it,
    nor can one tenant take all that there are for imports.
    """

    def __init__(self, per_tenant: int) -> None:
        self._per_tenant = per_tenant
        self._running: Counter[str] = Counter()
        self._threads = anyio.CapacityLimiter(max(_IMPORTS_AT_ONCE, per_tenant))

    async def run(self, tenant: str, work: Callable[[], Response]) -> Response:
        """Run an import.

        :raises Refused: the tenant runs as many as it may already
        """
        if self._running[tenant] >= self._per_tenant:
            raise Refused(
                429,
                "too-many-imports",
                f"at most {self._per_tenant} imports of a tenant run at once. Send it again later.",
                headers=_CLOSE | {"Retry-After": "10"},
            )
        self._running[tenant] += 1
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]


def pieces_of(chunks: AsyncIterator[bytes], longest: int) -> Iterator[str]:
    """Yield the lines of an export, or pieces of another file, as they come in.

    For a thread that `Imports` runs.

    :raises InvalidInput: the body is not UTF-8, or a line of an export is over `longest`
    """
    texts = _decoded(chunks)
    first = ""
    for text in texts:
        first += text
        begun = first.lstrip()
        if "\n" in begun or len(first) > _LONGEST_HEADER:
            break
    pieces = chain([first], texts)
    return split_lines(pieces, longest) if _begins_export(first) else pieces


def _begins_export(first: str) -> bool:
    try:
        return is_header(json.loads(first.lstrip().partition("\n")[0]))
    except (ValueError, RecursionError):
        return False


def _decoded(chunks: AsyncIterator[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    while True:
        chunk = anyio.from_thread.run(_next, chunks)
        try:
            text = decoder.decode(chunk or b"", final=chunk is None)
        except UnicodeDecodeError as error:
            raise InvalidInput("body", "must be UTF-8") from error
        if text:
            yield text
        if chunk is None:
            return


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)
