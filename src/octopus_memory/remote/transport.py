"""HTTP requests to the service, with time-outs and safe retries."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from ..domain.episode import check_name
from ..domain.errors import (
    InvalidInput,
    MemoryClosed,
    MissingExtra,
    OctopusError,
    StoreAnswerLost,
    StoreUnavailable,
)
from . import problems

if TYPE_CHECKING:
    import httpx

_PREFIX = "/api/octopus"
_AGAIN = frozenset({429, 502, 503, 504})
_LONGEST_WAIT = 10.0


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


class Transport:
    """A connection pool to one service. Thread-safe."""

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
        self.retries = retries
        self._base = _checked_url(url).rstrip("/").removesuffix(_PREFIX) + _PREFIX
        credential = _credential(api_key)
        self._client = client or _make_client(timeout)
        # Stored only there, because httpx hides it in a repr.
        self._client.headers.update(credential)

    def acting(self, actor: str | None) -> Transport:
        """The same connections, with requests in the name of an actor if one is given."""
        return self if actor is None else _Acting(self, check_name("actor", actor))

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.send("GET", path, query=query, safe=True)

    def post(
        self,
        path: str,
        body: Any,
        *,
        headers: Mapping[str, str] | None = None,
        done: type[OctopusError] | None = None,
    ) -> Any:
        return self.send("POST", path, body=body, safe=True, headers=headers, done=done)

    def delete(self, path: str, query: Mapping[str, Any] | None = None, *, safe: bool) -> Any:
        return self.send("DELETE", path, query=query, safe=safe)

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
        """Send a request and return the response's JSON; a `safe` call is retried after a network
        failure.

        `done` is the error by which the service refuses a retry of a call that succeeded and whose
        response was lost. Then None is returned.
        """
        if self._client.is_closed:
            raise MemoryClosed
        asked = self.arguments(query=query, body=body, headers=headers)
        perhaps_done = False
        for attempt in itertools.count():
            try:
                return self._try(method, self.url(path), asked, safe=safe)
            except Failed as failed:
                if attempt == self.retries or not (safe or failed.untouched):
                    raise failed.error from failed.__cause__
                perhaps_done = perhaps_done or not failed.untouched
                time.sleep(seconds_before(attempt, failed.retry_after))
            except OctopusError as refused:
                if done is not None and perhaps_done and isinstance(refused, done):
                    return None
                raise
        raise AssertionError

    def _try(self, method: str, url: str, asked: Mapping[str, Any], *, safe: bool) -> Any:
        """Send a request once.

        :raises Failed: if a retry may succeed
        """
        import httpx

        try:
            response = self._client.request(method, url, **asked)
        except httpx.RequestError as error:
            raise failure_of(error, method, asked, safe=safe) from error
        return read_answer(response)

    def url(self, path: str) -> str:
        return self._base + path

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every request, the credential among them."""
        return self._client.headers

    def arguments(
        self,
        *,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str] | None,
    ) -> dict[str, Any]:
        """The arguments of a client's `request`."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if body is None:
            return {"params": given, "headers": headers}
        headers = {"Content-Type": "application/json", **(headers or {})}
        return {"params": given, "content": _written(body), "headers": headers}

    def close(self) -> None:
        self._client.close()


def _written(body: Any) -> bytes:
    """Encode a body. Half a surrogate pair, which UTF-8 has not, can only be written escaped."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body).encode()


def failure_of(
    error: httpx.RequestError, method: str, asked: Mapping[str, Any], *, safe: bool
) -> Failed:
    """The failure of a request that got no answer."""
    import httpx

    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Failed(_unreachable(error), untouched=True)
    has_key = "Idempotency-Key" in (asked.get("headers") or {})
    stores = method == "DELETE" or has_key or not safe
    return Failed(_lost(error) if stores else _unreachable(error))


def read_answer(response: httpx.Response) -> Any:
    """The JSON of an answer.

    :raises Failed: where another try may go better
    """
    if response.is_success:
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise Failed(problems.not_ours()) from error
    refused = problems.as_error(response)
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


class _Acting(Transport):
    """Names an actor in each request; a call inside may name another one."""

    def __init__(self, twin: Transport, actor: str) -> None:
        self._twin = twin
        self._actor = {"Octopus-Actor": quote(actor, safe=":@/")}

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
        named = {**self._actor, **(headers or {})}
        return self._twin.send(
            method, path, query=query, body=body, safe=safe, headers=named, done=done
        )
