"""Fakes of clock, summarizer and embedder, and builders of values to store."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.episode import EndReason, Scope, Summary, Turn
from ..domain.errors import EmbedderFailed, SummarizerFailed
from ..domain.facts import Fact, FactKind, FoundFact, check_slot
from ..domain.ids import new_id
from ..domain.message import Json, Message
from ..domain.search.row_format import TermHasher
from ..domain.search.terms import turn_flags, words
from ..ports.models import Embedder
from ..ports.values import Append, Closing, Idempotency, Lexical, NewSummary, NewTurn, Target

START = datetime(2025, 3, 14, 9, 26, 53, 589793, tzinfo=UTC)
"""Default time of everything in tests."""
_BETWEEN_TURNS = timedelta(seconds=10)
_HASHER = TermHasher(b"octopus")


class FixedClock:
    """A clock that only moves when a test advances it."""

    def __init__(self, at: datetime = START) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at

    def set(self, at: datetime) -> None:
        self._at = at

    def advance(self, **by: float) -> datetime:
        """Move the clock by a `timedelta(**by)`, such as `minutes=31`, and return the new time."""
        self._at += timedelta(**by)
        return self._at


class FakeSummarizer:
    """Returns configured answers, and records its calls in `asked`."""

    def __init__(
        self,
        text: str = "A fake summary.",
        *key_facts: str,
        name: str = "fake",
        facts: Sequence[FoundFact] = (),
    ) -> None:
        self._name = name
        self._summary = Summary(text=text, key_facts=key_facts, facts=tuple(facts))
        self._failures = 0
        self._error: Exception = SummarizerFailed("the fake summarizer was told to fail")
        self._seconds = 0.0
        self._lock = threading.Lock()
        self.asked: list[list[Turn]] = []

    @property
    def name(self) -> str:
        return self._name

    def answer(self, text: str, *key_facts: str, facts: Sequence[FoundFact] = ()) -> None:
        """Return this from now on, and cancel failures."""
        with self._lock:
            self._summary = Summary(text=text, key_facts=key_facts, facts=tuple(facts))
            self._failures = 0

    def fail(self, times: int = 1, error: Exception | None = None) -> None:
        """Raise `error`, or a `SummarizerFailed`, on the next `times` calls."""
        with self._lock:
            self._failures = times
            self._error = error or SummarizerFailed("the fake summarizer was told to fail")

    def slow(self, seconds: float) -> None:
        """Delay every answer; a call with a shorter timeout gets a `SummarizerFailed`."""
        with self._lock:
            self._seconds = seconds

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        with self._lock:
            self.asked.append(list(turns))
            failing = self._failures > 0
            self._failures -= failing
            error, seconds, summary = self._error, self._seconds, self._summary
        time.sleep(min(seconds, timeout))
        if seconds > timeout:
            raise SummarizerFailed(f"the fake summarizer took longer than {timeout} seconds")
        if failing:
            raise error
        return summary


class FailingEmbedder:
    """Wraps an embedder, and fails on the next `failures` calls."""

    def __init__(self, embedder: Embedder, failures: int = 0) -> None:
        self._embedder = embedder
        self._failures = failures
        self._lock = threading.Lock()
        self.calls = 0

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def fail(self, times: int) -> None:
        with self._lock:
            self._failures = times

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._lock:
            self.calls += 1
            failing = self._failures > 0
            self._failures -= failing
        if failing:
            raise EmbedderFailed("the failing embedder was told to fail")
        return self._embedder.embed(texts)


def make_scope(user: str = "ana", *, agent: str = "helper", tenant: str = "acme") -> Scope:
    return Scope(tenant=tenant, agent=agent, user=user)


def make_lexical(text: str, name: str | None = None) -> Lexical:
    """Lexical data of a text, hashed with a fixed key."""
    return Lexical(
        terms=_HASHER.pack(Counter(words(text))),
        speaker=_HASHER.pack_words(words(name)) if name else b"",
        flags=turn_flags(text),
    )


def make_turn(
    said: str | Mapping[str, Json] = "Good morning.",
    *,
    role: str = "user",
    at: datetime = START,
    tokens: int = 7,
    embed: bool = True,
    has_pii: bool = False,
) -> NewTurn:
    """A turn to append; `said` is its text or the whole message."""
    message = Message({"role": role, "content": said} if isinstance(said, str) else said)
    return NewTurn(
        id=new_id(),
        message=message,
        tokens=tokens,
        at=at,
        lexical=make_lexical(message.text, message.name),
        embed=embed,
        has_pii=has_pii,
    )


def make_summary(
    text: str = "They said good morning.",
    *key_facts: str,
    by: str = "fake",
    improve: bool = False,
    facts: Sequence[Fact] | None = None,
    settings: str | None = None,
) -> NewSummary:
    return NewSummary(
        summary=Summary(text=text, key_facts=key_facts),
        by=by,
        lexical=make_lexical(" ".join((text, *key_facts))),
        improve=improve,
        facts=facts,
        settings=settings,
    )


def make_fact(
    text: str = "Is allergic to peanuts.",
    *,
    kind: FactKind = FactKind.CONSTRAINT,
    slot: str | None = None,
    since: datetime = START,
    ordinal: int | None = 0,
    **more: Any,
) -> Fact:
    """A standing fact to store; the default slot is its own. `more` sets other fields."""
    own = check_slot(text) if slot is None else slot
    return Fact(id=new_id(), kind=kind, text=text, slot=own, since=since, ordinal=ordinal, **more)


def make_closing(
    at: datetime = START + timedelta(hours=1),
    summary: NewSummary | str | None = "They said good morning.",
    *,
    reason: EndReason = EndReason.USER_CLOSED,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
) -> Closing:
    return Closing(
        ended_at=at,
        reason=reason,
        summary=make_summary(summary) if isinstance(summary, str) else summary,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def make_key(key: str = "key", fingerprint: bytes = b"fingerprint") -> Idempotency:
    return Idempotency(key=key, fingerprint=fingerprint)


def make_append(
    scope: Scope,
    *turns: NewTurn | str,
    session_id: str = "session",
    episode_id: UUID | None = None,
    at: datetime = START,
    now: datetime | None = None,
    **more: Any,
) -> Append:
    """An append that starts an episode. Texts become turns 10 seconds apart; `more` sets fields."""
    return Append(
        scope=scope,
        session_id=session_id,
        episode_id=episode_id or new_id(),
        target=Target.NEW,
        at=at,
        now=now or at,
        turns=_turns(turns, at),
        **more,
    )


def make_next(
    started: Append,
    *turns: NewTurn | str,
    at: datetime | None = None,
    now: datetime | None = None,
    target: Target = Target.OPEN,
    **more: Any,
) -> Append:
    """An append to the episode that another append started."""
    at = at or started.at + timedelta(minutes=1)
    blank: dict[str, Any] = {"metadata": None, "idempotency": None, "closing": None}
    return dataclasses.replace(
        started,
        target=target,
        at=at,
        now=now or at,
        turns=_turns(turns, at),
        **(blank | more),
    )


def _turns(given: Sequence[NewTurn | str], at: datetime) -> list[NewTurn]:
    return [
        make_turn(turn, at=at + place * _BETWEEN_TURNS) if isinstance(turn, str) else turn
        for place, turn in enumerate(given)
    ]
