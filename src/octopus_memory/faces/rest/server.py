"""The HTTP server under the application."""

from __future__ import annotations

from typing import Any

import uvicorn
from starlette.types import ASGIApp

from ...settings import ServerSettings

_GRACE_SECONDS = 20


def server_config(app: ASGIApp, settings: ServerSettings, **options: Any) -> uvicorn.Config:
    """Return how uvicorn runs the application; `options` go before what stands here."""
    return uvicorn.Config(
        app,
        **{
            "log_level": "warning",
            "access_log": False,
            "timeout_graceful_shutdown": _GRACE_SECONDS,
            "server_header": False,
            # By default uvicorn believes any caller on this machine.
            "proxy_headers": bool(settings.trusted_proxies),
            "forwarded_allow_ips": settings.trusted_proxies,
            **options,
        },
    )
