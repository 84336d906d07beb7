"""The rows of a scope that the filters of a recall leave in."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.checks import RecallFilters, has_all
from ...domain.episode import Scope
from ...domain.message import Role
from ...domain.search.features import ASSISTANT, SYSTEM, TOOL, USER
from ...ports.index import ScopeView
from ..core.runtime import Runtime

_NUMBERS = {Role.USER: USER, Role.ASSISTANT: ASSISTANT, Role.SYSTEM: SYSTEM, Role.TOOL: TOOL}
_PAGE = 500
_FEW = 20
"""Sessions that are read one at a time, and their episodes."""


def masks(
    runtime: Runtime, scope: Scope, view: ScopeView, filters: RecallFilters
) -> Iterator[NDArray[np.bool_]]:
    """Yield a mask over the rows for each condition."""
    if filters.roles is not None:
        numbers = [_NUMBERS[role] for role in filters.roles]
        yield np.isin(view.rows.role, numbers)
    if filters.by_session:
        episodes = {each.int for each in _episodes(runtime, scope, view, filters)}
        stays = [episode_id.int in episodes for episode_id in view.episode_ids]
        yield np.array(stays, dtype=np.bool_).take(view.rows.episode)


def _episodes(
    runtime: Runtime, scope: Scope, view: ScopeView, filters: RecallFilters
) -> Iterator[UUID]:
    names = frozenset(_sessions(runtime, scope, filters))
    if len(names) <= _FEW:
        for session_id in names:
            yield from runtime.store.episode_ids(scope, session_id)
        return
    # A query for each session would take longer than all episodes of the scope do.
    for episode_id, episode in runtime.store.episodes(scope, view.episode_ids).items():
        if episode.session_id in names:
            yield episode_id


def _sessions(runtime: Runtime, scope: Scope, filters: RecallFilters) -> Iterator[str]:
    if not filters.metadata:
        yield from filters.sessions or ()
        return
    if filters.sessions is not None and len(filters.sessions) <= _FEW:
        for name in filters.sessions:
            state = runtime.store.session(scope, name)
            if state is not None and has_all(state.session.metadata, filters.metadata):
                yield name
        return
    offset = 0
    while True:
        page, _ = runtime.store.list_sessions(scope, offset=offset, limit=_PAGE)
        for session in page:
            named = filters.sessions is None or session.id in filters.sessions
            if named and has_all(session.metadata, filters.metadata):
                yield session.id
        if len(page) < _PAGE:
            return
        offset += _PAGE
