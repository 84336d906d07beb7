"""`octopus worker` and `octopus reembed`: do the background work, and embed every text again."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Annotated

import typer

from ...domain.errors import InvalidSetting
from ..given import as_url, shown_url
from .database import AsJson, Db, must_exist, released
from .progress import waiting, watch_backlog
from .terminal import Screen, counted, print_json

_POLL_SECONDS = 0.25


def worker(*, db: Db = None) -> None:
    """Do the background work until stopped: vectors, summaries, timeouts, retention.

    Any number of workers may run at the same time. SIGTERM stops it after the current batch.
    """
    from ...settings import load
    from ...wiring import EpisodicMemory

    settings = load(database_url=as_url(db))
    logging.getLogger("octopus_memory").setLevel(logging.INFO)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with EpisodicMemory.open(settings.url, background=True) as memory:
        memory.wake()
        typer.echo(f"Octopus works on {shown_url(settings.url)}; SIGTERM or Ctrl-C stops it")
        while not stop.wait(_POLL_SECONDS):
            memory.wake_for_others()
        typer.echo("finishing the current batch")


_OF_ONE_MODEL = ("minilm", "hashing")


def reembed(
    *,
    embedder: Annotated[
        str | None, typer.Option(help="The embedder. Default: the one of the settings.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model of the embedder.")] = None,
    dimension: Annotated[int | None, typer.Option(help="Dimension of its vectors.", min=1)] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Embed every stored text with another model. Recall works meanwhile.

    Each text is found by its words, and by its old vector in processes that still use the old
    model, until its new one is there. Change the settings of every process to the new model too.

    octopus reembed --embedder openai --model text-embedding-3-small
    """
    from ...settings import load
    from ...wiring import EpisodicMemory, make_embedder

    settings = load(
        database_url=as_url(db),
        embedder=embedder,
        embedding_model=model,
        embedding_dimension=dimension,
    )
    for option, given in {"model": model, "dimension": dimension}.items():
        if given is not None and settings.embedder in _OF_ONE_MODEL:
            raise InvalidSetting(
                option, f"must not be given for {settings.embedder}, which has its own"
            )
    must_exist(settings.url)
    made = make_embedder(settings)
    with (
        released(made),
        EpisodicMemory.open(settings.url, embedder=made, background=False) as memory,
    ):
        before = memory.stats().vectors.get(made.model, 0)
        with watch_backlog("embedding", memory):
            memory.flush()
        embedded = memory.stats().vectors.get(made.model, 0) - before
        left = waiting(memory)
    if as_json:
        print_json({"model": made.model, "embedded": embedded, "waiting": left})
    else:
        Screen().write(f"Embedded {counted(embedded, 'text')} with {made.model}.")
