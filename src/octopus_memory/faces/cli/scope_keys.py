"""`octopus scope-keys`: the keys that seal what is stored of each user, and their master key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.errors import InvalidInput, InvalidSetting
from ..given import actor_of, as_url
from .database import AsJson, Db, open_existing
from .terminal import Screen, counted, print_json

if TYPE_CHECKING:
    from ...settings import Settings

scope_keys = typer.Typer(
    help="Keys that seal what is stored of each user. API keys: octopus keys.",
    no_args_is_help=True,
)


@scope_keys.command()
def init(*, db: Db = None, as_json: AsJson = False) -> None:
    """Make a local key store and its master key. Nothing is overwritten.

    octopus scope-keys init
    """
    from ...wiring_keys import init_keys, keys_path, master_path

    settings = _local(db)
    path = keys_path(settings)
    if path.exists():
        raise InvalidInput(
            "keys_path",
            f"must name a new file: {path} holds keys already, and is never overwritten. octopus "
            "scope-keys status shows it",
        )
    init_keys(settings)
    master = None if settings.keys_master else master_path(settings)
    if as_json:
        print_json({"keys": str(path), "master": master and str(master)})
        return
    screen = Screen()
    screen.write("made ", (str(path), "bold"), ", the key store")
    if master is not None:
        screen.write("     ", (str(master), "bold"), ", the master key that opens it")
    screen.gap()
    screen.write(
        "Whoever loses one of them loses every memory that is sealed. Put a copy of the master key "
        "where you keep passwords, and run octopus scope-keys backup each day. Keep neither with "
        "the backups of the database."
    )
    if settings.keys == "off":
        screen.write('To use them, write keys = "local" into octopus.toml, or set OCTOPUS_KEYS.')


@scope_keys.command()
def status(*, db: Db = None, as_json: AsJson = False) -> None:
    """Show where the keys are, how many, and what is wrong. No key is shown.

    The exit code is 1 if something is wrong.

    octopus scope-keys status
    """
    from ...wiring_keys import find_keys

    settings = _settings(db)
    keys = find_keys(settings)
    if keys is None:
        if as_json:
            print_json({"keys": "off"})
        else:
            screen = Screen()
            screen.write("Scope keys are off: copies of the database can be read by anyone.")
            screen.write(
                'octopus scope-keys init makes keys, keys = "local" in octopus.toml turns them on, '
                "and octopus encrypt seals what is stored already."
            )
        return
    state = keys.check()
    keys.close()
    if as_json:
        print_json({**state._asdict(), "problems": list(state.problems)})
    else:
        screen = Screen()
        screen.write(("keys      ", "dim"), state.place)
        screen.write(("master    ", "dim"), state.master)
        told = "unknown" if state.keys is None else counted(state.keys, "scope")
        screen.write(("in use    ", "dim"), told)
        if state.destroyed is not None:
            screen.write(("destroyed ", "dim"), f"{state.destroyed:,}")
        for problem in state.problems:
            screen.row(("problem   ", "bold red"), text=problem)
    if state.problems:
        raise typer.Exit(1)


@scope_keys.command("rotate-master")
def rotate_master(*, db: Db = None, as_json: AsJson = False) -> None:
    """Replace the master key of a local key store. Processes may go on meanwhile.

    Backups of the key store that were made before cannot be opened by the new one.

    octopus scope-keys rotate-master
    """
    from ...wiring_keys import local_keys

    done = local_keys(_local(db)).rotate()
    if as_json:
        print_json({"keys": done.keys, "old_removed": done.old_removed})
        return
    screen = Screen()
    screen.write(f"Wrapped {counted(done.keys, 'key')} by the new master key.")
    if not done.old_removed:
        screen.write("Take the old one out of OCTOPUS_KEYS_MASTER now: nothing needs it any more.")
    screen.write(
        "Backups of the key store that were made before need the old master key: make a new backup "
        "now, and put a copy of the new master key where you keep passwords."
    )


@scope_keys.command()
def backup(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="Where to; by default the setting keys_backup_folder.",
            show_default=False,
        ),
    ] = None,
    *,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Copy a local key store, and remove its backups there that have expired.

    A copy holds keys that are destroyed later. It is worthless without the master key.

    octopus scope-keys backup /mnt/keys
    """
    from ...wiring_keys import local_keys

    settings = _local(db)
    if folder is None:
        if not settings.keys_backup_folder:
            raise InvalidInput("DIR", "must be given, or the setting keys_backup_folder")
        folder = Path(settings.keys_backup_folder)
    copy, expired = local_keys(settings).backup(folder)
    if as_json:
        print_json({"backup": str(copy), "removed": [str(path) for path in expired]})
        return
    screen = Screen()
    screen.write("made ", (str(copy), "bold"))
    if expired:
        screen.write(
            f"Removed {counted(len(expired), 'backup')} older than "
            f"{counted(settings.keys_backup_days, 'day')}."
        )


@scope_keys.command("destroy-erased")
def destroy_erased(*, db: Db = None, as_json: AsJson = False) -> None:
    """Destroy keys of erased users again, after a backup of the key store was restored.

    octopus scope-keys destroy-erased
    """
    with open_existing(db) as memory:
        count = memory.destroy_returned_keys(actor=actor_of("cli"))
    if as_json:
        print_json({"destroyed": count})
    else:
        Screen().write(f"Destroyed {counted(count, 'key')} of erased users.")


def _settings(db: str | None) -> Settings:
    from ...settings import load

    return load(database_url=as_url(db))


def _local(db: str | None) -> Settings:
    settings = _settings(db)
    if settings.keys not in {"local", "off"}:
        raise InvalidSetting("keys", f"must be local for this: {settings.keys} keeps its own keys")
    return settings
