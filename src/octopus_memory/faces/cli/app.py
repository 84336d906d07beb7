"""The program `octopus`: its commands, and how their errors are shown."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from ...domain.errors import EpisodeNotFound, FactNotFound, OctopusError, SessionNotFound
from .database import JSON_WANTED
from .terminal import clean, print_json

_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")
Loaded: TypeAlias = Callable[..., None] | typer.Typer
"""A command's function, or a group of commands."""


class _Lazy(Mapping[str, Any]):
    """Commands by name, each imported when it is first used."""

    def __init__(self, panels: Mapping[str, Sequence[str]], load: Callable[[str], Loaded]) -> None:
        self._panels = {name: panel for panel, names in panels.items() for name in names}
        self._load = load
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name, self._panels[name], self._load(name))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._panels)

    def __len__(self) -> int:
        return len(self._panels)

    def __contains__(self, name: object) -> bool:
        return name in self._panels


def _command(name: str, panel: str, loaded: Loaded) -> Any:
    made: Any
    if isinstance(loaded, typer.Typer):
        made = typer.main.get_group(loaded)
        made.name, made.rich_help_panel = name, panel
        return made
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, rich_help_panel=panel)(loaded)
    return typer.main.get_command(alone)


class _Commands(TyperGroup):
    """Reports an error of Octopus as one line or one JSON object, and exits with 1."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.commands)

    def get_params(self, ctx: Any) -> Any:
        return _switches_without_values(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            for each in (command, *getattr(command, "commands", {}).values()):
                _switches_without_values(each.get_params(ctx))
                # Lines end where the terminal does, and not where those of a docstring do.
                each.help = _LINE_END.sub(" ", each.help or "")
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OctopusError as error:
            report(error, as_json=ctx.meta.get(JSON_WANTED, False))
            raise typer.Exit(1) from error
        except BrokenPipeError:
            # The reader of the output has closed it, which is no error.
            raise
        except OSError as error:
            typer.echo(f"error: {clean(str(error))}", err=True)
            raise typer.Exit(1) from error


def _switches_without_values(params: Any) -> Any:
    """Hide the type of flags, which Typer would show as `<bool>`."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


def report(error: OctopusError, *, as_json: bool) -> None:
    """Print an error: a line on standard error, or JSON on standard output."""
    message = _message(error)
    if as_json:
        print_json({"error": {"type": type(error).__name__, "message": message}})
    else:
        typer.echo(f"error: {clean(message)}", err=True)


def _message(error: OctopusError) -> str:
    if isinstance(error, SessionNotFound):
        return (
            f"no session {error.session_id!r} here: octopus recent lists the sessions of one "
            "--tenant, --agent and --user"
        )
    if isinstance(error, EpisodeNotFound):
        return (
            f"no episode {str(error.episode_id)!r} here: octopus recent lists the episodes of one "
            "--tenant, --agent and --user, octopus restore the deleted and archived ones"
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


def make_app(panels: Mapping[str, Sequence[str]], load: Callable[[str], Loaded]) -> typer.Typer:
    """Return the program: the names of its commands by panel, and how to import one."""

    class Commands(_Commands):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands: Any = _Lazy(panels, load)

    app = typer.Typer(
        name="octopus",
        cls=Commands,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_octopus)
    return app


def run(app: typer.Typer) -> None:
    """Run the command line."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the encoding lacks must not end the program.
            stream.reconfigure(errors="replace")
    logging.addLevelName(logging.WARNING, "warning")
    logging.addLevelName(logging.ERROR, "error")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    app()
