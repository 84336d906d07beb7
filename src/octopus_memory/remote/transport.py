"""The requests of the client: sent again after transient failures; errors are read as ours."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit
from uuid import UUID
from weakref import WeakKeyDictionary

from ..domain import errors
from ..domain.errors import (
    AccessDenied,
    InvalidInput,
    MemoryClosed,
    MissingExtra,
    OctopusError,
    StoreAnswerLost,
    StoreUnavailable,
)
from ..flow import Steps

if TYPE_CHECKING:
    import httpx

_PREFIX = "/api/octopus"
_AGAIN = frozenset({429, 502, 503, 504})
_LONGEST_WAIT = 10.0


_Pool: TypeAlias = "AsyncGenerator[httpx.AsyncClient, None]"


class Failed(Exception):
    """A transient failure, with the error to raise if retries do not help."""

    def __init__(
        self, error: OctopusError, *, untouched: bool = False, retry_after: str | None = None
    ) -> None:
        super().__init__()
        self.error = error
        self.untouched = untouched
        """True if the service did nothing, so that every call may be retried."""
        self.retry_after = retry_after


class Request(NamedTuple):
    """A request to the service."""

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    body: Any = None
    headers: Mapping[str, str] | None = None
    safe: bool = True
    """Whether it is sent again after a network failure."""
    done: type[OctopusError] | None = None
    """The error by which the service refuses a retry of a call that succeeded and whose response
    was lost. Then its answer is None."""

    def arguments(self) -> dict[str, Any]:
        """The arguments of a client's `request`."""
        given = {name: value for name, value in (self.query or {}).items() if value is not None}
        if self.body is None:
            return {"params": given, "headers": self.headers}
        headers = {"Content-Type": "application/json", **(self.headers or {})}
        return {"params": given, "content": _written(self.body), "headers": headers}


class Transport:
    """The connections to one service: a pool for threads, and one for each event loop."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        timeout: float,
        retries: int,
        client: httpx.Client | None = None,
    ) -> None:
        if retries < 0:
            raise InvalidInput("retries", "must be 0 or more")
        self._retries, self._timeout = retries, timeout
        self._base = _checked_url(url).rstrip("/").removesuffix(_PREFIX) + _PREFIX
        credential = _credential(api_key)
        self._client = client or _make_client(timeout)
        # Stored only there, because httpx hides it in a repr.
        self._client.headers.update(credential)
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[_Pool, httpx.AsyncClient]]
        self._loops = WeakKeyDictionary()

    def send(self, request: Request) -> Steps[Any]:
        """Send a request and return the response's JSON, after retries where it is safe."""
        if self._client.is_closed:
            raise MemoryClosed
        asked = request.arguments()
        perhaps_done = False
        for attempt in itertools.count():
            try:
                return (yield from self._try(request, asked))
            except Failed as failed:
                if attempt == self._retries or not (request.safe or failed.untouched):
                    raise failed.error from failed.__cause__
                perhaps_done = perhaps_done or not failed.untouched
                seconds = seconds_before(attempt, failed.retry_after)
            except OctopusError as refused:
                if request.done is not None and perhaps_done and isinstance(refused, request.done):
                    return None
                raise
            yield partial(time.sleep, seconds), partial(asyncio.sleep, seconds)
        raise AssertionError

    def _try(self, request: Request, asked: Mapping[str, Any]) -> Steps[Any]:
        """Send a request once.

        :raises Failed: if a retry may succeed
        """
        import httpx

        method, url = request.method, self._base + request.path
        try:
            response = yield (
                lambda: self._client.request(method, url, **asked),
                lambda: self._awaited(method, url, asked),
            )
        except httpx.RequestError as error:
            raise _failure_of(error, request) from error
        return _read_answer(response)

    async def _awaited(self, method: str, url: str, asked: Mapping[str, Any]) -> httpx.Response:
        """Send a request by the pool of the loop that runs, where its connections belong."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            pool = self._pool()
            # It waits for nothing before its `yield`, so that no other task makes a second one.
            self._loops[loop] = pool, await anext(pool)
        return await self._loops[loop][1].request(method, url, **asked)

    async def _pool(self) -> _Pool:
        """Yield a client. A loop that ends closes its generators, and this one its connections."""
        import httpx

        loop = asyncio.get_running_loop()
        limit = httpx.Timeout(self._timeout, connect=min(self._timeout, 5.0))
        client = httpx.AsyncClient(timeout=limit, headers=self._client.headers)
        try:
            yield client
        finally:
            self._loops.pop(loop, None)
            await client.aclose()

    def close(self) -> Steps[None]:
        """Close the connections of threads and of this loop; those of others end with theirs."""
        self._client.close()
        yield (lambda: None), self._close_loop

    async def _close_loop(self) -> None:
        known = self._loops.get(asyncio.get_running_loop())
        if known is not None:
            await known[0].aclose()


def _written(body: Any) -> bytes:
    """Encode a body. Half a surrogate pair, which UTF-8 has not, can only be written escaped."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body).encode()


