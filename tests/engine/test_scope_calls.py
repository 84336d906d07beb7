"""What a scope's calls do, the same whether the memory is embedded or a service keeps it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from octopus_memory import (
    EndReason,
    EpisodeArchived,
    EpisodeClosed,
    EpisodeNotFound,
    EpisodicMemory,
    EpisodicRecallConfig,
    EpisodicRetentionPolicy,
    IdempotencyConflict,
    InvalidInput,
    InvalidMessage,
    LegalHold,
    MemoryConfig,
    MemoryScope,
    MessageTooLarge,
    RemoteScope,
    SessionConfig,
    SessionNotFound,
    SessionStatus,
    ToolResultWithoutCall,
)
from octopus_memory.testing import FixedClock
from tests.support import rest_server

pytestmark = pytest.mark.both_databases

START = datetime(2025, 3, 14, 9, 22, tzinfo=UTC)
LEAVE = [
    {"role": "user", "content": "How many leave days do I have left?", "name": "Ana"},
    {"role": "assistant", "content": "You have 12 days remaining."},
]


@pytest.fixture
def kept(memory: EpisodicMemory) -> EpisodicMemory:
    """The memory itself, wherever the calls come from."""
    memory.configure("hr", MemoryConfig(retention=EpisodicRetentionPolicy(archive_mode="cold")))
    return memory


@pytest.fixture(params=["embedded", "service"])
def calls(request: pytest.FixtureRequest, kept: EpisodicMemory) -> Iterator[Any]:
    """A scope, and `another` user's beside it."""
    if request.param == "embedded":
        yield lambda user="ana": kept.scope(agent="hr", user=user)
        return
    with (
        rest_server.serving(kept) as url,
        EpisodicMemory.connect(url, api_key=rest_server.token(kept, "admin")) as remote,
    ):
        yield lambda user="ana": remote.scope(agent="hr", user=user)


@pytest.fixture
def scope(calls: Any) -> Any:
    return calls()


def test_one_message_by_its_role_and_its_content(scope: Any):
    [said] = scope.add("monday", "user", "Hello.")
    [answer] = scope.add(said.episode_id, "assistant", [{"type": "text", "text": "Hi."}])
    assert (said.role, said.text) == ("user", "Hello.")
    assert (answer.role, answer.text) == ("assistant", "Hi.")
    with pytest.raises(InvalidMessage, match="messages"):
        scope.add("monday", "Hello.")


def test_a_session_id_that_is_a_number_is_refused_by_its_name(scope: Any):
    for call in (lambda: scope.add(5, "user", "Hello."), lambda: scope.episode(5)):
        with pytest.raises(InvalidInput, match="^session_id: must be text, not int"):
            call()


def test_a_conversation_and_its_recall(scope: Any, kept: EpisodicMemory):
    with scope.episode("monday", metadata={"channel": "web"}) as talk:
        turns = talk.add(LEAVE)
        talk.add_tool_call("balance", {"of": "ana"}, {"days": 12}, tool_call_id="c1")
    assert [turn.message.body for turn in turns] == LEAVE
    assert [turn.ordinal for turn in turns] == [0, 1]
    kept.flush()
    [found] = scope.recall("leave days", limit=1)
    assert (found.session_id, found.episode_id) == ("monday", talk.id)
    assert found.relevance > 0
    assert found.explain().startswith("relevance")
    [hit] = scope.recall_turns("leave days", limit=1)
    assert (hit.text, hit.name) == (LEAVE[0]["content"], "Ana")
    assert [snippet.episode_id for snippet in scope.recent()] == [talk.id]
    assert scope.recent(leave_out_session="monday") == []
    replay = scope.session("monday")
    assert replay.session.metadata == {"channel": "web"}
    assert [turn.message.body for turn in replay.turns][:2] == LEAVE
    assert replay.messages()[0]["content"] == LEAVE[0]["content"]
    assert scope.get(talk.id) == replay.episodes[0]
    context = scope.context(("user", "And next year?"), history=LEAVE, system="Be brief.")
    assert found.summary.split()[0] in context.text
    assert context.messages[0]["content"].startswith("Be brief.")


