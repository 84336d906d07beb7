"""Building the memory block and the messages for the model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from ...domain.block.block import Block, Material, TokenCount, make_block
from ...domain.block.passages import Weigh
from ...domain.block.small_talk import is_small_talk
from ...domain.checks import check_tokens
from ...domain.context import MemoryContext
from ...domain.episode import Episode, EpisodeSnippet, Scope, Turn, check_name
from ...domain.errors import InvalidInput
from ...domain.facts import Fact
from ...domain.ids import new_id
from ...domain.message import Json, Message, MessageLike, parse_message
from ...domain.policy import EpisodicRecallConfig, MemoryConfig
from ...domain.window import fit_messages
from ...ports.values import EpisodeQuery
from .. import facts
from ..core.runtime import Runtime
from . import ledger, recall
from .recall import Ask

log = logging.getLogger(__name__)

_LONGEST_QUERY = 2_000
"""Characters of the current message that are searched; the rest of a paste adds noise."""
_TOKENS_A_CANDIDATE = 16
"""Tokens of the budget per candidate turn; short ones fill what longer ones leave free."""
_LEAST_CANDIDATES, _MOST_CANDIDATES = 50, 200
_RELATED = 0.5
"""The weight of a related word, where the question's own is 1."""
_WORDS_OF = 2
"""The number of last turns that stand for an episode without its summary."""


