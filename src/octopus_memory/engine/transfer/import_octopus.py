"""Import of Octopus's own export format."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import IO, Self
from uuid import UUID

from ...domain.checks import ParsedTurns, check_metadata
from ...domain.episode import Scope, Session, Summary
from ...domain.errors import InvalidInput, InvalidMessage
from ...domain.facts import Fact
from ...domain.message import Message, parse_message
from ...domain.policy import MemoryConfig
from ...domain.retention import Stage, is_overdue
from ...domain.transfer.export_format import EpisodeRecord, ImportReport, id_beside
from ...domain.transfer.export_reader import (
    ExportLine,
    episode_of,
    fact_of,
    injection_of,
    message_keys_of,
    parse_line,
    placeholders_of,
    read_lines,
    session_of,
)
from ...domain.transfer.transcripts import ImportSource
from ...ports.values import ImportedEpisode, MessageKeys, NewSummary, NewTurn, Placeholder
from ..core import pii_guard
from ..core.pii_guard import Guard
from ..core.runtime import Runtime, retry_on_settings_change
from ..write import close, prepare
from . import export


class ImportRun:
    """An import: its arguments, and the report so far."""

    def __init__(
        self,
        runtime: Runtime,
        tenant: str,
        user: str | None,
        agent: str | None,
        source: ImportSource,
    ) -> None:
        self.runtime, self.tenant, self.user, self.agent = runtime, tenant, user, agent
        self.source = source
        self.now = runtime.clock.now()
        self.report = ImportReport(source=source.value)

    def count(self, **more: int) -> None:
        added = {name: getattr(self.report, name) + number for name, number in more.items()}
        self.report = replace(self.report, **added)

    def bring(self, brought: ImportedEpisode, *, turns: int, has_new_id: bool = False) -> None:
        if not self.runtime.store.import_episode(brought):
            self.count(passed_over=1)
            return
        late = self._is_overdue(brought.kept)
        found = () if brought.summary is None else brought.summary.facts or ()
        facts = len(brought.facts) + len(found)
        new = int(has_new_id)
        self.count(episodes=1, turns=turns, facts=facts, given_new_ids=new, overdue=int(late))

    def _is_overdue(self, kept: EpisodeRecord) -> bool:
        if kept.aged_from is None:
            return False
        scope = kept.episode.scope
        policy = self.runtime.config(scope.tenant, scope.agent).retention
        stage = Stage.ARCHIVED if kept.episode.is_archived else Stage.ACTIVE
        return is_overdue(stage, policy, since=kept.aged_from, now=self.now)


_BATCH = 100
_SMALL = 4 * 1024 * 1024
"""Characters of an episode's lines that are held in memory; more go to a temporary file."""


def import_lines(run: ImportRun, pieces: Iterable[str]) -> None:
    """Import the lines of an export.

    :raises InvalidInput: naming the line and the field
    """
    lines = read_lines(pieces)
    header = next(lines)
    run.user = run.user or header.name("user")
    scope: Scope | None = None
    session: Session | None = None
    keys = MessageKeys((), ())
    for line in lines:
        if session is not None and line.kind != "episode":
            _bring_keys(run.runtime, session, keys)
            keys = MessageKeys((), ())
        match line.kind:
            case "scope":
                agent = run.agent or line.name("agent")
                scope = Scope(tenant=run.tenant, agent=agent, user=run.user)
                session = None
            case "fact" if scope is not None and session is None:
                _given_fact(run.runtime, run, scope, fact_of(line, None))
            case "injection" if scope is not None:
                entry = injection_of(line)
                run.count(injections=export.bring_in(run.runtime, scope, entry))
            case "session" if scope is not None:
                session = session_of(line, scope)
                _check_metadata(line, session)
                salts, digests = message_keys_of(line)
                keys = MessageKeys(digests=digests, salts=salts)
            case "episode" if session is not None:
                _episode(run, session, line, lines)
            case _:
                raise line.wrong("kind", "must not stand here")
    if session is not None:
        _bring_keys(run.runtime, session, keys)