def _failure_of(error: httpx.RequestError, request: Request) -> Failed:
    """The failure of a request that got no answer."""
    import httpx

    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Failed(_unreachable(error), untouched=True)
    has_key = "Idempotency-Key" in (request.headers or {})
    stores = request.method == "DELETE" or has_key or not request.safe
    return Failed(_lost(error) if stores else _unreachable(error))


def _read_answer(response: httpx.Response) -> Any:
    """The JSON of an answer.

    :raises Failed: where another try may go better
    """
    if response.is_success:
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise Failed(not_ours()) from error
    refused = as_error(response)
    if response.status_code not in _AGAIN:
        raise refused
    raise Failed(
        refused,
        untouched=response.status_code == 429,
        retry_after=response.headers.get("retry-after"),
    )


def segment(text: object) -> str:
    """Quote a text as one segment of a path."""
    quoted = quote(str(text), safe="")
    # Clients and proxies would resolve these two as relative segments.
    return quoted.replace(".", "%2E") if quoted in {".", ".."} else quoted


def seconds_before(attempt: int, retry_after: str | None) -> float:
    if retry_after is not None and retry_after.isdecimal():
        told = min(float(retry_after), _LONGEST_WAIT)
        # Jitter, so that clients with the same `Retry-After` do not return at once.
        return random.uniform(told, told * 1.25)  # noqa: S311 - only spreads the load
    ceiling: float = min(0.1 * 2 ** min(attempt, 10), _LONGEST_WAIT)
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - the same


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput("url", "must be the address of a service, such as http://127.0.0.1:8765")
    return url


def _credential(api_key: str | None) -> dict[str, str]:
    """Make the header. An invalid key is refused here, before another library's error quotes it."""
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InvalidInput("api_key", "must be printable ASCII: copy it again")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _unreachable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"the service cannot be reached ({type(error).__name__}): check its address, and that "
        "octopus serve runs there"
    )


def _lost(error: Exception) -> StoreAnswerLost:
    return StoreAnswerLost(
        f"the service cannot be reached any more ({type(error).__name__}), and may have done this "
        "already: check, or repeat the call with the same idempotency key, which stores nothing "
        "twice"
    )


def _make_client(timeout: float) -> httpx.Client:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra("client", "EpisodicMemory.connect") from error
    return httpx.Client(timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)))


_TYPE = "urn:octopus:problem:"


def not_ours() -> StoreUnavailable:
    return StoreUnavailable(
        "the response is not from Octopus: check the address, and that client and service have "
        "the same release"
    )


def as_error(response: httpx.Response) -> OctopusError:
    status = response.status_code
    try:
        problem: dict[str, Any] = response.json()
        name = str(problem["type"]).removeprefix(_TYPE)
        detail = str(problem["detail"])
        kind = _KINDS.get(name)
        if status in (401, 403):
            return AccessDenied(detail)
        if kind is not None:
            return _made(kind, problem, detail)
    except (ValueError, LookupError, TypeError, AttributeError):
        # The response is not the service's, but a proxy's or another server's.
        if status in (401, 403):
            return AccessDenied(f"a proxy before the service answered {status}: check its rules")
        return StoreUnavailable(
            f"the service answered {status} without a reason: check its address"
        )
    known_by = problem.get("requestId", "none")
    return StoreUnavailable(f"the service answered {status}: {detail} (request {known_by})")


def _made(kind: type[OctopusError], problem: dict[str, Any], detail: str) -> OctopusError:
    if issubclass(kind, InvalidInput):
        first = (problem.get("errors") or [{"field": "request", "problem": detail}])[0]
        return kind(_snake(first["field"]), first["problem"])
    about = {
        errors.EpisodeNotFound: "episodeId",
        errors.EpisodeClosed: "episodeId",
        errors.EpisodeArchived: "episodeId",
        errors.EpisodeDeleted: "episodeId",
        errors.FactNotFound: "factId",
        errors.EpisodeChanged: "sessionId",
        errors.SessionNotFound: "sessionId",
        errors.IdempotencyConflict: "key",
        errors.LegalHold: "holdId",
    }.get(kind)
    if about is None:
        return kind(detail)
    value: Any = problem.get(about, "")
    if about in ("episodeId", "factId", "holdId"):
        value = _uuid(value)
    return kind(value)


def _uuid(text: str) -> UUID | str:
    try:
        return UUID(text)
    except ValueError:
        return text


def _snake(field: str) -> str:
    """Convert `body.keyFacts` to `key_facts`, its name in the Python call."""
    bare = field.removeprefix("body.").removeprefix("query.").removeprefix("path.")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", bare).lower()


def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def _all_kinds(root: type[OctopusError]) -> dict[str, type[OctopusError]]:
    found = {_kebab(root.__name__): root}
    for kind in root.__subclasses__():
        found |= _all_kinds(kind)
    return found


_KINDS = _all_kinds(OctopusError) | {"body-too-large": errors.MessageTooLarge}
