"""`octopus worker`: do the background work."""

from __future__ import annotations

import logging
import signal
import threading

import typer

from ..urls import as_url, shown_url
from .options import Db

_POLL_SECONDS = 0.25


def worker(*, db: Db = None) -> None:
    """Do the background work until stopped: vectors, summaries, timeouts, retention.

    Any number of workers may run at the same time. SIGTERM stops it after the current batch.
    """
    from ...settings import load
    from ...wiring import EpisodicMemory

    settings = load(database_url=as_url(db))
    _set_up_logging()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with EpisodicMemory.open(settings.url, background=True) as memory:
        memory.wake()
        typer.echo(f"Octopus works on {shown_url(settings.url)}; SIGTERM or Ctrl-C stops it")
        while not stop.wait(_POLL_SECONDS):
            memory.wake_for_others()
        typer.echo("finishing the current batch")


def _set_up_logging() -> None:
    logging.getLogger("octopus_memory").setLevel(logging.INFO)
