"""Facts that rules or a model found, made ready to be stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...domain.episode import Turn
from ...domain.facts import (
    FACT_LIMIT,
    MOST_FACTS_OF_EPISODE,
    Fact,
    FactKind,
    FactOrigin,
    FoundFact,
    check_slot,
)
from ...domain.ids import new_id
from .pii_guard import Guard


def found(
    turns: Sequence[Turn], facts: Iterable[FoundFact], origin: FactOrigin
) -> tuple[Fact, ...]:
    """Make facts of what a summarizer found in these turns; pass them to `guarded` before storing.

    A model's answer is not trusted: facts that are empty or name an unknown turn are dropped.
    """
    said = {turn.ordinal: turn for turn in turns}
    kept: list[Fact] = []
    for fact in facts:
        turn, text = said.get(fact.ordinal), " ".join(fact.text.split())
        if turn is None or not text:
            continue
        kept.append(
            Fact(
                id=new_id(),
                kind=fact.kind,
                text=text,
                slot=fact.slot,
                since=turn.at,
                turn_id=turn.id,
                ordinal=turn.ordinal,
                origin=origin,
                ends=fact.ends,
            )
        )
    return tuple(kept)


def guarded(facts: Iterable[Fact], guard: Guard) -> tuple[Fact, ...]:
    """Redact and shorten the facts found in one episode, as the agent's settings say.

    Of duplicates, the first is kept.
    """
    kept: dict[tuple[FactKind, str, str], Fact] = {}
    for fact in facts:
        if len(kept) == MOST_FACTS_OF_EPISODE:
            break
        safe = redacted(fact, guard)
        kept.setdefault((safe.kind, safe.slot, safe.text), safe)
    return tuple(kept.values())


def guarded_slot(guard: Guard, slot: str) -> str:
    """Redact a slot with a guard that has read the fact's text.

    A slot is in lower case, where the redactor finds only names that it has heard before.
    """
    return check_slot(guard.text(slot))


def redacted(fact: Fact, guard: Guard) -> Fact:
    """Return the fact redacted and shortened; the same object if nothing changes."""
    text = cut(guard.text(fact.text))
    slot = guarded_slot(guard, fact.slot)
    return fact if (text, slot) == (fact.text, fact.slot) else replace(fact, text=text, slot=slot)


def cut(text: str) -> str:
    """Shorten a text to the length of a fact."""
    return text if len(text) <= FACT_LIMIT else text[: FACT_LIMIT - 1] + "…"
