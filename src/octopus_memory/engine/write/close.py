"""Closing an episode with its summary and key facts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from ...domain.episode import (
    MOST_FACTS,
    SUMMARY_LIMIT,
    EndReason,
    Episode,
    Scope,
    Summary,
    Turn,
    check_time,
)
from ...domain.errors import (
    EpisodeChanged,
    EpisodeClosed,
    EpisodeNotFound,
    InvalidInput,
    SettingsChanged,
    for_log,
)
from ...domain.facts import Fact, FactOrigin
from ...domain.policy import end_time
from ...ports.recall_rows import Work
from ...ports.values import Append, Closing, Lexical, NewSummary, SummarySource, Target
from ..core import pii_guard
from ..core.pii_guard import Guard
from ..core.runtime import Runtime, retry_on_settings_change
from . import index_turns

log = logging.getLogger(__name__)

BY_CALLER = "caller"
_ATTEMPTS = 3
"""Attempts to summarize an episode, because another caller may add turns meanwhile."""


@retry_on_settings_change
def close(
    runtime: Runtime,
    scope: Scope,
    episode_id: UUID,
    *,
    reason: EndReason,
    summary: str | None = None,
    key_facts: Sequence[str] | None = None,
    at: datetime | None = None,
    wait: bool = True,
    seen: Episode | None = None,
) -> Episode:
    """Close an episode; one that is closed is returned unchanged.

    With `wait` a configured model is asked for the summary, for a few seconds. Without, or if it
    does not answer, the episode closes with the extractive summary and the worker improves it. With
    `seen`, an episode that has more turns than that is left open.
    """
    ended_at = None if at is None else check_time("at", at)
    for attempt in range(_ATTEMPTS):
        episode = _known(runtime, scope, episode_id)
        if not episode.is_open:
            if summary is not None or key_facts is not None:
                raise EpisodeClosed(episode_id)
            return episode
        if seen is not None and seen.message_count != episode.message_count:
            return episode
        if ended_at is not None and ended_at < min(episode.started_at, episode.last_message_at):
            raise InvalidInput("at", "must not be earlier than the episode's start")
        config = runtime.config(scope.tenant, scope.agent).session
        turns, made_of = read(runtime, scope, episode_id, episode.message_count)
        closing = closing_for(
            runtime,
            scope,
            turns,
            made_of=made_of,
            reason=EndReason(reason),
            ended_at=ended_at
            or end_time(
                last_message_at=episode.last_message_at, now=runtime.clock.now(), config=config
            ),
            summary=summary,
            key_facts=key_facts,
            # A retry does not wait for the model a second time: the worker asks it later.
            wait=wait and attempt == 0,
        )
        try:
            closed = runtime.store.close_episode(
                scope, episode_id, closing, expect_messages=episode.message_count
            )
        except (EpisodeChanged, EpisodeClosed):
            continue
        except SettingsChanged:
            runtime.clear_config_cache()
            continue
        runtime.open_episodes.drop_closed(closed)
        return closed
    return _close_first(runtime, episode, closing, len(turns), key_facts)


def _close_first(
    runtime: Runtime,
    episode: Episode,
    closing: Closing,
    summarized: int,
    key_facts: Sequence[str] | None,
) -> Episode:
    """Close an episode that other callers keep adding to, then summarize its last turns."""
    write = Append(
        scope=episode.scope,
        session_id=episode.session_id,
        episode_id=episode.id,
        target=Target.OPEN,
        at=closing.ended_at,
        now=runtime.clock.now(),
        closing=closing,
        settings=None if closing.summary is None else closing.summary.settings,
    )
    given = closing.summary is not None and closing.summary.by == BY_CALLER
    try:
        runtime.store.append(write)
    except EpisodeChanged:
        if _known(runtime, episode.scope, episode.id).is_open:
            # Its text was rewritten: a summary of the old text must not be stored.
            raise
        # Another caller closed it first, with a summary of its own.
        if given or key_facts is not None:
            raise EpisodeClosed(episode.id) from None
    else:
        turns, made_of = read(runtime, episode.scope, episode.id)
        if len(turns) > summarized and not given:
            whole = _summary(runtime, episode.scope, turns, None, key_facts, wait=False)
            if whole is not None:
                # If the text was rewritten since, its summary was, too.
                with suppress(EpisodeChanged):
                    put_summary(runtime, episode, replace(whole, made_of=made_of), turns)
    return _known(runtime, episode.scope, episode.id)


@retry_on_settings_change
def put_summary(
    runtime: Runtime,
    episode: Episode | Work,
    new: NewSummary,
    turns: Sequence[Turn],
    *,
    replacing: int | None = None,
) -> None:
    """Store a summary of an ended episode, redacted by the agent's current settings."""
    episode_id = episode.episode_id if isinstance(episode, Work) else episode.id
    safe = _protected(runtime, episode.scope, new, turns)
    runtime.store.put_summary(episode.scope, episode_id, safe, replacing=replacing)


