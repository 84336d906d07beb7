"""The JSON form of values, and the calls that are declared with it."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic_core import to_jsonable_python

from octopus_memory import (
    EndReason,
    Episode,
    EpisodeReplay,
    Fact,
    FactKind,
    Message,
    Page,
    Scope,
    Session,
    SessionReplay,
    SessionStatus,
    Turn,
)
from octopus_memory.calls import ScopeCalls, calls
from octopus_memory.domain import wire
from octopus_memory.engine.scope import MemoryScope
from octopus_memory.faces.rest.responses import form

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ID = UUID(int=7)
SCOPE = Scope(tenant="default", agent="hr", user="ana")
EPISODE = Episode(
    id=ID,
    scope=SCOPE,
    session_id="monday",
    started_at=AT,
    last_message_at=AT,
    end_reason=EndReason.TIMEOUT,
    key_facts=("one", "two"),
    is_cold=True,
    metadata={"topic": "leave"},
)
TURN = Turn(
    id=ID,
    episode_id=ID,
    session_id="monday",
    ordinal=0,
    message=Message({"role": "user", "content": "Hello."}),
    tokens=3,
    at=AT,
)
SESSION = Session(
    id="monday", scope=SCOPE, status=SessionStatus.ACTIVE, created_at=AT, last_seen_at=AT
)
REPLAY = EpisodeReplay(episode=EPISODE, turns=(TURN,))


def written(kind: Any, value: Any) -> Any:
    return json.loads(json.dumps(wire.writer(kind)(value), default=to_jsonable_python))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Episode, EPISODE),
        (SessionReplay, SessionReplay(session=SESSION, episodes=(REPLAY,))),
        (Page[Episode], Page(items=(EPISODE,), total_count=1, page=1, page_size=20)),
        (list[Turn], [TURN]),
        (Fact, Fact(id=ID, kind=FactKind.HOME, text="Lives in Lyon.", slot="home", since=AT)),
    ],
)
def test_what_is_written_is_read_again(kind: Any, value: Any):
    assert wire.read(kind, written(kind, value)) == value


def test_a_scope_stands_beside_its_episode_without_the_tenant():
    body = written(Episode, EPISODE)
    assert (body["agentId"], body["userId"], body["canRestore"]) == ("hr", "ana", True)
    assert "tenant" not in body
    assert "scope" not in body
    assert body["startedAt"] == "2026-03-01T12:00:00Z"


def test_the_turns_of_an_archived_episode_are_null():
    archived = replace(REPLAY, episode=replace(EPISODE, is_archived=True), turns=())
    assert written(EpisodeReplay, archived)["messages"] is None
    assert written(EpisodeReplay, replace(REPLAY, turns=()))["messages"] == []
    assert wire.read(EpisodeReplay, written(EpisodeReplay, archived)) == archived


def test_a_field_that_an_older_service_lacks_has_its_default():
    body = written(Turn, TURN)
    del body["indexed"]
    assert wire.read(Turn, body | {"newer": 1}) == TURN
    del body["at"]
    with pytest.raises(TypeError):
        wire.read(Turn, body)


def test_the_embedded_memory_has_every_declared_call_with_its_arguments():
    def arguments(function: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(function).parameters.values()
        return [(each.name, each.kind, each.default) for each in found]

    assert len(calls()) > 30
    for name, declared in calls().items():
        own = getattr(MemoryScope, name)
        assert own is not declared, name
        assert arguments(own) == arguments(declared), name
        assert inspect.getdoc(getattr(MemoryScope, name)) == inspect.getdoc(
            getattr(ScopeCalls, name)
        )


def test_a_plain_answer_is_written_under_its_name() -> None:
    made = form(int, "count")
    assert made.write(3) == {"count": 3}
    assert made.shape.__annotations__ == {"count": int}
