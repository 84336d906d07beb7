"""The command that does the background work."""

from __future__ import annotations

import logging
import signal
import threading
from typing import TYPE_CHECKING

import typer

from ...domain.errors import StoreError
from ..urls import as_url, shown_url
from .options import Db

if TYPE_CHECKING:
    from ...wiring import EpisodicMemory

_LOOK_SECONDS = 1.0


def worker(*, db: Db = None) -> None:
    """Do the background work until told to stop: vectors, summaries, time-outs, retention.

    Any number of workers may run beside each other. SIGTERM ends it after the batch at hand.
    """
    from ...settings import load
    from ...wiring import EpisodicMemory

    settings = load(database_url=as_url(db))
    _log_lines()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with EpisodicMemory.open(settings.url, background=True) as memory:
        memory.wake()
        typer.echo(f"Octopus works on {shown_url(settings.url)}; SIGTERM or Ctrl-C ends it")
        # Other processes write, and nobody tells this one.
        while not stop.wait(_LOOK_SECONDS):
            if _is_waiting(memory):
                memory.wake()
        typer.echo("finishing the batch at hand")


def _is_waiting(memory: EpisodicMemory) -> bool:
    """A database that is away for a while is waited for; the background work says so in the log."""
    try:
        return any(work.waiting for work in memory.parts.store.backlog().values())
    except StoreError:
        return False


def _log_lines() -> None:
    logging.getLogger("octopus_memory").setLevel(logging.INFO)
