"""`octopus reembed`: embed every stored text with another model."""

from __future__ import annotations

from typing import Annotated

import typer

from ...domain.errors import InvalidSetting
from ..urls import as_url
from .database import must_exist, released
from .json_output import print_json
from .options import AsJson, Db
from .progress import waiting, watch_backlog
from .terminal import Screen, counted

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
