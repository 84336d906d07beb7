"""Prepare the turns of a write: redact, count tokens, tokenize, assign ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from uuid import UUID

from ...domain.checks import ParsedTurns
from ...domain.episode import Scope, Turn, check_name
from ...domain.forget import about_forgetting
from ...domain.ids import KEY_DIGEST_SIZE, KEY_SALT_SIZE, new_ids
from ...domain.message import Message, Role, message_tokens
from ...domain.policy import MemoryConfig
from ...ports.values import Idempotency, NewTurn
from ..core.pii_guard import Guard
from ..core.runtime import Runtime


def new_turns(
    runtime: Runtime,
    scope: Scope,
    turns: ParsedTurns,
    config: MemoryConfig,
    guard: Guard | None = None,
    *,
    index_now: bool = True,
    before: Callable[[], Sequence[tuple[Message, bool]]] = tuple,
) -> list[NewTurn]:
    """Make the turns to store: redacted by the agent's settings, with ids and token counts.

    With `index_now` they are tokenized now, otherwise after they are stored. A wish to forget and
    the answer to it are replayed but never recalled. `before` reads the messages before these, each
    with whether it is recalled.
    """
    checked = (guard or runtime.guard(scope)).messages(turns.messages)
    counts = turns.tokens or [
        message_tokens(each.message, runtime.counter.count) for each in checked
    ]
    hidden = about_forgetting(turns.messages, before)
    wanted = turns.indexed or [True] * len(checked)
    indexed = [each and not is_hidden for each, is_hidden in zip(wanted, hidden, strict=True)]
    return [
        NewTurn(
            turn_id,
            message,
            count,
            at,
            runtime.lexicon.turn(scope, message.text, message.name, at)
            if index_now and is_indexed
            else None,
            index_now and is_indexed and wants_vector(message, config),
            has_pii,
            is_indexed,
        )
        for turn_id, (message, has_pii), count, at, is_indexed in zip(
            new_ids(len(checked)), checked, counts, turns.times, indexed, strict=True
        )
    ]


def wants_vector(message: Message, config: MemoryConfig) -> bool:
    """Return whether a turn is embedded. Every turn is found by its terms."""
    wanted, role = config.embedding, message.role
    if role is Role.SYSTEM and not wanted.system_turns:
        return False
    if role is Role.TOOL and not wanted.tool_turns:
        return False
    text = message.text.strip()
    return bool(text) and len(text) >= wanted.min_chars


def idempotency(
    runtime: Runtime, key: str | None, session_id: str, messages: Sequence[Message]
) -> Idempotency | None:
    """Make an idempotency key with a keyed fingerprint, from which the text cannot be guessed."""
    if key is None:
        return None
    check_name("idempotency_key", key)
    bodies = json.dumps([session_id, *(dict(message.body) for message in messages)], sort_keys=True)
    salt = runtime.store.salt[:64]
    fingerprint = blake2b(bodies.encode(), key=salt, digest_size=16).digest()
    return Idempotency(key=key, fingerprint=fingerprint)


def key_salt(runtime: Runtime, scope: Scope, session_id: str) -> bytes:
    """Salt of a session's message keys; an export may hold it, unlike the database's own salt."""
    whose = json.dumps([scope.tenant, scope.agent, scope.user, session_id]).encode()
    return blake2b(whose, key=runtime.store.salt[:64], digest_size=KEY_SALT_SIZE).digest()


def key_digests(salt: bytes, keys: Sequence[str]) -> list[bytes]:
    """Hash each key with a session's salt, because a caller's ids may name a person."""
    return [
        blake2b(json.dumps(key).encode(), key=salt, digest_size=KEY_DIGEST_SIZE).digest()
        for key in keys
    ]


def as_turn(new: NewTurn, ordinal: int, episode_id: UUID, session_id: str) -> Turn:
    return Turn(
        id=new.id,
        episode_id=episode_id,
        session_id=session_id,
        ordinal=ordinal,
        message=new.message,
        tokens=new.tokens,
        at=new.at,
        has_pii=new.has_pii,
        indexed=new.indexed,
    )
