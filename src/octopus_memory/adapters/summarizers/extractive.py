"""Summarizer without a model: selects the most informative sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.episode import SUMMARY_LIMIT, Summary, Turn
from ...domain.errors import InvalidSetting
from ...domain.facts import FoundFact


class ExtractiveSummarizer:
    """Selects sentences that cover an episode's subjects and state its facts, offline.

    Standing facts about the user are found by precise rules for English, German, French, Spanish
    and Chinese, in each turn when it is indexed.

    The summary is about two fifths of the conversation, or one sentence. Key facts are what it
    leaves out. A short answer is kept with its question. Equal turns give equal summaries. The work
    is bounded, so `timeout` is ignored: of very long turns, and of each long turn of a very long
    episode, only the start, the middle and the end are read.
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
        return "extractive-v3"

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:  # noqa: ARG002
        # Imported here, so that word lists are loaded when the first episode is closed.
        from .selection import select

        return select(turns, max_chars=self._max_chars, max_facts=self._max_facts)

    def key_facts(self, turns: Sequence[Turn]) -> tuple[str, ...]:
        """Key facts beside a summary by somebody else, which may lack any of them."""
        from .selection import select

        return select(turns, max_chars=0, max_facts=self._max_facts).key_facts

    def facts(self, turns: Sequence[Turn], before: Turn | None = None) -> tuple[FoundFact, ...]:
        """Standing facts about the user, found by rules."""
        from .standing.find import find_facts

        return find_facts(turns, before)
