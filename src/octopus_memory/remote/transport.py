"""Requests to the service: time-outs, retries where they are safe, problems as our errors."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..domain.errors import MissingExtra, StoreUnavailable
from . import problems

if TYPE_CHECKING:
    import httpx

_PREFIX = "/api/octopus"
_AGAIN = frozenset({429, 502, 503, 504})
_LONGEST_WAIT = 10.0


class Transport:
    """One connection pool to one service. Thread-safe."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        timeout: float,
        retries: int,
        client: httpx.Client | None = None,
    ) -> None:
        self._retries = retries
        self._client = client or _make_client(timeout)
        self._base = url.rstrip("/").removesuffix(_PREFIX) + _PREFIX
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self.send("GET", path, query=query, safe=True)

    def post(
        self, path: str, body: Any, *, safe: bool = False, headers: Mapping[str, str] | None = None
    ) -> Any:
        return self.send("POST", path, body=body, safe=safe, headers=headers)

    def delete(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        # Erasing twice erases nothing more.
        return self.send("DELETE", path, query=query, safe=True)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        safe: bool,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON; a call that is `safe` is tried again after a failure on the way."""
        import httpx

        given = {name: value for name, value in (query or {}).items() if value is not None}
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                response = self._client.request(
                    method,
                    self._base + path,
                    params=given,
                    json=body,
                    headers={**self._headers, **(headers or {})},
                )
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                # Nothing was sent, so that trying again is safe for every call.
                if last:
                    raise _unreachable(error) from error
            except httpx.TransportError as error:
                if last or not safe:
                    raise _unreachable(error) from error
            else:
                if response.status_code < 400:
                    return response.json() if response.content else None
                if last or response.status_code not in _AGAIN or not _may_repeat(response, safe):
                    raise problems.as_error(response)
                time.sleep(_wait(attempt, response.headers.get("retry-after")))
                continue
            time.sleep(_wait(attempt, None))
        raise AssertionError

    def close(self) -> None:
        self._client.close()


def segment(text: object) -> str:
    """Text as one part of a path, whatever it holds."""
    quoted = quote(str(text), safe="")
    # On the way these two would be taken for steps up the path.
    return quoted.replace(".", "%2E") if quoted in {".", ".."} else quoted


def _may_repeat(response: httpx.Response, safe: bool) -> bool:
    """A request that was refused for its number was not worked on."""
    return safe or response.status_code == 429


def _wait(attempt: int, retry_after: str | None) -> float:
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), _LONGEST_WAIT)
    ceiling: float = min(0.1 * 2**attempt, _LONGEST_WAIT)
    return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - only spreads the load


def _unreachable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"the service cannot be reached ({type(error).__name__}): check its address, and that "
        "octopus serve runs there"
    )


def _make_client(timeout: float) -> httpx.Client:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra("client", "EpisodicMemory.connect") from error
    return httpx.Client(timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)))
