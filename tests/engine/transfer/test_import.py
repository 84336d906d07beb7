"""Import: the exact round trip, again and elsewhere, however much it is."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from octopus_memory import (
    EpisodicMemory,
    EpisodicRetentionPolicy,
    ImportReport,
    InvalidInput,
    MemoryConfig,
    MemoryScope,
    PiiMode,
    PrivacyConfig,
)
from octopus_memory.adapters.stores.sql.statements import transfer as transfer_statements
from octopus_memory.engine.transfer import import_octopus
from octopus_memory.testing import FixedClock
from tests.support.exported_user import export, fill, with_trailer


def test_what_is_exported_comes_back_line_for_line(
    memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock
):
    fill(memory, clock)
    before = export(memory)
    clock.advance(days=1)
    report = there.tenant("acme").import_user(before)
    assert report == ImportReport(source="octopus", episodes=12, turns=21, facts=7)
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
    [original] = [replay.episode for replay in source.session("cold True").episodes]
    assert episode.is_archived
    assert original.is_archived
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
    assert there.tenant("acme").import_user(lines).passed_over == 12
    assert export(there) == before
    assert memory.tenant("acme").import_user(lines).passed_over == 12


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
    assert scope.episodes().total_count == 12
    assert len(scope.session("tools").turns) == 4


def test_a_copy_in_the_same_database_has_ids_of_its_own(memory: EpisodicMemory, clock: FixedClock):
    fill(memory, clock)
    lines = export(memory)
    tenant = memory.tenant("acme")
    report = tenant.import_user(lines, user="ben")
    assert (report.episodes, report.given_new_ids, report.turns) == (12, 12, 21)
    assert tenant.import_user(lines, user="ben").passed_over == 12
    assert export(memory) == lines
    ids = [list(_ids(text)) for text in (lines, export(memory, "ben"))]
    assert len(ids[0]) == len(ids[1]) == 33
    assert not set(ids[0]) & set(ids[1])
    # When the first is gone, the copy still counts as that episode.
    memory.tenant("acme").erase_user("ana", physical=False)
    assert tenant.import_user(lines, user="ben").passed_over == 12


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
    with pytest.raises(InvalidInput, match="'b' must not have an open episode: close it first"):
        there.tenant("acme").import_user(export(memory, "user-17"))
    assert there.stats().episodes == 2


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
    nameless = import_octopus._nameless_file
    monkeypatch.setattr(import_octopus, "_SMALL", 300)
    monkeypatch.setattr(
        import_octopus, "_nameless_file", lambda: opened.append(nameless()) or opened[-1]
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
    monkeypatch.setattr(import_octopus, "_SMALL", 300)
    with pytest.raises(InvalidInput, match="^line 145, has_pii: must be true or false"):
        there.tenant("acme").import_user(with_trailer(bodies))
    assert there.stats().turns == there.stats().scopes == 0


@pytest.mark.slow
def test_many_times_the_turns_take_no_more_memory(
    memory: EpisodicMemory,
    there: EpisodicMemory,
    scope: MemoryScope,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    scope.store([("user", "formal language, leave days and tea " * 20)])
    *start, turn, end, trailer = [json.loads(line) for line in export(memory, "user-17")]
    # Smaller batches, so that less has to be imported to see that it is done in batches. CPython
    # keeps freed tuples of up to 20 values, and a batch has a tuple for each column.
    monkeypatch.setattr(import_octopus, "_SMALL", 20_000)
    monkeypatch.setattr(import_octopus, "_BATCH", 30)
    monkeypatch.setattr(transfer_statements, "_BATCH", 30)
    seen = []
    for number, turns in enumerate((60, 60, 600)):
        said = [turn | {"ordinal": place} for place in range(turns)]
        episode = start[-1] | {"message_count": turns, "id": str(UUID(int=number + 1))}
        last = end | {"turns": turns, "id": episode["id"]}
        file = tmp_path / "lines"
        file.write_text("\n".join(with_trailer([*start[:-1], episode, *said, last, trailer])))
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
    monkeypatch.setattr(import_octopus, "_SMALL", small)
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
