"""The command that starts the service."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import InvalidSetting, MissingExtra
from ..urls import as_url, shown_url

if TYPE_CHECKING:
    from ...settings import ServerSettings

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on.", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port; 0 takes a free one.", show_default=False)
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
    server = settings.server.model_copy(
        update={k: v for k, v in (("host", host), ("port", port)) if v is not None}
    )
    if dev and server.host not in _LOOPBACK:
        raise InvalidSetting(
            "host", f"--dev listens on this machine alone: leave out --host {server.host}, or --dev"
        )
    _log_lines()
    with EpisodicMemory.open(settings.url, background=worker) as memory:
        if worker:
            memory.wake()
        _say(settings.url, server, dev=dev, worker=worker)
        _run(memory, server, dev=dev)


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


def _run(memory: object, server: ServerSettings, *, dev: bool) -> None:
    try:
        import uvicorn

        from .app import make_app
    except ImportError as error:
        raise MissingExtra("server", "the REST service") from error
    from ...engine.memory import Memory

    assert isinstance(memory, Memory)
    with _outliving_signals():
        uvicorn.run(
            make_app(memory, server, development=dev),
            host=server.host,
            port=server.port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=20,
            server_header=False,
        )


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