def _bring_keys(runtime: Runtime, session: Session, keys: MessageKeys) -> None:
    """Store a session's message keys after its episodes, which create the session."""
    if keys.digests:
        own = prepare.key_salt(runtime, session.scope, session.id)
        salts = [salt for salt in keys.salts if salt != own]
        runtime.store.import_keys(session.scope, session.id, keys._replace(salts=salts))


@retry_on_settings_change
def _given_fact(runtime: Runtime, run: ImportRun, scope: Scope, fact: Fact) -> None:
    """Store a caller's fact, without numbered placeholders, because numbers count within an
    episode.
    """
    guard = runtime.guard(scope, numbered=False)
    safe = pii_guard.redacted(fact, guard)
    run.count(facts=runtime.store.add_facts(scope, [safe], settings=guard.settings))


def _check_metadata(line: ExportLine, session: Session) -> None:
    try:
        check_metadata(session.metadata)
    except InvalidInput as error:
        raise line.wrong(error.field, error.problem) from error


def _episode(
    run: ImportRun, session: Session, line: ExportLine, lines: Iterator[ExportLine]
) -> None:
    kept, scope, runtime = episode_of(line, session), session.scope, run.runtime
    with _TurnLines() as turns:
        turns.take(line, lines, kept)
        own = kept.episode.id
        beside = id_beside(own, scope.tenant, scope.agent, scope.user)
        holders = runtime.store.locate([own, beside])
        if scope in holders.values():
            run.count(passed_over=1)
            return
        # The id exists in another scope of this database, so this episode is a copy and gets other
        # ids.
        is_copy = own in holders
        if is_copy:
            kept = replace(kept, episode=replace(kept.episode, id=beside))
        _bring(runtime, run, session, kept, turns, _placeholders(line), is_copy=is_copy)


@retry_on_settings_change
def _bring(
    runtime: Runtime,
    run: ImportRun,
    session: Session,
    kept: EpisodeRecord,
    turns: _TurnLines,
    known: Sequence[Placeholder],
    *,
    is_copy: bool,
) -> None:
    scope = session.scope
    guard = runtime.guard(scope, known=known)
    # The turns first, because the guard needs their names for the rest.
    ready = _ready(_NewTurns(runtime, scope, turns, guard, is_copy=is_copy), turns)
    summary = _summary(runtime, kept, guard)
    facts = [
        pii_guard.redacted(fact, guard)
        for fact in _facts(turns.facts, kept.episode.id, scope if is_copy else None)
    ]
    brought = ImportedEpisode(
        session=replace(session, metadata=guard.json(session.metadata) or {}),
        kept=kept,
        turns=ready,
        summary=summary,
        facts=facts,
        placeholders=[*known, *guard.new()],
        now=run.now,
        settings=guard.settings,
    )
    run.bring(brought, turns=turns.count, has_new_id=is_copy)


def _ready(turns: Iterable[NewTurn], lines: _TurnLines) -> Iterable[NewTurn]:
    """Validate the turns before the transaction. Large episodes are then read a second time."""
    if lines.is_small:
        return list(turns)
    for _ in turns:
        pass
    return turns


def _summary(runtime: Runtime, kept: EpisodeRecord, guard: Guard) -> NewSummary | None:
    episode = kept.episode
    if episode.summary is None:
        return None
    kept_as = Summary(text=episode.summary, key_facts=episode.key_facts)
    made = close.limited(guard.summary(kept_as))
    by = episode.summarized_by or close.BY_CALLER
    return close.new_summary(runtime, episode.scope, made, by)


def _placeholders(line: ExportLine) -> list[Placeholder]:
    """Reserve the numbers of placeholders, whose values only the exporting database knows."""
    return [
        Placeholder(kind=kind, number=number, digest=os.urandom(16))
        for kind, number in placeholders_of(line)
    ]


def _facts(
    lines: Iterable[ExportLine], episode_id: UUID, copied_to: Scope | None
) -> Iterator[Fact]:
    """Yield an episode's facts, for a copy with the ids of its turns."""
    known: set[UUID] = set()
    for line in lines:
        fact = fact_of(line, episode_id)
        if fact.id in known:
            raise line.wrong("id", "is that of another fact of its episode")
        known.add(fact.id)
        if copied_to is not None and fact.turn_id is not None:
            names = (copied_to.tenant, copied_to.agent, copied_to.user)
            fact = replace(fact, turn_id=id_beside(fact.turn_id, *names))
        yield fact


