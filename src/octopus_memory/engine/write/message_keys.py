"""The messages of a call, and those of them whose keys are new in their session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ...domain.episode import Episode, Scope
from ...domain.message import Message
from ...ports.values import MessageKeys
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
    session_id = session_id or ""
    texts = [key for key in keys if key is not None]
    own = prepare.key_digests(prepare.key_salt(runtime, scope, session_id), texts)
    digest = dict(zip(texts, own, strict=True))
    found = runtime.store.message_keys(scope, session_id, own)
    seen = _keys_with(found, texts, own)
    for salt in found.salts:
        theirs = prepare.key_digests(salt, texts)
        seen |= _keys_with(runtime.store.message_keys(scope, session_id, theirs), texts, theirs)
    kept: list[int] = []
    new: list[bytes] = []
    for i, key in enumerate(keys):
        if key is not None and key in seen:
            continue
        kept.append(i)
        if key is not None:
            seen.add(key)
            new.append(digest[key])
    return given._replace(
        messages=[given.messages[i] for i in kept],
        times=[given.times[i] for i in kept],
        tokens=None if given.tokens is None else [given.tokens[i] for i in kept],
        indexed=[given.indexed[i] for i in kept],
        digests=new,
    )


def _keys_with(found: MessageKeys, keys: Sequence[str], digests: Sequence[bytes]) -> set[str]:
    known = set(found.digests)
    return {key for key, digest in zip(keys, digests, strict=True) if digest in known}


def session_named(where: Episode | UUID | str) -> str | None:
    """Return the session's id if it is known without a read."""
    if isinstance(where, Episode):
        return where.session_id
    return where if isinstance(where, str) else None