def read(
    runtime: Runtime, scope: Scope, episode_id: UUID, count: int | None = None
) -> tuple[list[Turn], SummarySource]:
    """Read an episode's recallable turns, and the state by which the store detects a later change.

    For an open episode, `count` limits them to the turns it had, because a newer turn would look
    like a rewrite.
    """
    # A turn that is indexed in between would look like a rewrite, too.
    index_turns.catch_up(runtime, scope, episode_id)
    state = runtime.store.recall_state(scope)
    turns = runtime.store.turns(scope, episode_id, stop=count)
    made_of = SummarySource(turns=len(turns), newest=0 if state is None else state.newest)
    return [turn for turn in turns if turn.indexed], made_of


def _known(runtime: Runtime, scope: Scope, episode_id: UUID) -> Episode:
    episode = runtime.store.episodes(scope, [episode_id]).get(episode_id)
    if episode is None:
        raise EpisodeNotFound(episode_id)
    return episode


def close_expired(runtime: Runtime, episode: Episode, *, wait: bool) -> Episode:
    return close(
        runtime,
        episode.scope,
        episode.id,
        reason=EndReason.TIMEOUT,
        at=episode.last_message_at,
        wait=wait,
        seen=episode,
    )


def closing_for(
    runtime: Runtime,
    scope: Scope,
    turns: Sequence[Turn],
    *,
    reason: EndReason,
    ended_at: datetime,
    summary: str | None,
    key_facts: Sequence[str] | None,
    wait: bool,
    made_of: SummarySource | None = None,
    guard: Guard | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
) -> Closing:
    """Make the end of an episode. A caller that passes a `guard` stores its placeholders, and the
    turns in the same write, so that the facts in them are found here.
    """
    _check_summary(summary, key_facts)
    new = _summary(runtime, scope, turns, summary, key_facts, wait=wait)
    if new is not None and new.facts is None and guard is not None:
        new = replace(new, facts=_by_rules(runtime, turns))
    if new is not None:
        new = _protected(runtime, scope, replace(new, made_of=made_of), turns, guard)
    return Closing(
        ended_at=ended_at,
        reason=reason,
        summary=new,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def _by_rules(runtime: Runtime, turns: Sequence[Turn]) -> tuple[Fact, ...]:
    return pii_guard.found(turns, runtime.extractive.facts(turns), FactOrigin.RULES)


def summary_of(runtime: Runtime, scope: Scope, turns: Sequence[Turn]) -> NewSummary | None:
    """Make the extractive summary and facts of turns; None without turns.

    If a model is configured, the worker asks it for a better one.
    """
    new = _summary(runtime, scope, turns, None, None, wait=False)
    return None if new is None else _protected(runtime, scope, new, turns)


def _protected(
    runtime: Runtime,
    scope: Scope,
    new: NewSummary,
    turns: Sequence[Turn],
    guard: Guard | None = None,
) -> NewSummary:
    """Redact a summary, its key facts and its facts, as the agent's settings say.

    Every summary passes this function, because a model may write what the turns do not say, and
    turns may be older than redaction.
    """
    own = guard or _guard_for(runtime, scope, turns)
    own.hear([turn.message for turn in turns])
    if own.redacts:
        safe = limited(own.summary(new.summary))
        lexical = summary_lexical(runtime, scope, safe, new.by)
        new = replace(new, summary=safe, lexical=lexical)
        if new.facts is None and turns:
            # Those that were found before the settings said so are not redacted.
            new = replace(new, facts=_by_rules(runtime, turns))
    return replace(
        new,
        facts=None if new.facts is None else pii_guard.guarded(new.facts, own),
        settings=own.settings,
        # Read last, when every number is assigned.
        placeholders=() if guard is not None else own.new(),
    )


def _guard_for(runtime: Runtime, scope: Scope, turns: Sequence[Turn]) -> Guard:
    """Make a guard with the names and placeholders of the episode's own turns."""
    if not turns:
        return runtime.guard(scope)
    session_id = turns[0].session_id
    guard = runtime.guard(scope, session_id=session_id)
    if not guard.redacts:
        return guard
    known = runtime.store.placeholders(scope, turns[0].episode_id)
    return runtime.guard(scope, session_id=session_id, known=known)


def _summary(
    runtime: Runtime,
    scope: Scope,
    turns: Sequence[Turn],
    given: str | None,
    key_facts: Sequence[str] | None,
    *,
    wait: bool,
) -> NewSummary | None:
    """Make the summary before redaction; None if there is nothing to summarize."""
    improve = False
    if given is not None:
        if key_facts is None:
            key_facts = runtime.extractive.key_facts(turns)
        made, by = Summary(text=given, key_facts=tuple(key_facts)), BY_CALLER
    elif not turns:
        if key_facts is None:
            return None
        made, by = Summary(text="", key_facts=tuple(key_facts)), BY_CALLER
    else:
        made, by, improve = _made_summary(runtime, turns, wait=wait)
        if key_facts is not None:
            made, improve = replace(made, key_facts=tuple(key_facts)), False
    return new_summary(runtime, scope, made, by, improve=improve, turns=turns)


def _made_summary(
    runtime: Runtime, turns: Sequence[Turn], *, wait: bool
) -> tuple[Summary, str, bool]:
    """Make a summary; returns it, its author, and whether the worker should improve it."""
    model = runtime.summarizer
    if model is not None and wait:
        try:
            made = model.summarize(turns, timeout=runtime.timeouts.at_close)
            return limited(made), model.name, False
        except Exception as error:  # noqa: BLE001 - closing never fails because a model did
            log.warning("summarizer %s failed at close: %s", model.name, for_log(error))
    made = runtime.extractive.summarize(turns, timeout=runtime.timeouts.at_close)
    return limited(made), runtime.extractive.name, model is not None


def limited(summary: Summary) -> Summary:
    """Shorten a summary to the length that an episode stores."""
    key_facts = tuple(map(_cut, summary.key_facts[:MOST_FACTS]))
    return replace(summary, text=_cut(summary.text), key_facts=key_facts)


def _cut(text: str) -> str:
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 1] + "…"


