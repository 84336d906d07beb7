"""What an episode's text is to become: pure, but for the parts that read and count it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...domain.episode import Summary, Turn
from ...domain.facts import Fact
from ...domain.message import Json, message_tokens
from ...domain.search.terms import passage
from ...ports.carried import Rewritten, StoredEpisode
from ...ports.store import NewSummary, Placeholder
from ..core.pii_guard import Checked, Guard
from ..core.runtime import Runtime
from ..facts import facts as standing
from ..write import close, validate


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes to one episode; false where there is none."""

    turns: tuple[Rewritten, ...] = ()
    """Also those whose words stay, and whose vector was made of changed ones as well."""
    summary: NewSummary | None = None
    facts: tuple[Fact, ...] = ()
    metadata: Mapping[str, Json] | None = None
    placeholders: tuple[Placeholder, ...] = ()

    def __bool__(self) -> bool:
        changed = bool(self.turns or self.facts)
        return changed or self.summary is not None or self.metadata is not None


def plan(
    runtime: Runtime, stored: StoredEpisode, guard: Guard, *, with_metadata: bool = False
) -> Changes:
    checked = guard.messages([turn.message for turn in stored.turns])
    turns = _turns(runtime, stored, checked)
    summary = _summary(runtime, stored, checked, guard)
    facts = changed_facts(stored.facts, guard)
    metadata = guard.json(stored.metadata) if with_metadata else stored.metadata
    return Changes(
        turns=tuple(turns),
        summary=summary,
        facts=facts,
        metadata=None if metadata == stored.metadata else metadata,
        placeholders=tuple(guard.new()),
    )


def changed_facts(facts: Sequence[Fact], guard: Guard) -> tuple[Fact, ...]:
    """Those of the facts that change, as they are to be."""
    checked = [standing.redacted(fact, guard) for fact in facts]
    return tuple(new for new, old in zip(checked, facts, strict=True) if new != old)


def _turns(runtime: Runtime, stored: StoredEpisode, checked: Sequence[Checked]) -> list[Rewritten]:
    scope = stored.episode.scope
    config = runtime.config(scope.tenant, scope.agent)
    rewritten, before = [], ("", "")
    for turn, each in zip(stored.turns, checked, strict=True):
        message = each.message
        embed = validate.wants_vector(message, config)
        # A short answer is embedded with what it answers.
        was, now = (passage(message.text, previous=previous) for previous in before)
        if message != turn.message or (embed and was != now):
            rewritten.append(
                Rewritten(
                    ordinal=turn.ordinal,
                    message=message,
                    tokens=_tokens(runtime, turn, each),
                    lexical=runtime.lexicon.turn(scope, message.text, message.name),
                    embed=embed,
                    has_pii=turn.has_pii or each.has_pii,
                )
            )
        before = (turn.text, message.text)
    return rewritten


def _tokens(runtime: Runtime, turn: Turn, checked: Checked) -> int:
    """Counted anew, unless the caller had counted."""
    counted = message_tokens(turn.message, runtime.counter.count)
    if turn.tokens != counted:
        return turn.tokens
    return message_tokens(checked.message, runtime.counter.count)


def _summary(
    runtime: Runtime, stored: StoredEpisode, checked: Sequence[Checked], guard: Guard
) -> NewSummary | None:
    episode = stored.episode
    if episode.summary is None:
        return None
    turns = [
        replace(turn, message=each.message)
        for turn, each in zip(stored.turns, checked, strict=True)
    ]
    changed = any(t.message != old.message for t, old in zip(turns, stored.turns, strict=True))
    was = Summary(text=episode.summary, key_facts=episode.key_facts)
    made, by, is_own = was, episode.summarized_by or close.BY_CALLER, True
    if changed and by == runtime.extractive.name:
        made, is_own = _extracted(runtime, stored.turns, turns, was)
    made = close.limited(guard.summary(made))
    active = bool(turns) and not episode.is_archived and not stored.is_deleted
    better = is_own and active and runtime.summarizer is not None and by != close.BY_CALLER
    if made == was and not (changed and better):
        return None
    return close.new_summary(runtime, episode.scope, made, by, improve=better)


def _extracted(
    runtime: Runtime, old: Sequence[Turn], new: Sequence[Turn], was: Summary
) -> tuple[Summary, bool]:
    """The summary taken from the new turns, but for what a caller gave; whether that is nothing."""
    before, after = (
        close.limited(runtime.extractive.summarize(turns, timeout=runtime.timeouts.at_close))
        for turns in (old, new)
    )
    text = after.text if was.text == before.text else was.text
    facts = after.key_facts if was.key_facts == before.key_facts else was.key_facts
    is_own = (was.text, was.key_facts) == (before.text, before.key_facts)
    return Summary(text=text, key_facts=facts), is_own
