"""After an erasure no file holds a byte of it: not a word, not a vector, not an id."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.facts import FactKind, FoundFact
from octopus_memory.engine.write import close
from tests.support import byte_scan
from tests.support.fact_finder import FactFinder

USERS, EPISODES, TURNS = 100, 10, 10
"""Ten thousand turns, a hundred of them of each user."""
VICTIM = 50
DIMENSION = 64
KINDS = {
    "user": "name of the user",
    "session": "session",
    "metadata": "metadata of a session",
    "message": "message",
    "speaker": "name of a speaker",
    "tool": "arguments of a call",
    "result": "result of a call",
    "summary": "summary",
    "fact": "key fact",
    "standing": "standing fact that was found",
    "slot": "slot of a standing fact",
    "given": "standing fact that the caller gave",
    "key": "idempotency key",
}


class KnownEmbedder:
    """A random unit vector for each text, the same whenever it is asked."""

    model = "known"
    dimension = DIMENSION

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [
            np.random.default_rng(
                int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
            ).standard_normal(DIMENSION)
            for text in texts
        ]
        made = np.array(rows, np.float32).reshape(len(texts), DIMENSION)
        return made / np.linalg.norm(made, axis=1, keepdims=True)


def marker(kind: str, user: int, episode: int = 0, turn: int = 0) -> str:
    """One word that occurs once; digits alone would be folded together by nothing we use."""
    digest = blake2b(f"{kind} {user} {episode} {turn}".encode(), digest_size=9).hexdigest()
    return f"m{digest}"


def open_memory(path: Path) -> EpisodicMemory:
    return EpisodicMemory.open(f"sqlite:///{path}", embedder=KnownEmbedder(), background=False)


def scope_of(memory: EpisodicMemory, user: int) -> MemoryScope:
    return memory.scope(user=marker("user", user))


def episode_of(user: int, episode: int) -> dict[str, Any]:
    """A conversation with a marker in each place that can hold a word."""

    def mark(kind: str, turn: int = 0) -> str:
        return marker(kind, user, episode, turn)

    messages: list[dict[str, Any]] = []
    for turn in range(0, TURNS - 2, 2):
        question = f"Where is {mark('message', turn)}? I asked about it when we met last week."
        answer = f"You left {mark('message', turn + 1)} on the table of the small kitchen."
        messages.append({"role": "user", "content": question, "name": mark("speaker")})
        messages.append({"role": "assistant", "content": answer})
    arguments = f'{{"thing": "{mark("tool")}", "where": "every room of the house"}}'
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": arguments}}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": "c1", "content": f"in {mark('result')}"})
    return {
        "messages": messages,
        "session_id": mark("session"),
        "metadata": {"channel": mark("metadata")},
        "summary": f"They looked for {mark('summary')} together.",
        "key_facts": [f"keeps {mark('fact')} in the kitchen"],
        "idempotency_key": mark("key"),
    }


def found_in(user: int, episode: int) -> FoundFact:
    return FoundFact(
        kind=FactKind.PERSON,
        slot=marker("slot", user, episode),
        text=f"Lives with {marker('standing', user, episode)} in a small house by the sea.",
        ordinal=2,
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The users' episodes lie mixed, as they do when everybody talks at once."""
    path = tmp_path_factory.mktemp("bytes") / "memory.db"
    prepare = SqliteStore._prepare

    def hasty(self: SqliteStore, conn: sqlite3.Connection) -> None:
        prepare(self, conn)
        conn.execute("PRAGMA synchronous=OFF")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqliteStore, "_prepare", hasty)
        fill(path)
    return path


def fill(path: Path) -> None:
    finder = FactFinder()
    with open_memory(path) as memory:
        memory.runtime.extractive = finder
        for episode in range(EPISODES):
            for user in range(USERS):
                finder.also = [found_in(user, episode)]
                scope = scope_of(memory, user)
                scope.store(**episode_of(user, episode))
                scope.add_fact(f"Would like {marker('given', user, episode)} for a present.")
        memory.run_pending()
        assert memory.stats().turns == USERS * EPISODES * TURNS


@dataclass
class Copy:
    """A database of the test's own."""

    path: Path

    @property
    def folder(self) -> Path:
        return self.path.parent


@pytest.fixture
def copy(filled: Path, tmp_path: Path) -> Copy:
    folder = tmp_path / "database"
    folder.mkdir()
    shutil.copy(filled, folder / "memory.db")
    return Copy(folder / "memory.db")


@pytest.fixture(scope="module")
def wanted(filled: Path) -> dict[str, list[bytes]]:
    return needles(filled, VICTIM)


