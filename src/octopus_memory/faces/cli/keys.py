"""`octopus keys`: create, list, rotate and revoke API keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer

from ...domain.identity import AccessRole, ApiKey, NewKey
from ..given import actor_of
from .database import AsJson, Db, open_existing, open_or_make, parse_until
from .terminal import Screen, print_json

keys = typer.Typer(
    help="API keys of the REST service. Keys that seal users: octopus scope-keys.",
    no_args_is_help=True,
)
KeyId = Annotated[str, typer.Argument(help="Id of the key, from octopus keys list.")]


@keys.command()
def create(
    *,
    name: Annotated[str, typer.Option(help="A name that tells what the key is for.")],
    role: Annotated[AccessRole, typer.Option(help="What the key may do.")] = AccessRole.AGENT,
    tenant: Annotated[str, typer.Option(help="Tenant whose data the key opens.")] = "default",
    agent: Annotated[
        list[str] | None,
        typer.Option(help="Limit the key to this agent. May be given several times."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Limit the key to this user. Required for the role user.")
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(parser=parse_until, metavar="TIME", help="When the key expires."),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. Its token is shown only once.

    octopus keys create --name "hr bot" --role agent --agent hr
    """
    with open_or_make(db) as memory:
        made = memory.api_keys.create(
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
    tenant: Annotated[str | None, typer.Option(help="Only keys of this tenant.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """List the keys, without their tokens."""
    with open_existing(db) as memory:
        found, now = memory.api_keys.list(tenant), memory.now()
    if as_json:
        print_json({"keys": [_plain(key, now) for key in found]})
        return
    screen = Screen()
    if not found:
        screen.write("No keys yet. octopus keys create makes one.")
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
        float, typer.Option(help="Hours until the old key stops working.", min=0)
    ] = 24,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Replace a key by a new one with the same rights."""
    with open_existing(db) as memory:
        made = memory.api_keys.rotate(
            key_id, grace=timedelta(hours=grace_hours), actor=actor_of("cli")
        )
    _show_new(made, as_json=as_json)


@keys.command()
def revoke(key_id: KeyId, *, db: Db = None, as_json: AsJson = False) -> None:
    """Revoke a key. Running services refuse it within two seconds."""
    with open_existing(db) as memory:
        memory.api_keys.revoke(key_id, actor=actor_of("cli"))
    if as_json:
        print_json({"revoked": key_id})
    else:
        Screen().write(f"Revoked key {key_id}.")


def _show_new(made: NewKey, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": made.key.id, "token": made.token, "role": made.key.role.value})
        return
    screen = Screen()
    screen.write(f"Key {made.key.id} ({made.key.role}, tenant {made.key.tenant})")
    # On a line of its own and not wrapped, so that it can be copied.
    typer.echo(made.token)
    screen.write("Save the token now: only its hash is stored.")


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
