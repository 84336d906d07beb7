"""A change of protection that another process made holds for the first write after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    MemoryConfig,
    MemoryScope,
    PrivacyConfig,
    SettingsChanged,
)
from octopus_memory.testing import FixedClock
from tests.support import child_process

pytestmark = pytest.mark.both_databases

MAIL = "ana.lopez@example.com"
SAID = ("user", f"Write to {MAIL} about the leave days.")
REDACT = MemoryConfig(privacy=PrivacyConfig(pii="redact"))


@pytest.fixture
def other(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    """Another memory on the same database, which knows nothing of what the first one does."""
    with EpisodicMemory.open(
        database_url, embedder="hashing", clock=clock, background=False
    ) as opened:
        yield opened


def _export(memory: EpisodicMemory) -> list[str]:
    theirs = memory.scope(tenant="elsewhere", agent="hr", user="user-17")
    theirs.add_fact(f"Mail {MAIL}.", slot=MAIL)
    theirs.store([SAID], summary=f"Mail {MAIL}.", metadata={"mail": MAIL})
    return list(memory.tenant("elsewhere").export_user("user-17"))


def _open_with_metadata(scope: MemoryScope) -> None:
    scope.open_episode("opened", metadata={"mail": MAIL})


def _set_metadata(scope: MemoryScope) -> None:
    scope.open_episode("warm", metadata={"mail": MAIL})


def _close_with_summary(scope: MemoryScope) -> None:
    scope.close_episode(
        scope.open_episode("warm"), summary=f"Mail {MAIL}.", key_facts=[f"Mail: {MAIL}"]
    )


WRITES: dict[str, Callable[[MemoryScope], object]] = {
    "add": lambda scope: scope.add("warm", SAID),
    "add to a new session": lambda scope: scope.add("new", SAID),
    "add with a key": lambda scope: scope.add("warm", SAID, idempotency_key="k"),
    "store": lambda scope: scope.store([SAID], metadata={"mail": MAIL}, key_facts=[MAIL]),
    "open": _open_with_metadata,
    "metadata": _set_metadata,
    "close": _close_with_summary,
    "give a fact": lambda scope: scope.add_fact(f"Mail {MAIL}.", slot=MAIL),
    "correct a fact": lambda scope: scope.correct_fact(scope.facts()[0], f"Mail {MAIL}."),
}


def _everything(memory: EpisodicMemory) -> str:
    return "".join(memory.tenant("acme").export_user("user-17"))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_the_first_write_after_a_change_elsewhere_uses_it(
    memory: EpisodicMemory,
    other: EpisodicMemory,
    scope: MemoryScope,
    write: Callable[[MemoryScope], object],
):
    scope.add("warm", ("user", "Which form do I need?"))
    scope.add_fact("Prefers letters.")
    other.configure("hr", REDACT)
    write(scope)
    assert MAIL not in _everything(memory)
    assert "Which form do I need?" in _everything(memory)


def test_an_import_after_a_change_elsewhere_uses_it(
    memory: EpisodicMemory, other: EpisodicMemory, scope: MemoryScope
):
    lines = _export(memory)
    scope.add("warm", ("user", "Which form do I need?"))
    other.configure("hr", REDACT)
    memory.tenant("acme").import_user(lines)
    transcript = '{"messages": [{"role": "user", "content": "I am ' + MAIL + '"}]}\n'
    other.configure("hr", {"privacy": {"numbered": True}})
    memory.tenant("acme").import_user([transcript], user="user-17", agent="hr")
    assert MAIL not in _everything(memory)


def test_protection_that_ends_elsewhere_ends_here(other: EpisodicMemory, scope: MemoryScope):
    other.configure("hr", REDACT, tenant="acme")
    scope.add("warm", SAID)
    other.reset_config("hr", tenant="acme")
    scope.add("warm", SAID)
    first, second = (turn.text for turn in scope.session("warm").turns)
    assert MAIL not in first
    assert MAIL in second


def test_a_given_fact_in_an_import_after_a_change_elsewhere_uses_it(
    memory: EpisodicMemory, other: EpisodicMemory, scope: MemoryScope
):
    memory.scope(tenant="elsewhere", agent="hr", user="user-17").add_fact(f"Mail {MAIL}.")
    lines = list(memory.tenant("elsewhere").export_user("user-17"))
    scope.add("warm", ("user", "Which form do I need?"))
    other.configure("hr", REDACT)
    assert memory.tenant("acme").import_user(lines).facts == 1
    assert [fact.text for fact in scope.facts()] == ["Mail [EMAIL]."]


def test_the_summary_after_a_change_elsewhere_uses_it(other: EpisodicMemory, scope: MemoryScope):
    scope.add("warm", [SAID, ("assistant", f"I wrote to {MAIL}.")])
    other.configure("hr", REDACT)
    scope.close_session("warm")
    [snippet] = scope.recent()
    assert snippet.summary
    assert MAIL not in snippet.summary + "".join(snippet.key_facts)


def test_a_write_fails_when_settings_change_at_every_attempt(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is stored by settings that are gone, however long that lasts."""
    store = memory.runtime.store
    append = store.append
    turn = iter(range(1_000))

    def beaten(write: Any) -> Any:
        memory.configure("hr", {"recall": {"semantic_top_k": next(turn)}})
        return append(write)

    monkeypatch.setattr(store, "append", beaten)
    with pytest.raises(SettingsChanged):
        scope.add("s", SAID)
    monkeypatch.undo()
    assert scope.episodes().total_count == 0


def _add_when_told(pipe: Connection, url: str, told: Connection) -> None:
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        scope = memory.scope(tenant="acme", agent="hr", user="user-17")
        while True:
            [turn] = scope.add("s", SAID)
            pipe.send(turn.text)
            told.recv()


@pytest.mark.process
@pytest.mark.sqlite_alone
def test_another_process_uses_the_changed_settings(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with ExitStack() as stack:
        memory = stack.enter_context(EpisodicMemory.open(url, embedder="hashing", background=False))
        theirs, ours = child_process.CONTEXT.Pipe(duplex=False)
        _, said = stack.enter_context(child_process.running(_add_when_told, url, theirs))
        assert MAIL in said.recv()
        for mode in ("redact", "off", "redact"):
            memory.configure("hr", {"privacy": {"pii": mode}})
            ours.send("go on")
            assert (MAIL in said.recv()) == (mode == "off")
        ours.close()
