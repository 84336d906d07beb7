"""`octopus bench facts`: measure standing facts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .json_output import print_json
from .options import AsJson

_SAID = 200
"""Characters of a message that are shown beside its fact."""


def facts(
    *,
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="PATH",
            help="Folder with messages.jsonl and changes.jsonl; with --dataset, a data file.",
        ),
    ],
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset",
            metavar="FORMAT",
            help="List the facts found in conversations of this format, to judge them: locomo, "
            "longmemeval or jsonl.",
            show_default=False,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Measure how many of the standing facts are found, and how many of those found are right."""
    from ...evaluation import facts_in, facts_json, facts_markdown, load_dataset, measure_facts

    if dataset:
        found = [asdict(each) for each in facts_in(load_dataset(dataset, data))]
        if as_json:
            print_json(found)
            return
        for each in found:
            said = " ".join(each["said"].split())[:_SAID]
            mark = "ends" if each["ends"] else each["kind"]
            typer.echo(f"{each['conversation']} {each['turn']}  {mark}: {each['text']}  <- {said}")
        return
    figures = measure_facts(data)
    if as_json:
        print_json(facts_json(figures))
    else:
        typer.echo(facts_markdown(figures))
