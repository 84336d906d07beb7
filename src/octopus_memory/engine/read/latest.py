"""The last episodes of a scope, without a query."""

from __future__ import annotations

from ...domain.checks import check_limit
from ...domain.episode import EpisodeSnippet, Scope, check_name
from ...ports.values import EpisodeQuery
from ..core.runtime import Runtime
from . import recall


def latest(
    runtime: Runtime,
    scope: Scope,
    limit: int,
    include_archived: bool | None,
    session_id: str | None,
) -> list[EpisodeSnippet]:
    """Return snippets without a relevance, newest first, and without the session `session_id`."""
    if session_id is not None:
        check_name("session_id", session_id)
    episodes, _ = runtime.store.list_episodes(
        EpisodeQuery(
            of=scope,
            limit=check_limit(limit),
            include_archived=recall.archived_wanted(runtime, scope, include_archived),
            leave_out_sessions=() if session_id is None else [session_id],
            count=False,
        )
    )
    return [recall.recent_snippet(runtime, episode) for episode in episodes]