def new_summary(
    runtime: Runtime,
    scope: Scope,
    summary: Summary,
    by: str,
    *,
    improve: bool = False,
    turns: Sequence[Turn] | None = None,
) -> NewSummary:
    """Make a summary to store, and with `turns` the facts that a model found in them.

    Without `turns` or such facts, those stay that the rules found when the turns were indexed. The
    caller redacts the text, before or after.
    """
    lexical = summary_lexical(runtime, scope, summary, by)
    found = None
    if turns is not None and summary.facts and by != BY_CALLER:
        found = pii_guard.found(turns, summary.facts, FactOrigin.MODEL)
    summary = replace(summary, facts=())
    return NewSummary(summary=summary, by=by, lexical=lexical, improve=improve, facts=found)


def summary_lexical(runtime: Runtime, scope: Scope, summary: Summary, by: str | None) -> Lexical:
    """Tokenize a summary and its key facts for search; `by` is the summary's author."""
    text = "\n".join((summary.text, *summary.key_facts))
    return runtime.lexicon.summary(scope, text, own_words=not is_extractive(by))


def is_extractive(by: str | None) -> bool:
    """Return whether a summary repeats sentences of the turns."""
    return by is None or by.startswith("extractive")


def embedded_summary(episode: Episode) -> str:
    """Return the text to embed for an episode's summary.

    Key facts that do not repeat the turns come first, because an embedder may read only a few
    hundred words. Of an extract, the summary is worth more.
    """
    summary = episode.summary or ""
    if is_extractive(episode.summarized_by):
        return "\n".join((summary, *episode.key_facts))
    return "\n".join((*episode.key_facts, summary))


def ensure_summary(runtime: Runtime, episode: Episode) -> None:
    """Summarize an ended episode that has no summary, before archiving removes its turns."""
    if episode.summary:
        return
    turns, made_of = read(runtime, episode.scope, episode.id)
    if not turns:
        return
    made = limited(runtime.extractive.summarize(turns, timeout=runtime.timeouts.at_close))
    if made.text:
        made = replace(made, key_facts=episode.key_facts or made.key_facts)
        new = new_summary(runtime, episode.scope, made, runtime.extractive.name, turns=turns)
        put_summary(runtime, episode, replace(new, made_of=made_of), turns)


def _check_summary(summary: str | None, key_facts: Sequence[str] | None) -> None:
    if summary is not None and not isinstance(summary, str):
        raise InvalidInput("summary", f"must be text, not {type(summary).__name__}")
    if summary is not None and len(summary) > SUMMARY_LIMIT:
        raise InvalidInput(
            "summary", f"must have at most {SUMMARY_LIMIT:,} characters, not {len(summary):,}"
        )
    if key_facts is None:
        return
    listed = isinstance(key_facts, Sequence) and not isinstance(key_facts, str)
    if not listed or not all(isinstance(fact, str) for fact in key_facts):
        raise InvalidInput("key_facts", "must be a list of short texts")
    if len(key_facts) > MOST_FACTS:
        raise InvalidInput("key_facts", f"must be at most {MOST_FACTS}, not {len(key_facts):,}")
    for place, fact in enumerate(key_facts):
        if len(fact) > SUMMARY_LIMIT:
            problem = f"has {len(fact):,} characters; the most is {SUMMARY_LIMIT:,}"
            raise InvalidInput(f"key_facts[{place}]", problem)


def end_reason(given: EndReason | str) -> EndReason:
    try:
        return EndReason(given)
    except ValueError as error:
        raise InvalidInput("reason", f"must be one of {', '.join(EndReason)}") from error
