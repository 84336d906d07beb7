"""Building the memory block and the messages for the model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from ...domain.block.block import Block, Material, TokenCount, make_block
from ...domain.block.known import choose_facts
from ...domain.block.passages import Candidate, LeftOut, LeftOutReason, Weigh
from ...domain.checks import check_tokens
from ...domain.context import MemoryContext, QuestionKind
from ...domain.episode import Episode, EpisodeSnippet, Scope, Turn, check_name
from ...domain.errors import InvalidInput
from ...domain.facts import Fact
from ...domain.ids import new_id
from ...domain.message import Json, Message, MessageLike
from ...domain.policy import EpisodicRecallConfig, MemoryConfig
from ...domain.search.question_kind import Question, is_small_talk
from ...domain.window import fit_messages, parse_current, parse_history
from ...ports.values import EpisodeQuery
from .. import facts
from ..core.runtime import Runtime
from . import candidates, ledger, recall
from .recall import Ask

log = logging.getLogger(__name__)

_LONGEST_QUERY = 2_000
"""Characters of the current message that are searched; the rest of a paste adds noise."""
_TOKENS_A_CANDIDATE = 24
"""Tokens of the budget per candidate turn; short ones fill what longer ones leave free."""
_TOKENS_A_LINE = 40
"""Tokens of one line about an episode, of which a question about everything gets many."""
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
        current, given = parse_current(message), parse_history(history)
        query = current.text
        material = self.material(
            query, config, shape.budget_tokens, session_id=session_id, history=given
        )
        self._reached("ranked")
        block = make_block(
            material,
            shape.layout,
            shape.budget_tokens,
            count,
            min_score=config.recall.min_recall_score,
            weigh=self._weigher(query),
        )
        self._reached("chosen")
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
            system, block.text, given, current, shape, count, summarize=self._summarize
        )
        self._reached("laid out")
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
            kind=material.kind,
            overflow_tokens=fitted.overflow_tokens,
        )

    def _reached(self, stage: str) -> None:
        """Note that a stage is over: searched, ranked, chosen, laid out. A trace overrides it."""

    def material(
        self,
        query: str,
        config: MemoryConfig,
        budget: int,
        *,
        session_id: str | None,
        history: Sequence[Message] = (),
    ) -> Material:
        """Gather the candidates of the block by one search, and the last sessions."""
        wanted = config.recall
        if not wanted.enabled or not budget:
            return Material()
        known = self._facts()
        if is_small_talk(query):
            return Material(facts=known, kind=QuestionKind.SMALL_TALK)
        facts = choose_facts(known, query)
        ask = Ask(
            query=query[:_LONGEST_QUERY],
            limit=max(wanted.semantic_top_k, 1),
            min_score=wanted.min_recall_score,
            include_archived=wanted.include_archived,
            leave_out_session=session_id,
        )
        quotable = min(max(budget // _TOKENS_A_CANDIDATE, _LEAST_CANDIDATES), _MOST_CANDIDATES)
        found = candidates.recall_for_context(
            self._runtime,
            self._scope,
            ask,
            quotable=quotable,
            lines=budget // _TOKENS_A_LINE,
            reached=self._reached,
        )
        question, held = found.question, _held(query, history)
        repeated = [each for each in found.candidates if _is_held(each, held)]
        left_out = [
            *(_left_out("episode", LeftOutReason.SESSION, episode_id=e) for e in found.left_out),
            *(_left_out("passage", LeftOutReason.HISTORY, candidate=each) for each in repeated),
            *(_left_out("fact", LeftOutReason.SUBJECT, fact=f) for f in known if f not in facts),
        ]
        gone_on = {each.source.episode_id for each in repeated}
        # Other sessions would only distract from those of the time that the question names.
        is_answered = found.is_listed and found.at_that_time
        recent = () if is_answered else self._last_sessions(config, session_id)
        return Material(
            candidates=tuple(each for each in found.candidates if not _is_held(each, held)),
            relevant=self._relevant(found, wanted),
            recent=tuple(each for each in recent if each.episode_id not in gone_on),
            facts=tuple(facts),
            relevance=found.relevance,
            kind=QuestionKind.POINT if question is None else question.kind,
            has_subject=not is_answered and (question is None or question.has_subject),
            time="" if question is None else _time(question, found),
            left_out=tuple(left_out),
        )

    def _relevant(
        self, found: candidates.Recalled, wanted: EpisodicRecallConfig
    ) -> tuple[EpisodeSnippet, ...]:
        if found.is_listed:
            return found.episodes
        return found.episodes[: wanted.semantic_top_k] if wanted.use_session_summaries else ()

    def _last_sessions(
        self, config: MemoryConfig, session_id: str | None
    ) -> tuple[EpisodeSnippet, ...]:
        say = recall.recent_snippet if config.recall.use_session_summaries else _last_words
        return tuple(say(self._runtime, each) for each in self._latest(config, session_id))

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

    def _latest(self, config: MemoryConfig, session_id: str | None) -> list[Episode]:
        """Return the last episode of each of the last sessions but the named one, newest first."""
        count = config.recall.recent_sessions_to_inject
        latest: dict[str, Episode] = {}
        named = [] if session_id is None else [session_id]
        page_size, offset = max(8, 2 * count), 0
        while len(latest) < count:
            # Exclude the sessions found so far, because one may have thousands of episodes.
            known = len(latest)
            page, _ = self._runtime.store.list_episodes(
                EpisodeQuery(
                    of=self._scope,
                    offset=offset,
                    limit=page_size,
                    include_archived=config.recall.include_archived,
                    leave_out_sessions=[*named, *latest],
                    count=False,
                )
            )
            for episode in page:
                if _says_something(episode) and len(latest) < count:
                    latest.setdefault(episode.session_id, episode)
            if len(page) < page_size:
                break
            offset = 0 if len(latest) > known else offset + page_size
        return list(latest.values())

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


def _held(query: str, history: Sequence[Message]) -> frozenset[str]:
    """Return the words that the model gets anyway: the message, and the caller's history."""
    return frozenset(text.strip() for text in (query, *(each.text for each in history)))


def _is_held(candidate: Candidate, held: frozenset[str]) -> bool:
    return candidate.hit is not None and candidate.hit.text.strip() in held


def _left_out(
    what: str,
    reason: LeftOutReason,
    *,
    candidate: Candidate | None = None,
    fact: Fact | None = None,
    episode_id: UUID | None = None,
) -> LeftOut:
    hit = None if candidate is None else candidate.hit
    return LeftOut(
        what=what,
        reason=reason,
        episode_id=episode_id if candidate is None else candidate.source.episode_id,
        turn_id=None if hit is None else hit.id,
        fact_id=None if fact is None else fact.id,
        score=None if candidate is None else candidate.score,
    )


def _time(question: Question, found: candidates.Recalled) -> str:
    """Return the line that tells the model which time the question names, and if nothing is known
    of it.
    """
    if question.window is None:
        return ""
    start, end = question.window.spans[-1]
    first, last = start.date(), (end - timedelta(microseconds=1)).date()
    time = f"{first}" if first == last else f"{first} to {last}"
    nothing = "" if found.at_that_time else " (nothing is stored of it)"
    return f"Time asked about: {time}{nothing}"


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
