"""A session turn by turn, with the memories that were injected for each turn."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ....domain.episode import Episode, Turn
from ....domain.facts import Fact
from ....domain.identity import AccessRole
from ....domain.ledger import Injected, InjectedKind, Injection
from ....domain.message import as_text
from ....engine.read import ledger
from .. import wording
from ..visit import Answer, Page, Visit

SEES = (AccessRole.ADMIN, AccessRole.AGENT, AccessRole.USER)
_TURNS = 200
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """An injected memory, with its text if that still exists."""

    item: Injected
    words: str
    why: str
    session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEntry:
    """An entry of the ledger beside the turn that it was made for."""

    entry: Injection
    shown: list[ShownItem]
    cut: list[ShownItem]


def show(visit: Visit) -> Answer:
    visit.need(*SEES)
    scope, session_id = visit.scope, visit.given("session")
    last = visit.number("last", _TURNS, most=100_000)
    replay = scope.session(session_id, last=last)
    entries = scope.injections(session_id)
    texts = Texts(visit, entries)
    by_turn: dict[tuple[UUID, int] | None, list[ShownEntry]] = {}
    for entry in entries:
        place = None
        if entry.episode_id is not None and entry.ordinal is not None:
            place = (entry.episode_id, entry.ordinal)
        by_turn.setdefault(place, []).append(texts.entry(entry))
    values = {
        "scope": scope.scope,
        "replay": replay,
        "parts": replay.episodes,
        "calls": _calls,
        "extras": _extras,
        "as_text": as_text,
        "by_turn": by_turn,
        "pending": by_turn.get(None, []),
        "older": last * 4 if len(replay.turns) >= last else None,
        "tokens": sum(turn.tokens for turn in replay.turns),
        "uses": {part.episode.id: scope.uses(part.episode) for part in replay.episodes[-20:]},
    }
    return Page(template="replay.html", values=values)


class Texts:
    """Texts that entries of the ledger refer to, read in a few round trips."""

    def __init__(self, visit: Visit, entries: list[Injection]) -> None:
        scope = visit.scope
        self._episodes: dict[UUID, Episode]
        self._turns: dict[tuple[UUID, int], Turn]
        self._episodes, self._turns = ledger.named(visit.memory.runtime, scope.scope, entries)
        facts = scope.facts(history=True) if entries else []
        self._facts: dict[UUID, Fact] = {fact.id: fact for fact in facts}

    def entry(self, entry: Injection) -> ShownEntry:
        return ShownEntry(
            entry=entry,
            shown=[self._item(item) for item in entry.shown],
            cut=[self._item(item) for item in entry.cut],
        )

    def _item(self, item: Injected) -> ShownItem:
        episode = None if item.episode_id is None else self._episodes.get(item.episode_id)
        session_id = None if episode is None else episode.session_id
        return ShownItem(
            item=item,
            words=self._words(item, episode),
            why=wording.why(item),
            session_id=session_id,
        )

    def _words(self, item: Injected, episode: Episode | None) -> str:
        if item.kind is InjectedKind.FACT:
            fact = None if item.fact_id is None else self._facts.get(item.fact_id)
            return "" if fact is None else fact.text
        if item.episode_id is not None and item.ordinal is not None:
            turn = self._turns.get((item.episode_id, item.ordinal))
            if turn is not None:
                words = " ".join(turn.text.split())
                return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
        return "" if episode is None else (episode.summary or "")


def _calls(turn: Turn) -> list[dict[str, object]]:
    """Tool calls that a turn asks for, by name and arguments."""
    asked = []
    for request in turn.message.requests:
        function = request.get("function") or {}
        asked.append({"name": function.get("name", ""), "arguments": function.get("arguments")})
    return asked


def _extras(turn: Turn) -> list[str]:
    """Parts of a message that are not text: images, files, audio."""
    content = turn.message.content
    if not isinstance(content, list):
        return []
    kinds = [part.get("type", "part") for part in content if isinstance(part, dict)]
    return [str(kind) for kind in kinds if kind != "text"]
