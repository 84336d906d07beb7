"""Soft-deleted episodes over REST and the remote client: erased, restored, deleted again."""

from __future__ import annotations

from uuid import UUID, uuid4

import httpx
import pytest

from octopus_memory import Episode, EpisodeNotFound, EpisodicMemory, LegalHold
from octopus_memory.faces.rest.routing import PREFIX
from tests.support import rest_server

pytestmark = pytest.mark.both_databases

SAID = [("user", "How many leave days do I have?"), ("assistant", "Twelve.")]


def _deleted(memory: EpisodicMemory, tenant: str = "default") -> Episode:
    scope = memory.scope(tenant=tenant, agent="hr", user="ana")
    stored = scope.store(SAID)
    scope.delete(stored)
    return stored


def _rows(memory: EpisodicMemory, episode_id: UUID) -> bool:
    return bool(memory.runtime.store.locate([episode_id]))


@pytest.mark.parametrize("query", [{}, {"agentId": "hr", "userId": "ana"}])
def test_rest_erases_one(memory: EpisodicMemory, query: dict[str, str]):
    episode = _deleted(memory)
    with rest_server.http_client(memory) as client:
        erased = client.delete(f"/episodes/{episode.id}", params=query)
        assert erased.status_code == 200, erased.text
        assert erased.json()["removed"]["turns"] == 2
        assert client.delete(f"/episodes/{episode.id}", params=query).status_code == 404
    assert not _rows(memory, episode.id)


def test_the_remote_client_erases_one(memory: EpisodicMemory):
    episode = _deleted(memory)
    with rest_server.remote_memory(memory) as remote:
        scope = remote.scope(agent="hr", user="ana")
        assert [each.id for each in scope.deleted()] == [episode.id]
        assert scope.erase_episode(episode).removed["turns"] == 2
        assert scope.deleted() == []
        with pytest.raises(EpisodeNotFound):
            scope.erase_episode(episode)
    assert not _rows(memory, episode.id)


def test_an_episode_is_restored_and_deleted_again_by_its_id_alone(memory: EpisodicMemory):
    episode = _deleted(memory)
    with rest_server.http_client(memory) as client:
        assert client.post(f"/episodes/{episode.id}/restore").status_code == 200
        for _ in range(2):
            assert client.post(f"/episodes/{episode.id}/delete").status_code in (200, 204)
        # No read shows it.
        assert client.get(f"/episodes/{episode.id}").status_code == 404
        added = client.post(
            f"/episodes/{episode.id}/messages",
            json={"messages": [{"role": "user", "content": "more"}]},
        )
        assert added.status_code == 404
        assert client.post(f"/episodes/{episode.id}/close", json={}).status_code == 404


def test_no_others_can(memory: EpisodicMemory):
    episode = _deleted(memory)
    strangers = [
        rest_server.token(memory, tenant="other"),
        rest_server.token(memory, agents=["sales"]),
        rest_server.token(memory, "user", user="ben"),
    ]
    with rest_server.serving(memory) as url:
        for token in strangers:
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url + PREFIX, headers=headers) as client:
                known = client.delete(f"/episodes/{episode.id}")
                unknown = client.delete(f"/episodes/{uuid4()}")
                assert (known.status_code, unknown.status_code) == (404, 404)
                assert known.json()["title"] == unknown.json()["title"]
    assert _rows(memory, episode.id)


def test_a_hold_keeps_it(memory: EpisodicMemory):
    episode = _deleted(memory)
    memory.tenant().hold(user="ana", reason="case 7")
    with rest_server.remote_memory(memory) as remote, pytest.raises(LegalHold):
        remote.scope(agent="hr", user="ana").erase_episode(episode)
    assert _rows(memory, episode.id)
