"""`octopus retention`, `octopus delete`, `octopus restore` and `octopus holds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from ...domain.episode import Episode
from ...domain.errors import InvalidSetting
from ...domain.policy import EpisodicRetentionPolicy
from ...domain.retention import RetentionReport
from ..given import actor_of
from .database import Agent, AsJson, Db, Tenant, User, open_existing
from .progress import bar
from .terminal import Screen, clean, counted, print_json

if TYPE_CHECKING:
    from ...engine.scope import MemoryScope
    from ...wiring import EpisodicMemory

retention = typer.Typer(
    help="Archive, delete and purge old episodes by policy.", no_args_is_help=True
)
holds = typer.Typer(help="Legal holds, which prevent retention and erasure.", no_args_is_help=True)
_FAILED = 1
_LISTED = 20


@retention.command()
def run(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would happen.")
    ] = False,
    no_compact: Annotated[
        bool, typer.Option("--no-compact", help="Do not rewrite the database files afterwards.")
    ] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Archive, delete and purge what is due, and close idle sessions.

    octopus retention run --dry-run
    """
    with open_existing(db) as memory:
        if dry_run:
            report = memory.run_retention(dry_run=True)
        else:
            report = _run(memory, compact=False if no_compact else None)
    if as_json:
        print_json(report)
    else:
        _show(Screen(), report)
    if report.counts.failed:
        raise typer.Exit(_FAILED)


def _run(memory: EpisodicMemory, *, compact: bool | None) -> RetentionReport:
    screen = Screen(stderr=True)
    # The count is only needed for the progress bar of a terminal.
    total = memory.run_retention(dry_run=True).counts.moved if screen.is_terminal else 0
    with bar("retention", total) as done:
        return memory.run_retention(
            progress=lambda sofar: done(sofar.counts.moved), compact=compact, actor=actor_of("cli")
        )


@retention.command()
def status(*, db: Db = None, as_json: AsJson = False) -> None:
    """Show the policies, what is due, and when the next run is.

    octopus retention status
    """
    with open_existing(db) as memory:
        policies = _policies(memory)
        due = memory.run_retention(dry_run=True)
        following = memory.next_retention()
    if as_json:
        listed = [
            {"tenant": tenant, "agent": agent, "policy": policy}
            for (tenant, agent), policy in policies
        ]
        print_json({"next_run": following, "policies": listed, "due": due})
        return
    screen = Screen()
    when = "none scheduled" if following is None else f"{following:%Y-%m-%d %H:%M} UTC"
    screen.write(("next run  ", "dim"), when)
    for (tenant, agent), policy in policies:
        screen.write(("policy    ", "dim"), f"{_whose(tenant, agent)}: {_in_words(policy)}")
    screen.gap()
    _show(screen, due)


def _policies(
    memory: EpisodicMemory,
) -> list[tuple[tuple[str | None, str | None], EpisodicRetentionPolicy | None]]:
    """Return the default policy, then those of agents, by tenant and agent."""
    return [
        ((None, None), memory.default_config().retention),
        *((whose, _policy(memory, *whose)) for whose in memory.configured_agents()),
    ]


def _policy(
    memory: EpisodicMemory, tenant: str | None, agent: str
) -> EpisodicRetentionPolicy | None:
    """Return the policy; None if the stored settings of the agent are invalid."""
    try:
        return memory.config(agent, tenant=tenant).retention
    except InvalidSetting:
        return None


def _whose(tenant: str | None, agent: str | None) -> str:
    if agent is None:
        return "every other agent"
    return f"agent {agent}" if tenant is None else f"agent {agent} of tenant {tenant}"


def _in_words(policy: EpisodicRetentionPolicy | None) -> str:
    if policy is None:
        return "its settings are invalid: its episodes stay until it is configured again"
    active, archive = policy.active_retention_days, policy.archive_retention_days
    last = f"removed {policy.purge_grace_days:g} days after that"
    if not policy.archive_on_expiry:
        return f"deleted after {active:g} days, {last}"
    words = f"archived ({policy.archive_mode}) after {active:g} days, "
    if not policy.delete_after_archival_period:
        return words + "kept for good"
    return f"{words}deleted after {archive:g}, {last}"


_COLUMNS = {
    "timed_out": "closed",
    "archived": "archived",
    "deleted": "deleted",
    "purged": "purged",
    "held": "held",
    "failed": "failed",
    "facts": "facts gone",
}


def _show(screen: Screen, report: RetentionReport) -> None:
    if report.elsewhere:
        screen.write("Another process is running retention, so nothing was done.")
        return
    if not report.agents:
        screen.write("Nothing is due.")
    else:
        screen.write("A run would do this now:" if report.dry_run else "Done:")
        _table(screen, report)
    if not report.complete:
        screen.write("Another process has taken over the rest.")
    if report.counts.failed:
        what = counted(report.counts.failed, "episode")
        screen.write(f"{what} failed: see the log. The next run tries again.")
    if report.compacted is False:
        screen.write(
            "The files were not rewritten: run octopus compact, which does it or says why not."
        )


