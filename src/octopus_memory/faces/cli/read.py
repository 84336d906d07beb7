"""`octopus recall`, `context`, `recent`, `replay`, `why` and `stats`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ...domain.episode import EpisodeSnippet, TurnHit
from ...domain.facts import Fact
from ...domain.ledger import Injected, InjectedKind, Injection
from ...domain.replay import EpisodeReplay, SessionReplay
from ..given import actor_of
from .database import Agent, Archived, AsJson, Db, Since, Tenant, Until, User, open_existing, others
from .tables import show_hits, show_session, show_snippets
from .terminal import Screen, clean, counted, print_json

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


_LONGEST = 160


def why(
    session_id: Annotated[str, typer.Argument(help="The session, as octopus recent names it.")],
    turn: Annotated[
        int | None, typer.Argument(min=1, help="The message, counted from 1 in octopus replay.")
    ] = None,
    *,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Show which memories the model was given for each turn of a session, and why.

    octopus why monday 4
    """
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        replay = scope.session(session_id)
        numbers = _numbers(replay)
        entries = [each for each in scope.injections(session_id) if _is_for(each, turn, numbers)]
        if as_json:
            print_json({"injections": entries})
            return
        facts = {fact.id: fact for fact in scope.facts(history=True)}
        texts = _Texts(scope.get, facts)
        screen = Screen()
        if not entries:
            about = f"session {session_id}" if turn is None else f"turn {turn}"
            screen.write(f"The ledger has nothing for {about}: no context was made for it.")
        for place, entry in enumerate(entries):
            if place:
                screen.gap()
            _show(screen, entry, numbers, texts)


def _numbers(replay: SessionReplay) -> dict[tuple[UUID, int], int]:
    """The number of each turn in its session, from 1."""
    return {(turn.episode_id, turn.ordinal): n for n, turn in enumerate(replay.turns, 1)}


def _number(entry: Injection, numbers: dict[tuple[UUID, int], int]) -> int | None:
    if entry.episode_id is None or entry.ordinal is None:
        return None
    return numbers.get((entry.episode_id, entry.ordinal))


def _is_for(entry: Injection, turn: int | None, numbers: dict[tuple[UUID, int], int]) -> bool:
    """Return whether a block was made for a turn, or for the message that it answers."""
    if turn is None:
        return True
    number = _number(entry, numbers)
    return number is not None and number in (turn, turn - 1)


class _Texts:
    """Looks up what the entries name: the ledger itself has no text."""

    def __init__(self, get: Callable[[UUID], EpisodeReplay], facts: dict[UUID, Fact]) -> None:
        self._get, self._facts = get, facts
        self._turns: dict[UUID, Sequence[str]] = {}

    def of(self, item: Injected) -> str:
        if item.kind is InjectedKind.FACT:
            known = None if item.fact_id is None else self._facts.get(item.fact_id)
            return "(fact is gone)" if known is None else known.text
        if item.episode_id is None:
            return ""
        if item.episode_id not in self._turns:
            replay = self._get(item.episode_id)
            said = [f"{turn.message.name or turn.role}: {turn.text}" for turn in replay.turns]
            self._turns[item.episode_id] = [*said, replay.episode.summary or "(no summary)"]
        texts = self._turns[item.episode_id]
        if item.ordinal is None or item.ordinal >= len(texts) - 1:
            return texts[-1]
        return texts[item.ordinal]


def _show(
    screen: Screen, entry: Injection, numbers: dict[tuple[UUID, int], int], texts: _Texts
) -> None:
    number = _number(entry, numbers)
    size = f"{entry.block_tokens} of {entry.budget_tokens} tokens"
    block = f"block {entry.block_hash[:12] or 'empty'}"
    screen.write(
        ("next turn" if number is None else f"turn {number}", "bold"),
        (f"  {entry.at:%Y-%m-%d %H:%M:%S}  {size}  {block}", "dim"),
    )
    if entry.query is not None:
        screen.row(("asked    ", "dim"), text=_shortened(entry.query), indent=3)
    for item in entry.shown:
        score = "    " if item.score is None else f"{item.score:.2f}"
        screen.write(
            (f"{item.kind:<8} ", "green"), (f"{score}  ", "bold"), (item.reason, "dim"), indent=3
        )
        screen.write(_shortened(texts.of(item)), indent=6)
    if not entry.shown:
        screen.write("Nothing was shown.", indent=3)
    if entry.left_out:
        best = ", ".join(
            f"{item.kind} {'' if item.score is None else f'{item.score:.2f} '}({item.reason})"
            for item in entry.cut[:3]
        )
        screen.row(
            ("cut      ", "yellow"), text=f"{counted(entry.left_out, 'item')}: {best}", indent=3
        )


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
