"""Redaction of personal data that is stored already.

Each episode is rewritten in one transaction. Names in one episode of a session are needed for the
later ones, so the last episode is rewritten first: a process that is killed loses no name.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TypeAlias
from uuid import UUID

from ...domain.episode import Scope, Summary, Turn, check_name
from ...domain.errors import (
    EpisodeChanged,
    EpisodeNotFound,
    InvalidSetting,
    LegalHold,
    OctopusError,
)
from ...domain.facts import Fact
from ...domain.message import Json, message_tokens
from ...domain.policy import PiiMode, PrivacyConfig
from ...domain.search.terms import passage
from ...domain.text.pii import PLACEHOLDER
from ...ports.models import Redactor
from ...ports.values import NewSummary, Placeholder, RewrittenTurn, StoredEpisode
from ..core import audit, pii_guard
from ..core.pii_guard import Checked, Guard
from ..core.runtime import Runtime
from ..write import close, index_turns, prepare
from . import erasure

log = logging.getLogger(__name__)

_ATTEMPTS = 5
"""Attempts per episode, because another caller may change it meanwhile."""
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubReport:
    """Counts of what a scrub read and changed, or would change in a dry run."""

    dry_run: bool = False
    scopes: int = 0
    """Pairs of a user and an agent."""
    episodes: int = 0
    turns: int = 0
    changed_episodes: int = 0
    changed_turns: int = 0
    changed_summaries: int = 0
    changed_facts: int = 0
    """Changed standing facts, found or given by a caller."""
    changed_metadata: int = 0
    """Sessions with changed metadata."""
    changed_queries: int = 0
    """Changed queries in the ledger."""
    held: int = 0
    """Episodes with personal data that a legal hold keeps unchanged.

    The facts that callers gave about a user count as one more.
    """
    failed: int = 0
    """Sessions that failed because of an error or concurrent writes: run the scrub again.

    The facts that callers gave about a user count as one more.
    """
    kinds: Mapping[str, int] = field(default_factory=dict)
    """The number of placeholders written, by kind."""
    compacted: bool | None = None
    """True if the files were rewritten afterwards; None if it was not needed."""

    @property
    def is_complete(self) -> bool:
        """True if everything that was found is redacted, apart from old bytes in the files."""
        return not self.held and not self.failed


Progress: TypeAlias = Callable[[ScrubReport], None]


def scrub(
    runtime: Runtime,
    tenant: str,
    *,
    user: str | None = None,
    agent: str | None = None,
    dry_run: bool = False,
    numbered: bool | None = None,
    compact: bool = True,
    progress: Progress | None = None,
    actor: str = "library",
) -> ScrubReport:
    """Redact everything that a tenant has stored, whatever its agents' settings are."""
    for name, value in (("user", user), ("agent", agent)):
        if value is not None:
            check_name(name, value)
    check_name("actor", actor)
    if runtime.make_redactor is None:
        raise InvalidSetting("redactor", "must be set, to find personal data")
    runtime.ledger.flush()
    run = _Run(
        runtime, runtime.make_redactor(), numbered=numbered, dry_run=dry_run, progress=progress
    )
    found = runtime.store.scopes(tenant=tenant, user=user)
    scopes = [scope for _, scope in found if agent in (None, scope.agent)]
    if dry_run:
        run.all(scopes)
        return run.report
    audit.record(runtime, "scrub", tenant=tenant, actor=actor, user=user, outcome="begun")
    try:
        run.all(scopes)
    finally:
        runtime.clear_caches()
        _record(runtime, run, tenant, actor=actor, user=user)
    return replace(
        run.report, compacted=erasure.compact_if_owed(runtime, actor=actor) if compact else None
    )


def _record(runtime: Runtime, run: _Run, tenant: str, *, actor: str, user: str | None) -> None:
    report = run.report
    counts = {name: value for name, value in asdict(report).items() if name not in _NO_COUNTS}
    outcome = "done" if run.ended and report.is_complete else "partly"
    audit.record(runtime, "scrub", tenant=tenant, actor=actor, user=user, outcome=outcome, **counts)


