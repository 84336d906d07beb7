"""A summarizer that finds the facts that a message states in a form of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from octopus_memory.domain.episode import Summary, Turn
from octopus_memory.domain.facts import FactKind, FoundFact

_FACT = re.compile(r"(?P<kind>\w+)\[(?P<slot>[^]]*)\](?P<ends>!?) (?P<text>[^|]+)")


class FactFinder:
    """Finds `home[] Lives in Ghent.`; `person[rex]! Rex died.` ends something; `|` ends a text."""

    name = "finder"

    def __init__(self) -> None:
        self.also: list[FoundFact] = []
        """Facts that it also finds in every episode."""

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        return Summary(text="They talked.", facts=self.facts(turns))

    def key_facts(self, turns: Sequence[Turn]) -> tuple[str, ...]:
        return ()

    def facts(self, turns: Sequence[Turn], before: Turn | None = None) -> tuple[FoundFact, ...]:
        found = [
            FoundFact(
                kind=FactKind(each["kind"]),
                slot=each["slot"],
                text=each["text"].strip(),
                ends=bool(each["ends"]),
                ordinal=turn.ordinal,
            )
            for turn in turns
            for each in _FACT.finditer(turn.text)
        ]
        return (*found, *self.also)
