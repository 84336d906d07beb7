"""Import: the exact round trip, runs that are cut short, files that are wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from test_export import fill

from octopus_memory import (
    EpisodicMemory,
    EpisodicRetentionPolicy,
    ImportReport,
    InvalidInput,
    MemoryConfig,
    MemoryScope,
    MessageTooLarge,
    PiiMode,
    PrivacyConfig,
    SessionConfig,
)
from octopus_memory.adapters.stores import portable as store_portable
from octopus_memory.domain.portable import Tally, encode_line
from octopus_memory.engine.carrying import import_export
from octopus_memory.testing import FixedClock


@contextmanager
def another(path: Path, clock: FixedClock, **more: Any) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        path, embedder="hashing", clock=clock, background=False, **more
    ) as opened:
        yield opened


@pytest.fixture
def there(tmp_path: Path, clock: FixedClock) -> Iterator[EpisodicMemory]:
    """Another database, empty."""
    with another(tmp_path / "there.db", clock) as opened:
        yield opened


def export(memory: EpisodicMemory, user: str = "ana", tenant: str = "acme") -> list[str]:
    return list(memory.tenant(tenant).export_user(user))


def signed(bodies: list[dict[str, Any]]) -> list[str]:
    """These lines with the trailer that fits them."""
    tally = Tally()
    lines = []
    for body in bodies:
        if body["kind"] != "trailer":
            lines.append(encode_line(body))
            tally.add(lines[-1], body["kind"])
    return [*lines, encode_line(tally.trailer())]


def test_what_is_exported_comes_back_line_for_line(
    memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock
):
    fill(memory, clock)
    before = export(memory)
    clock.advance(days=1)
    report = there.tenant("acme").import_user(before)
    assert report == ImportReport(source="octopus", episodes=11, turns=19)
    after = export(there)
    assert after[1:-1] == before[1:-1]
    head, again = json.loads(before[0]), json.loads(after[0])
    assert head.pop("made_at") != again.pop("made_at")
    assert head == again


def test_it_is_found_again(memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock):
    scope = fill(memory, clock)
    there.tenant("acme").import_user(export(memory))
    copy = there.scope(tenant="acme", agent="hr", user="ana")
    for memory_ in (memory, there):
        memory_.flush()
    for query in ("old words", "what is the weather like", "came back", "ended by timeout"):
        found = [
            (s.episode_id, s.session_id, s.summary, s.key_facts, s.is_archived)
            for s in copy.recall(query)
        ]
        assert found == [
            (s.episode_id, s.session_id, s.summary, s.key_facts, s.is_archived)
            for s in scope.recall(query)
        ]
        assert found
    assert there.stats().vectors == memory.stats().vectors


def test_an_open_conversation_goes_on(
    memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock
):
    fill(memory, clock)
    lines = export(memory)
    clock.advance(days=3)
    there.tenant("acme").import_user(lines)
    scope = there.scope(tenant="acme", agent="sales", user="ana")
    assert there.run_pending().timed_out == 0
    [turn] = scope.add("open", ("user", "and on"), at=scope.session("open").session.last_seen_at)
    assert turn.ordinal == 2
    clock.advance(minutes=31)
    assert there.run_pending().timed_out == 2


def test_a_cold_archive_can_be_restored_where_it_came_to(
    memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock
):
    source = fill(memory, clock)
    there.tenant("acme").import_user(export(memory))
    scope = there.scope(tenant="acme", agent="hr", user="ana")
    [episode] = [replay.episode for replay in scope.session("cold True").episodes]
    assert [e.is_archived for e in (episode, source.session("cold True").episodes[0].episode)]
    scope.restore(episode.id)
    assert [turn.text for turn in scope.session("cold True").turns] == ["old words", "older"]


# Again, and elsewhere


def test_importing_again_changes_nothing(
    memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock
):
    fill(memory, clock)
    lines = export(memory)
    there.tenant("acme").import_user(lines)
    before = export(there)
    assert there.tenant("acme").import_user(lines).passed_over == 11
    assert export(there) == before
    assert memory.tenant("acme").import_user(lines).passed_over == 11


def test_what_was_deleted_here_is_not_brought_back(memory: EpisodicMemory, scope: MemoryScope):
    kept = scope.store([("user", "a")])
    lines = export(memory, "user-17")
    scope.delete(kept.id)
    assert memory.tenant("acme").import_user(lines).passed_over == 1
    assert len(scope.episodes()) == 0


def test_under_another_name(memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    there.tenant("other").import_user(export(memory), user="ana b.", agent="all")
    assert there.tenant("acme").episodes().total_count == 0
    scope = there.scope(tenant="other", agent="all", user="ana b.")
    assert scope.episodes().total_count == 11
    assert len(scope.session("tools").turns) == 4


def test_a_copy_in_the_same_database_has_ids_of_its_own(memory: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    lines = export(memory)
    tenant = memory.tenant("acme")
    report = tenant.import_user(lines, user="ben")
    assert (report.episodes, report.given_new_ids, report.turns) == (11, 11, 19)
    assert tenant.import_user(lines, user="ben").passed_over == 11
    assert export(memory) == lines
    ids = [list(_ids(text)) for text in (lines, export(memory, "ben"))]
    assert len(ids[0]) == len(ids[1]) == 30
    assert not set(ids[0]) & set(ids[1])
    # When the first is gone, the copy still counts as that episode.
    memory.tenant("acme").erase_user("ana", physical=False)
    assert tenant.import_user(lines, user="ben").passed_over == 11


def _ids(lines: list[str]) -> Iterator[str]:
    for line in map(json.loads, lines):
        if line["kind"] in ("episode", "turn"):
            yield line["id"]


def test_a_session_with_an_open_episode_stands_in_the_way(
    memory: EpisodicMemory, there: EpisodicMemory, scope: MemoryScope
):
    scope.store([("user", "done")], session_id="a")
    scope.add("b", ("user", "mine"))
    there.scope(tenant="acme", agent="hr", user="user-17").add("b", ("user", "theirs"))
    with pytest.raises(InvalidInput, match="'b' has an open episode here: close it first"):
        there.tenant("acme").import_user(export(memory, "user-17"))
    assert there.stats().episodes == 2


# Cut short


def test_a_truncated_file_leaves_what_was_whole_and_says_so(
    memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock
):
    fill(memory, clock)
    lines = export(memory)
    for cut in (len(lines) // 2, len(lines) - 1):
        ends = sum(json.loads(line)["kind"] == "episode_end" for line in lines[:cut])
        with pytest.raises(InvalidInput) as raised:
            there.tenant("acme").import_user(lines[:cut])
        assert f"line {cut}: is the last, and no trailer" in str(raised.value)
        assert f"the {ends} before it are in" in str(raised.value)
        assert there.stats().episodes == ends
    assert there.tenant("acme").import_user(lines).passed_over == 11
    assert export(there)[1:-1] == lines[1:-1]


def test_a_line_cut_in_the_middle(memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    text = "".join(export(memory))
    half = text[: len(text) // 2].splitlines(keepends=True)
    with pytest.raises(InvalidInput, match=f"^line {len(half)}: is not JSON"):
        there.tenant("acme").import_user(half)


KILLED = """
import os, signal, sys
from octopus_memory import EpisodicMemory

