"""`octopus bench`: measure recall, relevance, the context block, answers and standing facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...domain.errors import InvalidInput, MissingExtra
from ..given import actor_of
from .database import Agent, AsJson, Db, Tenant, User, open_existing
from .progress import bar
from .terminal import print_json

if TYPE_CHECKING:
    from ...evaluation import Dataset
    from ...evaluation.run import Progress

bench = typer.Typer(
    no_args_is_help=True, help="Measure how well Octopus finds what was said.", name="bench"
)

_SAID = 200
_WHOLE = "octopus,recency,bm25,dense,rrf,naive"
_OF_SUMMARIES = "octopus,naive"
_WITH_SCORES = "octopus,dense"
_OF_BLOCKS = "octopus,packed,dense,recent,whole"

Form = Annotated[
    str,
    typer.Option(
        "--dataset", metavar="FORMAT", help="Format of the file: locomo, longmemeval or jsonl."
    ),
]
Data = Annotated[
    Path,
    typer.Option(
        "--data",
        metavar="FILE",
        help="The data file; for jsonl also a folder with *.jsonl files.",
    ),
]
Categories = Annotated[
    str,
    typer.Option(
        metavar="A,B",
        help="Only questions of these categories. Default: all, of LoCoMo 1,2,3,4.",
        show_default=False,
    ),
]
Conversations = Annotated[
    int | None, typer.Option("--limit-conversations", min=1, metavar="N", help="Only the first N.")
]
UserTurns = Annotated[
    bool, typer.Option("--user-turns-only", help="Leave out the turns of the assistant.")
]
Captions = Annotated[
    bool, typer.Option("--captions", help="Add LoCoMo's image captions to the turns.")
]
Cache = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Cache the vectors of the turns here.")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write the report here: Markdown, JSON and a plot."),
]


@bench.command()
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
    from ... import evaluation

    if dataset:
        found = [
            asdict(each) for each in evaluation.facts_in(evaluation.load_dataset(dataset, data))
        ]
        if as_json:
            print_json(found)
            return
        for each in found:
            said = " ".join(each["said"].split())[:_SAID]
            mark = "ends" if each["ends"] else each["kind"]
            typer.echo(f"{each['conversation']} {each['turn']}  {mark}: {each['text']}  <- {said}")
        return
    figures = evaluation.measure_facts(data)
    _report(figures, None, evaluation.facts_json, evaluation.facts_markdown, as_json=as_json)


@bench.command()
def recall(
    *,
    dataset: Form,
    data: Data,
    systems: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help=f"Which systems, of {_WHOLE.replace(',', ', ')}.",
            show_default=False,
        ),
    ] = "",
    categories: Categories = "",
    limit_conversations: Conversations = None,
    user_turns_only: UserTurns = False,
    captions: Captions = False,
    archived: Annotated[
        bool,
        typer.Option(
            "--archived", help="Archive every session first, so that only summaries are found."
        ),
    ] = False,
    cache: Cache = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much of the evidence is among the first turns and sessions found."""
    from ... import evaluation

    _make_folders(cache=cache, out=out)
    asked = _load(dataset, data, categories, limit_conversations, user_turns_only, captions)
    names = _split(systems or (_OF_SUMMARIES if archived else _WHOLE))
    embedder = evaluation.shared_embedder(cache)
    made = evaluation.make_systems(names, embedder, archived=archived)
    with _watched(asked.questions * len(made)) as progress:
        run = evaluation.run_recall(asked, made, embedder=embedder, progress=progress)
    _report(run, out, evaluation.recall_json, evaluation.recall_markdown, as_json=as_json)


