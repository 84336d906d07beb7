"""Search for everything that a wish to forget is about: turns, facts, summaries, queries."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from ...domain.checks import NO_TURN
from ...domain.episode import Scope, Turn
from ...domain.errors import FactNotFound, NotFound, OctopusError
from ...domain.facts import Fact, FactKind
from ...domain.forget import FACT, SENTENCE, SUMMARY, TURN, Chosen, Digests, ForgetItem, text_digest
from ...domain.forget import sentences as split
from ...domain.forget_topic import Match, Seen, Topic
from ...domain.message import AS_GIVEN, Role
from ...ports.values import StoredEpisode
from .. import facts
from ..core.redaction import Leaf, map_json_text, map_message
from ..core.runtime import Runtime
from ..read import recall

log = logging.getLogger(__name__)

_PAGE = 100
_MOST_WEAK = 20
_BY_RECALL = 10
_LEAST_RELEVANCE = 0.8
"""Relevance from which a turn without any of the words is shown as possibly meant."""
_BEFORE = 2
"""Turns before a sentence that tell what "her" and "it" mean; of those after it, one."""
_SHORT_REPLY = 12
"""Words of a reply that says nothing without its question."""
_SAME_WORDS = 0.6
"""Share of a fact's words in the sentences that go, from which it is taken to come from them."""

SAYS_IT = "says it"
MAY_MEAN = "may be about it"
ANSWERS = "answers a question about it"
REPLIES = "replies to a message about it"
FROM_IT = "was found in a message that goes"
EARLIER = "is an earlier value of a fact that goes"
NAMED = "was chosen"
SHARED = "is shared by another agent: forget it there"


@dataclass(slots=True)
class Found:
    """Items that match clearly, with their ids, and those that match weakly."""

    items: list[ForgetItem] = field(default_factory=list)
    weak: list[ForgetItem] = field(default_factory=list)
    turns: dict[UUID, dict[UUID, Digests | None]] = field(default_factory=dict)
    summaries: dict[UUID, Digests] = field(default_factory=dict)
    facts: dict[UUID, None] = field(default_factory=dict)
    queries: dict[UUID, None] = field(default_factory=dict)

    @property
    def chosen(self) -> Chosen:
        return Chosen(
            turns=self.turns,
            summaries=self.summaries,
            facts=tuple(self.facts),
            queries=tuple(self.queries),
        )

    def joined(self, other: Found) -> Found:
        """Both together; a whole turn replaces its sentences."""
        whole = {
            turn for turns in other.turns.values() for turn, parts in turns.items() if parts is None
        }
        gone = whole | set(other.facts)
        turns = {episode: dict(own) for episode, own in self.turns.items()}
        for episode, own in other.turns.items():
            turns.setdefault(episode, {}).update(own)
        return Found(
            items=_by_date([i for i in self.items if _id(i) not in gone] + other.items),
            weak=[item for item in self.weak if _id(item) not in gone],
            turns=turns,
            summaries=self.summaries | other.summaries,
            facts=self.facts | other.facts,
            queries=self.queries | other.queries,
        )


def _id(item: ForgetItem) -> UUID | None:
    return item.turn_id if item.fact_id is None else item.fact_id


def _by_date(items: list[ForgetItem]) -> list[ForgetItem]:
    return sorted(items, key=lambda item: item.date)


def search(runtime: Runtime, scope: Scope, about: str) -> Found:
    """Find everything that `about` means."""
    topic = Topic(about, runtime.analyzer)
    found = Found()
    if not topic:
        return found
    run = _Search(runtime, scope, topic, found)
    for stored in _episodes(runtime, scope):
        run.episode(stored)
    run.given_facts()
    run.shared_facts()
    run.earlier_values()
    if found.items:
        run.queries()
    run.by_recall(about)
    found.items = _by_date(found.items)
    # The best first: sentences with the words themselves were added before recall's.
    found.weak = found.weak[:_MOST_WEAK]
    return found


