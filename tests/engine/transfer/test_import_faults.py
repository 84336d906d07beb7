"""Import: runs that are cut short, files that are wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    EpisodicMemory,
    InvalidInput,
    MemoryConfig,
    MemoryScope,
    MessageTooLarge,
    SessionConfig,
)
from octopus_memory.testing import FixedClock
from tests.support.exported_user import export, fill, open_other, with_trailer


def test_a_truncated_file_leaves_what_was_whole_and_says_so(
    memory: EpisodicMemory, there: EpisodicMemory, clock: FixedClock
):
    fill(memory, clock)
    lines = export(memory)
    for cut in (len(lines) // 2, len(lines) - 1):
        ends = sum(json.loads(line)["kind"] == "episode_end" for line in lines[:cut])
        with pytest.raises(InvalidInput) as raised:
            there.tenant("acme").import_user(lines[:cut])
        assert f"line {cut}: is the last but not a trailer" in str(raised.value)
        assert f"the {ends} before it are in" in str(raised.value)
        assert there.stats().episodes == ends
    assert there.tenant("acme").import_user(lines).passed_over == 12
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


@pytest.mark.process
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
    with open_other(database, clock) as there:
        report = there.tenant("acme").import_user(lines)
        assert report.passed_over > 0
        assert report.episodes > 0
        assert export(there)[1:-1] == lines[1:-1]


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
        (remove("scope"), "line 2, kind: must not stand here"),
        (remove("session"), "line 3, kind: must not stand here"),
        (remove("episode"), "line 4, kind: must not stand here"),
        (change("session", status="asleep"), "line 3, status: must be one of active"),
        (change("session", metadata=[]), "line 3, metadata: must be an object"),
        (change("session", created_at="2025"), "line 3, created_at: "),
        (change("episode", id="7"), "line 4, id: must be a UUID"),
        (change("episode", session_id="b"), "line 4, session_id: must be that of the session"),
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
            "line 4, placeholders: must not repeat a placeholder",
        ),
        (change("episode", message_count=3), "line 7, turns: must be 3, and 2 stand before it"),
        (change("turn", ordinal=1), "line 5, ordinal: must be 0"),
        (change("turn", tokens=-1), "line 5, tokens: must be a whole number"),
        (change("turn", message={"role": "robot"}), "line 5, message.role: 'robot' is not one of"),
        (change("turn", message={"role": "user"}), "line 5, message.content: is missing"),
        (remove("episode_end"), "line 4, kind: begins an episode that has no episode_end"),
        (change("episode_end", turns=1), "line 7, turns: must be 2"),
        (change("episode_end", kind="other"), "line 7, kind: must be turn, fact after"),
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
        there.tenant("acme").import_user(with_trailer(bodies))
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