def test_the_ledger_of_a_session(scope: Any, calls: Any, kept: EpisodicMemory):
    monday = scope.store(LEAVE, session_id="monday", summary="Leave days.")
    kept.flush()
    assert scope.injections("tuesday") == []
    made = scope.context("How many leave days are left?", session_id="tuesday")
    [turn] = scope.add("tuesday", ("user", "How many leave days are left?"))
    scope.context("And in June?", session_id="tuesday")
    first, second = scope.injections("tuesday")
    assert (first.episode_id, first.ordinal) == (turn.episode_id, 0)
    assert (second.episode_id, second.ordinal) == (None, None)
    assert first.block_tokens == made.block_tokens
    assert first.episode_ids == {monday.id}
    assert kept.scope(agent="hr", user="ana").injections("tuesday") == [first, second]
    assert scope.injections("tuesday", limit=1) == [first]
    assert scope.injections("tuesday", after=first) == [second]
    uses = scope.uses(monday)
    assert (uses.times, uses.last) == (2, second.at)
    assert [use.injection_id for use in uses.recent] == [second.id, first.id]
    assert calls("ben").injections("tuesday") == []
    assert calls("ben").uses(monday).times == 0
    assert scope.uses(uuid4()).times == 0


def test_the_last_turns_of_a_session(scope: Any):
    scope.store([("user", "first"), ("assistant", "second")], session_id="s", summary="Two.")
    asked = {"id": "c1", "type": "function", "function": {"name": "balance", "arguments": "{}"}}
    scope.add("s", ("user", "How many days are left?"))
    scope.add("s", {"role": "assistant", "content": None, "tool_calls": [asked]})
    scope.add("s", {"role": "tool", "tool_call_id": "c1", "content": "12"})
    scope.add("s", ("assistant", "Twelve."))
    whole = scope.session("s")
    for last in (1, 2, 3, 4, 5):
        replay = scope.session("s", last=last)
        assert replay.turns == whole.turns[-last:]
        assert replay.session == whole.session
        assert len(replay.episodes) == (1 if last < 5 else 2)
    for last in (6, 7, 1_000_000):
        assert scope.session("s", last=last) == whole
    # A provider refuses a result whose call it does not see.
    assert [m["role"] for m in scope.session("s", last=2).messages()] == ["assistant"]
    assert scope.session("s", last=3).messages() == whole.messages()[-3:]
    with pytest.raises(SessionNotFound):
        scope.session("nowhere", last=3)
    for wrong in (0, -1, 1_000_001, 10**30, True, 2.0, "2"):
        with pytest.raises(InvalidInput) as refused:
            scope.session("s", last=wrong)
        assert refused.value.field == "last"


def test_a_whole_episode_with_times(scope: Any):
    times = [START - timedelta(days=2), START - timedelta(days=2, minutes=-1)]
    stored = scope.store(
        LEAVE,
        session_id="old",
        at=times,
        ended_at=times[1],
        reason="agent_closed",
        summary="Leave.",
        key_facts=["12 days"],
        metadata={"a": [1, None]},
        input_tokens=7,
        output_tokens=9,
    )
    assert (stored.started_at, stored.ended_at) == (times[0], times[1])
    assert (stored.end_reason, stored.summarized_by) == (EndReason.AGENT_CLOSED, "caller")
    assert (stored.input_tokens, stored.output_tokens) == (7, 9)
    assert [turn.at for turn in scope.get(stored).turns] == times
    assert stored.key_facts == ("12 days",)


def test_episodes_are_listed_in_pages(scope: Any):
    ids = [scope.store(LEAVE, session_id=str(n)).id for n in range(3)]
    page = scope.episodes(2, 2)
    assert [episode.id for episode in page] == [ids[0]]
    assert (page.total_count, page.page, page.page_size) == (3, 2, 2)