@bench.command()
def relevance(
    *,
    dataset: Form,
    data: Data,
    systems: Annotated[
        str, typer.Option(metavar="A,B", help=f"Which systems, of {_WHOLE.replace(',', ', ')}.")
    ] = _WITH_SCORES,
    categories: Categories = "",
    limit_conversations: Conversations = None,
    user_turns_only: UserTurns = False,
    captions: Captions = False,
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="X", help="Scores from here on count as relevant."),
    ] = 0.65,
    cache: Cache = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure whether the score tells questions with an answer from those without one."""
    from ... import evaluation

    _make_folders(cache=cache, out=out)
    asked = _load(dataset, data, categories, limit_conversations, user_turns_only, captions)
    embedder = evaluation.shared_embedder(cache)
    made = evaluation.make_systems(_split(systems), embedder)
    with _watched(asked.questions * len(made)) as progress:
        run = evaluation.run_relevance(
            asked, made, threshold=threshold, embedder=embedder, progress=progress
        )
    _report(run, out, evaluation.relevance_json, evaluation.relevance_markdown, as_json=as_json)


@bench.command()
def context(
    *,
    dataset: Form,
    data: Data,
    systems: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help=f"Which systems, of {_OF_BLOCKS.replace(',', ', ')}.",
            show_default="all",
        ),
    ] = _OF_BLOCKS,
    budgets: Annotated[
        str,
        typer.Option(metavar="A,B", help="Budgets in tokens; default is that of scope.context()."),
    ] = "400,800,1600,3200",
    categories: Categories = "",
    limit_conversations: Conversations = None,
    user_turns_only: UserTurns = False,
    captions: Captions = False,
    cache: Cache = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much evidence the context block holds, and how many tokens it costs."""
    from ... import evaluation

    wanted = evaluation.parse_budgets(_split(budgets))
    _make_folders(cache=cache, out=out)
    asked = _load(dataset, data, categories, limit_conversations, user_turns_only, captions)
    embedder = evaluation.shared_embedder(cache)
    made = evaluation.make_context_systems(_split(systems), embedder, dated=asked.asks_for_dates)
    with _watched(evaluation.count_asked(asked) * len(made)) as progress:
        run = evaluation.run_context(
            asked, made, budgets=wanted, embedder=embedder, progress=progress
        )
    _report(run, out, evaluation.context_json, evaluation.context_markdown, as_json=as_json)


