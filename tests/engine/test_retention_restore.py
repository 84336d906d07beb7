"""Archived recall, deleting by hand, and what comes back."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from octopus_memory import (
    ArchiveMode,
    Episode,
    EpisodeArchived,
    EpisodeClosed,
    EpisodeNotFound,
    EpisodicMemory,
    EpisodicRecallConfig,
    EpisodicRetentionPolicy,
    InvalidInput,
    LegalHold,
    MemoryConfig,
    MemoryScope,
    NotFound,
    SessionConfig,
    SessionNotFound,
    Turn,
)
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import FixedClock

TALK = [
    {"role": "user", "content": "When does the Lisbon office open?", "name": "Dana"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "hours"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "from eight o'clock on"},
    {"role": "assistant", "content": "It opens at eight."},
    {"role": "user", "content": "Thanks!"},
]


def archived(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, mode: str = "summary"
) -> Episode:
    policy = EpisodicRetentionPolicy(archive_mode=mode)  # type: ignore[arg-type]
    memory.configure(scope.scope.agent, MemoryConfig(retention=policy))
    episode = scope.store(TALK, session_id="office")
    clock.advance(days=90)
    assert memory.run_retention().counts.archived == 1
    return scope.get(episode.id).episode


def as_told(turns: tuple[Turn, ...]) -> list[object]:
    return [(t.id, t.ordinal, t.message, t.tokens, t.at, t.has_pii) for t in turns]


# Archived recall


@pytest.mark.parametrize("mode", ["summary", "cold"])
def test_an_archived_episode_is_found_by_its_summary(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, mode: str
):
    episode = archived(memory, scope, clock, mode)
    for when in ("before its vector", "after"):
        [snippet] = scope.recall("Lisbon office")
        assert snippet.is_archived, when
        assert (snippet.episode_id, snippet.turns) == (episode.id, ())
        assert snippet.summary == episode.summary
        memory.flush()
    assert scope.recall_turns("Lisbon office") == []
    assert scope.recall("Lisbon office", include_archived=False) == []
    assert [s.is_archived for s in scope.recent()] == [True]
    assert scope.recent(include_archived=False) == []
    assert len(scope.episodes(include_archived=False)) == 0
    [kept] = scope.episodes()
    assert (kept.is_cold, kept.message_count) == (mode == "cold", 5)


@pytest.mark.parametrize("mode", ["summary", "cold"])
def test_reading_an_archived_episodes_messages_raises_archived(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, mode: str
):
    episode = archived(memory, scope, clock, mode)
    said = f"[Archived conversation] It was about: {episode.summary}"
    for messages in (scope.get(episode.id).messages(), scope.session("office").messages()):
        assert messages == [{"role": "system", "content": said}]
    with pytest.raises(EpisodeClosed):
        scope.add(episode.id, ("user", "one more"))
    # Its session goes on, in an episode of its own.
    scope.add("office", ("user", "one more"))
    assert [m["role"] for m in scope.session("office").messages()] == ["system", "user"]


@pytest.mark.parametrize("summaries", [True, False])
def test_the_context_block_marks_an_archived_episode(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, summaries: bool
):
    archived(memory, scope, clock)
    recall = EpisodicRecallConfig(use_session_summaries=summaries)
    memory.configure("hr", MemoryConfig(recall=recall))
    text = scope.context("When does the Lisbon office open?").text
    assert "2025-03-14 (archived)" in text
    assert "Lisbon office" in text
    without = EpisodicRecallConfig(include_archived=False)
    memory.configure("hr", MemoryConfig(recall=without))
    assert scope.context("When does the Lisbon office open?").text == ""


def test_an_archived_episode_takes_no_more_turns(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = archived(memory, scope, clock, "cold")
    memory.configure("hr", MemoryConfig(session=SessionConfig(allow_resume=True)))
    scope.add("office", ("user", "one more"))
    assert [e.episode.id == episode.id for e in scope.session("office").episodes] == [True, False]


# Restoring


def test_a_cold_archive_comes_back_whole(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    cold = EpisodicRetentionPolicy(archive_mode=ArchiveMode.COLD)
    memory.configure("hr", MemoryConfig(retention=cold))
    before = scope.store(TALK, session_id="office")
    told, history = as_told(scope.get(before.id).turns), scope.session("office").messages()
    clock.advance(days=90)
    memory.run_retention()
    assert scope.get(before.id).turns == ()
    assert scope.restore(before.id) == before
    assert as_told(scope.get(before.id).turns) == told
    assert scope.session("office").messages() == history
    assert memory.run_pending().embedded == 3
    refs = [turn.embedding_ref is not None for turn in scope.get(before.id).turns]
    # As ever: what a tool says and what is short gets no vector.
    assert refs == [True, False, False, True, False]
    hits = scope.recall_turns("When does the Lisbon office open?", limit=1)
    assert [(hit.episode_id, hit.ordinal) for hit in hits] == [(before.id, 0)]
    assert hits[0].name == "Dana"
    # Its days count anew.
    clock.advance(days=89)
    assert memory.run_retention().counts.archived == 0
    clock.advance(days=1)
    assert memory.run_retention().counts.archived == 1


def test_only_the_summary_is_left_of_a_summary_archive(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = archived(memory, scope, clock)
    with pytest.raises(EpisodeArchived, match="COLD"):
        scope.restore(episode.id)
    assert scope.get(episode.id).episode == episode
    scope.delete(episode.id)
    assert scope.recall("Lisbon office") == []
    assert scope.restore(episode.id) == episode
    assert [s.episode_id for s in scope.recall("Lisbon office")] == [episode.id]
    assert memory.run_pending().embedded == 1


def test_a_deleted_episode_is_in_no_read_and_can_be_restored(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = scope.store(TALK, session_id="office", metadata={"channel": "web"})
    other = scope.store([("user", "I prefer green tea to black tea.")])
    memory.flush()
    before = scope.session("office")
    scope.delete(episode.id)
    scope.delete(str(episode.id))
    assert [e.id for e in scope.episodes()] == [other.id]
    assert [s.episode_id for s in scope.recent()] == [other.id]
    assert [s.episode_id for s in scope.recall("Lisbon office")] == [other.id]
    assert {hit.episode_id for hit in scope.recall_turns("Lisbon office")} == {other.id}
    assert "Lisbon" not in scope.context("Lisbon office").text
    for read in (lambda: scope.get(episode.id), lambda: scope.add(episode.id, TALK[0])):
        with pytest.raises(EpisodeNotFound):
            read()
    for call in (scope.session, scope.close_session, scope.heartbeat):
        with pytest.raises(SessionNotFound):
            call("office")
    assert scope.deleted() == [episode]
    assert memory.scope(tenant="acme", agent="hr", user="another").deleted() == []
    assert scope.restore(episode) == episode
    assert as_told(scope.session("office").turns) == as_told(before.turns)
    assert scope.session("office").session == before.session
    assert scope.deleted() == []
    assert memory.flush()
    assert scope.recall("Lisbon office", limit=1)[0].episode_id == episode.id


def test_a_session_with_a_deleted_episode_starts_a_new_one(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = scope.store(TALK, session_id="office")
    scope.delete(episode.id)
    clock.advance(hours=1)
    scope.add("office", ("user", "Hello again, I am back."))
    [new] = scope.session("office").episodes
    assert new.episode.id != episode.id
    scope.restore(episode.id)
    assert [e.episode.id for e in scope.session("office").episodes] == [episode.id, new.episode.id]


def test_deleting_an_open_episode_closes_it(scope: MemoryScope, memory: EpisodicMemory):
    opened = scope.open_episode("s")
    scope.add("s", TALK)
    scope.delete(opened.id)
    [deleted] = scope.deleted()
    assert deleted.end_reason == "user_closed"
    assert deleted.summary
    assert len(scope.restore(opened.id).key_facts) == len(deleted.key_facts)
    # What a hold refuses has not closed anything either.
    again = scope.open_episode("t")
    scope.add("t", TALK)
    hold = memory.tenant("acme").hold(user="user-17", reason="case 17")
    with pytest.raises(LegalHold) as caught:
        scope.delete(again.id)
    assert caught.value.hold_id == hold.id
    assert scope.get(again.id).episode.is_open


def test_a_purged_episode_cannot_be_restored(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = scope.store(TALK)
    scope.delete(episode.id)
    clock.advance(days=7)
    assert memory.run_retention().counts.purged == 1
    assert scope.deleted() == []
    with pytest.raises(EpisodeNotFound):
        scope.restore(episode.id)
    assert memory.stats().backlog[WorkKind.EMBED].waiting == 0


def test_invalid_ids_are_refused(memory: EpisodicMemory, scope: MemoryScope):
    mine = scope.store(TALK)
    stranger = memory.scope(tenant="acme", agent="hr", user="another")
    for call in (stranger.delete, stranger.restore):
        for wrong in (mine.id, uuid4(), "office"):
            with pytest.raises(EpisodeNotFound):
                call(wrong)
        with pytest.raises(InvalidInput, match="episode_id"):
            call(17)  # type: ignore[arg-type]
    tenant = memory.tenant("acme")
    for given in ({}, {"user": "u", "episode_id": mine.id}):
        with pytest.raises(InvalidInput, match="must be given, and not both"):
            tenant.hold(reason="case", **given)  # type: ignore[arg-type]
    for wrong in ("", "x" * 2_001):
        with pytest.raises(InvalidInput, match="reason"):
            tenant.hold(user="u", reason=wrong)
    with pytest.raises(EpisodeNotFound):
        memory.tenant("zeta").hold(episode_id=mine.id, reason="case")
    hold = tenant.hold(user="u", reason="case")
    for wrong in (uuid4(), "nonsense"):
        with pytest.raises(NotFound, match="holds()"):
            tenant.lift(wrong)
    with pytest.raises(NotFound):
        memory.tenant("zeta").lift(hold)
    with pytest.raises(InvalidInput, match="hold_id: must be a UUID or text, not int"):
        tenant.lift(5)  # type: ignore[arg-type]
    assert tenant.lift(str(hold.id)) == hold


def test_every_change_is_in_the_log_without_names(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = scope.store(TALK)
    tenant = memory.tenant("acme")
    scope.delete(episode.id, actor="cli:lee")
    scope.delete(episode.id, actor="cli:lee")
    scope.restore(episode.id, actor="cli:lee")
    scope.restore(episode.id, actor="cli:lee")
    hold = tenant.hold(user="user-17", reason="because of Dana", actor="cli:lee")
    with pytest.raises(LegalHold):
        scope.delete(episode.id, actor="cli:lee")
    tenant.lift(hold.id, actor="cli:lee")
    entries = memory.runtime.store.audit("acme")
    assert [(e.action, e.outcome) for e in entries] == [
        ("delete", "done"),
        ("restore", "done"),
        ("hold", "done"),
        ("delete", "LegalHold"),
        ("lift_hold", "done"),
    ]
    assert {entry.actor for entry in entries} == {"cli:lee"}
    # One person, who can be looked for by whoever knows the name.
    assert len({entry.subject for entry in entries}) == 1
    assert entries[0].detail == {"episode": str(episode.id)}
    assert entries[2].detail == {"hold": str(hold.id)}
    assert "Dana" not in repr(entries)
    assert "user-17" not in repr(entries)


def test_a_deleted_episode_is_purged_after_its_own_retention(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    policy = EpisodicRetentionPolicy(purge_grace_days=2)
    memory.configure("hr", MemoryConfig(retention=policy))
    episode = scope.store(TALK)
    scope.delete(episode.id)
    clock.advance(days=2)
    clock.set(clock.now() - timedelta(microseconds=1))
    assert memory.run_retention().counts.purged == 0
    clock.advance(microseconds=1)
    assert memory.run_retention().counts.purged == 1
