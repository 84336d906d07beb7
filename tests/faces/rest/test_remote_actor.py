"""The actor that a client names: in the audit log, after the credential."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from octopus_memory import AsyncEpisodicMemory, EpisodicMemory, InvalidInput
from tests.support import rest_server

pytestmark = pytest.mark.both_databases

TALK = [("user", "How many leave days do I have left?"), ("assistant", "Twelve.")]


def recorded(memory: EpisodicMemory) -> list[tuple[str, str]]:
    """Action and actor of each entry, without those about keys."""
    entries = memory.tenant("default").audit()
    return [(entry.action, entry.actor) for entry in entries if not entry.action.endswith("_key")]


def act(scope, other: str | None = None) -> None:
    """Every call that takes an actor."""
    episode = scope.store(TALK, session_id="s")
    scope.delete(episode.id, actor=other)
    scope.restore(episode.id, actor=other)
    fact = scope.correct_fact(scope.add_fact("Prefers tea.", actor=other), "Likes it.", actor=other)
    scope.pin_fact(fact, actor=other)
    scope.delete_fact(fact, actor=other)
    scope.remove_turns("s", last=1, actor=other)
    scope.erase_episode(episode.id, physical=False, actor=other)
    scope.add("s", TALK)
    scope.erase_session("s", physical=False, actor=other)
    scope.add("s", TALK)
    scope.erase(physical=False, actor=other)


def test_both_are_recorded_as_the_embedded_memory_would_record_one(memory: EpisodicMemory):
    act(memory.scope(agent="hr", user="ana", actor="support:17"))
    act(memory.scope(agent="hr", user="ana", actor="support:17"), "ops:2 (Zoë)")
    embedded = recorded(memory)
    key = rest_server.token(memory, "admin")
    who = f"key:{key.split('_')[1]}"
    with (
        rest_server.serving(memory) as url,
        EpisodicMemory.connect(url, api_key=key) as remote,
    ):
        act(remote.scope(agent="hr", user="ana", actor="support:17"))
        act(remote.scope(agent="hr", user="ana", actor="support:17"), "ops:2 (Zoë)")
    assert {actor for _, actor in embedded} == {"support:17", "ops:2 (Zoë)"}
    assert recorded(memory)[len(embedded) :] == [
        (action, f"{who} as {actor}") for action, actor in embedded
    ]


def test_the_asynchronous_client_names_it_too(memory: EpisodicMemory):
    key = rest_server.token(memory, "agent", agents=["hr"])

    async def story(url: str) -> None:
        async with AsyncEpisodicMemory.connect(url, api_key=key) as remote:
            await remote.scope(agent="hr", user="ana", actor="support:17").add_fact("Has a cat.")
            await remote.scope(agent="hr", user="ana").add_fact("Has a dog.")
            await remote.scope(agent="hr", user="ana").add_fact("Has a car.", actor="ana")

    with rest_server.serving(memory) as url:
        asyncio.run(story(url))
    who = f"key:{key.split('_')[1]}"
    # The subject is never named in the log about them.
    assert [actor for _, actor in recorded(memory)] == [
        f"{who} as support:17",
        who,
        f"{who} as subject",
    ]


@pytest.mark.sqlite_alone
def test_a_credential_for_one_user_names_no_other_actor(memory: EpisodicMemory):
    keys = [
        rest_server.token(memory, "user", user="ana"),
        rest_server.token(memory, "admin", user="ana"),
    ]
    with rest_server.serving(memory) as url:
        for key in keys:
            with EpisodicMemory.connect(url, api_key=key) as remote:
                remote.scope(agent="hr", user="ana", actor="support:17").add_fact("Has a cat.")
    assert [actor for _, actor in recorded(memory)] == [f"key:{k.split('_')[1]}" for k in keys]


@pytest.mark.sqlite_alone
def test_a_name_that_the_log_cannot_hold_is_refused(memory: EpisodicMemory):
    key = rest_server.token(memory, "admin")
    with (
        rest_server.serving(memory) as url,
        EpisodicMemory.connect(url, api_key=key) as remote,
    ):
        for wrong in ("", "x" * 257, 7):
            with pytest.raises(InvalidInput):
                remote.scope(user="ana", actor=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            remote.scope(user="ana", actor="x" * 250).add_fact("Has a cat.")
        headers = {"Authorization": f"Bearer {key}", "Octopus-Actor": ""}
        answer = httpx.get(f"{url}/api/octopus/audit", headers=headers)
        assert answer.status_code == 422
    assert recorded(memory) == []
