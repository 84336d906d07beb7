"""What a person who looks at a user's memory needs beyond an agent's calls."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ..domain.block.block import Material
from ..domain.block.passages import LeftOut, LeftOutReason
from ..domain.context import MemoryContext
from ..domain.episode import Episode, EpisodeSnippet, Scope, Turn, TurnHit
from ..domain.facts import Fact
from ..domain.ledger import Injection
from ..domain.message import Message
from ..domain.policy import MemoryConfig
from ..ports.models import Embedder
from .core.runtime import Runtime
from .read.context import MemoryOrchestrator
from .scope import MemoryScope

_MOST_NAMED = 100
_MILLIS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of the way from the message to the block, as a part of one bar."""

    name: str
    millis: float
    start: float
    """Share of the whole time before it, 0 to 1."""
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Something that was left out, with its words."""

    what: str
    words: str
    why: LeftOutReason
    score: float | None
    session_id: str = ""
    episode_id: UUID | None = None
    ordinal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A context block that was made to look at, and is entered nowhere."""

    context: MemoryContext
    stages: tuple[Stage, ...]
    """Searched, ranked, chosen, laid out: with their times, in order."""
    left_out: tuple[Named, ...]
    """The most relevant first, limited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What entries of the ledger refer to, without what was removed."""

    episodes: dict[UUID, Episode]
    turns: dict[tuple[UUID, int], Turn]
    """By episode and position."""
    facts: dict[UUID, Fact]


class Inspection:
    """A user's memory for a person who looks at it: `Memory.inspection`."""

    def __init__(self, runtime: Runtime, scope: MemoryScope) -> None:
        self._runtime = runtime
        self._scope = scope

    def texts(self, entries: Iterable[Injection]) -> Texts:
        """Read what entries of the ledger refer to, in a few round trips."""
        items = [item for entry in entries for item in (*entry.shown, *entry.cut)]
        places = {
            (item.episode_id, item.ordinal)
            for item in items
            if item.episode_id is not None and item.ordinal is not None
        }
        ids = {item.episode_id for item in items if item.episode_id is not None}
        episodes, turns = self._runtime.store.episodes_and_turns(
            self._scope.scope, sorted(ids), sorted(places)
        )
        facts = self._scope.facts(history=True) if any(item.fact_id for item in items) else []
        return Texts(
            episodes=episodes,
            turns={(turn.episode_id, turn.ordinal): turn for turn in turns},
            facts={fact.id: fact for fact in facts},
        )

    def sessions_of(self, facts: Iterable[Fact]) -> dict[UUID, str]:
        """Return the sessions that facts come from, by episode."""
        ids = sorted({fact.episode_id for fact in facts if fact.episode_id is not None})
        found = self._runtime.store.episodes(self._scope.scope, ids)
        return {episode_id: episode.session_id for episode_id, episode in found.items()}

    def try_context(
        self,
        message: str,
        config: MemoryConfig,
        *,
        with_facts: bool = True,
        embedder: Embedder | None = None,
    ) -> Tried:
        """Make the block for a message with other settings than the agent's.

        With an `embedder`, as if the memory used that one: what is stored is embedded with it, and
        the vectors are kept in this process alone.

        :raises InvalidInput: for an embedder other than the memory's, and a user with so many
            messages that it takes long
        :raises EmbedderFailed: when the embedder cannot be reached
        """
        runtime = self._runtime
        if embedder is not None:
            from .read.trial_index import trial_runtime

            runtime = trial_runtime(runtime, embedder)
        trial = _Trial(runtime, self._scope.scope, with_facts=with_facts)
        # Without a session, so that trying is not entered in the ledger.
        context = trial.context(message, config=config)
        return Tried(
            context=context, stages=tuple(trial.stages()), left_out=tuple(trial.left_out(context))
        )


class _Trial(MemoryOrchestrator):
    """Makes one block, and keeps what a page says about it."""

    def __init__(self, runtime: Runtime, scope: Scope, *, with_facts: bool = True) -> None:
        super().__init__(runtime, scope)
        self._with_facts = with_facts
        self._known: tuple[Fact, ...] = ()
        self._material = Material()
        self._query = ""
        self._times: list[tuple[str, float]] = [("", time.perf_counter())]

    def _reached(self, stage: str) -> None:
        self._times.append((stage, time.perf_counter()))

    def _facts(self) -> tuple[Fact, ...]:
        self._known = super()._facts() if self._with_facts else ()
        return self._known

    def material(
        self,
        query: str,
        config: MemoryConfig,
        budget: int,
        *,
        session_id: str | None,
        history: Sequence[Message] = (),
    ) -> Material:
        self._query = query
        self._material = super().material(
            query, config, budget, session_id=session_id, history=history
        )
        return self._material

    def stages(self) -> list[Stage]:
        """Stages with their times, in order."""
        begun, ended = self._times[0][1], self._times[-1][1]
        whole = max(ended - begun, 1e-9)
        return [
            Stage(
                name=name,
                millis=(at - before) * _MILLIS,
                start=(before - begun) / whole,
                share=(at - before) / whole,
            )
            for (_, before), (name, at) in zip(self._times, self._times[1:], strict=False)
        ]

    def left_out(self, context: MemoryContext) -> list[Named]:
        """What was left out, the most relevant first."""
        ordered = sorted(context.left_out, key=lambda each: -(each.score or 0.0))
        return [self._named(each) for each in ordered[:_MOST_NAMED]]

    def _named(self, each: LeftOut) -> Named:
        why = each.reason
        if why is LeftOutReason.HISTORY:
            # There is no history here, so the message itself holds these words.
            return Named(what=each.what, words=self._query, why=why, score=each.score)
        if each.fact_id is not None:
            words = next((fact.text for fact in self._known if fact.id == each.fact_id), "")
            return Named(what=each.what, words=words, why=why, score=each.score)
        for candidate in self._material.candidates:
            source = candidate.source
            if isinstance(source, TurnHit) and source.id == each.turn_id:
                return Named(
                    what=each.what,
                    words=" ".join(source.text.split()),
                    why=why,
                    score=each.score,
                    session_id=source.session_id,
                    episode_id=source.episode_id,
                    ordinal=source.ordinal,
                )
        quotable = (candidate.source for candidate in self._material.candidates)
        summed_up = (each for each in quotable if isinstance(each, EpisodeSnippet))
        for snippet in (*self._material.relevant, *self._material.recent, *summed_up):
            if snippet.episode_id == each.episode_id:
                return Named(
                    what=each.what,
                    words=snippet.summary or "; ".join(snippet.key_facts),
                    why=why,
                    score=each.score,
                    session_id=snippet.session_id,
                    episode_id=snippet.episode_id,
                )
        return Named(what=each.what, words="", why=why, score=each.score)
