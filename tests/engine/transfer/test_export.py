"""Export: everything of one user, exactly, and no more."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    AsyncEpisodicMemory,
    EpisodeChanged,
    EpisodicMemory,
    InvalidInput,
    MemoryScope,
    StoreReadOnly,
)
from octopus_memory.domain.ids import new_id
from octopus_memory.engine.transfer import export as portable
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.ports.values import Append, Target
from octopus_memory.testing import FixedClock, make_append, make_closing, make_turn
from octopus_memory.testing.store.base import episode_page
from tests.support.exported_user import TOOLS, fill


def export(memory: EpisodicMemory, user: str = "ana", **more: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in memory.tenant("acme").export_user(user, **more)]


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def test_lines_stand_in_the_documented_order(memory: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    lines = export(memory)
    may_follow = {
        "header": {"scope"},
        "scope": {"fact", "session"},
        "session": {"episode"},
        "episode": {"turn", "episode_end"},
        "turn": {"turn", "fact", "episode_end"},
        "fact": {"fact", "session", "episode_end", "scope", "trailer"},
        "episode_end": {"episode", "session", "scope", "trailer"},
    }
    kinds = [line["kind"] for line in lines]
    assert kinds[0] == "header"
    assert all(after in may_follow[kind] for kind, after in pairwise(kinds))
    counts = Counter(kinds)
    trailer = lines[-1]
    for kind in ("scope", "session", "episode", "turn", "fact"):
        assert trailer[f"{kind}s"] == counts[kind]
    agents = [line["agent"] for line in of_kind(lines, "scope")]
    assert agents == ["hr", "facts alone", "sales"]


def test_the_trailer_has_the_hash_of_every_line(memory: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    lines = list(memory.tenant("acme").export_user("ana"))
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    before = "".join(lines[:-1]).encode()
    assert json.loads(lines[-1])["sha256"] == sha256(before).hexdigest()


def test_messages_are_those_that_were_given_key_by_key(memory: EpisodicMemory, clock: FixedClock):
    scope = fill(memory, clock)
    lines = export(memory)
    start = next(i for i, line in enumerate(lines) if line.get("session_id") == "tools")
    turns = lines[start + 1 : start + 5]
    assert [turn["message"] for turn in turns] == TOOLS
    assert [list(turn["message"]) for turn in turns] == [list(message) for message in TOOLS]
    kept = scope.session("tools").turns
    assert [turn["id"] for turn in turns] == [str(turn.id) for turn in kept]
    assert [turn["tokens"] for turn in turns] == [turn.tokens for turn in kept]
    episode = lines[start]
    assert episode["summary"] == "They asked for the weather."
    assert episode["key_facts"] == ["it rains", "\u2028 odd \ud800"]
    assert episode["summarized_by"] == "caller"
    assert (episode["input_tokens"], episode["output_tokens"]) == (2_000_000_000, 0)


def test_archives_are_in_it_with_what_they_keep(memory: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    lines = export(memory)
    ends = {line["id"]: line["turns"] for line in of_kind(lines, "episode_end")}
    found = {line["session_id"]: line for line in of_kind(lines, "episode")}
    assert ends[found["cold True"]["id"]] == 2
    assert ends[found["cold False"]["id"]] == 0
    assert found["cold False"]["message_count"] == 2
    assert found["cold True"]["is_cold"]
    assert found["cold True"]["archived_at"] is not None
    assert found["restored"]["aged_from"] > found["restored"]["ended_at"]
    assert found["open"]["ended_at"] is found["open"]["aged_from"] is None
    assert found["open"]["last_seen_at"] > found["open"]["last_message_at"]


def test_nothing_of_others_and_nothing_deleted_is_in_it(memory: EpisodicMemory, clock: FixedClock):
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    gone = scope.store([("user", "SECRET deleted")], session_id="gone")
    scope.delete(gone.id)
    for tenant, user in (("acme", "ben"), ("other", "ana")):
        them = memory.scope(tenant=tenant, agent="hr", user=user)
        them.store([("user", "SECRET of others")], metadata={"SECRET": 1})
    scope.store([("user", "mine")])
    text = "".join(memory.tenant("acme").export_user("ana"))
    assert "mine" in text
    assert "SECRET" not in text
    assert "gone" not in text


def test_one_agent_alone(memory: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    lines = export(memory, agent="sales")
    assert lines[0]["agent"] == "sales"
    assert [line["agent"] for line in of_kind(lines, "scope")] == ["sales"]
    assert [line["session_id"] for line in of_kind(lines, "episode")] == [
        "nothing said yet",
        "open",
    ]


def test_a_user_nobody_knows_has_an_empty_export(memory: EpisodicMemory):
    lines = export(memory, "nobody")
    assert [line["kind"] for line in lines] == ["header", "trailer"]
    assert lines[-1]["turns"] == 0


def test_names_are_checked_before_anything_is_read(memory: EpisodicMemory):
    for given in ({"user": ""}, {"user": "ana", "agent": ""}, {"user": "ana", "actor": ""}):
        with pytest.raises(InvalidInput):
            memory.tenant("acme").export_user(**given)
    assert memory.tenant("acme").audit() == []


def test_who_exported_is_recorded_even_if_it_is_cut_short(
    memory: EpisodicMemory, clock: FixedClock
):
    fill(memory, clock)
    tenant = memory.tenant("acme")
    before = len(tenant.audit())
    lines = tenant.export_user("ana", actor="cli:root")
    assert len(tenant.audit()) == before
    next(lines)
    del lines
    list(tenant.export_user("ana"))
    entries = tenant.audit()[before:]
    assert [(e.action, e.outcome, e.actor) for e in entries] == [
        ("export", "begun", "cli:root"),
        ("export", "begun", "library"),
        ("export", "done", "library"),
    ]
    assert entries[-1].detail == {"episodes": 12, "turns": 21, "facts": 7, "injections": 0}
    assert {e.subject for e in entries} == {tenant.subject("ana")}


def test_what_cannot_be_recorded_is_not_exported(
    memory: EpisodicMemory, clock: FixedClock, tmp_path: Path
):
    fill(memory, clock)
    url = f"sqlite:///{tmp_path / 'memory.db'}?mode=ro"
    with (
        EpisodicMemory.open(url, embedder="hashing", clock=clock, background=False) as reader,
        pytest.raises(StoreReadOnly, match="export from a copy"),
    ):
        reader.tenant("acme").export_user("ana")


def test_it_can_be_read_asynchronously(tmp_path: Path, clock: FixedClock):
    async def run(memory: AsyncEpisodicMemory) -> list[str]:
        return [line async for line in memory.tenant("acme").export_user("ana")]

    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", clock=clock, background=False) as memory:
        fill(memory, clock)
        lines = asyncio.run(run(AsyncEpisodicMemory(memory)))
        assert lines == list(memory.tenant("acme").export_user("ana"))


# While others write


def long_episode(store: EpisodeStore, scope: MemoryScope, turns: int) -> Append:
    write = make_append(scope.scope, *(f"turn {n}" for n in range(turns)), closing=make_closing())
    store.append(write)
    return write


@pytest.mark.parametrize("act", ["archive", "delete"])
def test_half_an_episode_never_passes_for_the_whole(
    memory: EpisodicMemory, scope: MemoryScope, act: str
):
    store = memory.runtime.store
    write = long_episode(store, scope, 250)
    lines = memory.tenant("acme").export_user("user-17")
    kinds = [json.loads(next(lines))["kind"] for _ in range(10)]
    assert "turn" in kinds
    getattr(store, act)(scope.scope, write.episode_id, at=write.now)
    with pytest.raises(EpisodeChanged):
        list(lines)


def test_what_is_added_meanwhile_is_whole_or_not_in_it(memory: EpisodicMemory, scope: MemoryScope):
    store = memory.runtime.store
    scope.add("s", [("user", f"turn {n}") for n in range(150)])
    lines = memory.tenant("acme").export_user("user-17")
    first = [json.loads(next(lines)) for _ in range(10)]
    scope.add("s", ("user", "one more"))
    found = first + [json.loads(line) for line in lines]
    [episode] = of_kind(found, "episode")
    assert episode["message_count"] == len(of_kind(found, "turn")) == 150
    assert store.stats().turns == 151


def test_an_episode_that_goes_before_its_turn_is_left_out(
    memory: EpisodicMemory, scope: MemoryScope
):
    first = scope.store([("user", "a")], session_id="a")
    second = scope.store([("user", "b")], session_id="a")
    lines = memory.tenant("acme").export_user("user-17")
    start = [json.loads(next(lines)) for _ in range(4)]
    assert start[-1]["id"] == str(first.id)
    scope.delete(second.id)
    rest = [json.loads(line) for line in lines]
    assert [line["episodes"] for line in of_kind(rest, "trailer")] == [1]


# However much it is


def big_user(path: Path, episodes: int, turns: int) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        scope = memory.scope(tenant="acme", agent="hr", user="ana").scope
        words = " ".join(random.Random(7).choices(["tea", "leave", "days", "formal"], k=100))
        template = make_turn(words)
        for number in range(episodes):
            write = make_append(scope, session_id=f"s{number % 7}", closing=make_closing())
            said = [replace(template, id=new_id()) for _ in range(turns)]
            memory.runtime.store.append(replace(write, turns=said, target=Target.NEW))
        yield memory


def peak(memory: EpisodicMemory) -> tuple[int, int]:
    """How many lines, and the most memory that reading them took."""
    usual = gc.get_threshold()
    # What nobody holds any more is no part of it, whenever it is looked for.
    gc.set_threshold(20)
    tracemalloc.start()
    try:
        lines = sum(1 for _ in memory.tenant("acme").export_user("ana"))
        return lines, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.set_threshold(*usual)


@pytest.mark.slow
@pytest.mark.parametrize(("few", "many"), [((10, 20), (100, 20)), ((1, 100), (1, 1_000))])
def test_ten_times_the_turns_take_no_more_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    few: tuple[int, int],
    many: tuple[int, int],
):
    # Smaller pages, so that less has to be exported to see that it is done in pages.
    monkeypatch.setattr(portable, "_PAGE", 10)
    seen = []
    for name, (episodes, turns) in (("few.db", few), ("many.db", many)):
        for memory in big_user(tmp_path / name, episodes, turns):
            # Not counted: what is made once, such as compiled statements.
            for _ in memory.tenant("acme").export_user("ana"):
                pass
            seen.append(peak(memory))
    assert seen[1][0] > 9 * seen[0][0]
    # Ten times as much, were it held; some noise is of the collector's making.
    assert seen[1][1] < 4 * seen[0][1]


def test_large_messages_are_read_a_few_at_a_time(memory: EpisodicMemory, scope: MemoryScope):
    store = memory.runtime.store
    # Random, so that they stay large when they are compressed.
    large = [random.Random(n).randbytes(5_000_000).hex() for n in range(2)]
    write = make_append(scope.scope, *large)
    store.append(write)
    _, turns = episode_page(store, scope.scope, write.episode_id, limit=100)
    assert [turn.text == large[0] for turn in turns] == [True]
    lines = export(memory, "user-17")
    assert [turn["message"]["content"] for turn in of_kind(lines, "turn")] == large
