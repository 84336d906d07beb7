"""`octopus recall`, `octopus context`, `octopus recent`, `octopus replay` and `octopus stats`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.episode import EpisodeSnippet, TurnHit
from ..given import actor_of
from .database import Agent, Archived, AsJson, Db, Since, Tenant, Until, User, open_existing, others
from .tables import show_hits, show_session, show_snippets
from .terminal import Screen, clean, print_json

if TYPE_CHECKING:
    from ...ports.admin import StoreStats


class Mode(StrEnum):
    HYBRID = "hybrid"
    SEMANTIC = "semantic"


def recall(
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many results at most.")] = 5,
    mode: Annotated[
        Mode, typer.Option(help="Search by meaning and words, or by meaning only.")
    ] = Mode.HYBRID,
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Leave out results below this relevance. Semantic: default of the agent.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    archived: Archived = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each score is made of.")
    ] = False,
    turns: Annotated[
        bool, typer.Option("--turns", help="Find messages instead of episodes.")
    ] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Find past conversations by what was said in them."""
    screen = Screen()
    hits: list[TurnHit] = []
    snippets: list[EpisodeSnippet] = []
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        if turns:
            hits = scope.recall_turns(
                query, mode=mode, limit=limit, min_score=min_score, since=since, until=until
            )
        else:
            snippets = scope.recall(
                query,
                mode=mode,
                limit=limit,
                min_score=min_score,
                since=since,
                until=until,
                include_archived=archived,
            )
        whose = others(memory) if not (hits or snippets or scope.episodes(1, 1)) else []
    if as_json:
        print_json(hits or snippets)
    elif not hits and not snippets:
        screen.write(f"Nothing found for tenant {tenant}, agent {agent}, user {user}.")
        for line in whose:
            screen.write(line)
    else:
        show_hits(screen, hits, explain=explain)
        show_snippets(screen, snippets, explain=explain)


def context(
    message: Annotated[str, typer.Argument(help="What the user says now.")],
    *,
    budget: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="TOKENS",
            help="Tokens of the block at most. Default: the setting of the agent.",
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The current session, which the block leaves out."),
    ] = None,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Print the block that a model would read before it answers a message.

    octopus context "What should I cook tonight?" --user ana
    """
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        made = scope.context(message, budget_tokens=budget, session_id=session)
        whose = others(memory) if not (made.text or scope.episodes(1, 1)) else []
    if as_json:
        print_json(made)
    elif made.text:
        typer.echo(clean(made.text))
    else:
        screen = Screen()
        screen.write(f"Nothing to show for tenant {tenant}, agent {agent}, user {user}.")
        for line in whose:
            screen.write(line)


def recent(
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many results at most.")] = 5,
    archived: Archived = None,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """List the last conversations, newest first."""
    screen = Screen()
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        found = scope.recent(limit, include_archived=archived)
        whose = others(memory) if not (found or scope.episodes(1, 1)) else []
    if as_json:
        print_json(found)
    elif not found:
        screen.write(f"Nothing stored for tenant {tenant}, agent {agent}, user {user}.")
        for line in whose:
            screen.write(line)
    else:
        show_snippets(screen, found, scored=False)


def replay(
    session_id: Annotated[str, typer.Argument(help="Id of the session, from octopus recent.")],
    *,
    last: Annotated[int | None, typer.Option(min=1, help="Only the last N messages.")] = None,
    messages: Annotated[
        bool,
        typer.Option(
            "--messages", help="Print the messages as JSON in the format of the chat APIs."
        ),
    ] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Show the messages of one session in order."""
    screen = Screen()
    with open_existing(db) as memory:
        found = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli")).session(
            session_id, last=last
        )
    if messages:
        print_json(found.messages())
    elif as_json:
        print_json(found)
    else:
        show_session(screen, found, is_end=last is not None)


def stats(*, db: Db = None, as_json: AsJson = False) -> None:
    """Show how much the whole database holds."""
    screen = Screen()
    with open_existing(db) as memory:
        found = memory.stats()
    if as_json:
        print_json(found)
        return
    for name, value in _counts(found).items():
        screen.write((f"{name:<16}", "dim"), value)


def _counts(found: StoreStats) -> dict[str, str]:
    size = "size unknown" if found.size_bytes is None else f"{found.size_bytes / 1024:,.0f} KiB"
    vectors = [f"{count:,} by {model}" for model, count in found.vectors.items()]
    waiting = [f"{work.waiting:,} to {kind}" for kind, work in found.backlog.items()]
    return {
        "database": f"{found.product}, schema {found.schema}, {size}",
        "tenants": f"{found.tenants:,}",
        "scopes": f"{found.scopes:,}",
        "sessions": f"{found.sessions:,}",
        "episodes": f"{found.episodes:,} ({found.open_episodes:,} open)",
        "messages": f"{found.turns:,}",
        "facts": f"{found.facts:,}",
        "vectors": ", ".join(vectors) or "none",
        "waiting": ", ".join(waiting) or "nothing",
    }
