"""The commands about API keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from ...domain.identity import AccessRole, ApiKey
from ...engine.privacy import api_keys
from ..actor import actor_of
from .database import open_existing, open_or_make
from .json_output import print_json
from .options import AsJson, Db, parse_until
from .terminal import Screen

keys = typer.Typer(
    help="API keys of the service: made, listed, rotated, revoked.", no_args_is_help=True
)
KeyId = Annotated[str, typer.Argument(help="The key's id, as octopus keys list shows it.")]


@keys.command()
def create(
    *,
    name: Annotated[str, typer.Option(help="What it is for.")],
    role: Annotated[AccessRole, typer.Option(help="What it may do.")] = AccessRole.AGENT,
    tenant: Annotated[str, typer.Option(help="Whose data it opens.")] = "default",
    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="An agent it is for; again for more. Without it, all.", show_default=False
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help="The one user it is for; needed for the role user.", show_default=False),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(parser=parse_until, metavar="TIME", help="When it ends.", show_default=False),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. Its token is shown this once.

    octopus keys create --name "hr bot" --role agent --agent hr
    """
    with open_or_make(db) as memory:
        made = api_keys.make_key(
            memory.parts,
            tenant=tenant,
            role=role,
            name=name,
            agents=agent or None,
            user=user,
            expires_at=expires,
            actor=actor_of("cli"),
        )
    _show_new(made, as_json=as_json)


@keys.command("list")
def list_keys(
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Of this tenant alone.", show_default=False)
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Every key, without its token."""
    with open_existing(db) as memory:
        found = memory.parts.store.list_keys(tenant)
        now = memory.parts.clock.now()
    if as_json:
        print_json({"keys": [_plain(key, now) for key in found]})
        return
    screen = Screen()
    if not found:
        screen.write("There is no key yet: octopus keys create makes one.")
    for key in found:
        whom = ", ".join(
            part
            for part in (
                f"tenant {key.tenant}",
                f"agents {', '.join(key.agents)}" if key.agents else "",
                f"user {key.user}" if key.user else "",
            )
            if part
        )
        screen.write(f"{key.id}  {key.role:<8} {_state(key, now):<8} {key.name} ({whom})")


@keys.command()
def rotate(
    key_id: KeyId,
    *,
    grace_hours: Annotated[
        float, typer.Option(help="How long the old one still works.", min=0)
    ] = 24,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Make a new key with the same rights; the old one ends after the grace."""
    with open_existing(db) as memory:
        made = api_keys.rotate_key(
            memory.parts, key_id, grace=timedelta(hours=grace_hours), actor=actor_of("cli")
        )
    _show_new(made, as_json=as_json)


@keys.command()
def revoke(key_id: KeyId, *, db: Db = None, as_json: AsJson = False) -> None:
    """End a key now. A service that is running refuses it within two seconds."""
    with open_existing(db) as memory:
        api_keys.revoke_key(memory.parts, key_id, actor=actor_of("cli"))
    if as_json:
        print_json({"revoked": key_id})
    else:
        Screen().write(f"Key {key_id} is revoked.")


def _show_new(made: api_keys.NewKey, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": made.key.id, "token": made.token, "role": made.key.role.value})
        return
    screen = Screen()
    screen.write(f"Key {made.key.id} ({made.key.role}, tenant {made.key.tenant})")
    # By itself on a line, whole, so that it can be copied.
    typer.echo(made.token)
    screen.write("Keep it now: it is stored hashed and cannot be shown again.")


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "valid" if key.is_valid(now) else "expired"


def _plain(key: ApiKey, now: datetime) -> dict[str, object]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "role": key.role.value,
        "name": key.name,
        "agents": key.agents,
        "user": key.user,
        "state": _state(key, now),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }
