"""The command that starts the service."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import InvalidSetting, MissingExtra
from ..urls import as_url, shown_url

if TYPE_CHECKING:
    from ...engine.memory import Memory
    from ...settings import ServerSettings

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="The port; 0 takes a free one.", min=0, max=65_535, show_default=False),
    ] = None,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev", help="Ask for no credential. Only on this machine, only to try things out."
        ),
    ] = False,
    worker: Annotated[
        bool,
        typer.Option(help="Whether this process also does the background work."),
    ] = True,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="URL", help="The database: a URL, or a file's path.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the REST service.

    octopus serve --dev needs no credential and listens on this machine alone. Without --dev make
    a key first: octopus keys create --role admin --name me
    """
    from ...settings import load
    from ...wiring import EpisodicMemory

    settings = load(database_url=as_url(db))
    server = settings.server
    if host is not None:
        server = replace(server, host=host)
    if port is not None:
        server = replace(server, port=port)
    if dev and server.host not in _LOOPBACK:
        raise InvalidSetting(
            "host", f"--dev listens on this machine alone: leave out --host {server.host}, or --dev"
        )
    _log_lines()
    _check_installed()
    with (
        _listening(server) as listener,
        EpisodicMemory.open(settings.url, background=worker) as memory,
    ):
        if worker:
            memory.wake()
        server = replace(server, port=listener.getsockname()[1])
        _say(settings.url, server, dev=dev, worker=worker)
        _run(memory, server, listener, dev=dev)


def _say(url: str, server: ServerSettings, *, dev: bool, worker: bool) -> None:
    where = f"http://{server.host}:{server.port}"
    typer.echo(f"Octopus serves {shown_url(url)} on {where}")
    typer.echo(f"  try it   {where}/\n  openapi  {where}/api/octopus/openapi.json")
    if not worker:
        typer.echo("  the background work is left to octopus worker")
    if dev:
        typer.echo(
            "WARNING: development mode. Anyone on this machine can read and erase everything.",
            err=True,
        )


def _check_installed() -> None:
    try:
        import fastapi  # noqa: F401 - only whether it is there
        import uvicorn  # noqa: F401 - the same
    except ImportError as error:
        raise MissingExtra("server", "the REST service") from error


@contextmanager
def _listening(server: ServerSettings) -> Iterator[socket.socket]:
    """The socket, before anybody is told that the service is there."""
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((server.host, server.port))
        except OSError as error:
            raise InvalidSetting(
                "port" if error.errno == errno.EADDRINUSE else "host",
                f"cannot listen on {server.host}:{server.port} ({error.strerror or error}): "
                "choose another with --port or --host",
            ) from error
        yield listener


def _run(memory: Memory, server: ServerSettings, listener: socket.socket, *, dev: bool) -> None:
    import uvicorn

    from .app import make_app

    config = uvicorn.Config(
        make_app(memory, server, development=dev),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=20,
        server_header=False,
    )
    with _outliving_signals():
        uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def _outliving_signals() -> Iterator[None]:
    """The server raises the signal that stopped it once more; the memory must still be closed."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _log_lines() -> None:
    logging.getLogger("octopus_memory").setLevel(logging.INFO)
    # A line of the access log is JSON and nothing else, for whoever reads it by program.
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("octopus_memory.access")
    access.addHandler(lines)
    access.propagate = False