class _TurnLines:
    """The lines of one episode's turns, read once and iterated any number of times."""

    def __init__(self) -> None:
        self.count = 0
        self.facts: list[ExportLine] = []
        """The lines of the episode's facts, after those of its turns."""
        self._held: list[ExportLine] = []
        self._size = 0
        self._file: IO[str] | None = None
        self._resources = ExitStack()

    @property
    def is_small(self) -> bool:
        return self._file is None

    def take(self, begun: ExportLine, lines: Iterator[ExportLine], kept: EpisodeRecord) -> None:
        """Read the lines up to the episode's end, and check their number."""
        gone = kept.episode.is_archived and not kept.episode.is_cold
        wanted = 0 if gone else kept.episode.message_count
        for line in lines:
            if line.kind == "fact":
                self.facts.append(line)
                continue
            if line.kind == "turn" and not self.facts:
                if line.count("ordinal") != self.count:
                    raise line.wrong("ordinal", f"must be {self.count}, the next of its episode")
                self._keep(line)
                continue
            if line.kind != "episode_end":
                problem = "must be turn, fact after the last of them, or episode_end at the end"
                raise line.wrong("kind", problem)
            if line.uuid("id") != kept.episode.id:
                raise line.wrong("id", "is not that of the episode it ends")
            if not line.count("turns") == self.count == wanted:
                raise line.wrong("turns", f"must be {wanted}, and {self.count} stand before it")
            return
        raise begun.wrong("kind", "begins an episode that has no episode_end: export it anew")

    def _keep(self, line: ExportLine) -> None:
        self.count += 1
        if self._file is None and self._size + len(line.raw) <= _SMALL:
            self._size += len(line.raw)
            self._held.append(line)
            return
        if self._file is None:
            self._file = self._resources.enter_context(_nameless_file())
            for held in self._held:
                self._file.write(f"{held.number} {held.raw}\n")
            self._held.clear()
        self._file.write(f"{line.number} {line.raw}\n")

    def __iter__(self) -> Iterator[ExportLine]:
        if self._file is None:
            yield from self._held
            return
        self._file.seek(0)
        for each in self._file:
            number, _, text = each.partition(" ")
            yield parse_line(text, int(number))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()


def _nameless_file() -> IO[str]:
    """Open a nameless temporary file, which vanishes when it is closed or the process dies."""
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass", newline="\n")


class _NewTurns:
    """Makes an episode's turns from their lines, in batches."""

    def __init__(
        self, runtime: Runtime, scope: Scope, lines: _TurnLines, guard: Guard, *, is_copy: bool
    ) -> None:
        self._runtime, self._scope, self._lines = runtime, scope, lines
        self._guard, self._is_copy = guard, is_copy

    def __iter__(self) -> Iterator[NewTurn]:
        config = self._runtime.config(self._scope.tenant, self._scope.agent)
        lines = iter(self._lines)
        while some := list(islice(lines, _BATCH)):
            turns = prepare.new_turns(
                self._runtime,
                self._scope,
                ParsedTurns(
                    messages=[_message(line, config) for line in some],
                    times=[line.time("at") for line in some],
                    tokens=[line.count("tokens") for line in some],
                    # Older exports lack the field.
                    indexed=[line.body.get("indexed") is not False for line in some],
                ),
                config,
                self._guard,
            )
            for line, turn in zip(some, turns, strict=True):
                has_pii = line.flag("has_pii") or turn.has_pii
                yield replace(turn, id=self._id(line.uuid("id")), has_pii=has_pii)

    def _id(self, own: UUID) -> UUID:
        scope = self._scope
        return id_beside(own, scope.tenant, scope.agent, scope.user) if self._is_copy else own


def _message(line: ExportLine, config: MemoryConfig) -> Message:
    try:
        return parse_message(line.table("message"), max_bytes=config.session.max_message_bytes)
    except InvalidMessage as error:
        raise type(error)(f"line {line.number}, {error.field}", error.problem) from error
