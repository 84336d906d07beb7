"""Lists of episodes, turns and sessions for a person."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.episode import Episode, EpisodeSnippet, SignalShare, Turn, TurnHit
from ...domain.message import Role, as_text
from ...domain.replay import EpisodeReplay, SessionReplay
from .terminal import Screen, counted

_RELEVANT = 0.65
_LONGEST_RESULT = 400
_ROLE_STYLES = {Role.USER: "bold green", Role.ASSISTANT: "bold cyan"}


def show_snippets(
    screen: Screen,
    snippets: Sequence[EpisodeSnippet],
    *,
    scored: bool = True,
    summaries: bool = True,
    explain: bool = False,
) -> None:
    """Show numbered episodes. `scored` adds their relevance, `explain` its parts."""
    for number, snippet in enumerate(snippets, 1):
        if number > 1:
            screen.gap()
        archived = "  archived" if snippet.is_archived else ""
        screen.write(
            (f"{number}. ", "dim"),
            (f"{snippet.date:%Y-%m-%d}", "bold"),
            *_relevance(snippet.relevance, scored=scored),
            (f"  session {snippet.session_id}{archived}", "dim"),
        )
        if summaries:
            screen.write(snippet.summary or "(nothing said yet)", indent=3)
            for fact in snippet.key_facts:
                screen.row(("- ", "cyan"), text=fact, indent=3)
        if explain:
            for hit in snippet.turns:
                words = f"{hit.name or hit.role}: {_shortened(hit.text)}"
                screen.row(("matched  ", "dim"), text=words, indent=3)
            _explain(screen, snippet.signals)


def show_hits(screen: Screen, hits: Sequence[TurnHit], *, explain: bool = False) -> None:
    """Show numbered turns with speaker and time."""
    for number, hit in enumerate(hits, 1):
        if number > 1:
            screen.gap()
        screen.write(
            (f"{number}. ", "dim"),
            (f"{hit.at:%Y-%m-%d %H:%M}", "bold"),
            *_relevance(hit.score, scored=True),
            (f"  session {hit.session_id}", "dim"),
        )
        screen.row(speaker(hit.role, hit.name), text=hit.text, indent=3)
        if explain:
            _explain(screen, hit.signals)


def show_summary(screen: Screen, episode: Episode) -> None:
    """Show the summary and the key facts of an episode."""
    screen.row(("summary    ", "bold"), text=episode.summary or "(none)")
    for place, fact in enumerate(episode.key_facts):
        screen.row(("           " if place else "key facts  ", "bold"), ("- ", "cyan"), text=fact)


def show_session(screen: Screen, replay: SessionReplay, *, is_end: bool = False) -> None:
    """Show a session. `is_end`: earlier episodes may be missing, so these get no numbers."""
    session = replay.session
    count = counted(len(replay.turns), "message")
    screen.write(
        (f"session {session.id}", "bold"),
        (f"  {session.status}, {'the last ' if is_end else ''}{count}", "dim"),
    )
    for number, part in enumerate(replay.episodes, 1):
        screen.rule(f"episode{'' if is_end else f' {number}'} · {_span(part.episode)}")
        _show_episode(screen, part)


def _show_episode(screen: Screen, part: EpisodeReplay) -> None:
    for turn in part.turns:
        show_turn(screen, turn)
    episode = part.episode
    if episode.is_archived:
        kept = "octopus restore brings the messages back"
        words = kept if episode.is_cold else "only the summary is left"
        screen.write((f"archived: {words}", "dim"))
    if episode.summary:
        screen.gap()
        show_summary(screen, episode)


def show_turn(screen: Screen, turn: Turn) -> None:
    """Show one message, a tool call with its arguments and its result."""
    when = (f"{turn.at:%H:%M}  ", "dim")
    call = turn.tool_call
    if call is not None:
        failed = " failed" if call.is_error else ""
        result = _shortened(as_text(call.result))
        words = f"{call.function_name}({as_text(call.arguments)}){failed} → {result}"
        screen.row(when, ("tool  ", "bold yellow"), text=words, style="dim")
        return
    if turn.text:
        text = _shortened(turn.text) if turn.role is Role.TOOL else turn.text
        screen.row(when, speaker(turn.role, turn.message.name), text=text)
    for request in turn.message.requests:
        asked = request.get("function") or {}
        words = f"{asked.get('name', 'unnamed')}({as_text(asked.get('arguments'))})"
        screen.row(when, ("calls  ", "bold yellow"), text=words, style="dim")


def speaker(role: Role, name: str | None) -> tuple[str, str]:
    """Return the label of a speaker and its style."""
    return f"{name or role}  ", _ROLE_STYLES.get(role, "bold yellow")


def _relevance(score: float | None, *, scored: bool) -> list[tuple[str, str]]:
    if not scored or score is None:
        return []
    return [(f"  relevance {score:.2f}", "green" if score >= _RELEVANT else "yellow")]


def _explain(screen: Screen, signals: Sequence[SignalShare]) -> None:
    for part in signals:
        line = f"{part.contribution:+.2f}  {part.signal}: {part.words}"
        screen.write((line, "dim"), indent=3)


def _span(episode: Episode) -> str:
    if episode.ended_at is None:
        return f"{episode.started_at:%Y-%m-%d %H:%M}, still open"
    return f"{episode.started_at:%Y-%m-%d %H:%M}, {episode.end_reason}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_RESULT else f"{text[:_LONGEST_RESULT]}…"
