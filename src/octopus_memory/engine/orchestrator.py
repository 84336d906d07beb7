"""From the current message to what the model should see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ..domain.context import BlockEntry, Said, render_block, speaker
from ..domain.episode import Episode, EpisodeSnippet, Scope, Turn, check_name
from ..domain.errors import InvalidInput
from ..domain.ids import new_id
from ..domain.message import Json, Message, MessageLike, parse_message
from ..domain.policy import MemoryConfig
from ..domain.window import fit_messages
from . import intake, recall
from .parts import Parts
from .recall import Ask

_LONGEST_QUERY = 2_000
"""Characters of the current message that recall is asked with: the rest of a paste adds noise."""
_WORDS_OF = 2
"""How many turns say what an episode ended with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContext:
    """What the model should see.

    `text` is the block alone, `messages` the whole list with the block in its place, `snippets`
    what the block was made of, most important first, and `tokens` what the list costs.
    """

    text: str
    messages: list[Any]
    """Dictionaries as providers take them, whose own types differ."""
    snippets: tuple[EpisodeSnippet, ...]
    tokens: int
    block_tokens: int
    dropped: int
    """How many of the history's messages did not fit."""


class MemoryOrchestrator:
    """Recalls for a message and lays out what the model sees, by the agent's settings."""

    def __init__(self, parts: Parts, scope: Scope) -> None:
        self._parts = parts
        self._scope = scope

    def context(
        self,
        message: str | MessageLike,
        *,
        history: Sequence[MessageLike] = (),
        system: str | None = None,
        budget_tokens: int | None = None,
        session_id: str | None = None,
    ) -> MemoryContext:
        """The block and the message list for the current user message."""
        config = self._parts.config(self._scope.tenant, self._scope.agent)
        shape = config.context
        if session_id is not None:
            check_name("session_id", session_id)
        if system is not None and not isinstance(system, str):
            raise InvalidInput("system", f"must be text, not {type(system).__name__}")
        if budget_tokens is not None:
            intake.check_tokens("budget_tokens", budget_tokens)
            shape = replace(shape, budget_tokens=budget_tokens)
        snippets = self.snippets(_words(message), config, session_id=session_id)
        count = self._parts.counter.count
        entries = {
            snippet.episode_id: _entry(snippet, summaries=config.recall.use_session_summaries)
            for snippet in snippets
        }
        block = render_block(list(entries.values()), shape.layout, shape.budget_tokens, count)
        fitted = fit_messages(
            system, block.text, history, message, shape, count, summarize=self._summarize
        )
        used = {id(entry) for entry in block.entries_used}
        return MemoryContext(
            text=block.text,
            messages=fitted.messages,
            snippets=tuple(s for s in snippets if id(entries[s.episode_id]) in used),
            tokens=fitted.tokens,
            block_tokens=block.tokens,
            dropped=fitted.dropped,
        )

    def snippets(
        self, query: str, config: MemoryConfig, *, session_id: str | None
    ) -> list[EpisodeSnippet]:
        """The relevant episodes, then the latest, each once: most important first."""
        wanted = config.recall
        if not wanted.enabled:
            return []
        still_open, last = self._listed(config, session_id)
        relevant = self._relevant(query, config, session_id, still_open)
        known = {snippet.episode_id for snippet in relevant}
        say = recall.recent_snippet if wanted.use_session_summaries else _last_words
        return relevant + [say(self._parts, episode) for episode in last if episode.id not in known]

    def _relevant(
        self,
        query: str,
        config: MemoryConfig,
        session_id: str | None,
        still_open: frozenset[UUID],
    ) -> list[EpisodeSnippet]:
        wanted = config.recall
        if not wanted.semantic_top_k:
            return []
        ask = Ask(
            query=query[:_LONGEST_QUERY],
            limit=wanted.semantic_top_k,
            min_score=wanted.min_recall_score,
            include_archived=wanted.include_archived,
            leave_out_session=session_id,
            # Who does not say which session this is cannot mean the one that is going on.
            leave_out=still_open,
        )
        return recall.recall(self._parts, self._scope, ask)

    def _listed(
        self, config: MemoryConfig, session_id: str | None
    ) -> tuple[frozenset[UUID], list[Episode]]:
        """The open episodes, and the last one of each of the last sessions, newest first.

        Where a session is named, it alone is left out. Else any that is open may be the one that
        is going on, and none of those is among the last.
        """
        count = config.recall.recent_sessions_to_inject
        if session_id is not None and not count:
            return frozenset(), []
        still_open: set[UUID] = set()
        latest: dict[str, Episode] = {}
        named = [] if session_id is None else [session_id]
        page_size, offset = max(8, 2 * count), 0
        while True:
            # One session may have thousands: those of the sessions that are found are not read.
            left_out = [*named, *latest]
            page, _ = self._parts.store.list_episodes(
                self._scope,
                offset=offset,
                limit=page_size,
                include_archived=config.recall.include_archived,
                leave_out_sessions=left_out,
                count=False,
            )
            for episode in page:
                if episode.is_open and session_id is None:
                    still_open.add(episode.id)
                elif _says_something(episode) and len(latest) < count:
                    latest.setdefault(episode.session_id, episode)
            if len(page) < page_size:
                break
            # Open ones are listed before all others.
            if len(latest) == count and (session_id is not None or not page[-1].is_open):
                break
            found_more = len(named) + len(latest) > len(left_out)
            offset = 0 if found_more else offset + page_size
        return frozenset(still_open), list(latest.values())

    def _summarize(self, pruned: list[dict[str, Json]]) -> str:
        now = self._parts.clock.now()
        turns = [_as_turn(Message(body), place, now) for place, body in enumerate(pruned)]
        seconds = self._parts.timeouts.at_close
        return self._parts.extractive.summarize(turns, timeout=seconds).text


def _says_something(episode: Episode) -> bool:
    return bool(episode.summary) or (episode.is_open and episode.message_count > 0)


def _last_words(parts: Parts, episode: Episode) -> EpisodeSnippet:
    """In place of a summary, what was said last; all that an archived one has is its summary."""
    if episode.is_archived:
        return recall.snippet_of(episode, relevance=0.0)
    start = max(0, episode.message_count - _WORDS_OF)
    turns = parts.store.turns(episode.scope, episode.id, start=start)
    said = tuple(recall.plain_hit(turn) for turn in turns)
    return recall.snippet_of(episode, relevance=0.0, turns=said)


def _words(message: str | MessageLike) -> str:
    if isinstance(message, str):
        return message
    return parse_message(message, max_bytes=2**62).text


def _entry(snippet: EpisodeSnippet, *, summaries: bool) -> BlockEntry:
    words = () if summaries else tuple(Said(speaker(t), t.text) for t in snippet.turns)
    return BlockEntry(
        date=snippet.date,
        summary=snippet.summary,
        key_facts=snippet.key_facts,
        words=words,
        is_archived=snippet.is_archived,
    )


def _as_turn(message: Message, ordinal: int, at: datetime) -> Turn:
    nobody = new_id()
    return Turn(
        id=nobody,
        episode_id=nobody,
        session_id="",
        ordinal=ordinal,
        message=message,
        tokens=0,
        at=at,
    )
