"""A memory with scope keys in which two users have something in every table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import EpisodicMemory, KeyDestroyed, MemoryConfig, MemoryScope
from octopus_memory.ports.values import MessageKeys
from tests.support import byte_scan, pending_work

VICTIM = "theodora.quillfeather@example.com"
OTHER = "balthasar.oakes@example.com"
WORD = {VICTIM: "Zanzibarquartz", OTHER: "Lapislazulite"}
"""A word that each says everywhere."""
AGENTS = ("hr", "travel")
CONFIG = {
    "privacy": {"pii": "redact", "numbered": True},
    "context": {"ledger": "full"},
}


def use_keys(monkeypatch: pytest.MonkeyPatch, folder: Path, **settings: object) -> None:
    """Turn scope keys on, in a folder, for the memories that are opened from here on."""
    named: dict[str, object] = {"keys": "local", "keys_path": folder / "keys.db"}
    for name, value in (named | settings).items():
        monkeypatch.setenv(f"OCTOPUS_{name.upper()}", str(value))


def open_memory(url: str, **options: Any) -> EpisodicMemory:
    return pending_work.open_memory(url, **options)


def fill(memory: EpisodicMemory) -> None:
    """Store the same of two users, each with a word of their own."""
    memory.configure("careful", MemoryConfig.from_dict(CONFIG))
    for user in (VICTIM, OTHER):
        for agent in (*AGENTS, "careful"):
            _fill_scope(memory, memory.scope(agent=agent, user=user), WORD[user], user)
        memory.api_keys.create(tenant="default", role="user", name="phone", user=user)
        hold = memory.tenant().hold(user=user, reason=f"lawsuit about {WORD[user]}")
        if user == VICTIM:
            memory.tenant().lift(hold)
    memory.run_pending()


def _fill_scope(memory: EpisodicMemory, scope: MemoryScope, word: str, user: str) -> None:
    name = user.partition("@")[0]
    call = {"id": "c1", "name": "look_up", "arguments": {"place": word}}
    scope.store(
        [
            {"role": "user", "content": f"I lost my {word} near the harbour.", "name": name},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [call]},
            {"role": "tool", "content": f"{word} was found", "tool_call_id": "c1"},
            ("user", f"Write to {user} when the {word} is here."),
        ],
        session_id=f"trip of {name}",
        metadata={"about": f"{word} of {name}"},
        idempotency_key=f"upload of {name} {scope.scope.agent}",
    )
    archived = scope.store([("user", f"An old story of {word}.")], session_id=f"old {name}")
    memory.runtime.store.archive(scope.scope, archived.id, cold=True)
    scope.add(f"open {name}", ("user", f"My {word} is blue, and my sister lives in Oslo."))
    scope.add_fact(f"Owns a {word}", "other")
    gone = scope.add_fact(f"Sold the {word}", "plan")
    scope.delete_fact(gone)
    keys = MessageKeys(digests=[word.ljust(16)[:16].encode()], salts=[b"s" * 32])
    memory.runtime.store.import_keys(scope.scope, f"trip of {name}", keys)
    memory.run_pending()
    scope.context(f"What about my {word}?", session_id=f"open {name}")
    memory.flush()
    scope.forget(word)


def needles(memory: EpisodicMemory, user: str) -> dict[str, list[bytes]]:
    """What must not be found in a copy: words, names, and the bytes of vectors and terms."""
    name, packed = user.partition("@")[0], list[bytes]()
    for agent in (*AGENTS, "careful"):
        scope = memory.scope(agent=agent, user=user).scope
        _, rows = memory.runtime.store.recall_rows(scope, after=0)
        packed += [row.vector for row in rows if row.vector]
        packed += [row.lexical.terms for row in rows if len(row.lexical.terms) >= 24]
    # A run of few different bytes, as in many vectors, occurs anywhere.
    told = [piece for each in packed for piece in byte_scan.pieces(each) if len(set(piece)) > 4]
    assert len(told) > 8
    return {
        "word": [WORD[user].encode()],
        "name": [name.encode(), user.encode()],
        "packed": told,
    }


CALLS: Mapping[str, Callable[[MemoryScope], object]] = {
    "recall": lambda scope: scope.recall("harbour", limit=9),
    "recall_turns": lambda scope: scope.recall_turns("harbour", limit=9),
    "context": lambda scope: scope.context("harbour").text,
    "recent": lambda scope: scope.recent(),
    "episodes": lambda scope: scope.episodes(),
    "deleted": lambda scope: scope.deleted(),
    "sessions": lambda scope: scope.sessions().items,
    "facts": lambda scope: scope.facts(),
    "injections": lambda scope: scope.injections(f"open {scope.scope.user.partition('@')[0]}"),
    "session": lambda scope: scope.session(f"trip of {scope.scope.user.partition('@')[0]}"),
}
"""Reading calls of a scope."""


def texts_read(scope: MemoryScope) -> tuple[str, set[str]]:
    """What reading calls return, in one text, and the calls that say that the key is destroyed."""
    read, refused = list[str](), set[str]()
    for name, call in CALLS.items():
        try:
            read.append(repr(call(scope)))
        except KeyDestroyed:
            refused.add(name)
    return "\n".join(read), refused


def words_in(text: str, user: str) -> list[str]:
    """Return the user's word and names, as far as they occur in the text."""
    return [each for each in (WORD[user], user, user.partition("@")[0]) if each in text]


def snapshot(memory: EpisodicMemory, user: str) -> list[Any]:
    """Everything that can be read of a user."""
    return [_of_scope(memory.scope(agent=agent, user=user)) for agent in (*AGENTS, "careful")]


def _of_scope(scope: MemoryScope) -> list[Any]:
    names: Iterable[str] = sorted(session.id for session in scope.sessions(page_size=100).items)
    replays = [scope.session(name) for name in names]
    episodes = sorted(scope.episodes(page_size=100).items, key=lambda each: each.id)
    return [replays, episodes, sorted(scope.facts(), key=lambda each: each.id)]