_NO_COUNTS = ("dry_run", "compacted")


class _Run:
    """A run over the scopes of a tenant."""

    def __init__(
        self,
        runtime: Runtime,
        redactor: Redactor,
        *,
        numbered: bool | None,
        dry_run: bool,
        progress: Progress | None,
    ) -> None:
        self.report = ScrubReport(dry_run=dry_run)
        self.ended = False
        self._runtime = runtime
        self._redactor = redactor
        self._numbered = numbered
        self._progress = progress
        self._kinds: Counter[str] = Counter()

    def all(self, scopes: Sequence[Scope]) -> None:
        for scope in scopes:
            self._count(scopes=1)
            for session_id in self._sessions(scope):
                self._try("a session", partial(self._session, scope, session_id))
                if self._progress is not None:
                    self._progress(self.report)
            self._try("the given facts", partial(self._given_facts, scope))
            self._try("the ledger", partial(self._queries, scope))
        self.ended = True

    def _try(self, what: str, do: Callable[[], None]) -> None:
        try:
            do()
        except LegalHold:
            # The hold was placed since the scrub began.
            self._count(held=1)
        except OctopusError as error:
            log.warning("scrub skipped %s: %s", what, error.for_log())
            self._count(failed=1)

    def _given_facts(self, scope: Scope) -> None:
        """Redact the facts that callers gave, which belong to no episode and have no numbers."""
        facts = _undeleted(self._runtime.store.facts(scope, given=True))
        guard = self._guard(scope, None, (), numbered=False)
        changed = _changed_facts(facts, guard)
        if not changed:
            return
        if self._is_held(scope, ()):
            self._count(held=1)
            return
        if not self.report.dry_run:
            self._runtime.store.rewrite_scope(scope, facts=changed)
        self._count_facts(facts, changed)
        self._show_kinds()

    def _queries(self, scope: Scope) -> None:
        """Redact the queries in the ledger, unless the user is under a hold."""
        after: UUID | None = None
        while page := self._runtime.store.injections(scope, after=after, limit=_PAGE):
            after = page[-1].id
            changed: dict[UUID, str] = {}
            for entry in page:
                if entry.query is None:
                    continue
                safe = self._guard(scope, None, (), numbered=False).text(entry.query)
                if safe != entry.query:
                    changed[entry.id] = safe
                    self._count_kinds({"text": entry.query}, {"text": safe})
            if not changed:
                continue
            if self._is_held(scope, ()):
                self._count(held=1)
                return
            if not self.report.dry_run:
                self._runtime.store.rewrite_scope(scope, queries=changed)
            self._count(changed_queries=len(changed))
        self._show_kinds()

    def _sessions(self, scope: Scope) -> Iterator[str]:
        after: str | None = None
        store = self._runtime.store
        while page := store.sessions(scope, deleted=True, after=after, limit=_PAGE):
            after = page[-1].id
            yield from (session.id for session in page)

    def _session(self, scope: Scope, session_id: str) -> None:
        ids = [*self._runtime.store.episode_ids(scope, session_id, deleted=True)]
        heard = self._heard(scope, ids)
        is_held = self._is_held(scope, ids)
        for place in reversed(range(len(ids))):
            # In the last episode, every name of the session is known.
            last = place == len(ids) - 1
            self._episode(scope, ids[place], heard[place], with_metadata=last, is_held=is_held)

    def _is_held(self, scope: Scope, ids: Sequence[UUID]) -> bool:
        """Return whether a hold keeps the session: whole, because its episodes share names."""
        holds = self._runtime.store.holds(scope.tenant)
        return any(hold.user == scope.user or hold.episode_id in ids for hold in holds)

    def _heard(self, scope: Scope, ids: Sequence[UUID]) -> list[list[str]]:
        """Return for each episode the names in the episodes before it."""
        heard: list[list[str]] = [[]]
        for episode_id in ids[:-1]:
            stored = self._runtime.store.stored_episode(scope, episode_id)
            guard = self._guard(scope, stored, heard[-1])
            if stored is not None:
                guard.messages([turn.message for turn in stored.turns])
                facts = (fact.text for fact in _undeleted(stored.facts))
                for text in (stored.episode.summary or "", *stored.episode.key_facts, *facts):
                    guard.text(text)
            heard.append(guard.names)
        return heard

    def _guard(
        self,
        scope: Scope,
        stored: StoredEpisode | None,
        names: Sequence[str],
        *,
        numbered: bool | None = None,
    ) -> Guard:
        numbered = self._numbered if numbered is None else numbered
        if numbered is None:
            numbered = self._runtime.config(scope.tenant, scope.agent).privacy.numbered
        return Guard(
            PrivacyConfig(pii=PiiMode.REDACT, numbered=numbered),
            self._redactor,
            salt=self._runtime.store.salt,
            scope=scope,
            known=() if stored is None else stored.placeholders,
            names=names,
        )

    def _episode(
        self,
        scope: Scope,
        episode_id: UUID,
        names: Sequence[str],
        *,
        with_metadata: bool,
        is_held: bool,
    ) -> None:
        for attempt in range(_ATTEMPTS):
            if not self.report.dry_run:
                index_turns.catch_up(self._runtime, scope, episode_id)
            stored = self._runtime.store.stored_episode(scope, episode_id)
            if stored is None:
                return
            guard = self._guard(scope, stored, names)
            found = _changes(self._runtime, stored, guard, with_metadata=with_metadata)
            try:
                if found and not is_held and not self.report.dry_run:
                    self._rewrite(stored, found)
            except EpisodeNotFound:
                return
            except EpisodeChanged:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            self._count(episodes=1, turns=len(stored.turns))
            if found and is_held:
                self._count(held=1)
            elif found:
                self._count_changes(stored, found)
            return

    def _rewrite(self, stored: StoredEpisode, found: _Changes) -> None:
        self._runtime.store.rewrite(
            stored,
            turns=found.turns,
            summary=found.summary,
            facts=found.facts,
            metadata=found.metadata,
            placeholders=found.placeholders,
            now=self._runtime.clock.now(),
        )

    def _count_changes(self, stored: StoredEpisode, done: _Changes) -> None:
        said = {turn.ordinal: turn.message for turn in stored.turns}
        changed = [new for new in done.turns if new.message != said[new.ordinal]]
        self._count(
            changed_episodes=1,
            changed_turns=len(changed),
            changed_summaries=done.summary is not None,
            changed_metadata=done.metadata is not None,
        )
        for new in changed:
            self._count_kinds(said[new.ordinal].body, new.message.body)
        if done.summary is not None:
            episode, made = stored.episode, done.summary.summary
            old = {"text": episode.summary, "facts": list(episode.key_facts)}
            self._count_kinds(old, {"text": made.text, "facts": list(made.key_facts)})
        if done.metadata is not None:
            self._count_kinds(stored.metadata, done.metadata)
        self._count_facts(_undeleted(stored.facts), done.facts)
        self._show_kinds()

    def _count_facts(self, before: Sequence[Fact], changed: Sequence[Fact]) -> None:
        self._count(changed_facts=len(changed))
        was = {fact.id: fact for fact in before}
        for fact in changed:
            self._count_kinds({"text": was[fact.id].text}, {"text": fact.text})

    def _show_kinds(self) -> None:
        self.report = replace(self.report, kinds=dict(sorted(self._kinds.items())))

    def _count_kinds(self, before: Mapping[str, Json], after: Mapping[str, Json]) -> None:
        self._kinds += _kinds_in(after) - _kinds_in(before)

    def _count(self, **more: int) -> None:
        counts = {name: getattr(self.report, name) + number for name, number in more.items()}
        self.report = replace(self.report, **counts)


