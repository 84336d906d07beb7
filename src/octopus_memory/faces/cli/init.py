"""`octopus init`: write the settings and a first program into a folder."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...domain.errors import InvalidInput
from .database import AsJson
from .terminal import Screen, can_ask, print_json

_SETTINGS = "octopus.toml"
_KEYS = """\
# What is stored of each user is sealed with a key of theirs, kept elsewhere, so that an erasure
# reaches every backup of the database. `octopus scope-keys status` says where the keys are.
# Back them up: a lost key is a lost memory (docs/howto/scope-keys.md).
keys = "local"

"""
_ON_KEYS = (
    "Scope keys are on: what is stored is sealed with keys that are not beside the database. "
    "octopus scope-keys status says where they are. Back them up: a lost key is a lost memory."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A kind of program that `octopus init` can write."""

    name: str
    is_for: str
    source: str
    """The template's file."""
    file: str
    install: str
    """The requirements, separated by blanks."""
    run: Sequence[str]
    seals: bool = False
    """Whether the settings have scope keys on."""

    @property
    def next(self) -> tuple[str, ...]:
        """The commands to run next."""
        wanted = " ".join(f"'{each}'" for each in self.install.split())
        return (f"pip install {wanted}", *self.run)


_FOLDER = Path(__file__).with_name("starters")
STARTERS = tuple(
    Starter(name=name, **kind)
    for name, kind in tomllib.loads((_FOLDER / "kinds.toml").read_text("utf-8")).items()
)


def init(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help=f"One of {', '.join(starter.name for starter in STARTERS)}; asked for by default.",
        ),
    ] = None,
    *,
    folder: Annotated[
        Path, typer.Option("--folder", metavar="DIR", help="Write the files here.")
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write octopus.toml and a program to start from, and say what to run next.

    Nothing is overwritten: where one of the two files exists, no file is written.
    """
    starter = _starter(kind)
    paths = _write(starter, folder)
    if as_json:
        print_json({"kind": starter.name, "files": paths, "next": starter.next})
        return
    screen = Screen()
    for path in paths:
        screen.write("wrote ", (path, "bold"))
    if starter.seals:
        screen.gap()
        screen.write(_ON_KEYS)
    screen.gap()
    screen.write(("Next:", "bold"))
    for command in starter.next:
        screen.write((command, "bold cyan"), indent=2)


def _starter(kind: str | None) -> Starter:
    names = [starter.name for starter in STARTERS]
    if kind is None:
        kind = _ask()
    if kind not in names:
        raise InvalidInput("KIND", f"must be one of {', '.join(names)}")
    return STARTERS[names.index(kind)]


def _ask() -> str:
    names = ", ".join(starter.name for starter in STARTERS)
    if not can_ask():
        raise InvalidInput("KIND", f"must be given where stdin is no terminal: one of {names}")
    screen = Screen()
    screen.write(("What do you want to build?", "bold"))
    for number, starter in enumerate(STARTERS, 1):
        screen.row((f"{number}  ", "cyan"), (f"{starter.name:<15}", "bold"), text=starter.is_for)
    chosen: str = typer.prompt("Number or name", default="1")
    if chosen.isdecimal() and 1 <= int(chosen) <= len(STARTERS):
        return STARTERS[int(chosen) - 1].name
    return chosen.strip().lower()


def _write(starter: Starter, folder: Path) -> list[str]:
    wanted = {folder / _SETTINGS: _SETTINGS, folder / starter.file: starter.source}
    for path in wanted:
        if os.path.lexists(path):
            raise InvalidInput("--folder", f"must not hold {path.name} yet: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, source in wanted.items():
        text = (_FOLDER / source).read_text(encoding="utf-8")
        if path.suffix == ".json":
            text = _with_paths(text, folder)
        if path.name == _SETTINGS and starter.seals:
            # Before the first table, to which it would belong otherwise.
            text = text.replace("[", f"{_KEYS}[", 1)
        # Only a new file, because a link would lead to one outside of the folder.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    return [str(path) for path in wanted]


def _with_paths(text: str, folder: Path) -> str:
    """Return the client's configuration with whole paths of the database and the program.

    A client may start the server in another folder, where it would find neither `octopus.toml` nor
    the database. It does not see an environment that is only active in this terminal, so outside
    of the user's path it needs the whole path of the program.
    """
    text = text.replace('"memory.db"', json.dumps(str(folder.resolve() / "memory.db")), 1)
    if sys.prefix == sys.base_prefix:
        return text
    program = Path(sys.executable).with_name("octopus")
    return text.replace('"octopus"', json.dumps(str(program)), 1) if program.exists() else text
