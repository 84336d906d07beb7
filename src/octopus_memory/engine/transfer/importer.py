"""Import of an export or of another program's transcripts, one transaction per episode.

A conversation of a transcript becomes a closed episode. An import that was interrupted can be run
again, because existing episodes are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from itertools import chain
from uuid import UUID

from ...domain.checks import ParsedTurns, check_metadata, parse_messages
from ...domain.episode import EndReason, Episode, Scope, Session, SessionStatus, check_name
from ...domain.errors import EpisodeChanged, InvalidInput, StoreError
from ...domain.message import Message, Role, check_tool_results
from ...domain.policy import MemoryConfig
from ...domain.transfer.export_format import EpisodeRecord, ImportReport, derived_id
from ...domain.transfer.transcripts import (
    Conversation,
    ImportSource,
    chatgpt_conversations,
    detect,
    openai_conversations,
)
from ...ports.values import ImportedEpisode, NewTurn
from ..core import audit
from ..core.pii_guard import Guard
from ..core.runtime import Runtime, retry_on_settings_change
from ..write import close, prepare
from . import import_octopus
from .import_octopus import ImportRun

_AGENT = "default"


def import_conversations(run: ImportRun, pieces: Iterable[str], longest: int) -> None:
    """Import the conversations of a transcript.

    :raises InvalidInput: naming the conversation and the field
    """
    if run.user is None:
        raise InvalidInput("user", "must be given, because the file names no user")
    scope = Scope(tenant=run.tenant, agent=run.agent or _AGENT, user=run.user)
    config = run.runtime.config(scope.tenant, scope.agent)
    read = openai_conversations if run.source is ImportSource.OPENAI else chatgpt_conversations
    for each in read(pieces, longest):
        run.count(left_out=each.left_out)
        if each.messages:
            _conversation(run, scope, each, _messages(each, config), config)


def _messages(each: Conversation, config: MemoryConfig) -> list[Message]:
    try:
        messages = parse_messages(each.messages, max_bytes=config.session.max_message_bytes)
        check_tool_results(messages, lambda _: set())
        check_metadata(each.metadata)
    except InvalidInput as error:
        raise type(error)(f"{each.prefix}{error.field}", error.problem) from error
    return messages


def _conversation(
    run: ImportRun,
    scope: Scope,
    each: Conversation,
    messages: list[Message],
    config: MemoryConfig,
) -> None:
    first, episode_id = _first_new(run, scope, each, len(messages))
    if first >= len(messages):
        run.count(passed_over=1)
        return
    times = [moment or run.now for moment in each.times[first:]]
    _bring(run.runtime, run, scope, each, messages[first:], times, config, episode_id)


@retry_on_settings_change
def _bring(
    runtime: Runtime,
    run: ImportRun,
    scope: Scope,
    each: Conversation,
    messages: Sequence[Message],
    times: Sequence[datetime],
    config: MemoryConfig,
    episode_id: UUID,
) -> None:
    guard = runtime.guard(scope)
    turns = prepare.new_turns(runtime, scope, ParsedTurns(messages, times), config, guard)
    session = Session(
        id=each.session_id,
        scope=scope,
        status=SessionStatus.ENDED,
        metadata=guard.json(each.metadata) or {},
        created_at=times[0],
        last_seen_at=max(times),
    )
    brought = _finished(run, session, episode_id, turns, guard)
    run.bring(brought, turns=len(turns))


def _first_new(run: ImportRun, scope: Scope, each: Conversation, count: int) -> tuple[int, UUID]:
    """Find the first message that no earlier import stored, and the id of the episode it starts.

    A conversation that has new messages continues in an episode of its own.
    """
    store, first = run.runtime.store, 0
    while True:
        episode_id = _episode_id(run.source, scope, each, first)
        if first >= count or episode_id not in store.locate([episode_id]):
            return first, episode_id
        known = store.episodes(scope, [episode_id]).get(episode_id)
        # A deleted episode is not imported again.
        first = count if known is None else first + max(1, known.message_count)


def _episode_id(source: ImportSource, scope: Scope, each: Conversation, first: int) -> UUID:
    start = each.times[first] if first < len(each.times) else None
    millis = 0 if start is None else max(0, int(start.timestamp() * 1000))
    return derived_id(millis, source, scope.tenant, scope.agent, scope.user, each.key, str(first))


def _finished(
    run: ImportRun,
    session: Session,
    episode_id: UUID,
    turns: Sequence[NewTurn],
    guard: Guard,
) -> ImportedEpisode:
    """Make the closed episode of a conversation."""
    ended_at = max(turn.at for turn in turns)
    closing = close.closing_for(
        run.runtime,
        session.scope,
        [prepare.as_turn(turn, place, episode_id, session.id) for place, turn in enumerate(turns)],
        reason=EndReason.USER_CLOSED,
        ended_at=ended_at,
        summary=None,
        key_facts=None,
        # The worker asks the model later, because a whole history would take too long.
        wait=False,
        guard=guard,
    )
    made = sum(turn.tokens for turn in turns if turn.message.role is Role.ASSISTANT)
    episode = Episode(
        id=episode_id,
        scope=session.scope,
        session_id=session.id,
        started_at=min(turn.at for turn in turns),
        last_message_at=ended_at,
        ended_at=ended_at,
        end_reason=EndReason.USER_CLOSED,
        message_count=len(turns),
        input_tokens=sum(turn.tokens for turn in turns) - made,
        output_tokens=made,
    )
    kept = EpisodeRecord(episode=episode, last_seen_at=ended_at, aged_from=ended_at)
    return ImportedEpisode(
        session=session,
        kept=kept,
        turns=turns,
        summary=closing.summary,
        placeholders=guard.used(),
        now=run.now,
        settings=guard.settings,
    )


_MOST_BLANK = 1024 * 1024


def import_user(
    runtime: Runtime,
    tenant: str,
    lines: Iterable[str],
    *,
    user: str | None,
    agent: str | None,
    source: str | None,
    longest: int,
    actor: str,
) -> ImportReport:
    """Import an export's lines, or the text of another program's file in pieces of any size.

    :raises InvalidInput: naming the line and the field, or the conversation; everything before it
        is imported
    """
    for field, name in (("user", user), ("agent", agent), ("actor", actor)):
        if name is not None:
            check_name(field, name)
    pieces = iter(lines)
    begun = _up_to_words(pieces)
    run = ImportRun(runtime, tenant, user, agent, _source(source, "".join(begun)))
    try:
        _run(run, chain(begun, pieces), longest)
    except Exception as error:
        # A failed database cannot record the failure.
        with suppress(StoreError):
            _record(run, actor=actor, outcome="failed")
        if isinstance(error, InvalidInput | EpisodeChanged):
            raise _explained(error, run.report) from error
        raise
    _record(run, actor=actor, outcome="done")
    return run.report


def _record(run: ImportRun, *, actor: str, outcome: str) -> None:
    report = run.report
    audit.record(
        run.runtime,
        "import",
        tenant=run.tenant,
        actor=actor,
        user=run.user,
        outcome=outcome,
        **{each.name: getattr(report, each.name) for each in fields(report)},
    )


def _up_to_words(pieces: Iterator[str]) -> list[str]:
    """Read up to the first piece that is not blank, from which the format is detected."""
    begun, length = [], 0
    for piece in pieces:
        begun.append(piece)
        length += len(piece)
        if piece.strip():
            break
        if length > _MOST_BLANK:
            raise InvalidInput("file", f"must begin with at most {_MOST_BLANK:,} blanks")
    return begun


def _source(given: str | None, first: str) -> ImportSource:
    if given is None:
        return detect(first)
    try:
        return ImportSource(given)
    except ValueError as error:
        raise InvalidInput("source", f"must be one of {', '.join(ImportSource)}") from error


def _run(run: ImportRun, pieces: Iterable[str], longest: int) -> None:
    if run.source is ImportSource.OCTOPUS:
        import_octopus.import_lines(run, pieces)
    else:
        import_conversations(run, pieces, longest)


def _explained(error: InvalidInput | EpisodeChanged, report: ImportReport) -> InvalidInput:
    if isinstance(error, EpisodeChanged):
        error = InvalidInput(
            "session_id", f"{error.session_id!r} must not have an open episode: close it first"
        )
    there = report.episodes + report.passed_over
    so_far = f"the {there:,} before it are in, and are passed over when this is run again"
    return type(error)(
        error.field, f"{error.problem} ({so_far if there else 'no episode is imported'})"
    )