def needles(path: Path, user: int) -> dict[str, list[bytes]]:
    """The markers, and each value that is stored of the user, byte for byte."""
    found = {
        kind: [
            marker(kind, user, episode, turn).encode()
            for episode in range(EPISODES)
            for turn in range(TURNS if kind == "message" else 1)
        ]
        for kind in KINDS
        if kind != "user"
    }
    found["user"] = [marker("user", user).encode()]
    conn = sqlite3.connect(path)
    try:
        [(scope_id,)] = conn.execute(
            "SELECT id FROM octopus_scopes WHERE user = ?", [marker("user", user)]
        )

        def read(kind: str, table: str, column: str) -> None:
            values = conn.execute(f"SELECT {column} FROM {table} WHERE scope_id = ?", [scope_id])
            found[kind] = [
                piece
                for (value,) in values
                if value is not None and len(value) >= 16
                for piece in byte_scan.pieces(value)
            ]

        read("stored message", "octopus_turns", "message")
        read("stored call", "octopus_turns", "tool_calls")
        read("stored summary", "octopus_episodes", "summary")
        read("stored fact", "octopus_facts", "content")
        read("id of a fact", "octopus_facts", "id")
        read("stored vector", "octopus_recall", "vector")
        read("stored terms", "octopus_recall", "terms")
        read("id of a turn", "octopus_turns", "id")
        read("id of an episode", "octopus_episodes", "id")
    finally:
        conn.close()
    # What others say too is no trace of this user: the ends of a frame can be alike.
    mine = {piece for some in found.values() for piece in some}
    shared = shared_pieces(path, scope_id, mine)
    found = {kind: [piece for piece in some if piece not in shared] for kind, some in found.items()}
    texts = [
        message["content"]
        for episode in range(EPISODES)
        for message in episode_of(user, episode)["messages"]
        if message["role"] == "user"
    ]
    vectors = KnownEmbedder().embed(texts)
    for kind in ("float32", "float16", "float64"):
        found[f"{kind} vector"] = [
            piece for row in vectors.astype(kind) for piece in byte_scan.pieces(row.tobytes())
        ]
    return found


def shared_pieces(path: Path, scope_id: int, mine: set[bytes]) -> set[bytes]:
    conn = sqlite3.connect(path)
    try:
        others = [
            bytes(value)
            for table, column in (
                ("octopus_turns", "message"),
                ("octopus_turns", "tool_calls"),
                ("octopus_episodes", "summary"),
                ("octopus_facts", "content"),
                ("octopus_recall", "terms"),
            )
            for (value,) in conn.execute(
                f"SELECT {column} FROM {table} WHERE scope_id != ? AND {column} IS NOT NULL",
                [scope_id],
            )
        ]
    finally:
        conn.close()
    return byte_scan.found(b"\0".join(others), mine)


STORED = {
    "stored message",
    "stored call",
    "stored summary",
    "stored fact",
    "id of a fact",
    "stored vector",
    "stored terms",
    "id of a turn",
    "id of an episode",
}


def found_kinds(folder: Path, wanted: dict[str, list[bytes]]) -> set[str]:
    return {hit.kind for hit in byte_scan.search(folder, wanted)}


TABLES = {
    "scopes": "id",
    "conversations": "scope_id",
    "episodes": "scope_id",
    "facts": "scope_id",
    "turns": "scope_id",
    "recall": "scope_id",
    "idempotency": "scope_id",
    "work": "scope_id",
}


def everything_of_others(memory: EpisodicMemory, path: Path) -> list[Any]:
    """Every row of theirs, and what recall makes of some."""
    conn = sqlite3.connect(path)
    try:
        [scope_id] = conn.execute(
            "SELECT id FROM octopus_scopes WHERE user = ?", [marker("user", VICTIM)]
        ).fetchone() or [0]
        seen: list[Any] = [
            Counter(conn.execute(f"SELECT * FROM octopus_{table} WHERE {column} != ?", [scope_id]))
            for table, column in TABLES.items()
        ]
    finally:
        conn.close()
    for user in range(0, USERS - 1, 9):
        scope = scope_of(memory, user)
        seen.append(scope.recall(f"Where is {marker('message', user, 3, 2)}?", limit=3))
        seen.append(scope.session(marker("session", user, 3)))
    return seen


