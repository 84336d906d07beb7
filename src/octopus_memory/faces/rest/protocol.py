"""Limits on what a connection may send before it is authenticated.

uvicorn reads headers of any size and waits for them for ever. A proxy in front has such limits;
these hold where there is none.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ...settings import ServerSettings
from .uploads import Uploads

_MOST_HEADERS = 200
_MOST_UNREAD = 1024 * 1024
"""Bytes of a body that are discarded after the response, so that the client can read that."""
_WRITE_SECONDS = 60.0
"""Seconds after which a client that reads nothing of its response is disconnected."""
_TOO_LARGE = 431
_TOO_SLOW = 408


class _Refused(Exception):
    """Ends the parsing of a request."""


def bounded(settings: ServerSettings) -> type[BoundedProtocol]:
    """Return the protocol class with the limits of the settings."""
    limits = {
        "max_header_bytes": settings.max_header_bytes,
        "header_seconds": settings.header_seconds,
        "max_connections": settings.max_connections,
    }
    return type("Bounded", (BoundedProtocol,), limits)


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on the size and time of headers, and on connections."""

    max_header_bytes: ClassVar[int]
    header_seconds: ClassVar[float]
    max_connections: ClassVar[int]

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._status = 400
        self._header_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._has_begun = False
        self._pending = 0
        """Bytes of the unfinished header, which the parser keeps."""
        self._header_bytes = 0
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self.transport.close()
            return
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self._await_header()
        self._pending += len(data)
        super().data_received(data)
        if self._pending > self.max_header_bytes and not self.transport.is_closing():
            self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._has_begun = True
        self._header_bytes = 0
        self._await_header()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if len(self.headers) >= _MOST_HEADERS:
            raise self._too_large()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._pending = 0
        self._stop_header_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        if self.cycle.response_complete:
            self._unread += len(body)
            if self._unread > _MOST_UNREAD:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending = self._unread = 0
        self._has_begun = False
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(_WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Send the response of a request that is refused while it is parsed."""
        if self._status == 400:
            super().send_400_response(msg)
        else:
            self._refuse(self._status)

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self.max_header_bytes:
            raise self._too_large()

    def _too_large(self) -> _Refused:
        self._status = _TOO_LARGE
        return _Refused()

    def _await_header(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_seconds, self._time_out)

    def _time_out(self) -> None:
        self._header_timer = None
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            # This is the header of a second request. The response to the first goes first.
            self._await_header()
        elif self._has_begun:
            self._refuse(_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        self._stop_timers()
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(
                STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n"
            )
        self.transport.close()

    def _stop_timers(self) -> None:
        self._stop_header_timer()
        self._stop_write_timer()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


_GRACE_SECONDS = 20


class Server(uvicorn.Server):
    """Stops without waiting for unfinished request bodies."""

    def __init__(self, app: FastAPI, settings: ServerSettings, **options: Any) -> None:
        """`options` are those of uvicorn, and override the defaults here."""
        self._uploads: Uploads = app.state.uploads
        super().__init__(uvicorn.Config(app, **(_options(settings) | options)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._uploads.stop()
        await super().shutdown(sockets)


def _options(settings: ServerSettings) -> dict[str, Any]:
    return {
        "log_level": "warning",
        "access_log": False,
        "timeout_graceful_shutdown": _GRACE_SECONDS,
        "server_header": False,
        "http": bounded(settings),
        # No route uses WebSockets, and their protocol class lacks these limits.
        "ws": "none",
        # By default uvicorn trusts the proxy headers of any client on this machine.
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": settings.trusted_proxies,
    }
