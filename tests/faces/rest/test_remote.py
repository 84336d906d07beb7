"""The client when the way to the service is bad: tried again, never stored twice, nothing told."""

from __future__ import annotations

import asyncio
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from octopus_memory import (
    AccessDenied,
    AsyncEpisodicMemory,
    EpisodeClosed,
    EpisodeNotFound,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    InvalidInput,
    MemoryClosed,
    MemoryConfig,
    OctopusError,
    RemoteScope,
    SessionStatus,
    StoreAnswerLost,
    StoreUnavailable,
)
from octopus_memory.remote import transport
from tests.support import rest_server
from tests.support.faulty_service import FaultyService

HELLO = {"role": "user", "content": "How many leave days do I have left?"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EpisodicMemory]:
    path = tmp_path_factory.mktemp("remote") / "memory.db"
    config = MemoryConfig(retention=EpisodicRetentionPolicy(archive_mode="cold"))
    with EpisodicMemory.open(path, embedder="hashing", background=False, config=config) as opened:
        yield opened


@pytest.fixture(scope="module")
def token(kept: EpisodicMemory) -> str:
    return rest_server.token(kept, "admin")


@pytest.fixture(scope="module")
def server(kept: EpisodicMemory) -> Iterator[FaultyService]:
    with rest_server.serving(kept) as service, FaultyService(service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.ended.set()
        server.shutdown()
        server.service.close()


@pytest.fixture
def way(server: FaultyService) -> FaultyService:
    server.begin()
    server.user = str(uuid4())
    return server


@contextmanager
def connected(way: FaultyService, token: str, **options: Any) -> Iterator[RemoteScope]:
    with EpisodicMemory.connect(way.url, api_key=token, **options) as memory:
        yield memory.scope(agent="hr", user=way.user)


@pytest.fixture
def scope(way: FaultyService, token: str) -> Iterator[RemoteScope]:
    with connected(way, token) as opened:
        yield opened


PASSING = ["reset", "lost", "half", "busy", "too many", "proxy", "page"]


@pytest.mark.parametrize("fault", PASSING)
def test_failed_requests_are_retried(way: FaultyService, scope: RemoteScope, fault: str):
    way.faults = [fault]
    [turn] = scope.add("s", HELLO)
    first, second = way.keys()
    assert first is not None
    assert first == second
    way.faults = [fault]
    assert [(each.id, each.text) for each in scope.session("s").turns] == [(turn.id, turn.text)]
    assert len(way.seen) == 4


def test_several_failures_in_a_row(way: FaultyService, scope: RemoteScope):
    way.faults = ["lost", "proxy", "half"]
    stored = scope.store([HELLO, ("assistant", "Twelve.")], session_id="s")
    assert [replay.episode.id for replay in scope.session("s").episodes] == [stored.id]
    assert len(set(way.keys()[:4])) == 1
    scope.add("t", HELLO)
    scope.add("t", HELLO)
    assert len(set(way.keys()[-2:])) == 2
    assert len(scope.session("t").turns) == 2


def test_a_call_has_only_so_many_tries(way: FaultyService, token: str, kept: EpisodicMemory):
    way.faults = ["lost", "busy", "lost", "lost"]
    with (
        connected(way, token, retries=2) as scope,
        pytest.raises(StoreAnswerLost, match="may have done this already"),
    ):
        scope.add("s", HELLO)
    assert len(way.seen) == 3
    assert len(kept.scope(agent="hr", user=way.user).session("s").turns) == 1


@pytest.mark.slow
def test_a_call_after_a_slow_one(way: FaultyService, token: str):
    way.faults = ["late"]
    with connected(way, token, timeout=0.5, retries=0) as scope:
        with pytest.raises(StoreUnavailable, match="ReadTimeout"):
            scope.recent()
        way.faults = ["late"]
        with pytest.raises(StoreUnavailable, match="ReadTimeout"):
            scope.add("s", HELLO, idempotency_key="k")
    with connected(way, token) as scope:
        [turn] = scope.add("s", HELLO, idempotency_key="k")
        assert [each.id for each in scope.session("s").turns] == [turn.id]


NO_ANSWER: dict[str, Callable[[RemoteScope], Any]] = {
    "open_episode": lambda scope: scope.open_episode().session_id,
    "add": lambda scope: len(scope.add("open", HELLO)),
    "store": lambda scope: scope.store([HELLO]).message_count,
    "close_episode": lambda scope: (
        scope.close_episode(scope.session("open").episodes[0].episode, summary="Leave.").summary
    ),
    "close_session": lambda scope: scope.close_session("open").status,
    "heartbeat": lambda scope: scope.heartbeat("open").status,
    "delete": lambda scope: scope.delete(scope.session("closed").episodes[0].episode),
    "restore": lambda scope: scope.restore(scope.deleted()[0]).session_id,
}


def test_an_erasure_whose_answer_is_lost_is_not_made_again(
    way: FaultyService, scope: RemoteScope, kept: EpisodicMemory
):
    """The second receipt would be one of zeros; the first is kept by the service."""
    scope.store([HELLO], session_id="closed")
    way.faults = ["lost"]
    with pytest.raises(StoreUnavailable):
        scope.erase()
    [receipt] = kept.tenant().receipts()
    assert receipt.removed["turns"] == 1


@pytest.mark.parametrize("name", NO_ANSWER)
def test_a_call_whose_answer_is_lost_ends_as_any_other(
    way: FaultyService, scope: RemoteScope, kept: EpisodicMemory, name: str
):
    gone = kept.scope(agent="hr", user=way.user).store([HELLO], session_id="gone")
    kept.scope(agent="hr", user=way.user).delete(gone)
    scope.store([HELLO], session_id="closed")
    scope.add("open", HELLO)
    # The answer that is lost is that of the last request: what is read before it comes through.
    reads = {"close_episode": 1, "delete": 1, "restore": 1}.get(name, 0)
    way.seen.clear()
    way.faults = ["none"] * reads + ["lost"]
    outcome = NO_ANSWER[name](scope)
    asked = [path for method, path, _ in way.seen if (method, name) != ("GET", "close_episode")]
    assert asked[-1] == asked[-2]
    expected = {
        "add": 1,
        "store": 1,
        "close_episode": "Leave.",
        "close_session": SessionStatus.ENDED,
        "heartbeat": SessionStatus.ACTIVE,
        "delete": None,
        "restore": "gone",
    }
    assert outcome == expected.get(name, outcome)


def test_an_episode_is_not_erased_blindly_again(way: FaultyService, scope: RemoteScope):
    stored = scope.store([HELLO])
    way.faults = ["lost"]
    way.seen.clear()
    with pytest.raises(StoreUnavailable):
        scope.erase_episode(stored)
    assert len(way.seen) == 1
    with pytest.raises(EpisodeNotFound):
        scope.erase_episode(stored)


def test_an_episode_closed_before_is_still_refused(way: FaultyService, scope: RemoteScope):
    stored = scope.store([HELLO])
    way.faults = ["too many"]
    with pytest.raises(EpisodeClosed) as refused:
        scope.close_episode(stored, summary="Another.")
    assert refused.value.episode_id == stored.id
    way.faults = ["too many"]
    gone = uuid4()
    with pytest.raises(EpisodeNotFound) as missing:
        scope.delete(gone)
    assert missing.value.episode_id == gone


WRONG = {
    "reset": "cannot be reached",
    "half": "cannot be reached",
    "busy": "not now",
    "too many": "429",
    "failed": r"500: not now \(request request-17\)",
    "proxy": "502",
    "moved": "301",
    "page": "is not from Octopus",
    "other JSON": "is not from Octopus",
    "odd problem": "422",
}


@pytest.mark.parametrize(("fault", "words"), WRONG.items(), ids=WRONG)
def test_the_last_failed_try_raises_its_cause(
    way: FaultyService, token: str, fault: str, words: str
):
    with connected(way, token, retries=0) as scope:
        for call in (scope.recent, lambda: scope.add("s", HELLO), scope.deleted, scope.episodes):
            way.faults = [fault]
            with pytest.raises(StoreUnavailable, match=words) as raised:
                call()
            assert token not in "".join(traceback.format_exception(raised.value))
            assert HELLO["content"] not in str(raised.value)


def test_a_forbidden_call_raises_access_denied(
    way: FaultyService, scope: RemoteScope, kept: EpisodicMemory
):
    way.faults = ["forbidden"]
    with pytest.raises(AccessDenied, match="403"):
        scope.recent()
    assert len(way.seen) == 1
    with connected(way, "oct_0123456789abcdef_wrong") as other, pytest.raises(AccessDenied):
        other.recent()
    elsewhere = rest_server.token(kept, "agent", agents=["sales"])
    with connected(way, elsewhere) as other, pytest.raises(AccessDenied, match="another agent"):
        other.add("s", HELLO)


def test_an_unreachable_service_is_an_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with (
            EpisodicMemory.connect(url, api_key="k", retries=1) as memory,
            pytest.raises(StoreUnavailable, match="octopus serve"),
        ):
            memory.scope(user="ana").recent()


def test_the_api_key_is_sent_to_no_other_host(
    way: FaultyService, token: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    told = []
    with EpisodicMemory.connect(way.url, api_key=f" {token}\n", retries=0) as memory:
        scope = memory.scope(agent="hr", user=way.user)
        scope.recent()
        for fault in ("reset", "half", "busy", "proxy", "page", "forbidden"):
            way.faults = [fault]
            with pytest.raises(OctopusError) as raised:
                scope.add("s", HELLO)
            # Without this test's own frame, which holds the key.
            below = raised.tb.tb_next
            shown = traceback.TracebackException(
                raised.type, raised.value, below, capture_locals=True
            )
            told += [repr(raised.value), *shown.format()]
        told += [
            repr(memory),
            repr(scope),
            repr(vars(memory)),
            repr(vars(vars(memory)["_transport"])),
        ]
    assert {headers["authorization"] for _, _, headers in way.seen} == {f"Bearer {token}"}
    text = "".join(told) + caplog.text
    assert "HTTP" in text
    assert token not in text


@pytest.mark.parametrize("key", ["oct_é", "oct_\nX-Other: 1", "oct_\0"])
def test_a_key_that_no_header_can_hold(key: str):
    with pytest.raises(InvalidInput, match="api_key") as refused:
        EpisodicMemory.connect("http://127.0.0.1:1", api_key=key)
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8765", "ftp://x", "http://", "http://[::1", "http://x:99999", ""]
)
def test_an_address_that_is_none(url: str):
    with pytest.raises(InvalidInput, match="url"):
        EpisodicMemory.connect(url)


def test_invalid_retries_and_a_closed_client_are_refused():
    with pytest.raises(InvalidInput, match="retries"):
        EpisodicMemory.connect("http://127.0.0.1:1", retries=-1)
    memory = EpisodicMemory.connect("http://127.0.0.1:1")
    memory.close()
    with pytest.raises(MemoryClosed):
        memory.scope(user="ana").recent()


def test_waiting_grows_and_keeps_to_what_the_service_says():
    for attempt, most in ((0, 0.1), (3, 0.8), (50, 10.0), (5_000, 10.0)):
        waits = [transport.seconds_before(attempt, None) for _ in range(20)]
        assert most / 2 <= min(waits) < max(waits) <= most
    assert 3 <= transport.seconds_before(0, "3") <= 3.75
    assert transport.seconds_before(0, "86400") <= 12.5
    for odd in ("soon", "²", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert transport.seconds_before(0, odd) <= 0.1


def test_the_async_twin(way: FaultyService, token: str):
    async def talk() -> None:
        async with AsyncEpisodicMemory.connect(way.url, api_key=token) as memory:
            scope = memory.scope(agent="hr", user=way.user)
            way.faults = ["lost", "proxy"]
            [turn] = await scope.add("s", HELLO)
            assert len(set(way.keys())) == 1
            way.faults = ["half"]
            assert [each.id for each in (await scope.session("s")).turns] == [turn.id]
            way.faults = ["forbidden"]
            with pytest.raises(AccessDenied):
                await scope.recent()

    asyncio.run(talk())