def test_a_key_stores_once(scope: Any):
    first = scope.add("s", LEAVE, idempotency_key="k é")
    assert scope.add("s", LEAVE, idempotency_key="k é") == first
    with pytest.raises(IdempotencyConflict):
        scope.add("s", ("user", "other words"), idempotency_key="k é")
    assert len(scope.session("s").turns) == 2


def test_adding_by_id_by_name_and_after_the_end(scope: Any):
    opened = scope.open_episode("s")
    scope.add(opened, ("user", "first"))
    scope.add(opened.id, ("user", "second"))
    scope.add(str(opened.id), ("user", "third"))
    assert [turn.text for turn in scope.get(opened).turns] == ["first", "second", "third"]
    closed = scope.close_episode(opened.id, "agent_closed", "All said.", ["one"])
    assert (closed.summary, closed.key_facts) == ("All said.", ("one",))
    with pytest.raises(EpisodeClosed) as refused:
        scope.add(opened.id, ("user", "late"))
    assert refused.value.episode_id == opened.id
    [turn] = scope.add("s", ("user", "later"))
    assert turn.episode_id != opened.id
    assert scope.close_session("s").status is SessionStatus.ENDED


def test_an_agent_that_wants_no_archived_episodes_recalls_none(scope: Any, kept: EpisodicMemory):
    stored = scope.store(LEAVE, session_id="old", summary="Leave days were counted.")
    kept.runtime.store.archive(kept.scope(agent="hr", user="ana").scope, stored.id)
    kept.flush()
    assert [s.is_archived for s in (*scope.recall("leave days"), *scope.recent())] == [True, True]
    kept.configure("hr", MemoryConfig(recall=EpisodicRecallConfig(include_archived=False)))
    assert scope.recall("leave days") == []
    assert scope.recent() == []
    # A caller who says it is not overruled.
    assert len(scope.recall("leave days", include_archived=True)) == 1
    assert len(scope.recent(include_archived=True)) == 1


def test_adding_to_an_archived_episode_says_that_it_is(scope: Any, kept: EpisodicMemory):
    stored = scope.store(LEAVE, session_id="old", summary="Leave days were counted.")
    kept.runtime.store.archive(kept.scope(agent="hr", user="ana").scope, stored.id)
    for resume in (False, True):
        kept.configure("hr", MemoryConfig(session=SessionConfig(allow_resume=resume)))
        for key in (None, f"key {resume}"):
            with pytest.raises(EpisodeArchived, match="is archived") as refused:
                scope.add(stored.id, ("user", "late"), idempotency_key=key)
            assert refused.value.episode_id == stored.id
            assert isinstance(refused.value, EpisodeClosed)


def test_recent_episodes_have_no_relevance(scope: Any, kept: EpisodicMemory):
    scope.store(LEAVE, session_id="old", summary="Leave days were counted.")
    scope.add("now", ("user", "Hello."))
    recent = scope.recent()
    assert [snippet.relevance for snippet in recent] == [None, None]
    assert [hit.score for snippet in recent for hit in snippet.turns] == [None]
    assert recent[0].explain() == "not scored: one of the latest"
    kept.flush()
    assert 0 <= scope.recall("leave days")[0].relevance <= 1
    context = scope.context("Anything else?")
    assert [snippet.relevance for snippet in context.snippets] == [None, None]


def test_a_session_is_kept_open(scope: Any, clock: FixedClock):
    scope.add("s", ("user", "hello"))
    clock.advance(minutes=20)
    assert scope.heartbeat("s").status is SessionStatus.ACTIVE
    clock.advance(minutes=45)
    assert scope.heartbeat("s").status is SessionStatus.TIMED_OUT


