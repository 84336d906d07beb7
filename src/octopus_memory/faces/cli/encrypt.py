"""`octopus encrypt`: seal what was stored before scope keys were on."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import typer

from ...domain.errors import InvalidSetting
from ..given import actor_of, as_url
from .database import AsJson, Db, open_existing
from .terminal import Screen, counted, print_json

if TYPE_CHECKING:
    from ...engine.encryption import EncryptProgress

_NOT_COMPLETE = 1


def encrypt(*, db: Db = None, as_json: AsJson = False) -> None:
    """Seal what was stored before scope keys were on. The memory works meanwhile.

    First give every process keys = "local" or "vault", and restart it: one without keys would go
    on to write in the clear. Run it again if it was interrupted: it continues. The exit code is 1
    if all is sealed, but the files could not be rewritten because the database was in use.

    octopus encrypt
    """
    from ...settings import load

    if load(database_url=as_url(db)).keys == "off":
        raise InvalidSetting(
            "keys",
            'must be local or vault to seal a database: write keys = "local" into octopus.toml, or '
            "set OCTOPUS_KEYS. octopus scope-keys init makes the keys",
        )
    errors = Screen(stderr=True)
    waiting = errors.console.status("sealing…") if errors.is_terminal else None
    with open_existing(db) as memory, waiting or nullcontext():

        def show(done: EncryptProgress) -> None:
            if waiting is not None:
                left = counted(done.users_left, "user")
                waiting.update(f"sealing… {counted(done.rows, 'row')} done, {left} left")

        try:
            done = memory.encrypt(show, actor=actor_of("cli"))
        except KeyboardInterrupt:
            typer.echo("Interrupted. Run octopus encrypt again: it continues here.", err=True)
            raise typer.Exit(130) from None
    if as_json:
        print_json({"rows": done.rows, "users_left": done.users_left, "done": done.is_done})
    else:
        _tell(Screen(), done)
    if not done.is_done:
        raise typer.Exit(_NOT_COMPLETE)


def _tell(screen: Screen, done: EncryptProgress) -> None:
    if done.rows:
        screen.write(f"Sealed {counted(done.rows, 'row')}.")
    else:
        screen.write("Everything was sealed already.")
    if not done.is_done:
        screen.write(
            "The files could not be rewritten because the database is in use, so they still hold "
            "what was readable. Run octopus encrypt again later."
        )
        return
    screen.write(
        "Copies made from now on cannot be read without the keys. Copies made before still hold "
        "everybody in the clear: backups, replicas, snapshots, shipped logs, exports. Delete them, "
        "or wait until they have expired; no erasure reaches them."
    )