def _episodes(runtime: Runtime, scope: Scope) -> Iterator[StoredEpisode]:
    """Every episode of the scope, in any stage."""
    store, after = runtime.store, None
    while page := store.sessions(scope, deleted=True, after=after, limit=_PAGE):
        after = page[-1].id
        for session in page:
            for episode_id in store.episode_ids(scope, session.id, deleted=True):
                stored = store.stored_episode(scope, episode_id)
                if stored is not None:
                    yield stored


def texts_of(turn: Turn, *, with_original: bool = True) -> list[str]:
    """The texts of a turn that `forget` can rewrite.

    With `with_original`, also those of the original item of another provider's form.
    """
    found: list[str] = []

    def visit(leaf: Leaf) -> str | None:
        if leaf.text.lstrip()[:1] in ("{", "["):
            before = len(found)
            map_json_text(leaf.text, lambda inner: found.append(inner.text))
            if len(found) > before:
                return None
        found.append(leaf.text)
        return None

    body = turn.message.body
    if not with_original:
        body = {key: value for key, value in body.items() if key != AS_GIVEN}
    map_message(body, visit)
    return list(dict.fromkeys(found))


class _Search:
    """One search through a scope."""

    def __init__(self, runtime: Runtime, scope: Scope, topic: Topic, found: Found) -> None:
        self._runtime, self._scope = runtime, scope
        self._topic, self._found = topic, found
        self._facts: list[Fact] = []
        self._seen_turns: set[UUID] = set()

    def episode(self, stored: StoredEpisode) -> None:
        texts = [texts_of(turn) for turn in stored.turns]
        seen = [self._seen_in(each) for each in texts]
        before: tuple[Turn, bool, bool] | None = None
        for place, turn in enumerate(stored.turns):
            around = Seen()
            for near in seen[max(0, place - _BEFORE) : place + 2]:
                around |= near
            clear, weak = self._judged(texts[place], around) if around.exact else ([], [])
            reason = SAYS_IT
            if not clear and before is not None and before[2] and _is_short_reply(turn):
                clear, reason = [part for text in texts[place] for part in split(text)], ANSWERS
            if clear:
                self._add_turn(stored, turn, clear, reason)
            elif weak:
                self._add_weak(turn, " ".join(weak), MAY_MEAN)
            elif before is not None and before[1] and turn.role is Role.ASSISTANT:
                self._add_weak(turn, turn.text, REPLIES)
            asks = bool(clear) and clear[-1].rstrip().endswith(("?", "？"))
            is_user = turn.role is Role.USER
            before = (turn, bool(clear) and is_user, asks and turn.role is Role.ASSISTANT)
        self._facts += [fact for fact in stored.facts if not fact.is_deleted]
        self._facts_of(stored)
        self._summary(stored)

    def _seen_in(self, texts: Sequence[str]) -> Seen:
        seen = Seen()
        for text in texts:
            seen |= self._topic.seen(text)
        return seen

    def _judged(self, texts: Sequence[str], around: Seen) -> tuple[list[str], list[str]]:
        """The sentences that match clearly, and those that match weakly."""
        clear, weak = [], []
        for text in texts:
            if not any(self._topic.seen(text)):
                continue
            for sentence in split(text):
                own = self._topic.seen(sentence)
                match = self._topic.match(sentence, own, around) if any(own) else Match.NONE
                if match is Match.CLEAR:
                    clear.append(sentence)
                elif match is Match.WEAK:
                    weak.append(sentence.strip())
        return clear, weak

    def _add_turn(
        self,
        stored: StoredEpisode,
        turn: Turn,
        clear: Sequence[str],
        reason: str,
    ) -> None:
        self._seen_turns.add(turn.id)
        gone, own_texts = set(clear), texts_of(turn, with_original=False)
        rest = [part for text in own_texts for part in split(text) if part not in gone]
        is_whole = not any(map(str.isalnum, "".join(rest)))
        digests = tuple(dict.fromkeys(map(self._digest, clear)))
        own = self._found.turns.setdefault(stored.episode.id, {})
        own[turn.id] = None if is_whole else digests
        said = turn.text if is_whole else " ".join(" ".join(clear).split())
        what = TURN if is_whole else SENTENCE
        self._found.items.append(_turn_item(turn, what, said or " ".join(clear), reason))

    def _add_weak(self, turn: Turn, text: str, reason: str) -> None:
        if text.strip():
            self._seen_turns.add(turn.id)
            self._found.weak.append(_turn_item(turn, SENTENCE, text, reason))

    def _digest(self, sentence: str) -> str:
        return text_digest(self._runtime.store.salt, self._scope.tenant, sentence)

    def _facts_of(self, stored: StoredEpisode) -> None:
        """Find the facts that say it, and those that come from what goes."""
        wanted = self._found.turns.get(stored.episode.id, {})
        turns = {turn.id: turn for turn in stored.turns if turn.id in wanted}
        for fact in stored.facts:
            if fact.is_deleted:
                continue
            source = None if fact.turn_id is None else turns.get(fact.turn_id)
            if source is not None and self._comes_from(fact, source, wanted[source.id]):
                self._add_fact(fact, FROM_IT)
            else:
                self._judge_fact(fact)

    def _comes_from(self, fact: Fact, turn: Turn, digests: Digests | None) -> bool:
        if digests is None:
            return True
        gone = [
            part for text in texts_of(turn) for part in split(text) if self._digest(part) in digests
        ]
        words = self._terms(fact.text)
        return bool(words) and len(words & self._terms(" ".join(gone))) >= _SAME_WORDS * len(words)

    def _terms(self, text: str) -> set[str]:
        return set(self._runtime.analyzer.terms(text, len(text)))

    def _match_of(self, fact: Fact) -> Match:
        own = self._topic.seen(f"{fact.kind.value} {fact.slot} {fact.text}")
        return self._topic.match(fact.text, own, Seen()) if any(own) else Match.NONE

    def _judge_fact(self, fact: Fact) -> None:
        match = self._match_of(fact)
        if match is Match.CLEAR:
            self._add_fact(fact, SAYS_IT)
        elif match is Match.WEAK:
            self._found.weak.append(_fact_item(fact, MAY_MEAN))

    def _add_fact(self, fact: Fact, reason: str) -> None:
        if fact.id not in self._found.facts:
            self._found.facts[fact.id] = None
            self._found.items.append(_fact_item(fact, reason))

    def given_facts(self) -> None:
        """Find the facts that callers gave."""
        for fact in self._runtime.store.facts(self._scope, given=True):
            if not fact.is_deleted:
                self._facts.append(fact)
                self._judge_fact(fact)

    def shared_facts(self) -> None:
        """Add the facts that other agents share, which only a scope of theirs can forget."""
        for fact in facts.shared(self._runtime, self._scope):
            if self._match_of(fact) is not Match.NONE:
                item = ForgetItem(what=FACT, text=fact.text, date=fact.since, reason=SHARED)
                self._found.weak.append(item)

    def earlier_values(self) -> None:
        """Add the history of each fact that goes: an older value must not become current."""
        slots: set[tuple[FactKind, str]] = set()
        for fact in sorted(self._facts, key=lambda fact: (fact.since, fact.id.int), reverse=True):
            if fact.id in self._found.facts:
                slots.add((fact.kind, fact.slot))
            elif (fact.kind, fact.slot) in slots:
                self._add_fact(fact, EARLIER)
        self._found.weak = [i for i in self._found.weak if i.fact_id not in self._found.facts]

    def _summary(self, stored: StoredEpisode) -> None:
        episode = stored.episode
        if not episode.summary:
            return
        clear, _ = self._judged([episode.summary, *episode.key_facts], Seen())
        if clear:
            self._found.summaries[episode.id] = tuple(dict.fromkeys(map(self._digest, clear)))
            self._found.items.append(
                ForgetItem(
                    what=SUMMARY,
                    text=" ".join(dict.fromkeys(map(str.strip, clear))),
                    date=episode.started_at,
                    reason=SAYS_IT,
                    episode_id=episode.id,
                    session_id=episode.session_id,
                )
            )

    def queries(self) -> None:
        """Find the ledger's queries that say it."""
        after: UUID | None = None
        store = self._runtime.store
        while page := store.injections(self._scope, after=after, limit=_PAGE):
            after = page[-1].id
            for entry in page:
                if entry.query and self._judged([entry.query], Seen())[0]:
                    self._found.queries[entry.id] = None

    def by_recall(self, about: str) -> None:
        """Add turns that recall finds by their meaning, as possibly meant."""
        ask = recall.Ask(query=about, limit=_BY_RECALL, min_score=_LEAST_RELEVANCE)
        try:
            hits = recall.recall_turns(self._runtime, self._scope, ask)
        except OctopusError as error:
            log.warning("a search by meaning failed: %s", error.for_log())
            return
        for hit in hits:
            if hit.id not in self._seen_turns:
                self._found.weak.append(
                    ForgetItem(
                        what=TURN,
                        text=hit.text,
                        date=hit.at,
                        reason=MAY_MEAN,
                        episode_id=hit.episode_id,
                        session_id=hit.session_id,
                        turn_id=hit.id,
                        role=hit.role.value,
                    )
                )


