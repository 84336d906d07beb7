"""`octopus serve`: run the REST service."""

from __future__ import annotations

import errno
import gc
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...domain.errors import InvalidSetting, MissingExtra
from ..exchange import MCP_PATH
from ..given import as_url, is_in_memory, shown_url
from .multiprocess import STOP_SIGNALS, Serving, shared_metrics

if TYPE_CHECKING:
    from ...engine.memory import Memory
    from ...settings import ServerSettings
    from ..exchange import AnswerMcp
    from .app import MakePages

_BACKLOG = 2_048
_NO_KEY = (
    "WARNING: there is no API key yet, so every request is refused. Make one with: "
    "octopus keys create --role admin --name me"
)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Parts of the service that other faces make, which this one does not import."""

    pages: MakePages | None = None
    mcp: AnswerMcp | None = None


_extras = Extras()


def serve_also(extras: Extras) -> None:
    """Have the service serve what other faces make."""
    global _extras
    _extras = extras


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65_535)
    ] = None,
    dev: Annotated[
        bool,
        typer.Option("--dev", help="Ask for no credential. For trials on this machine only."),
    ] = False,
    worker: Annotated[
        bool,
        typer.Option(help="Do the background work in this process, too."),
    ] = True,
    processes: Annotated[
        int | None, typer.Option(help="Number of processes that share the requests.", min=1)
    ] = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL", help="The database: a URL or a path.")
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
    given: dict[str, Any] = {"host": host, "port": port, "processes": processes}
    server = replace(server, **{name: value for name, value in given.items() if value is not None})
    if dev and server.host not in _LOOPBACK:
        raise InvalidSetting(
            "host", f"must be a loopback address with --dev: remove --host {server.host}, or --dev"
        )
    if server.processes > 1 and is_in_memory(settings.url):
        raise InvalidSetting("processes", "must be 1 for a database in memory: use a file")
    _check_installed()
    with _listening(server) as listeners:
        server = replace(server, port=listeners[0].getsockname()[1])
        _set_up_logging()
        with EpisodicMemory.open(settings.url, background=worker) as memory:
            memory.wake()
            _say(settings.url, server, dev=dev, worker=worker)
            if not (dev or server.jwt.jwks_url or memory.api_keys.list()):
                typer.echo(_NO_KEY, err=True)
            if server.processes == 1:
                _run(memory, server, listeners[0], dev=dev, extras=_extras)
            else:
                _run_several(memory, settings.url, server, listeners, dev=dev)


def _run_several(
    memory: Memory,
    url: str,
    server: ServerSettings,
    listeners: list[socket.socket],
    *,
    dev: bool,
) -> None:
    """Serve in child processes. This process does the background work and supervises them."""
    with shared_metrics() as folder:
        memory.counts.share(folder)
        serving = Serving(_serve_some, listeners, url, server, dev, _extras)
        serving.run_until_signal(memory.wake_for_others)


def _serve_some(
    listener: socket.socket,
    url: str,
    server: ServerSettings,
    dev: bool,
    extras: Extras,
) -> None:
    """Serve in one of several child processes."""
    from ...wiring import EpisodicMemory

    _set_up_logging()
    with EpisodicMemory.open(url, background=False) as memory:
        _run(memory, server, listener, dev=dev, extras=extras)


def _say(url: str, server: ServerSettings, *, dev: bool, worker: bool) -> None:
    where = f"http://{server.host}:{server.port}"
    typer.echo(f"Octopus serves {shown_url(url)} on {where}")
    typer.echo(f"  inspector  {where}/\n  API        {where}/docs\n  MCP        {where}{MCP_PATH}")
    if not worker:
        typer.echo("  octopus worker must do the background work")
    if dev:
        typer.echo(
            "WARNING: development mode. Anyone on this machine can read and erase everything.",
            err=True,
        )


def _check_installed() -> None:
    if not (find_spec("fastapi") and find_spec("uvicorn") and find_spec("prometheus_client")):
        raise MissingExtra("server", "the REST service")


@contextmanager
def _listening(server: ServerSettings) -> Iterator[list[socket.socket]]:
    """Bind a socket for each process, before the start is announced."""
    with ExitStack() as stack:
        first = stack.enter_context(_bound(server))
        if server.processes == 1:
            yield [first]
        elif not hasattr(socket, "SO_REUSEPORT"):
            yield [first] * server.processes
        else:
            # The kernel distributes connections over the sockets. The first socket, which did not
            # share the port, has proved that no other service uses it.
            server = replace(server, port=first.getsockname()[1])
            first.close()
            yield [
                stack.enter_context(_bound(server, shared=True)) for _ in range(server.processes)
            ]


def _bound(server: ServerSettings, *, shared: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((server.host, server.port))
        if shared:
            # Until a socket listens, another service could bind the port, too.
            listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidSetting(
            "port" if error.errno == errno.EADDRINUSE else "host",
            f"cannot listen on {server.host}:{server.port} ({error.strerror or error}): "
            "choose another with --port or --host",
        ) from error
    return listener


def _run(
    memory: Memory,
    server: ServerSettings,
    listener: socket.socket,
    *,
    dev: bool,
    extras: Extras,
) -> None:
    from .app import make_app
    from .protocol import Server

    app = make_app(memory, server, development=dev, pages=extras.pages, mcp=extras.mcp)
    service = Server(app, server)
    # Loads the code that looks up a key, so that the first request need not wait for it.
    memory.api_keys.find("")
    # Loaded modules stay, so the garbage collector need not traverse them again and again.
    gc.collect()
    gc.freeze()
    with _ignoring_signals():
        service.run(sockets=[listener])


@contextmanager
def _ignoring_signals() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again when it stops, so that the memory is closed."""
    before = [signal.signal(number, lambda *_: None) for number in STOP_SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(STOP_SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _set_up_logging() -> None:
    logging.getLogger("octopus_memory").setLevel(logging.INFO)
    # A line of the access log is nothing but JSON, so that programs can read it.
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(message)s"))
    access = logging.getLogger("octopus_memory.access")
    access.addHandler(lines)
    access.propagate = False
