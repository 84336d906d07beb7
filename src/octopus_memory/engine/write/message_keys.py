"""The messages of a call, and those of them whose keys are new in their session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ...domain.episode import Episode, Scope
from ...domain.message import Message
from ..core.runtime import Runtime
from . import prepare
from .target import find_episode


class Given(NamedTuple):
    """The messages of a call, or those of them that are to be stored."""

    messages: Sequence[Message]
    times: Sequence[datetime]
    tokens: Sequence[int] | None
    indexed: Sequence[bool]
    digests: Sequence[bytes]
    """Digests of the keys that are new in the session."""
    whole: Sequence[Message]
    """All messages of the call, which the idempotency key stands for."""


def unknown(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    given: Given,
    keys: Sequence[str | None],
) -> Given:
    """Return the messages without a key, or with one that is new to the session and the call."""
    episode = find_episode(runtime, scope, where)
    session_id = session_named(where) if episode is None else episode.session_id
    digest = dict(
        zip(
            texts := [key for key in keys if key is not None],
            prepare.key_digests(runtime, scope, session_id or "", texts),
            strict=True,
        )
    )
    seen = set(runtime.store.known_keys(scope, session_id or "", [*digest.values()]))
    kept: list[int] = []
    new: list[bytes] = []
    for i, key in enumerate(keys):
        if key is not None and digest[key] in seen:
            continue
        kept.append(i)
        if key is not None:
            seen.add(digest[key])
            new.append(digest[key])
    return given._replace(
        messages=[given.messages[i] for i in kept],
        times=[given.times[i] for i in kept],
        tokens=None if given.tokens is None else [given.tokens[i] for i in kept],
        indexed=[given.indexed[i] for i in kept],
        digests=new,
    )


def session_named(where: Episode | UUID | str) -> str | None:
    """Return the session's id if it is known without a read."""
    if isinstance(where, Episode):
        return where.session_id
    return where if isinstance(where, str) else None
