"""Redaction or flagging of personal data before it is stored, in messages and found facts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from ...domain.episode import Scope, Summary, Turn
from ...domain.facts import (
    FACT_LIMIT,
    MOST_FACTS_OF_EPISODE,
    Fact,
    FactKind,
    FactOrigin,
    FoundFact,
    check_slot,
)
from ...domain.ids import new_id
from ...domain.message import Json, Message
from ...domain.policy import PiiMode, PrivacyConfig
from ...ports.models import Redactor
from ...ports.values import Placeholder

if TYPE_CHECKING:
    from ...domain.text.pii import NumberOf, PiiKind


_MOST_SESSIONS = 2_000
_MOST_NAMES = 200


class Checked(NamedTuple):
    """A message that may be stored."""

    message: Message
    has_pii: bool = False


class NamesHeard:
    """Names heard in recent sessions, so that a name said once is found in later turns.

    Kept in memory only, and only for recent sessions, because the names must not be stored.
    """

    def __init__(self) -> None:
        self._heard: OrderedDict[tuple[Scope, str], list[str]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, scope: Scope, session_id: str | None) -> list[str]:
        with self._lock:
            return list(self._heard.get((scope, session_id or ""), ()))

    def add(self, scope: Scope, session_id: str, names: Sequence[str]) -> None:
        with self._lock:
            known = self._heard.pop((scope, session_id), [])
            self._heard[scope, session_id] = list(dict.fromkeys([*known, *names]))[-_MOST_NAMES:]
            if len(self._heard) > _MOST_SESSIONS:
                self._heard.popitem(last=False)

    def clear_cache(self) -> None:
        with self._lock:
            self._heard.clear()


class Guard:
    """Applies the redactor to everything that one call stores, with shared names and numbers.

    `known` are the placeholders that the episode has, `names` those heard before.
    """

    def __init__(
        self,
        config: PrivacyConfig,
        redactor: Redactor | None,
        *,
        salt: bytes,
        scope: Scope,
        known: Sequence[Placeholder] = (),
        names: Sequence[str] = (),
        settings: str | None = None,
    ) -> None:
        self.settings = settings
        """The version of the agent's settings. A write of guarded text names it."""
        self._mode = config.pii if redactor is not None else PiiMode.OFF
        self._redactor = redactor
        self._salt, self._scope = salt, scope
        self._known = {(each.kind, each.digest): each.number for each in known}
        self._used: dict[tuple[str, bytes], int] = {}
        self._highest: dict[str, int] = {}
        for each in known:
            self._highest[each.kind] = max(each.number, self._highest.get(each.kind, 0))
        self._names = list(names)
        self._number_of: NumberOf | None = self._number if config.numbered else None

    @property
    def redacts(self) -> bool:
        """True if it replaces personal data."""
        return self._mode is PiiMode.REDACT and self._redactor is not None

    @property
    def names(self) -> list[str]:
        """The names heard so far."""
        return list(self._names)

    def used(self) -> list[Placeholder]:
        """Return every placeholder in the text that was checked."""
        return [
            Placeholder(kind=kind, digest=digest, number=number)
            for (kind, digest), number in self._used.items()
        ]

    def new(self) -> list[Placeholder]:
        """Return the placeholders that are new to the episode."""
        return [each for each in self.used() if (each.kind, each.digest) not in self._known]

    def messages(self, messages: Sequence[Message]) -> list[Checked]:
        if self._mode is PiiMode.OFF or self._redactor is None:
            return list(map(Checked, messages))
        return [self._message(message, self._redactor) for message in messages]

    def _message(self, message: Message, redactor: Redactor) -> Checked:
        from . import redaction

        if self._mode is PiiMode.FLAG:
            found = redaction.found_in(message, redactor, names=self._names)
        else:
            found = redaction.redact_message(
                message, redactor, names=self._names, number_of=self._number_of
            )
        self._hear(found.names)
        return Checked(message=found.value, has_pii=bool(found.kinds))

    def text(self, text: str) -> str:
        """Redact a summary or a key fact."""
        if self._mode is not PiiMode.REDACT or self._redactor is None:
            return text
        from . import redaction

        found = redaction.redact_text(
            text, self._redactor, names=self._names, number_of=self._number_of
        )
        self._hear(found.names)
        return found.value

    def hear(self, messages: Sequence[Message]) -> None:
        """Learn the names in stored messages.

        They may be older than redaction, and a summary may use a first name alone.
        """
        if self._mode is not PiiMode.REDACT or self._redactor is None:
            return
        from . import redaction

        for message in messages:
            self._hear(redaction.found_in(message, self._redactor, names=self._names).names)

    def summary(self, summary: Summary) -> Summary:
        """Redact the text and key facts of a summary; its standing facts are guarded when they are
        stored.
        """
        text = self.text(summary.text)
        return replace(summary, text=text, key_facts=tuple(map(self.text, summary.key_facts)))

    def json(self, value: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
        """Redact a session's metadata."""
        if value is None or self._mode is not PiiMode.REDACT or self._redactor is None:
            return value
        from . import redaction

        cleaned: Mapping[str, Json] = redaction.redact_json(
            dict(value), self._redactor, names=self._names, number_of=self._number_of
        ).value
        return cleaned

    def _hear(self, names: Sequence[str]) -> None:
        self._names = list(dict.fromkeys([*self._names, *names]))[-_MOST_NAMES:]

    def _number(self, kind: PiiKind, value: str) -> int:
        key = (kind.value, self._digest(kind, value))
        number = self._known.get(key) or self._used.get(key)
        if number is None:
            number = self._highest[kind.value] = self._highest.get(kind.value, 0) + 1
        self._used[key] = number
        return number

    def _digest(self, kind: PiiKind, value: str) -> bytes:
        """Hash a value with the database's salt and the scope, so that it can be compared only
        there.
        """
        own = blake2b(repr(self._scope).encode(), key=self._salt[:64], digest_size=32).digest()
        return blake2b(
            f"{kind}\0{value}".encode("utf-8", "replace"), key=own, digest_size=16
        ).digest()


def found(
    turns: Sequence[Turn], facts: Iterable[FoundFact], origin: FactOrigin
) -> tuple[Fact, ...]:
    """Make facts of what a summarizer found in these turns; pass them to `guarded` before storing.

    A model's answer is not trusted: facts that are empty or name an unknown turn are dropped.
    """
    said = {turn.ordinal: turn for turn in turns}
    kept: list[Fact] = []
    for fact in facts:
        turn, text = said.get(fact.ordinal), " ".join(fact.text.split())
        if turn is None or not text:
            continue
        kept.append(
            Fact(
                id=new_id(),
                kind=fact.kind,
                text=text,
                slot=fact.slot,
                since=turn.at,
                turn_id=turn.id,
                ordinal=turn.ordinal,
                origin=origin,
                ends=fact.ends,
            )
        )
    return tuple(kept)


def guarded(facts: Iterable[Fact], guard: Guard) -> tuple[Fact, ...]:
    """Redact and shorten the facts found in one episode, as the agent's settings say.

    Of duplicates, the first is kept.
    """
    kept: dict[tuple[FactKind, str, str], Fact] = {}
    for fact in facts:
        if len(kept) == MOST_FACTS_OF_EPISODE:
            break
        safe = redacted(fact, guard)
        kept.setdefault((safe.kind, safe.slot, safe.text), safe)
    return tuple(kept.values())


def guarded_slot(guard: Guard, slot: str) -> str:
    """Redact a slot with a guard that has read the fact's text.

    A slot is in lower case, where the redactor finds only names that it has heard before.
    """
    return check_slot(guard.text(slot))


def redacted(fact: Fact, guard: Guard) -> Fact:
    """Return the fact redacted and shortened; the same object if nothing changes."""
    text = cut(guard.text(fact.text))
    slot = guarded_slot(guard, fact.slot)
    return fact if (text, slot) == (fact.text, fact.slot) else replace(fact, text=text, slot=slot)


def cut(text: str) -> str:
    """Shorten a text to the length of a fact."""
    return text if len(text) <= FACT_LIMIT else text[: FACT_LIMIT - 1] + "…"