def _kinds_in(value: Mapping[str, Json]) -> Counter[str]:
    found = PLACEHOLDER.findall(json.dumps(dict(value), ensure_ascii=False))
    return Counter(word[1:-1].rstrip("0123456789").rstrip("_") for word in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """The changes to one episode; falsy if there are none."""

    turns: tuple[RewrittenTurn, ...] = ()
    """Includes unchanged turns whose vector was made with a changed turn."""
    summary: NewSummary | None = None
    facts: tuple[Fact, ...] = ()
    metadata: Mapping[str, Json] | None = None
    placeholders: tuple[Placeholder, ...] = ()

    def __bool__(self) -> bool:
        changed = bool(self.turns or self.facts)
        return changed or self.summary is not None or self.metadata is not None


def _changes(
    runtime: Runtime, stored: StoredEpisode, guard: Guard, *, with_metadata: bool = False
) -> _Changes:
    checked = guard.messages([turn.message for turn in stored.turns])
    turns = rewritten_turns(runtime, stored, checked)
    summary = _summary(runtime, stored, checked, guard)
    facts = _changed_facts(_undeleted(stored.facts), guard)
    metadata = guard.json(stored.metadata) if with_metadata else stored.metadata
    return _Changes(
        turns=tuple(turns),
        summary=summary,
        facts=facts,
        metadata=None if metadata == stored.metadata else metadata,
        placeholders=tuple(guard.new()),
    )


def _undeleted(facts: Sequence[Fact]) -> list[Fact]:
    return [fact for fact in facts if not fact.is_deleted]


def _changed_facts(facts: Sequence[Fact], guard: Guard) -> tuple[Fact, ...]:
    """Return the redacted form of the facts that change."""
    checked = [pii_guard.redacted(fact, guard) for fact in facts]
    return tuple(new for new, old in zip(checked, facts, strict=True) if new != old)


def rewritten_turns(
    runtime: Runtime, stored: StoredEpisode, checked: Sequence[Checked | None]
) -> list[RewrittenTurn]:
    """Return the turns that change, with those whose vector was made with a turn that changes.

    `checked` has the new message of each turn; None for a turn that is removed.
    """
    scope = stored.episode.scope
    config = runtime.config(scope.tenant, scope.agent)
    rewritten, before = [], ("", "")
    for turn, each in zip(stored.turns, checked, strict=True):
        if each is None:
            before = (turn.text, before[1])
            continue
        message = each.message
        embed = turn.indexed and prepare.wants_vector(message, config)
        # A short answer is embedded with its question.
        was, now = (passage(message.text, previous=previous) for previous in before)
        if message != turn.message or (embed and was != now):
            rewritten.append(
                RewrittenTurn(
                    ordinal=turn.ordinal,
                    message=message,
                    tokens=_tokens(runtime, turn, each),
                    lexical=runtime.lexicon.turn(scope, message.text, message.name, turn.at),
                    embed=embed,
                    has_pii=turn.has_pii or each.has_pii,
                    indexed=turn.indexed,
                )
            )
        before = (turn.text, message.text)
    return rewritten


def _tokens(runtime: Runtime, turn: Turn, checked: Checked) -> int:
    """Count the tokens again, unless the caller counted them."""
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
    """Extract a summary from the new turns, but keep a caller's parts; also tell if there were
    none.
    """
    before, after = (
        close.limited(runtime.extractive.summarize(turns, timeout=runtime.timeouts.at_close))
        for turns in ([turn for turn in some if turn.indexed] for some in (old, new))
    )
    text = after.text if was.text == before.text else was.text
    facts = after.key_facts if was.key_facts == before.key_facts else was.key_facts
    is_own = (was.text, was.key_facts) == (before.text, before.key_facts)
    return Summary(text=text, key_facts=facts), is_own
