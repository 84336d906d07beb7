"""The command that says why a model answered as it did: which memories it was shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated
from uuid import UUID

import typer

from ...domain.facts import Fact
from ...domain.ledger import Injected, InjectedKind, Injection
from ...domain.replay import EpisodeReplay, SessionReplay
from ..given import actor_of
from .database import Agent, AsJson, Db, Tenant, User, open_existing
from .terminal import Screen, counted, print_json

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