@bench.command()
def answers(
    *,
    dataset: Annotated[
        str,
        typer.Option(
            "--dataset",
            metavar="FORMAT",
            help="Format of the file: locomo, longmemeval or jsonl; memory for --db.",
            show_default=False,
        ),
    ] = "",
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="The data file or folder.")
    ] = None,
    questions_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Questions about your own memory, JSON Lines."),
    ] = None,
    systems: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help=f"Which systems, of {_OF_BLOCKS.replace(',', ', ')}, octopus+recall.",
            show_default="all but packed and octopus+recall",
        ),
    ] = "octopus,dense,recent,whole",
    budgets: Annotated[
        str,
        typer.Option(metavar="A,B", help="Budgets in tokens; default is that of scope.context()."),
    ] = "default",
    categories: Categories = "",
    limit_conversations: Conversations = None,
    user_turns_only: UserTurns = False,
    captions: Captions = False,
    questions: Annotated[
        int | None, typer.Option(min=1, help="Only N questions, drawn by category.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    write: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write sheets for readers here.")
    ] = None,
    read: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with the sheets that were written here."),
    ] = None,
    model: Annotated[
        str,
        typer.Option(metavar="NAME", help="Model that reads and answers.", show_default=False),
    ] = "",
    judge_model: Annotated[
        str, typer.Option(metavar="NAME", help="Model that judges.", show_default=False)
    ] = "",
    parallel: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 4,
    planted: Annotated[
        int, typer.Option(min=0, help="Wrong answers to plant in the judge's sheet.")
    ] = 0,
    cache: Cache = None,
    out: Out = None,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Measure answers that a reader gives from the context alone, judged blindly.

    Readers and judges are models behind the endpoint of the settings (in the environment
    OCTOPUS_OPENAI_BASE_URL and OCTOPUS_OPENAI_API_KEY), or anybody who fills in the sheets.
    """
    from ...evaluation import own_memory

    if (write is None) == (read is None):
        raise InvalidInput("write", "or read must be given, and not both")
    _make_folders(cache=cache, write=write, out=out)
    if write is not None:
        if dataset == own_memory.NAME:
            if questions_file is None:
                raise InvalidInput("questions_file", "must be given for a memory of your own")
            with open_existing(db) as memory:
                scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
                asked = own_memory.read_memory(scope, questions_file)
        elif data is None:
            raise InvalidInput("data", "must be given with write")
        else:
            asked = _load(dataset, data, categories, limit_conversations, user_turns_only, captions)
        _write_sheets(asked, write, systems, budgets, questions, seed, cache)
    folder = write or read
    assert folder is not None
    if model:
        _answer_sheets(folder, model, parallel, cache)
    if read is not None or model:
        _read_sheets(folder, planted, seed, judge_model, parallel)
        _show_answers(folder, out or folder, as_json=as_json)


@bench.command()
def lookup(
    folder: Annotated[Path, typer.Argument(help="The folder of the sheets.")],
    record: Annotated[str, typer.Argument(metavar="ID", help="The id on the sheet.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    cache: Cache = None,
) -> None:
    """Search the memory of a sheet, as the recall tool of a model does."""
    from ... import evaluation

    found = evaluation.read_records(folder, record)
    if not found:
        raise InvalidInput("id", f"must be the id of a sheet in {folder / 'reader'}")
    typer.echo(evaluation.look_up(folder, found[0], query, evaluation.shared_embedder(cache)))


def _write_sheets(
    asked: Dataset,
    folder: Path,
    systems: str,
    budgets: str,
    questions: int | None,
    seed: int,
    cache: Path | None,
) -> None:
    from ... import evaluation

    wanted = evaluation.parse_budgets(_split(budgets))
    drawn = evaluation.sample(asked, questions, seed)
    embedder = evaluation.shared_embedder(cache)
    made = evaluation.make_context_systems(
        _split(systems), embedder, dated=True, memories=folder / evaluation.MEMORIES
    )
    with _watched((drawn.questions + drawn.unanswerable) * len(made)) as progress:
        records = evaluation.make_records(
            drawn, made, budgets=wanted, seed=seed, embedder=embedder, progress=progress
        )
    evaluation.write_sheets(folder, records, evaluation.describe(drawn, made, embedder))
    typer.echo(
        f"{len(records)} records in {folder / 'reader'}; READER.md says how to answer them",
        err=True,
    )


def _answer_sheets(folder: Path, model: str, parallel: int, cache: Path | None) -> None:
    from ... import evaluation
    from ...evaluation.models import ChatModel
    from ...settings import load

    total = len(evaluation.read_records(folder))
    with closing(ChatModel(model, load())) as reader, _counted("answering", total) as told:
        evaluation.answer_all(
            folder, reader, evaluation.shared_embedder(cache), told, parallel=parallel
        )


def _read_sheets(folder: Path, planted: int, seed: int, judge_model: str, parallel: int) -> None:
    from ... import evaluation
    from ...evaluation.models import ChatModel
    from ...settings import load

    sheet = evaluation.judge_sheet(folder, planted=planted, seed=seed)
    typer.echo(
        f"{len(sheet.lines)} answers in {folder / 'judge.jsonl'}; "
        f"quotes that do not stand in their context: {len(sheet.bad_quotes)}"
        + "".join(f"\n  {name}" for name in sheet.bad_quotes),
        err=True,
    )
    if judge_model:
        total = len(sheet.lines)
        with closing(ChatModel(judge_model, load())) as judge, _counted("judging", total) as told:
            evaluation.judge_all(folder, sheet, judge, told, parallel=parallel)


def _show_answers(folder: Path, out: Path, *, as_json: bool) -> None:
    from ... import evaluation

    run = evaluation.read_answer_run(folder, evaluation.judge_sheet(folder))
    if run is None:
        typer.echo(f"no verdicts in {folder / 'verdicts'}: JUDGE.md says how to judge", err=True)
        return
    _report(run, out, evaluation.answers_json, evaluation.answers_markdown, as_json=as_json)


def _load(
    form: str,
    data: Path,
    categories: str,
    conversations: int | None,
    user_turns_only: bool,
    captions: bool,
) -> Dataset:
    from ... import evaluation

    found = evaluation.load_dataset(
        form,
        data,
        categories=_split(categories),
        user_turns_only=user_turns_only,
        captions=captions,
    )
    return found if conversations is None else found.first(conversations)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


@contextmanager
def _counted(what: str, total: int) -> Iterator[Callable[[int, int], None]]:
    with bar(what, total) as show:
        yield lambda done, _of: show(done)


@contextmanager
def _watched(total: int) -> Iterator[Progress]:
    """Show one progress bar for all systems."""
    finished, last = 0, 0
    with bar("asking", total) as show:

        def progress(_system: str, done: int, _of: int) -> None:
            nonlocal finished, last
            # The number falls when the next system begins.
            finished, last = finished + (last if done <= last else 0), done
            show(finished + done)

        yield progress


def _make_folders(**wanted: Path | None) -> None:
    """Create the folders before the run, because a result that cannot be written is lost."""
    for option, folder in wanted.items():
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(option, f"cannot create {folder}: {error.strerror}") from error


def _report(
    run: Any,
    folder: Path | None,
    as_dict: Callable[[Any], Any],
    markdown: Callable[[Any], str],
    *,
    as_json: bool,
) -> None:
    """Write a report into the folder, if one is given, and print it."""
    from ... import evaluation

    if folder is not None:
        try:
            evaluation.write_report(run, folder)
        except MissingExtra as error:
            # The figures are written. Only the plot is missing.
            typer.echo(f"no plot: {error}", err=True)
    if as_json:
        print_json(as_dict(run))
    else:
        typer.echo(markdown(run))
