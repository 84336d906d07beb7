"""`octopus inspect`: show a local database in the browser."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ...domain.errors import InvalidInput, MissingExtra
from ..urls import as_url, shown_url

_HOST = "127.0.0.1"
_BEFORE_OPENING = 0.5


def inspect(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="The database: an SQLite file, or a URL. Default: the configured one.",
            show_default=False,
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
    if not (find_spec("uvicorn") and find_spec("starlette") and find_spec("jinja2")):
        raise MissingExtra("server", "the inspector")
    import uvicorn
    from starlette.applications import Starlette

    from ...settings import load
    from ...wiring import EpisodicMemory
    from .app import Inspector

    if file is not None and "://" not in file and not Path(file).exists():
        raise InvalidInput("FILE", f"must exist: {file} does not, and nothing is made here")
    url = load(database_url=as_url(file)).url
    token = secrets.token_urlsafe(24)
    with _listening(port) as listener, EpisodicMemory.open(url, background=False) as memory:
        app = Starlette(routes=Inspector(memory, local_token=token).routes())
        address = f"http://{_HOST}:{listener.getsockname()[1]}/?token={token}"
        typer.echo(f"Octopus shows {shown_url(url)} on\n  {address}\nStop it with Ctrl-C.")
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
