"""What is stored already loses its personal data, everywhere, and keeps everything else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from octopus_memory import (
    ArchiveMode,
    AsyncEpisodicMemory,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    InvalidInput,
    MemoryConfig,
    PrivacyConfig,
    ScrubReport,
    SessionConfig,
)
from octopus_memory.__main__ import program
from octopus_memory.adapters.stores.sql import codec
from octopus_memory.ports.values import SUMMARY_ORDINAL
from octopus_memory.testing import FixedClock
from tests.support.scrub_dialogue import CALL, KETTLE, TALK, left, open_memory, shown, texts


def test_nothing_is_left_where_it_was_stored(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.store([*TALK, CALL], session_id="whole", metadata={"mail": "ana.lopez@example.com"})
    scope.add("open", TALK)
    scope.store(
        TALK,
        session_id="given",
        summary="Ana López gave 4111 1111 1111 1111.",
        key_facts=["Her mail is ana.lopez@example.com", "likes tea"],
    )
    scope.store([{"role": "user", "name": "Ana López", "content": "Good morning."}], session_id="n")
    memory.flush()
    before = {e.id: e for e in scope.episodes(page_size=100)}
    turns = {t.id: t for e in before.values() for t in scope.get(e.id).turns}
    report = memory.tenant().scrub()
    assert left(shown(scope)) == []
    assert scope.session("whole").session.metadata == {"mail": "[EMAIL]"}
    assert texts(scope, "open")[0] == "Hi, my name is [PERSON_NAME] and my card is [CREDIT_CARD]."
    assert texts(scope, "open")[3] == KETTLE
    call = scope.session("whole").turns[-1].message.body
    assert call == CALL | {
        "arguments": '{"email": "[EMAIL]"}',
        "result": {"phone": "[PHONE_NUMBER]"},
    }
    assert scope.session("n").turns[0].message.name == "[PERSON_NAME]"
    given = scope.session("given").episodes[0].episode
    assert given.summary == "[PERSON_NAME] gave [CREDIT_CARD]."
    assert given.key_facts == ("Her mail is [EMAIL]", "likes tea")
    assert given.summarized_by == "caller"
    for episode in scope.episodes(page_size=100):
        was = before[episode.id]
        assert (episode.message_count, episode.started_at, episode.ended_at) == (
            was.message_count,
            was.started_at,
            was.ended_at,
        )
        for turn in scope.get(episode.id).turns:
            old = turns[turn.id]
            assert (turn.ordinal, turn.at, turn.role) == (old.ordinal, old.at, old.role)
            assert turn.has_pii == (turn.message != old.message)
    assert (report.scopes, report.episodes, report.turns) == (1, 4, 17)
    assert (report.changed_episodes, report.changed_turns) == (4, 11)
    assert (report.changed_metadata, report.held, report.failed) == (1, 0, 0)
    assert report.changed_summaries == 3
    assert set(report.kinds) == {"CREDIT_CARD", "EMAIL", "PERSON_NAME", "PHONE_NUMBER"}
    assert report.compacted
    assert report.is_complete


def test_the_result_equals_redaction_from_the_start(path: Path, clock: FixedClock):
    """The same text in a memory that never let it in."""
    metadata = {"mail": "ana.lopez@example.com"}
    found = []
    for name, mode in (("late.db", "off"), ("early.db", "redact")):
        with open_memory(path.with_name(name), clock) as memory:
            memory.configure("a", MemoryConfig(privacy=PrivacyConfig(pii=mode, numbered=True)))
            scope = memory.scope(agent="a", user="u")
            scope.store([*TALK, CALL], session_id="s", metadata=metadata)
            memory.flush()
            memory.tenant().scrub()
            memory.flush()
            replay = scope.session("s")
            [part] = replay.episodes
            rows = memory.runtime.store.recall_rows(scope.scope, after=0)[1]
            found.append(
                (
                    [(t.message, t.tokens, t.has_pii) for t in part.turns],
                    (part.episode.summary, part.episode.key_facts, replay.session.metadata),
                    {r.ordinal: (r.lexical.flags, len(r.lexical.terms), r.vector) for r in rows},
                )
            )
    assert found[0] == found[1]


def test_a_second_run_changes_nothing(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.store(TALK, session_id="a", metadata={"who": "ana.lopez@example.com"})
    scope.store(TALK, session_id="b", summary="Ana López called from 415-555-0134.")
    first = memory.tenant().scrub(numbered=True)
    memory.flush()
    before = shown(scope), memory.runtime.store.recall_state(scope.scope), memory.stats().vectors
    made = memory.runtime.store.state().removals
    again = memory.tenant().scrub(numbered=True)
    assert first.changed_episodes == 2
    assert again == ScrubReport(scopes=1, episodes=2, turns=10)
    after = shown(scope), memory.runtime.store.recall_state(scope.scope), memory.stats().vectors
    assert after == before
    assert memory.runtime.store.state().removals == made


def test_a_dry_run_says_what_would_change_and_changes_nothing(memory: EpisodicMemory):
    scope = memory.scope(user="u")
    scope.store(TALK, session_id="a", metadata={"who": "ana.lopez@example.com"})
    before, made = shown(scope), memory.runtime.store.state().removals
    dry = memory.tenant().scrub(dry_run=True)
    assert (shown(scope), memory.runtime.store.state().removals) == (before, made)
    assert memory.tenant().audit() == []
    real = memory.tenant().scrub(compact=False)
    assert dry.dry_run
    assert dry.changed_turns == 3
    assert {**_counts(dry), "dry_run": False} == _counts(real)


def _counts(report: ScrubReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in ScrubReport.__slots__}


def test_only_the_named_user_is_scrubbed(memory: EpisodicMemory):
    scopes = {
        (tenant, agent, user): memory.scope(tenant=tenant, agent=agent, user=user)
        for tenant in ("t", "other")
        for agent in ("a", "b")
        for user in ("u", "v")
    }
    for scope in scopes.values():
        scope.store(TALK, session_id="s", metadata={"m": "ana.lopez@example.com"})
    memory.flush()
    before = {key: shown(scope) for key, scope in scopes.items()}
    assert memory.tenant("t").scrub(user="u", agent="a").episodes == 1
    assert memory.tenant("t").scrub(user="nobody").scopes == 0
    for key, scope in scopes.items():
        assert (shown(scope) == before[key]) == (key != ("t", "a", "u"))
    memory.tenant("t").scrub(user="v")
    memory.tenant("t").scrub(agent="b")
    for (tenant, _, _), scope in scopes.items():
        assert bool(left(shown(scope))) == (tenant == "other")
    for wrong in ({"user": ""}, {"agent": ""}, {"actor": ""}):
        with pytest.raises(InvalidInput):
            memory.tenant("t").scrub(**wrong)


def test_archives_and_deleted_episodes_are_scrubbed(memory: EpisodicMemory, clock: FixedClock):
    scope = memory.scope(user="u")
    ids = {
        name: scope.store(TALK, session_id=name, metadata={"m": "ana.lopez@example.com"}).id
        for name in ("cold", "summary", "deleted")
    }
    store = memory.runtime.store
    store.archive(scope.scope, ids["cold"], cold=True)
    store.archive(scope.scope, ids["summary"])
    scope.delete(ids["deleted"])
    report = memory.tenant().scrub()
    assert left(shown(scope)) == []
    assert (report.changed_episodes, report.changed_turns) == (3, 6)
    assert (report.changed_summaries, report.changed_metadata) == (3, 3)
    for name in ("cold", "deleted"):
        scope.restore(ids[name])
        assert texts(scope, name)[0].startswith("Hi, my name is [PERSON_NAME] and my card")
        assert texts(scope, name)[3] == KETTLE
        assert scope.session(name).session.metadata == {"m": "[EMAIL]"}
    memory.flush()
    assert {snippet.session_id for snippet in scope.recall("kettle", limit=9)} == set(ids)
    assert left(shown(scope)) == []


@pytest.mark.slow
def test_no_byte_is_left_in_the_files(memory: EpisodicMemory, path: Path):
    scope = memory.scope(user="u")
    for number in range(20):
        talk = [*TALK, ("user", f"Or write to ana{number:04}.lopez@example.com, it is the same.")]
        scope.store(talk, session_id=f"s{number}", metadata={"m": f"ana{number:04}.m@example.com"})
    memory.flush()
    rows = memory.runtime.store.recall_rows(scope.scope, after=0)[1]
    old = [row.vector for row in rows if row.ordinal in (0, 1, 2, 5, SUMMARY_ORDINAL)]
    terms = [row.lexical.terms for row in rows if row.ordinal in (0, 1, 5)]
    needles = [*(v[:32] for v in old if v), *(t[:16] for t in terms), b"@example.com", b"pez"]
    # The compressed messages that must go, as they are stored.
    needles += [codec.encode(body)[1][:40] for body in TALK[:3]]
    before = path.read_bytes() + _wal(path)
    assert {needle for needle in needles if needle in before} >= {*needles} - {b"pez"}
    report = memory.tenant().scrub()
    assert report.compacted
    memory.close()
    for file in sorted(path.parent.iterdir()):
        raw = file.read_bytes()
        assert not [needle for needle in needles if needle in raw]


def _wal(path: Path) -> bytes:
    wal = Path(f"{path}-wal")
    return wal.read_bytes() if wal.exists() else b""


def test_the_audit_log_has_counts_and_no_text(memory: EpisodicMemory):
    scope = memory.scope(user="Ana López")
    scope.store(TALK, session_id="s")
    memory.tenant().scrub(user="Ana López", actor="cli:me")
    begun, done = memory.tenant().audit()
    assert (begun.action, begun.outcome) == (done.action, "begun") == ("scrub", "begun")
    assert (done.outcome, done.actor) == ("done", "cli:me")
    assert done.subject == memory.tenant().subject("Ana López")
    assert done.detail["changed_turns"] == 3
    assert done.detail["kinds"]["EMAIL"] >= 1
    assert left(repr([begun, done])) == []
    assert memory.tenant().verify_audit().is_whole


def test_progress_is_reported_after_each_session(memory: EpisodicMemory):
    for number in range(3):
        memory.scope(user=f"u{number}").store(TALK, session_id="s")
    seen: list[ScrubReport] = []
    report = memory.tenant().scrub(progress=seen.append, compact=False)
    assert [sofar.episodes for sofar in seen] == [1, 2, 3]
    assert seen[-1] == report
    assert report.compacted is None
    assert memory.runtime.store.state().owes_compaction
    assert memory.tenant().scrub().compacted


def test_resumed_and_split_sessions_are_scrubbed(memory: EpisodicMemory):
    """Scrubbed text goes on like any other."""
    memory.configure("a", MemoryConfig(session=SessionConfig(allow_resume=True)))
    scope = memory.scope(agent="a", user="u")
    scope.add("s", TALK)
    scope.close_session("s")
    memory.tenant().scrub()
    scope.add("s", ("user", "And the tap drips."))
    scope.close_session("s")
    assert [turn.ordinal for turn in scope.session("s").turns] == list(range(6))
    assert left(shown(scope)) == []
    policy = EpisodicRetentionPolicy(active_retention_days=1, archive_mode=ArchiveMode.COLD)
    memory.configure("a", MemoryConfig(retention=policy))
    clock: Any = memory.runtime.clock
    clock.advance(days=2)
    assert memory.run_retention().counts.archived == 1
    assert memory.tenant().scrub().changed_episodes == 0


async def _scrub_async(path: Path, clock: FixedClock) -> ScrubReport:
    url = f"sqlite:///{path}"
    opened = await AsyncEpisodicMemory.open(url, embedder="hashing", clock=clock, background=False)
    async with opened as memory:
        await memory.scope(user="u").store(TALK)
        return await memory.tenant().scrub(numbered=True)


def test_the_async_call_does_the_same(path: Path, clock: FixedClock):
    assert asyncio.run(_scrub_async(path, clock)).changed_turns == 3


def run(path: Path, *args: str, code: int = 0, stdin: str | None = None) -> str:
    done = CliRunner().invoke(program(), ["scrub", "--db", str(path), *args], input=stdin)
    assert done.exit_code == code, done.output
    return done.output


def test_the_command_reports_what_it_changed(path: Path, clock: FixedClock):
    with open_memory(path, clock) as memory:
        for user in ("u", "v"):
            memory.scope(user=user).store(TALK, session_id="s")
    dry = run(path, "--dry-run")
    assert "would change" in dry
    assert "message 6" in dry
    assert "EMAIL" in dry
    report = json.loads(
        run(path, "--user", "u", "--agent", "default", "--numbered", "--json", "--yes")
    )
    assert (report["changed_turns"], report["compacted"], report["held"]) == (3, True, 0)
    said = run(path, "--plain", "--no-compact", "--yes")
    assert "message 3" in said
    assert "octopus run-pending" in said
    assert "rewritten" not in said
    assert "rewritten" in run(path, "--yes")
    with open_memory(path, clock) as memory:
        assert "[EMAIL_1]" in repr(memory.scope(user="u").session("s"))
        assert "[EMAIL]" in repr(memory.scope(user="v").session("s"))
        assert {entry.actor.partition(":")[0] for entry in memory.tenant().audit()} == {"cli"}
        memory.scope(user="v").store(TALK, session_id="t")
        memory.tenant().hold(user="v", reason="a case")
    assert "octopus holds list" in run(path, "--yes", code=1)
    assert "nothing" in run(path, "--tenant", "another", "--yes")


def test_the_command_asks_first(path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch):
    with open_memory(path, clock) as memory:
        scope = memory.scope(user="u")
        scope.store(TALK, session_id="s")
        said = scope.session("s").turns
        assert "--yes" in run(path, code=2)
        monkeypatch.setattr("octopus_memory.faces.cli.terminal.can_ask", lambda: True)
        asked = run(path, "--user", "u", stdin="n\n", code=1)
        assert "the personal data in 1 episode of user u in tenant default, with every" in asked
        assert scope.session("s").turns == said
    run(path, "--no-compact", stdin="y\n")
    with open_memory(path, clock) as memory:
        assert memory.scope(user="u").session("s").turns != said


def test_the_command_never_makes_a_database(path: Path):
    assert "no database" in run(path, code=1)
    assert not path.exists()
