"""Summaries without a model: the sentences that carry most, in the speakers' own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...domain.episode import SUMMARY_LIMIT, Summary, Turn
from ...domain.errors import InvalidSetting
from ...domain.facts import FoundFact


class ExtractiveSummarizer:
    """Picks sentences that cover an episode's subjects and state its facts, offline.

    Standing facts about the user are found by rules for English, German, French, Spanish and
    Chinese; what no rule knows for sure is left out.

    A short answer is kept with its question. The same turns always give the same summary. The work
    is bounded, so no `timeout` is needed: of very long turns, and of each long turn of a very long
    episode, the start, the middle and the end are read.
    """

    def __init__(self, *, max_chars: int = 1_200, max_facts: int = 12) -> None:
        if not 80 <= max_chars <= SUMMARY_LIMIT:
            raise InvalidSetting("max_chars", f"must be between 80 and {SUMMARY_LIMIT:,}")
        if max_facts < 0:
            raise InvalidSetting("max_facts", "must not be negative: 0 gives no key facts")
        self._max_chars = max_chars
        self._max_facts = max_facts

    @property
    def name(self) -> str:
        return "extractive-v2"

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:  # noqa: ARG002
        # What it knows of language is loaded when a first episode ends.
        from .sentences import pick

        made = pick(turns, max_chars=self._max_chars, max_facts=self._max_facts)
        return replace(made, facts=self.facts(turns))

    def facts(self, turns: Sequence[Turn]) -> tuple[FoundFact, ...]:
        """The standing facts about the user that the turns state, by rules."""
        from .standing.find import find_facts

        return find_facts(turns)
