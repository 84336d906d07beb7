"""The HTTP server that runs the application."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from ...settings import ServerSettings
from .protocol import bounded
from .uploads import Uploads

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
