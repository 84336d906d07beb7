"""Export of one user, line by line, with constant memory; entries of the ledger follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from ...domain.episode import Scope, Session, check_name
from ...domain.errors import EpisodeChanged, StoreReadOnly
from ...domain.ledger import Injected, Injection
from ...domain.message import Json
from ...domain.transfer import export_format
from ...domain.transfer.export_format import LineCount, id_beside, injection_line
from ..core import audit
from ..core.runtime import Runtime
from ..write import prepare

_PAGE = 100


def export(
    runtime: Runtime, tenant: str, user: str, *, agent: str | None, actor: str
) -> Iterator[str]:
    """Yield the lines of an export, each with its line break.

    The audit log gets an entry before the first line and one before the last, so that it also shows
    an export that was interrupted.
    """
    check_name("user", user)
    if agent is not None:
        check_name("agent", agent)
    check_name("actor", actor)
    if runtime.store.read_only:
        raise StoreReadOnly(
            "export failed: the audit log cannot record it in a read-only database. Open it to "
            "write, or export from a copy of it"
        )
    return _lines(runtime, tenant, user, agent=agent, actor=actor)


def _lines(
    runtime: Runtime, tenant: str, user: str, *, agent: str | None, actor: str
) -> Iterator[str]:
    tally = LineCount()

    def line(body: Mapping[str, Json]) -> str:
        text = export_format.encode_line(body)
        tally.add(text, body["kind"])
        return f"{text}\n"

    _record(runtime, tenant, user, actor=actor, outcome="begun")
    runtime.ledger.flush()
    now = runtime.clock.now()
    yield line(export_format.header(made_at=now, tenant=tenant, user=user, agent=agent))
    for _, scope in runtime.store.scopes(tenant=tenant, user=user):
        if agent is None or scope.agent == agent:
            for body in _scope(runtime, scope):
                yield line(body)
    counts = {f"{kind}s": tally.of(kind) for kind in ("episode", "turn", "fact", "injection")}
    # Before the trailer, because an export that cannot be recorded must not look complete.
    _record(runtime, tenant, user, actor=actor, outcome="done", **counts)
    yield f"{export_format.encode_line(tally.trailer())}\n"


def _record(
    runtime: Runtime, tenant: str, user: str, *, actor: str, outcome: str, **counts: int
) -> None:
    audit.record(
        runtime, "export", tenant=tenant, actor=actor, user=user, outcome=outcome, **counts
    )


def _scope(runtime: Runtime, scope: Scope) -> Iterator[dict[str, Json]]:
    after: str | None = None
    facts = runtime.store.facts(scope, given=True)
    if facts:
        yield export_format.scope_line(scope.agent)
        yield from map(export_format.fact_line, facts)
    while sessions := runtime.store.sessions(scope, after=after, limit=_PAGE):
        if after is None and not facts:
            yield export_format.scope_line(scope.agent)
        for session in sessions:
            yield _session_line(runtime, session)
            for episode_id in runtime.store.episode_ids(scope, session.id):
                yield from _episode(runtime, scope, episode_id)
        after = sessions[-1].id
    if facts or after is not None:
        yield from ledger_lines(runtime, scope)


def _session_line(runtime: Runtime, session: Session) -> dict[str, Json]:
    keys = runtime.store.message_keys(session.scope, session.id)
    own = prepare.key_salt(runtime, session.scope, session.id)
    return export_format.session_line(
        session, key_salts=[own, *keys.salts], key_digests=keys.digests
    )


def _episode(runtime: Runtime, scope: Scope, episode_id: UUID) -> Iterator[dict[str, Json]]:
    stored = runtime.store.stored_episode(scope, episode_id, limit=_PAGE)
    if stored is None or stored.is_deleted:
        return
    kept, turns = stored.record, stored.turns
    gone = kept.episode.is_archived and not kept.episode.is_cold
    wanted, given = 0 if gone else kept.episode.message_count, 0
    numbers = [(each.kind, each.number) for each in stored.placeholders]
    yield export_format.episode_line(kept, numbers)
    while turns:
        for turn in turns:
            yield export_format.turn_line(turn)
        given += len(turns)
        limit = min(_PAGE, wanted - given)
        if limit <= 0:
            break
        page = runtime.store.stored_episode(scope, episode_id, start=given, limit=limit)
        turns = () if page is None or page.is_deleted else page.turns
    if given != wanted:
        # It was archived or erased between two pages: a part must not look like the whole.
        raise EpisodeChanged(kept.episode.session_id)
    yield from map(export_format.fact_line, stored.facts)
    yield export_format.episode_end_line(episode_id, given)


_LEDGER_PAGE = 500


def ledger_lines(runtime: Runtime, scope: Scope) -> Iterator[dict[str, Json]]:
    after: UUID | None = None
    while page := runtime.store.injections(scope, after=after, limit=_LEDGER_PAGE):
        yield from map(injection_line, page)
        after = page[-1].id


def bring_in(runtime: Runtime, scope: Scope, entry: Injection) -> int:
    """Store an entry of an export; returns 1, or 0 if it exists or names no stored episode.

    An episode whose id exists in another scope was imported with another id, and so is its entry.
    """
    names = (scope.tenant, scope.agent, scope.user)
    beside = {own: id_beside(own, *names) for own in entry.episode_ids}
    holders = runtime.store.locate([*beside, *beside.values()])
    ids = {own: own if holders.get(own) == scope else beside[own] for own in beside}

    def here(items: tuple[Injected, ...]) -> tuple[Injected, ...]:
        return tuple(
            item if item.episode_id is None else replace(item, episode_id=ids[item.episode_id])
            for item in items
        )

    query = None
    if entry.query is not None:
        query = runtime.guard(scope, numbered=False).text(entry.query)
    arrived = replace(entry, shown=here(entry.shown), cut=here(entry.cut), query=query)
    return runtime.store.record_injections(scope.tenant, [(scope, arrived)])
