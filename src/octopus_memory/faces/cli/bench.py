"""The commands that measure a memory: bench recall, bench relevance, bench context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import InvalidInput, MissingExtra
from .json_output import print_json
from .options import AsJson
from .progress import bar

if TYPE_CHECKING:
    from ...evaluation import ContextRun, Dataset, RecallRun, RelevanceRun
    from ...evaluation.run import Progress

bench = typer.Typer(
    no_args_is_help=True, help="Measure how well what was said is found again.", name="bench"
)

_WHOLE = "octopus,recency,bm25,dense,rrf,naive"
_OF_SUMMARIES = "octopus,naive"
_WITH_SCORES = "octopus,dense"
_OF_BLOCKS = "octopus,packed,dense,recent,whole"

Form = Annotated[
    str,
    typer.Option(
        "--dataset", metavar="FORMAT", help="The file's format: locomo, longmemeval or jsonl."
    ),
]
Data = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FILE",
        help="The file with the data, or for jsonl a folder with *.jsonl files.",
    ),
]
Categories = Annotated[
    str,
    typer.Option(
        metavar="A,B",
        help="Only questions of these categories; else all, of LoCoMo the answerable 1,2,3,4.",
        show_default=False,
    ),
]
Conversations = Annotated[
    int | None,
    typer.Option("--limit-conversations", min=1, help="Only the first ones.", show_default=False),
]
UserTurns = Annotated[
    bool, typer.Option("--user-turns-only", help="Leave out what the assistant said.")
]
Captions = Annotated[
    bool, typer.Option("--captions", help="Add LoCoMo's image captions to the turns.")
]
Cache = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Keep the turns' vectors here for the next run.", show_default=False
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write Markdown, JSON and a plot into this folder.", show_default=False
    ),
]


@bench.command()
def recall(
    *,
    dataset: Form,
    data: Data,
    systems: Annotated[
        str,
        typer.Option(
            metavar="A,B", help=f"Some of {_WHOLE.replace(',', ', ')}.", show_default=False
        ),
    ] = "",
    categories: Categories = "",
    limit_conversations: Conversations = None,
    user_turns_only: UserTurns = False,
    captions: Captions = False,
    archived: Annotated[
        bool,
        typer.Option(
            "--archived", help="Archive every session first: what do summaries alone find?"
        ),
    ] = False,
    cache: Cache = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """How much of the evidence is among the first turns and sessions found."""
    from ...evaluation import (
        make_systems,
        recall_json,
        recall_markdown,
        run_recall,
        shared_embedder,
    )

    _make_folders(cache=cache, out=out)
    asked = _load(dataset, data, categories, limit_conversations, user_turns_only, captions)
    names = _split(systems or (_OF_SUMMARIES if archived else _WHOLE))
    embedder = shared_embedder(cache)
    made = make_systems(names, embedder, archived=archived)
    with _watched(asked.questions * len(made)) as progress:
        run = run_recall(asked, made, embedder=embedder, progress=progress)
    _write(run, out)
    if as_json:
        print_json(recall_json(run))
    else:
        typer.echo(recall_markdown(run))


@bench.command()
def relevance(
    *,
    dataset: Form,
    data: Data,
    systems: Annotated[
        str, typer.Option(metavar="A,B", help=f"Some of {_WHOLE.replace(',', ', ')}.")
    ] = _WITH_SCORES,
    categories: Categories = "",
    limit_conversations: Conversations = None,
    user_turns_only: UserTurns = False,
    captions: Captions = False,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="From which score on something is relevant.")
    ] = 0.65,
    cache: Cache = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Whether questions without an answer are told from those that have one."""
    from ...evaluation import (
        make_systems,
        relevance_json,
        relevance_markdown,
        run_relevance,
        shared_embedder,
    )

    _make_folders(cache=cache, out=out)
    asked = _load(dataset, data, categories, limit_conversations, user_turns_only, captions)
    embedder = shared_embedder(cache)
    made = make_systems(_split(systems), embedder)
    with _watched(asked.questions * len(made)) as progress:
        run = run_relevance(asked, made, threshold=threshold, embedder=embedder, progress=progress)
    _write(run, out)
    if as_json:
        print_json(relevance_json(run))
    else:
        typer.echo(relevance_markdown(run))


@bench.command()
def context(
    *,
    dataset: Form,
    data: Data,
    systems: Annotated[
        str, typer.Option(metavar="A,B", help=f"Some of {_OF_BLOCKS.replace(',', ', ')}.")
    ] = _OF_BLOCKS,
    budgets: Annotated[
        str, typer.Option(metavar="A,B", help="How many tokens a block may cost.")
    ] = "400,800,1600,3200",
    categories: Categories = "",
    limit_conversations: Conversations = None,
    user_turns_only: UserTurns = False,
    captions: Captions = False,
    cache: Cache = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Whether the text that a model reads holds the evidence, and what it costs."""
    from ...evaluation import (
        context_json,
        context_markdown,
        count_asked,
        make_context_systems,
        run_context,
        shared_embedder,
    )

    wanted = _numbers("budgets", budgets)
    _make_folders(cache=cache, out=out)
    asked = _load(dataset, data, categories, limit_conversations, user_turns_only, captions)
    embedder = shared_embedder(cache)
    made = make_context_systems(_split(systems), embedder)
    with _watched(count_asked(asked) * len(made)) as progress:
        run = run_context(asked, made, budgets=wanted, embedder=embedder, progress=progress)
    _write(run, out)
    if as_json:
        print_json(context_json(run))
    else:
        typer.echo(context_markdown(run))


def _load(
    form: str,
    data: Path,
    categories: str,
    conversations: int | None,
    user_turns_only: bool,
    captions: bool,
) -> Dataset:
    from ...evaluation import load_dataset

    found = load_dataset(
        form,
        data,
        categories=_split(categories),
        user_turns_only=user_turns_only,
        captions=captions,
    )
    return found if conversations is None else found.first(conversations)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in _split(text)]
    except ValueError as error:
        raise InvalidInput(option, "must be whole numbers, such as 400,800") from error


@contextmanager
def _watched(total: int) -> Iterator[Progress]:
    """A bar over all systems, one after the other."""
    finished, last = 0, 0
    with bar("asking", total) as show:

        def progress(_system: str, done: int, _of: int) -> None:
            nonlocal finished, last
            # A lower number than before is the next system's first.
            finished, last = finished + (last if done <= last else 0), done
            show(finished + done)

        yield progress


def _make_folders(**wanted: Path | None) -> None:
    """Before the run: what it finds must not be lost because it cannot be written."""
    for option, folder in wanted.items():
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(option, f"{folder} is no folder: {error.strerror}") from error


def _write(run: RecallRun | RelevanceRun | ContextRun, folder: Path | None) -> None:
    from ...evaluation import write_report

    if folder is None:
        return
    try:
        write_report(run, folder)
    except MissingExtra as error:
        # The figures are written; only the picture is missing.
        typer.echo(f"no plot: {error}", err=True)