def _is_short_reply(turn: Turn) -> bool:
    return turn.role is Role.USER and len(turn.text.split()) <= _SHORT_REPLY


def _turn_item(turn: Turn, what: str, text: str, reason: str) -> ForgetItem:
    return ForgetItem(
        what=what,
        text=text,
        date=turn.at,
        reason=reason,
        episode_id=turn.episode_id,
        session_id=turn.session_id,
        turn_id=turn.id,
        role=turn.role.value,
    )


def _fact_item(fact: Fact, reason: str) -> ForgetItem:
    return ForgetItem(
        what=FACT,
        text=fact.text,
        date=fact.since,
        reason=reason,
        episode_id=fact.episode_id,
        turn_id=fact.turn_id,
        fact_id=fact.id,
    )


def by_ids(
    runtime: Runtime, scope: Scope, turn_ids: Collection[UUID], fact_ids: Collection[UUID]
) -> Found:
    """Find turns and facts by their ids, with the facts that come from the turns.

    :raises NotFound: for a turn that is not in this scope
    :raises FactNotFound: for a fact that is not in this scope
    """
    found, turns_left, facts_left = Found(), set(turn_ids), set(fact_ids)

    def take(fact: Fact, reason: str) -> None:
        facts_left.discard(fact.id)
        if fact.id not in found.facts:
            found.facts[fact.id] = None
            found.items.append(_fact_item(fact, reason))

    for stored in _episodes(runtime, scope) if turn_ids or fact_ids else ():
        for turn in stored.turns:
            if turn.id in turns_left:
                turns_left.discard(turn.id)
                found.turns.setdefault(stored.episode.id, {})[turn.id] = None
                found.items.append(_turn_item(turn, TURN, turn.text, NAMED))
        for fact in stored.facts:
            if fact.id in facts_left and not fact.is_deleted:
                take(fact, NAMED)
            elif fact.turn_id in turn_ids and not fact.is_deleted:
                take(fact, FROM_IT)
    for fact in runtime.store.facts(scope, given=True) if facts_left else ():
        if fact.id in facts_left and not fact.is_deleted:
            take(fact, NAMED)
    if turns_left:
        raise NotFound(NO_TURN)
    if facts_left:
        raise FactNotFound(min(facts_left, key=str))
    found.items = _by_date(found.items)
    return found
