"""A session turn by turn, with the memories that were injected for each turn."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ....domain.episode import Episode, Turn
from ....domain.identity import AccessRole
from ....domain.ledger import Injected, InjectedKind, Injection
from ....domain.message import as_text
from ....engine.inspection import Texts
from .. import wording
from ..charts import Sum, add_up
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
    sum: Sum
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
    texts = visit.memory.inspection(scope).texts(entries)
    by_turn: dict[tuple[UUID, int] | None, list[ShownEntry]] = {}
    for entry in entries:
        place = None
        if entry.episode_id is not None and entry.ordinal is not None:
            place = (entry.episode_id, entry.ordinal)
        by_turn.setdefault(place, []).append(_entry(texts, entry))
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
        "signals": wording.SIGNALS,
        "tokens": sum(turn.tokens for turn in replay.turns),
        "uses": {part.episode.id: scope.uses(part.episode) for part in replay.episodes[-20:]},
    }
    return Page(template="replay.html", values=values)


def _entry(texts: Texts, entry: Injection) -> ShownEntry:
    return ShownEntry(
        entry=entry,
        shown=[_item(texts, item) for item in entry.shown],
        cut=[_item(texts, item) for item in entry.cut],
    )


def _item(texts: Texts, item: Injected) -> ShownItem:
    episode = None if item.episode_id is None else texts.episodes.get(item.episode_id)
    session_id = None if episode is None else episode.session_id
    return ShownItem(
        item=item,
        words=_words(texts, item, episode),
        why=wording.why(item),
        sum=add_up(item.contributions.items()),
        session_id=session_id,
    )


def _words(texts: Texts, item: Injected, episode: Episode | None) -> str:
    if item.kind is InjectedKind.FACT:
        fact = None if item.fact_id is None else texts.facts.get(item.fact_id)
        return "" if fact is None else fact.text
    if item.episode_id is not None and item.ordinal is not None:
        turn = texts.turns.get((item.episode_id, item.ordinal))
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