def _table(screen: Screen, report: RetentionReport) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("tenant", "agent"):
        table.add_column(name, no_wrap=not screen.is_terminal)
    for name in _COLUMNS.values():
        table.add_column(name, justify="right")
    rows: list[tuple[str, str, object]] = [
        (one.tenant, one.agent, one.counts) for one in report.agents
    ]
    if len(rows) > 1:
        rows.append(("all", "", report.counts))
    for tenant, agent, counts in rows:
        numbers = [f"{getattr(counts, field):,}" for field in _COLUMNS]
        table.add_row(Text(clean(tenant)), Text(clean(agent)), *numbers)
    screen.console.print(table, soft_wrap=not screen.is_terminal)


def restore(
    episode_id: Annotated[
        str | None,
        typer.Argument(help="Id of the episode. Default: list those that can be restored."),
    ] = None,
    *,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Restore an episode that was deleted, or archived with its messages.

    octopus restore 0196a3c5-5a8e-7c1b-9a53-0d4a6f0f6d52 --user dana
    """
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        if episode_id is None:
            found, restored = _restorable(scope), None
        else:
            found, restored = [], scope.restore(episode_id, actor=actor_of("cli"))
    if as_json:
        print_json(found if restored is None else restored)
        return
    screen = Screen()
    if restored is not None:
        kept = "its summary" if restored.is_archived else f"{restored.message_count:,} messages"
        screen.write(f"Restored episode {restored.id} of session {restored.session_id}: {kept}.")
    elif not found:
        screen.write(f"Nothing to restore for tenant {tenant}, agent {agent}, user {user}.")
    for episode in found:
        _show_episode(screen, episode, "archived" if episode.is_archived else "deleted")


def delete(
    episode_id: Annotated[
        str | None,
        typer.Argument(help="Id of the episode. Default: list the last ones with their ids."),
    ] = None,
    *,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Hide an episode from every read. octopus restore brings it back in the grace period.

    octopus delete 0196a3c5-5a8e-7c1b-9a53-0d4a6f0f6d52 --user dana
    """
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        if episode_id is not None:
            scope.delete(episode_id, actor=actor_of("cli"))
        found = list(scope.episodes(1, _LISTED)) if episode_id is None else []
        grace = memory.config(agent, tenant=tenant).retention.purge_grace_days
    if as_json:
        print_json(found if episode_id is None else {"deleted": episode_id, "grace_days": grace})
        return
    screen = Screen()
    if episode_id is not None:
        screen.write(
            f"Deleted episode {episode_id}. octopus restore brings it back for {grace:g} days; "
            "octopus erase --episode removes it for good."
        )
    elif not found:
        screen.write(f"Nothing stored for tenant {tenant}, agent {agent}, user {user}.")
    for episode in found:
        _show_episode(screen, episode, "archived" if episode.is_archived else "active")


def _restorable(scope: MemoryScope) -> list[Episode]:
    """Return deleted episodes, then those archived with their messages."""
    cold: list[Episode] = []
    page = 1
    while listed := scope.episodes(page, 200).items:
        cold += [episode for episode in listed if episode.is_cold]
        page += 1
    return [*scope.deleted(), *cold]


def _show_episode(screen: Screen, episode: Episode, state: str) -> None:
    screen.write(
        (f"{episode.id}  ", "bold"),
        f"{episode.started_at:%Y-%m-%d}  session {episode.session_id}",
        (f"  {state}", "dim"),
    )
    screen.write(episode.summary or "(no summary)", indent=3)


@holds.command()
def place(
    *,
    user: Annotated[str | None, typer.Option(help="Hold all episodes of this user.")] = None,
    episode: Annotated[
        str | None, typer.Option(metavar="ID", help="Hold this episode only.")
    ] = None,
    reason: Annotated[str, typer.Option(help="The reason, shown by octopus holds list.")],
    tenant: Tenant = "default",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Protect the episodes of a user, or one episode, from retention and erasure.

    octopus holds place --user dana --reason "case 17"
    """
    with open_existing(db) as memory:
        hold = memory.tenant(tenant).hold(
            user=user, episode_id=episode, reason=reason, actor=actor_of("cli")
        )
    if as_json:
        print_json(hold)
    else:
        Screen().write(f"Placed hold {hold.id}. octopus holds lift {hold.id} ends it.")


@holds.command("list")
def list_holds(*, tenant: Tenant = "default", db: Db = None, as_json: AsJson = False) -> None:
    """List the holds of a tenant, oldest first.

    octopus holds list
    """
    with open_existing(db) as memory:
        standing = memory.tenant(tenant).holds()
    if as_json:
        print_json(standing)
        return
    screen = Screen()
    if not standing:
        screen.write(f"No holds in tenant {tenant}.")
    for hold in standing:
        whom = f"user {hold.user}" if hold.user is not None else f"episode {hold.episode_id}"
        screen.write(
            (f"{hold.id}  ", "bold"),
            f"{hold.placed_at:%Y-%m-%d}  {whom}",
            (f"  {hold.reason} ({hold.placed_by})", "dim"),
        )


@holds.command()
def lift(
    hold_id: Annotated[str, typer.Argument(help="Id of the hold, from octopus holds list.")],
    *,
    tenant: Tenant = "default",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """End a hold. The next retention run then handles what is due.

    octopus holds lift 0196a3c5-5a8e-7c1b-9a53-0d4a6f0f6d52
    """
    with open_existing(db) as memory:
        hold = memory.tenant(tenant).lift(hold_id, actor=actor_of("cli"))
    if as_json:
        print_json(hold)
    else:
        Screen().write(f"Lifted hold {hold.id}.")