def lines(path, stop):
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            yield line

path, url, stop = sys.argv[1:]
with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
    memory.tenant("acme").import_user(lines(path, int(stop)))
"""


def test_a_killed_import_is_gone_on_with(memory: EpisodicMemory, tmp_path: Path, clock: FixedClock):
    fill(memory, clock)
    lines = export(memory)
    file, database = tmp_path / "ana.jsonl", tmp_path / "killed.db"
    file.write_text("".join(lines), encoding="utf-8")
    stop = int(len(lines) * 0.6)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(file), f"sqlite:///{database}", str(stop)],
        check=False,
        capture_output=True,
        env=os.environ,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    with another(database, clock) as there:
        report = there.tenant("acme").import_user(lines)
        assert report.passed_over > 0
        assert report.episodes > 0
        assert export(there)[1:-1] == lines[1:-1]


# Wrong


def change(which: str, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    def do(bodies: list[dict[str, Any]]) -> None:
        found = next(body for body in bodies if body["kind"] == which)
        found |= fields

    return do


def drop(kind: str, field: str) -> Callable[[list[dict[str, Any]]], None]:
    def do(bodies: list[dict[str, Any]]) -> None:
        del next(body for body in bodies if body["kind"] == kind)[field]

    return do


def remove(kind: str) -> Callable[[list[dict[str, Any]]], None]:
    def do(bodies: list[dict[str, Any]]) -> None:
        bodies.remove(next(body for body in bodies if body["kind"] == kind))

    return do


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (drop("header", "user"), "line 1, user: is missing"),
        (drop("scope", "agent"), "line 2, agent: is missing"),
        (remove("scope"), "line 2, kind: is not one that may stand here"),
        (remove("session"), "line 3, kind: is not one that may stand here"),
        (remove("episode"), "line 4, kind: is not one that may stand here"),
        (change("session", status="asleep"), "line 3, status: must be one of active"),
        (change("session", metadata=[]), "line 3, metadata: must be an object"),
        (change("session", created_at="2025"), "line 3, created_at: "),
        (change("episode", id="7"), "line 4, id: must be a UUID"),
        (change("episode", session_id="b"), "line 4, session_id: is not that of the session"),
        (change("episode", end_reason=None), "line 4, end_reason: and ended_at must both"),
        (change("episode", aged_from=None), "line 4, aged_from: must be given"),
        (change("episode", is_cold=True), "line 4, is_cold: must be false"),
        (change("episode", is_archived=True), "line 4, archived_at: must be given"),
        (change("episode", summary="x" * 2_001), "line 4, summary: must have at most 2,000"),
        (change("episode", key_facts=[1]), "line 4, key_facts: must be a list of texts"),
        (change("episode", summarized_by=None), "line 4, summarized_by: must be text"),
        (change("episode", placeholders=[1]), r"line 4, placeholders\[0\]: must be an object"),
        (
            change("episode", placeholders=[{"kind": "EMAIL", "number": 1}] * 2),
            "line 4, placeholders: names one of them twice",
        ),
        (change("episode", message_count=3), "line 7, turns: must be 3, and 2 stand before it"),
        (change("turn", ordinal=1), "line 5, ordinal: must be 0"),
        (change("turn", tokens=-1), "line 5, tokens: must be a whole number"),
        (change("turn", message={"role": "robot"}), "line 5, message.role: 'robot' is not one of"),
        (change("turn", message={"role": "user"}), "line 5, message.content: is missing"),
        (change("episode_end", turns=1), "line 7, turns: must be 2"),
        (change("episode_end", kind="other"), "line 7, kind: must be turn, or episode_end"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_field(
    memory: EpisodicMemory,
    there: EpisodicMemory,
    scope: MemoryScope,
    spoil: Callable[[list[dict[str, Any]]], None],
    problem: str,
):
    scope.store([("user", "SECRET"), ("assistant", "yes")], session_id="a")
    bodies = [json.loads(line) for line in export(memory, "user-17")]
    spoil(bodies)
    with pytest.raises(InvalidInput, match=f"^{problem}") as raised:
        there.tenant("acme").import_user(signed(bodies))
    assert "no episode is imported" in str(raised.value)
    assert "SECRET" not in str(raised.value)
    assert there.stats().episodes == 0


def test_the_limits_of_the_agent_hold_for_what_comes_in(
    memory: EpisodicMemory, there: EpisodicMemory, scope: MemoryScope
):
    scope.store([("user", "x" * 5_000)])
    config = MemoryConfig(session=SessionConfig(max_message_bytes=1_000))
    there.configure("hr", config)
    with pytest.raises(MessageTooLarge, match="^line 5, message: is 5,"):
        there.tenant("acme").import_user(export(memory, "user-17"))


@pytest.mark.parametrize("given", [{"user": ""}, {"agent": ""}, {"actor": ""}, {"source": "x"}])
def test_arguments_are_checked_first(there: EpisodicMemory, given: dict[str, str]):
    with pytest.raises(InvalidInput, match=f"^{next(iter(given))}: "):
        there.tenant("acme").import_user(iter(()), **given)


# What is said of it


def test_episodes_that_retention_will_take_are_counted(
    memory: EpisodicMemory, there: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    for days in (0, 50, 50):
        clock.advance(days=days)
        scope.store([("user", f"after {days}")])
    scope.add("open", ("user", "still here"))
    lines = export(memory, "user-17")
    clock.advance(days=1)
    report = there.tenant("acme").import_user(lines)
    assert report.overdue == 1
    assert "older than the agent's retention policy" in report.warnings[0]
    policy = EpisodicRetentionPolicy(active_retention_days=10)
    there.configure("strict", MemoryConfig(retention=policy))
    assert there.tenant("acme").import_user(lines, agent="strict").overdue == 2


def test_who_imported_is_recorded(
    memory: EpisodicMemory, there: EpisodicMemory, scope: MemoryScope
):
    scope.store([("user", "a")])
    lines = export(memory, "user-17")
    tenant = there.tenant("acme")
    tenant.import_user(lines, actor="cli:root")
    with pytest.raises(InvalidInput):
        tenant.import_user(lines[:-1])
    done, failed = tenant.audit()
    assert (done.action, done.outcome, done.actor) == ("import", "done", "cli:root")
    assert (done.detail["episodes"], done.detail["turns"]) == (1, 1)
    assert done.subject == tenant.subject("user-17")
    assert (failed.action, failed.outcome) == ("import", "failed")


# However much it is


def test_an_episode_that_is_too_large_to_hold_comes_in_whole(
    memory: EpisodicMemory,
    there: EpisodicMemory,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    fill(memory, clock)
    lines = export(memory)
    opened = []
    nameless = import_export._nameless_file
    monkeypatch.setattr(import_export, "_SMALL", 300)
    monkeypatch.setattr(
        import_export, "_nameless_file", lambda: opened.append(nameless()) or opened[-1]
    )
    there.tenant("acme").import_user(lines)
    assert opened
    assert all(file.closed for file in opened)
    assert export(there)[1:-1] == lines[1:-1]


def test_a_wrong_line_in_a_large_episode_leaves_nothing_of_it(
    memory: EpisodicMemory,
    there: EpisodicMemory,
    scope: MemoryScope,
    monkeypatch: pytest.MonkeyPatch,
):
    scope.store([("user", f"turn {n}") for n in range(150)])
    bodies = [json.loads(line) for line in export(memory, "user-17")]
    bodies[4 + 140]["has_pii"] = "no"
    monkeypatch.setattr(import_export, "_SMALL", 300)
    with pytest.raises(InvalidInput, match="^line 145, has_pii: must be true or false"):
        there.tenant("acme").import_user(signed(bodies))
    assert there.stats().turns == there.stats().scopes == 0


def test_many_times_the_turns_take_no_more_memory(
    memory: EpisodicMemory,
    there: EpisodicMemory,
    scope: MemoryScope,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    scope.store([("user", "formal language, leave days and tea " * 20)])
    *start, turn, end, trailer = [json.loads(line) for line in export(memory, "user-17")]
    # Smaller batches, so that less has to be imported to see that it is done in batches.
    monkeypatch.setattr(import_export, "_SMALL", 20_000)
    monkeypatch.setattr(import_export, "_BATCH", 20)
    monkeypatch.setattr(store_portable, "_BATCH", 20)
    seen = []
    for number, turns in enumerate((60, 60, 600)):
        said = [turn | {"ordinal": place} for place in range(turns)]
        episode = start[-1] | {"message_count": turns, "id": str(UUID(int=number + 1))}
        last = end | {"turns": turns, "id": episode["id"]}
        file = tmp_path / "lines"
        file.write_text("\n".join(signed([*start[:-1], episode, *said, last, trailer])))
        with file.open() as stream:
            tracemalloc.start()
            there.tenant("acme").import_user(stream)
            seen.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert there.stats().turns == 720
    # The first is not counted: some things are made once, such as compiled statements.
    assert seen[2] < 1.5 * seen[1]


# Personal data


@pytest.mark.parametrize("small", [10_000_000, 100])
def test_personal_data_is_kept_out_as_the_agent_there_says(
    memory: EpisodicMemory,
    there: EpisodicMemory,
    scope: MemoryScope,
    monkeypatch: pytest.MonkeyPatch,
    small: int,
):
    monkeypatch.setattr(import_export, "_SMALL", small)
    scope.store(
        [
            ("user", "Write to ana@example.com"),
            ("assistant", "To ana@example.com or b@example.com?"),
        ],
        session_id="s",
        metadata={"from": "ana@example.com"},
        summary="Asked to write to ana@example.com.",
        key_facts=["is ana@example.com"],
    )
    privacy = PrivacyConfig(pii=PiiMode.REDACT, numbered=True)
    there.configure("hr", MemoryConfig(privacy=privacy))
    there.tenant("acme").import_user(export(memory, "user-17"))
    text = "".join(export(there, "user-17"))
    assert "example.com" not in text
    lines = [json.loads(line) for line in text.splitlines()]
    said = [line["message"]["content"] for line in lines if line["kind"] == "turn"]
    assert said == ["Write to [EMAIL_1]", "To [EMAIL_1] or [EMAIL_2]?"]
    [episode] = [line for line in lines if line["kind"] == "episode"]
    assert episode["summary"] == "Asked to write to [EMAIL_1]."
    assert episode["key_facts"] == ["is [EMAIL_1]"]
    assert [each["number"] for each in episode["placeholders"]] == [1, 2]
    assert all(line["has_pii"] for line in lines if line["kind"] == "turn")


def test_a_number_that_came_with_an_episode_stays_taken(
    memory: EpisodicMemory, there: EpisodicMemory, scope: MemoryScope
):
    privacy = PrivacyConfig(pii=PiiMode.REDACT, numbered=True)
    for each in (memory, there):
        each.configure("hr", MemoryConfig(privacy=privacy))
    scope.add("s", ("user", "Write to ana@example.com"))
    there.tenant("acme").import_user(export(memory, "user-17"))
    copy = there.scope(tenant="acme", agent="hr", user="user-17")
    [turn] = copy.add("s", ("user", "Or to b@example.com"))
    assert turn.text == "Or to [EMAIL_2]"


def test_what_was_flagged_stays_flagged(
    memory: EpisodicMemory, there: EpisodicMemory, scope: MemoryScope
):
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii=PiiMode.FLAG)))
    scope.store([("user", "Write to ana@example.com"), ("user", "no data")], session_id="s")
    lines = export(memory, "user-17")
    there.tenant("acme").import_user(lines)
    copy = there.scope(tenant="acme", agent="hr", user="user-17")
    assert [turn.has_pii for turn in copy.session("s").turns] == [True, False]