def test_errors_are_the_same_embedded_and_remote(scope: Any, calls: Any, kept: EpisodicMemory):
    with pytest.raises(SessionNotFound) as session:
        scope.session("nowhere é/?#")
    assert session.value.session_id == "nowhere é/?#"
    gone = uuid4()
    for call in (scope.get, scope.close_episode, scope.delete, scope.restore, scope.erase_episode):
        with pytest.raises(EpisodeNotFound) as episode:
            call(gone)
        assert episode.value.episode_id == gone
    theirs = calls("ben").open_episode("s").id
    with pytest.raises(EpisodeNotFound):
        scope.get(theirs)
    with pytest.raises(EpisodeNotFound):
        scope.add(theirs, ("user", "x"))
    with pytest.raises(InvalidMessage, match=r"messages\[1\]"):
        scope.add("s", [("user", "fine"), {"role": "nobody"}])
    with pytest.raises(ToolResultWithoutCall):
        scope.add("s", {"role": "tool", "tool_call_id": "none", "content": "x"})
    with pytest.raises(InvalidInput) as limit:
        scope.recall("x", limit=0)
    assert limit.value.field in {"limit", "top_k"}
    with pytest.raises(InvalidInput):
        scope.recall("x", mode="psychic")
    with pytest.raises(InvalidInput):
        scope.add("s", ("user", "x"), at=datetime(2025, 1, 1))
    with pytest.raises(InvalidInput):
        scope.open_episode("x" * 300)
    kept.configure("hr", MemoryConfig(session=SessionConfig(max_message_bytes=1_000)))
    with pytest.raises(MessageTooLarge):
        scope.add("s", ("user", "x" * 2_000))


def test_odd_names_and_texts(calls: Any):
    scope = calls("Ünï/cödé ?&#%\u2028 user")
    for name in ("a/b", "..", "q?x=1#y", "emoji 🐙", " spaced "):
        scope.add(name, ("user", "text with \u2028 and \0 and 🐙"))
        [turn] = scope.session(name).turns
        assert turn.text == "text with \u2028 and \0 and 🐙"
    assert scope.recall("\0 text", limit=5)
    assert scope.recall("   ") == []


@pytest.mark.both_databases(as_owner=True)
def test_delete_restore_and_erase(scope: Any, calls: Any, kept: EpisodicMemory):
    stored = scope.store(LEAVE, session_id="s", summary="Leave.")
    other = calls("ben").store(LEAVE, session_id="s", summary="Leave.")
    scope.delete(stored)
    assert [episode.id for episode in scope.deleted()] == [stored.id]
    with pytest.raises(EpisodeNotFound):
        scope.get(stored)
    assert scope.restore(stored.id).id == stored.id
    assert len(scope.get(stored).turns) == 2
    hold = kept.tenant().hold(user="ana", reason="a case")
    with pytest.raises(LegalHold) as held:
        scope.erase()
    assert held.value.hold_id == hold.id
    kept.tenant().lift(hold)
    one = scope.erase_episode(stored.id, physical=False)
    assert one.removed["turns"] == 2
    scope.store(LEAVE, session_id="again")
    receipt = scope.erase()
    assert receipt.is_complete
    assert receipt.removed["episodes"] == 1
    assert kept.tenant().receipt(receipt.id) == receipt
    assert scope.episodes().total_count == 0
    assert len(calls("ben").get(other).turns) == 2


def test_every_call_of_a_scope_is_there_remotely():
    def public(kind: type) -> dict[str, Any]:
        return {n: m for n, m in inspect.getmembers(kind) if not n.startswith("_")}

    embedded, remote = public(MemoryScope), public(RemoteScope)
    assert set(remote) == set(embedded)
    for name, method in embedded.items():
        wanted = list(inspect.signature(method).parameters.values())
        found = list(inspect.signature(remote[name]).parameters.values())
        assert [(p.name, p.kind, p.default) for p in found] == [
            (p.name, p.kind, p.default) for p in wanted
        ], name
