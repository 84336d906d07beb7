"""The answers of the tools: text for a model, and the same as data.

Stored text is not trusted. Text and data are both neutralized and shortened as in the context
block, because some clients show the model the data instead of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...domain.block.block import RECORD, Words, fenced, quoted, speaker, spoken
from ...domain.block.layout import forget_list, forgotten_line
from ...domain.episode import SUMMARY_LIMIT, Episode, EpisodeSnippet, Turn, TurnHit
from ...domain.erasure import EraseReceipt
from ...domain.facts import FACT_LIMIT, Fact
from ...domain.message import Json, as_text
from ...domain.text.neutralize import neutralize
from ...engine.read.recall import plain_hit

if TYPE_CHECKING:
    from ...domain.context import MemoryContext
    from ...domain.replay import EpisodeReplay, SessionReplay

_NOTE = {"note": f"this is {RECORD}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a tool: `text` for the model, `data` the same for programs."""

    text: str
    data: dict[str, Json] | None = None
    is_error: bool = False
    advice: str | None = None
    """A second text for the model, on how to go on. It contains no stored words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """An episode with neutralized text."""

    episode_id: str
    session_id: str
    date: datetime
    summary: str
    key_facts: list[str]
    is_archived: bool
    relevance: float | None = None
    end_reason: str | None = None
    words: list[tuple[datetime, Words]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        archived = " (archived)" if self.is_archived else ""
        relevance = "" if self.relevance is None else f", relevance {self.relevance:.2f}"
        ended = "" if self.end_reason is None else f", {self.end_reason}"
        yield (
            f"Date: {self.date:%Y-%m-%d %H:%M} UTC{archived}{relevance}{ended}, "
            f"episode {self.episode_id}, session {neutralize(self.session_id)}"
        )
        if self.summary:
            yield f"Summary: {self.summary}"
        if self.key_facts:
            yield f"Key facts: {'; '.join(self.key_facts)}"
        for _, said in self.words:
            yield f"Said: {spoken(said)}"
        yield "---"

    def data(self) -> dict[str, Json]:
        shown: dict[str, Json] = {
            "episode_id": self.episode_id,
            "session_id": self.session_id,
            "date": iso(self.date),
            "summary": self.summary,
            "key_facts": self.key_facts,
            "is_archived": self.is_archived,
            "turns": [
                {"at": iso(at), "speaker": said.speaker, "text": said.text}
                for at, said in self.words
            ],
        }
        if self.relevance is not None:
            shown["relevance"] = self.relevance
        if self.end_reason is not None:
            shown["end_reason"] = self.end_reason
        return shown


def block(context: MemoryContext, session_id: str) -> Answer:
    """Return the context block for a session, and its parts as data."""
    passages: list[Json] = [
        {
            "speaker": passage.speaker,
            "text": passage.text,
            "answers": passage.asked,
            "at": iso(passage.at),
            "episode_id": str(passage.episode_id),
            "session_id": passage.session_id,
            "score": passage.score,
            "tokens": passage.tokens,
        }
        for passage in context.passages
    ]
    facts: list[Json] = [
        {"id": str(fact.id), "kind": fact.kind.value, "text": neutralize(fact.text, FACT_LIMIT)}
        for fact in context.facts
    ]
    data: dict[str, Json] = {
        **_NOTE,
        "session_id": session_id,
        "text": context.text,
        "facts": facts,
        "passages": passages,
        "left_out": len(context.left_out),
        "tokens": context.block_tokens,
    }
    return Answer(text=context.text or "Nothing in memory bears on this message.", data=data)


def found(snippets: Sequence[EpisodeSnippet], *, scored: bool) -> Answer:
    entries = [_of_snippet(snippet, scored=scored) for snippet in snippets]
    return _listed(entries, nothing="Nothing is remembered that fits.")


def session(replay: SessionReplay) -> Answer:
    return _listed([_of_replay(each) for each in replay.episodes], nothing="Nothing is left of it.")


def stored(turns: Sequence[Turn]) -> Answer:
    last = turns[-1]
    count = f"{len(turns)} message{'s' if len(turns) > 1 else ''}"
    return Answer(
        text=f"Stored {count} in session {neutralize(last.session_id)}.",
        data={
            "session_id": last.session_id,
            "episode_id": str(last.episode_id),
            "stored": len(turns),
        },
    )


def closed(episode: Episode, *, before: bool) -> Answer:
    """Return a closed episode. `before`: it was closed already, and nothing was changed."""
    entry = _of_episode(episode)
    told = "had ended already and stays as it was" if before else "is closed"
    return Answer(
        text=f"The session {told}.\n{fenced(entry.lines())}",
        data={**_NOTE, "closed_before": before, **entry.data()},
    )


def erased(receipt: EraseReceipt, episode_id: str) -> Answer:
    rows = sum(receipt.removed.values())
    if receipt.is_complete:
        rest = "A search found nothing left."
    else:
        waits = ", ".join(receipt.pending) or "rewriting the files (octopus compact)"
        rest = f"It is out of every read. Still to be done: {waits}."
    return Answer(
        text=f"Episode {episode_id} is erased: {rows} rows removed. {rest}", data=receipt.to_dict()
    )


def to_forget(preview: Any) -> Answer:
    """Return what a confirmed call of forget would remove, with the token that confirms it."""
    items: list[Json] = [
        {"what": item.what, "text": neutralize(item.text, SUMMARY_LIMIT), "date": iso(item.date)}
        for item in preview.items
    ]
    data: dict[str, Json] = {**_NOTE, "is_clear": preview.is_clear, "items": items}
    if not preview.is_clear:
        words = "Nothing fits clearly. Ask the user to say it more precisely."
        return Answer(text=words, data=data)
    return Answer(
        text=forget_list(preview),
        data={**data, "token": preview.token, "expires_at": iso(preview.expires_at)},
    )


def removed(receipt: Any) -> Answer:
    return Answer(
        text=forgotten_line(receipt),
        data={"removed": dict(receipt.removed), "is_complete": receipt.is_complete},
    )


def facts(found: Sequence[Fact]) -> Answer:
    return Answer(
        text=fenced(map(_fact_line, found)) if found else "No standing fact is known.",
        data={**_NOTE, "facts": [_fact_data(fact) for fact in found]},
    )


def corrected(fact: Fact) -> Answer:
    return Answer(
        text=f"The fact is corrected.\n{fenced([_fact_line(fact)])}",
        data={**_NOTE, **_fact_data(fact)},
    )


def forgotten(fact_id: str) -> Answer:
    return Answer(text=f"Fact {fact_id} is deleted.", data={"deleted": fact_id})


def _fact_line(fact: Fact) -> str:
    until = "" if fact.until is None else f" until {fact.until:%Y-%m-%d}"
    pinned = ", pinned" if fact.is_pinned else ""
    return (
        f"Fact ({fact.kind}, since {fact.since:%Y-%m-%d}{until}{pinned}): "
        f"{neutralize(fact.text, FACT_LIMIT)}, id {fact.id}"
    )


def _fact_data(fact: Fact) -> dict[str, Json]:
    return {
        "fact_id": str(fact.id),
        "kind": fact.kind.value,
        "text": neutralize(fact.text, FACT_LIMIT),
        "since": iso(fact.since),
        "until": None if fact.until is None else iso(fact.until),
        "replaces": None if fact.replaces is None else str(fact.replaces),
        "episode_id": None if fact.episode_id is None else str(fact.episode_id),
        "is_pinned": fact.is_pinned,
        "ends": fact.ends,
    }


def _listed(entries: Sequence[_Entry], *, nothing: str) -> Answer:
    lines = [line for entry in entries for line in entry.lines()]
    return Answer(
        text=fenced(lines) if entries else nothing,
        data={**_NOTE, "episodes": [entry.data() for entry in entries]},
    )


def _of_snippet(snippet: EpisodeSnippet, *, scored: bool) -> _Entry:
    return _Entry(
        episode_id=str(snippet.episode_id),
        session_id=snippet.session_id,
        date=snippet.date,
        summary=neutralize(snippet.summary, SUMMARY_LIMIT),
        key_facts=_facts(snippet.key_facts),
        is_archived=snippet.is_archived,
        relevance=snippet.relevance if scored else None,
        words=[_said(turn) for turn in snippet.turns],
    )


def _of_episode(episode: Episode, turns: Sequence[Turn] = ()) -> _Entry:
    return _Entry(
        episode_id=str(episode.id),
        session_id=episode.session_id,
        date=episode.started_at,
        summary=neutralize(episode.summary or "", SUMMARY_LIMIT),
        key_facts=_facts(episode.key_facts),
        is_archived=episode.is_archived,
        end_reason="still open" if episode.is_open else episode.end_reason,
        words=[_said(plain_hit(turn), _words(turn)) for turn in turns],
    )


def _of_replay(replay: EpisodeReplay) -> _Entry:
    return _of_episode(replay.episode, replay.turns)


def _facts(facts: Sequence[str]) -> list[str]:
    return [neutralize(fact, SUMMARY_LIMIT) for fact in facts]


def _said(turn: TurnHit, words: str | None = None) -> tuple[datetime, Words]:
    return turn.at, quoted(speaker(turn), turn.text if words is None else words)


def _words(turn: Turn) -> str:
    """Return the text of a turn, and the tools that it calls."""
    calls = [f"calls {as_text(request.get('function'))}" for request in turn.message.requests]
    call = turn.tool_call
    if call is not None:
        calls.append(f"{call.function_name}({as_text(call.arguments)}) gave")
    return " ".join(filter(None, [*calls, turn.text]))


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
