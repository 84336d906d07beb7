"""The command `octopus`: its commands, and how their errors are shown."""

from __future__ import annotations

import io
import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ...domain.errors import EpisodeNotFound, FactNotFound, OctopusError, SessionNotFound
from . import (
    audit,
    bench,
    chat,
    config,
    config_set,
    demo,
    doctor,
    erase,
    facts,
    index,
    keys,
    migrate,
    read,
    reembed,
    retention,
    scrub,
    transfer,
    worker,
    write,
)
from .json_output import print_json
from .options import JSON_WANTED
from .terminal import clean


class _Commands(TyperGroup):
    """Turns the errors of Octopus into one line, or one JSON object, and exit code 1."""

    def get_params(self, ctx: Any) -> Any:
        return _switches_without_values(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            for each in (command, *getattr(command, "commands", {}).values()):
                _switches_without_values(each.get_params(ctx))
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OctopusError as error:
            report(error, as_json=ctx.meta.get(JSON_WANTED, False))
            raise typer.Exit(1) from error
        except BrokenPipeError:
            # Whoever read the output has what they wanted.
            raise
        except OSError as error:
            typer.echo(f"error: {clean(str(error))}", err=True)
            raise typer.Exit(1) from error


def _switches_without_values(params: Any) -> Any:
    """Typer's help shows the type of every option, `<bool>` for one that takes no value."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


def report(error: OctopusError, *, as_json: bool) -> None:
    """Say what went wrong: a line on standard error, or JSON on standard output."""
    message = _words(error)
    if as_json:
        print_json({"error": {"type": type(error).__name__, "message": message}})
    else:
        typer.echo(f"error: {clean(message)}", err=True)


def _words(error: OctopusError) -> str:
    if isinstance(error, SessionNotFound):
        return (
            f"no session {error.session_id!r} here: octopus recent lists the sessions of one "
            "--tenant, --agent and --user"
        )
    if isinstance(error, EpisodeNotFound):
        return (
            f"no episode {str(error.episode_id)!r} here: octopus recent lists the episodes of one "
            "--tenant, --agent and --user, octopus restore those that can be restored"
        )
    if isinstance(error, FactNotFound):
        return (
            f"no fact {str(error.fact_id)!r} here: octopus facts list shows the facts of one "
            "--tenant, --agent and --user"
        )
    return " ".join(str(error).split())


def _print_version(wanted: bool) -> None:
    if wanted:
        from ... import __version__

        typer.echo(f"octopus {__version__}")
        raise typer.Exit


def _octopus(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Episodic memory for AI agents: what was said, with whom, and when.

    New here? Run octopus demo: it needs no key, no server and no network.
    """
    del version


app = typer.Typer(
    name="octopus",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(_octopus)
for _panel, _commands in {
    "Start": (demo.demo, chat.chat, doctor.doctor),
    "Look": (read.recall, read.recent, read.replay, read.stats),
    "Work": (write.add, write.run_pending),
    "Keep": (retention.delete, retention.restore, erase.erase, scrub.scrub, erase.compact),
    "Run": (worker.worker, reembed.reembed),
}.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel)(_command)
app.add_typer(facts.facts, name="facts", rich_help_panel="Look")
app.add_typer(retention.retention, name="retention", rich_help_panel="Keep")
app.add_typer(retention.holds, name="holds", rich_help_panel="Keep")
config.config.command("set")(config_set.set_config)
app.add_typer(config.config, name="config", rich_help_panel="Run")
app.add_typer(erase.receipts, name="receipts", rich_help_panel="Keep")
app.add_typer(audit.audit, name="audit", rich_help_panel="Keep")
app.add_typer(keys.keys, name="keys", rich_help_panel="Run")
app.command("export", rich_help_panel="Carry")(transfer.export)
app.command("import", rich_help_panel="Carry")(transfer.import_)
app.command("migrate", rich_help_panel="Carry")(migrate.migrate)
app.add_typer(index.index, name="index", rich_help_panel="Run")
app.add_typer(bench.bench, name="bench", rich_help_panel="Measure")


def run() -> None:
    """Run the command line."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the other side cannot write must not end the program.
            stream.reconfigure(errors="replace")
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.ERROR, "error")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    app()