class MemoryOrchestrator:
    """Recalls memories for a message and lays out the block, by the agent's settings."""

    def __init__(self, runtime: Runtime, scope: Scope) -> None:
        self._runtime = runtime
        self._scope = scope

    def context(
        self,
        message: str | MessageLike,
        *,
        history: Sequence[MessageLike] = (),
        system: str | None = None,
        budget_tokens: int | None = None,
        session_id: str | None = None,
        count_tokens: TokenCount | None = None,
        config: MemoryConfig | None = None,
    ) -> MemoryContext:
        """Make the block and the message list for the current user message.

        `count_tokens` replaces the configured counter, and `config` the agent's settings.
        """
        if config is None:
            config = self._runtime.config(self._scope.tenant, self._scope.agent)
        shape = config.context
        if session_id is not None:
            check_name("session_id", session_id)
        if system is not None and not isinstance(system, str):
            raise InvalidInput("system", f"must be text, not {type(system).__name__}")
        if budget_tokens is not None:
            check_tokens("budget_tokens", budget_tokens)
            shape = replace(shape, budget_tokens=budget_tokens)
        if count_tokens is not None and not callable(count_tokens):
            raise InvalidInput("count_tokens", "must be a function from a text to a number")
        count = count_tokens or self._runtime.counter.count
        query = _words(message)
        material = self.material(query, config, shape.budget_tokens, session_id=session_id)
        block = make_block(
            material,
            shape.layout,
            shape.budget_tokens,
            count,
            min_score=config.recall.min_recall_score,
            weigh=self._weigher(query),
        )
        if session_id is not None:
            ledger.note(
                self._runtime,
                self._scope,
                config,
                session_id,
                material,
                block,
                budget_tokens=shape.budget_tokens,
                query=query,
            )
        fitted = fit_messages(
            system, block.text, history, message, shape, count, summarize=self._summarize
        )
        return MemoryContext(
            text=block.text,
            messages=fitted.messages,
            snippets=_shown(material, block),
            tokens=fitted.tokens,
            block_tokens=block.tokens,
            dropped=fitted.dropped,
            passages=block.passages,
            facts=block.facts,
            left_out=block.left_out,
            overflow_tokens=fitted.overflow_tokens,
        )

    def material(
        self, query: str, config: MemoryConfig, budget: int, *, session_id: str | None
    ) -> Material:
        """Gather the candidates of the block by one search, and the last sessions."""
        wanted = config.recall
        if not wanted.enabled or not budget:
            return Material()
        known = self._facts()
        if is_small_talk(query):
            return Material(facts=known, is_small_talk=True)
        still_open, last = self._listed(config, session_id)
        ask = Ask(
            query=query[:_LONGEST_QUERY],
            limit=max(wanted.semantic_top_k, 1),
            min_score=wanted.min_recall_score,
            include_archived=wanted.include_archived,
            leave_out_session=session_id,
            # Without a session id, any open episode may be the current conversation.
            leave_out=still_open,
        )
        quotable = min(max(budget // _TOKENS_A_CANDIDATE, _LEAST_CANDIDATES), _MOST_CANDIDATES)
        found = recall.recall_for_context(self._runtime, self._scope, ask, quotable=quotable)
        return Material(
            candidates=found.candidates,
            relevant=self._relevant(found, wanted),
            recent=tuple(self._recent(episode, wanted) for episode in last),
            facts=known,
            relevance=found.relevance,
        )

    def _relevant(
        self, found: recall.Recalled, wanted: EpisodicRecallConfig
    ) -> tuple[EpisodeSnippet, ...]:
        return found.episodes[: wanted.semantic_top_k] if wanted.use_session_summaries else ()

    def _recent(self, episode: Episode, wanted: EpisodicRecallConfig) -> EpisodeSnippet:
        say = recall.recent_snippet if wanted.use_session_summaries else _last_words
        return say(self._runtime, episode)

    def _facts(self) -> tuple[Fact, ...]:
        known = facts.listed(self._runtime, self._scope, as_of=None, kinds=None, history=False)
        return tuple(known)

    def _weigher(self, query: str) -> Weigh:
        """Make a function that weighs a sentence by how many of the question's words it has, in any
        form.
        """
        analyzer = self._runtime.analyzer
        forms = analyzer.forms(query[:_LONGEST_QUERY], cap=_LONGEST_QUERY)
        related = {
            near: weight * _RELATED for word in forms for near, weight in analyzer.related(word[0])
        }
        own = {form: place for place, word in enumerate(forms) for form in word}

        def weigh(sentence: str) -> float:
            terms = set(analyzer.terms(sentence, len(sentence)))
            words = {own[term] for term in terms if term in own}
            others = (related[term] for term in terms if term in related and term not in own)
            return len(words) + max(others, default=0.0)

        return weigh

    def _listed(
        self, config: MemoryConfig, session_id: str | None
    ) -> tuple[frozenset[UUID], list[Episode]]:
        """Return the open episodes, and the last episode of each of the last sessions, newest
        first.

        A session that is named is excluded. Without a name every open episode is, because it may be
        the current one.
        """
        count = config.recall.recent_sessions_to_inject
        if session_id is not None and not count:
            return frozenset(), []
        still_open: set[UUID] = set()
        latest: dict[str, Episode] = {}
        named = [] if session_id is None else [session_id]
        page_size, offset = max(8, 2 * count), 0
        while True:
            # Exclude the sessions found so far, because one may have thousands of episodes.
            left_out = [*named, *latest]
            page, _ = self._runtime.store.list_episodes(
                EpisodeQuery(
                    of=self._scope,
                    offset=offset,
                    limit=page_size,
                    include_archived=config.recall.include_archived,
                    leave_out_sessions=left_out,
                    count=False,
                )
            )
            for episode in page:
                if episode.is_open and session_id is None:
                    still_open.add(episode.id)
                elif _says_something(episode) and len(latest) < count:
                    latest.setdefault(episode.session_id, episode)
            if len(page) < page_size:
                break
            # Open episodes are listed first.
            if len(latest) == count and (session_id is not None or not page[-1].is_open):
                break
            found_more = len(named) + len(latest) > len(left_out)
            offset = 0 if found_more else offset + page_size
        return frozenset(still_open), list(latest.values())

    def _summarize(self, pruned: list[dict[str, Json]]) -> str:
        now = self._runtime.clock.now()
        turns = [_as_turn(Message(body), place, now) for place, body in enumerate(pruned)]
        runtime, seconds = self._runtime, self._runtime.timeouts.at_close
        model = runtime.summarizer
        if model is not None:
            # The caller's history was not redacted before.
            checked = runtime.guard(self._scope).messages([turn.message for turn in turns])
            safe = [
                replace(turn, message=c.message) for turn, c in zip(turns, checked, strict=True)
            ]
            try:
                return model.summarize(safe, timeout=seconds).text
            except Exception as error:  # noqa: BLE001 - a model must not keep the context back
                name, kind = model.name, type(error).__name__
                log.warning("summarizer %s failed, pruning by an extract instead: %s", name, kind)
        return runtime.extractive.summarize(turns, timeout=seconds).text


def _says_something(episode: Episode) -> bool:
    return bool(episode.summary) or (episode.is_open and episode.message_count > 0)


def _last_words(runtime: Runtime, episode: Episode) -> EpisodeSnippet:
    """Make a snippet of the last turns; an archived episode has only its summary."""
    if episode.is_archived:
        return recall.snippet_of(episode)
    start = max(0, episode.message_count - _WORDS_OF)
    turns = runtime.store.turns(episode.scope, episode.id, start=start)
    said = tuple(recall.plain_hit(turn) for turn in turns)
    return recall.snippet_of(episode, turns=said)


def _words(message: str | MessageLike) -> str:
    if isinstance(message, str):
        return message
    return parse_message(message, max_bytes=2**62).text


def _shown(material: Material, block: Block) -> tuple[EpisodeSnippet, ...]:
    """Return the relevant episodes and last sessions shown in the block, most important first."""
    inside = {passage.episode_id for passage in block.passages}
    inside.update(snippet.episode_id for snippet in block.summaries)
    known = {each.episode_id: each for each in (*material.recent, *material.relevant)}
    order = dict.fromkeys(each.episode_id for each in (*material.relevant, *material.recent))
    return tuple(known[episode_id] for episode_id in order if episode_id in inside)


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
