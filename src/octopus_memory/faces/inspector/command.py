"""`octopus inspect`, which shows a local database in the browser, and the pages for a service."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import InvalidInput, MissingExtra
from ..given import as_url, shown_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.routing import Route
    from starlette.types import Scope

    from ...domain.identity import Credential
    from ...engine.memory import Memory
    from ..lockout import Lockout

_HOST = "127.0.0.1"
_BEFORE_OPENING = 0.5


def inspect(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="The database: an SQLite file, or a URL. Default: the configured one.",
        ),
    ] = None,
    *,
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65_535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
) -> None:
    """Show in the browser what a database remembers, and what a model was shown and why.

    octopus inspect memory.db

    It listens on this machine alone, and needs no key: the address that it prints is the key.
    """
    check_installed()
    from ...settings import load
    from ...wiring import EpisodicMemory

    if file is not None and "://" not in file and not Path(file).exists():
        raise InvalidInput("FILE", f"must exist: {file} does not, and nothing is made here")
    url = load(database_url=as_url(file)).url
    with EpisodicMemory.open(url, background=False) as memory:
        path = None if file is None or "://" in file else file
        show(memory, shown_url(url), port=port, browser=browser, file=path)


def check_installed() -> None:
    """Check that the packages of the inspector are there.

    :raises MissingExtra: one of them is not installed
    """
    if not (find_spec("uvicorn") and find_spec("starlette") and find_spec("jinja2")):
        raise MissingExtra("server", "the inspector")


def show(memory: Memory, name: str, *, port: int, browser: bool, file: str | None = None) -> None:
    """Serve the inspector on this machine until Ctrl-C. `name` tells the user what it shows.

    Commands on the pages name `file` as their database.
    """
    import uvicorn

    from .app import Inspector

    token = secrets.token_urlsafe(24)
    with _listening(port) as listener:
        app = Inspector(memory, local_token=token, file=file).app()
        address = f"http://{_HOST}:{listener.getsockname()[1]}/?token={token}"
        typer.echo(f"Octopus shows {name} on\n  {address}\nStop it with Ctrl-C.")
        if browser:
            opening = threading.Timer(_BEFORE_OPENING, webbrowser.open, args=(address,))
            opening.daemon = True
            opening.start()
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
    except OSError as error:
        listener.close()
        raise InvalidInput("port", f"must be free: {port} is in use") from error
    return listener


def inspector_routes(
    memory: Memory,
    check_local: Callable[[Scope], None] | None,
    read_token: Callable[[str], Credential | None] | None,
    lockout: Lockout | None,
) -> list[Route]:
    """Return the pages for another face's application; none if their packages are not installed.

    The arguments are those of `Inspector`.
    """
    if find_spec("jinja2") is None:
        return []
    from .app import Inspector

    return Inspector(
        memory, check_local=check_local, read_token=read_token, lockout=lockout
    ).routes()