@contextmanager
def without_secure_delete(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As a build of SQLite may be; ours is not asked for help."""
    prepare = SqliteStore._prepare

    def off(self: SqliteStore, conn: sqlite3.Connection) -> None:
        prepare(self, conn)
        conn.execute("PRAGMA secure_delete=OFF")
        assert conn.execute("PRAGMA secure_delete").fetchone() == (0,)

    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "_prepare", off)
        yield


@contextmanager
def as_it_comes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield


@pytest.mark.parametrize("build", [as_it_comes, without_secure_delete])
def test_not_a_byte_of_an_erased_user_is_left(
    copy: Copy,
    wanted: dict[str, list[bytes]],
    build: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
):
    assert set(KINDS) | STORED <= found_kinds(copy.folder, wanted)
    with build(monkeypatch), open_memory(copy.path) as memory:
        before = everything_of_others(memory, copy.path)
        # Read it too, and write, so that caches and the log hold something of it.
        assert scope_of(memory, VICTIM).recall("Where is it?")
        scope_of(memory, VICTIM).add(marker("session", VICTIM), ("user", marker("message", VICTIM)))
        receipt = memory.tenant().erase_user(marker("user", VICTIM), actor="test")
        assert receipt.is_complete
        assert receipt.removed["turns"] == EPISODES * TURNS + 1
        assert receipt.removed["facts"] == EPISODES * 2
        assert everything_of_others(memory, copy.path) == before
        # The log must be empty of it while others still use the file, too.
        assert found_kinds(copy.folder, wanted) == set()
    assert found_kinds(copy.folder, wanted) == set()
    assert copy.path.exists()
    with open_memory(copy.path) as memory:
        assert everything_of_others(memory, copy.path) == before
        assert memory.stats().turns == (USERS - 1) * EPISODES * TURNS


def test_rows_that_were_only_deleted_are_found(
    copy: Copy, wanted: dict[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
):
    """So that the test before this one cannot pass by looking away."""
    monkeypatch.setattr(SqliteStore, "_rewrite", lambda _: True)
    with without_secure_delete(monkeypatch), open_memory(copy.path) as memory:
        memory.tenant().erase_user(marker("user", VICTIM), actor="test")
    assert {"message", "summary", "stored vector", "stored terms", "speaker"} <= found_kinds(
        copy.folder, wanted
    )


def test_one_episode_of_many(copy: Copy, wanted: dict[str, list[bytes]]):
    one, others = {}, {}
    for kind in ("message", "summary", "fact", "session", "metadata", "tool", "result", "key"):
        gone = {marker(kind, VICTIM, 4, turn).encode() for turn in range(TURNS)}
        one[kind] = [needle for needle in wanted[kind] if needle in gone]
        others[kind] = [needle for needle in wanted[kind] if needle not in gone]
    with open_memory(copy.path) as memory:
        scope = scope_of(memory, VICTIM)
        [episode] = scope.session(marker("session", VICTIM, 4)).episodes
        assert scope.erase_episode(episode.episode.id).is_complete
    assert found_kinds(copy.folder, one) == set()
    assert found_kinds(copy.folder, others) == set(others)


def test_a_rewrite_left_for_later_leaves_nothing_either(copy: Copy, wanted: dict[str, list[bytes]]):
    with open_memory(copy.path) as memory:
        receipt = memory.tenant().erase_user(marker("user", VICTIM), physical=False)
        assert not receipt.physical
        assert not receipt.is_complete
        assert memory.compact()
        assert memory.tenant().receipt(receipt.id).is_complete
    assert found_kinds(copy.folder, wanted) == set()


def test_text_removed_by_archiving_purging_and_new_summaries_is_gone_from_the_file(
    copy: Copy, wanted: dict[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
):

    def marks(kind: str, episode: int) -> list[bytes]:
        gone = {marker(kind, VICTIM, episode, turn).encode() for turn in range(TURNS)}
        return [needle for needle in wanted[kind] if needle in gone]

    with without_secure_delete(monkeypatch), open_memory(copy.path) as memory:
        scope, store = scope_of(memory, VICTIM), memory.runtime.store
        ids = [
            scope.session(marker("session", VICTIM, number)).episodes[0].episode.id
            for number in range(3)
        ]
        store.archive(scope.scope, ids[0])
        store.delete(scope.scope, ids[1], at=memory.runtime.clock.now())
        store.purge(scope.scope, ids[1])
        new = close.limited(memory.runtime.extractive.summarize([], timeout=1))
        summary = close.new_summary(memory.runtime, scope.scope, new, "scrubbed")
        store.put_summary(scope.scope, ids[2], summary)
        assert memory.compact()
    texts = ("message", "tool", "result", "key", "speaker")
    # A key stays until the purge, so that a repeated call stores nothing twice.
    gone = {f"archived {kind}": marks(kind, 0) for kind in texts if kind != "key"}
    gone |= {f"purged {kind}": marks(kind, 1) for kind in (*texts, "summary", "fact", "session")}
    gone |= {f"replaced {kind}": marks(kind, 2) for kind in ("summary", "fact")}
    assert all(gone.values())
    assert found_kinds(copy.folder, gone) == set()
    kept = {f"archived {kind}": marks(kind, 0) for kind in ("summary", "fact", "session", "key")}
    kept |= {f"replaced {kind}": marks(kind, 2) for kind in texts}
    assert found_kinds(copy.folder, kept) == set(kept)
