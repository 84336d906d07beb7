"""A replica that streams from a primary: a memory that only reads from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from octopus_memory import EpisodicMemory, StoreReadOnly, StoreUnavailable
from tests.support import rest_server
from tests.support.pending_work import open_memory
from tests.support.polling import wait_until
from tests.support.postgres_server import LocalServer, Programs

pytestmark = pytest.mark.slow

STANDBY = "?target_session_attrs=standby"
SAID = "The greenhouse key hangs behind the blue door."


class _Replica(LocalServer):
    def __init__(self, programs: Programs, primary: LocalServer) -> None:
        self._primary = primary
        super().__init__(programs)

    def _initialize(self) -> str:
        url = self._primary.url()
        options = ["-D", str(self.data), "-d", url, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        self._programs.run("pg_basebackup", *options, cwd=self._folder)
        return self._primary._url.password or ""

    def has_all(self) -> bool:
        """Return whether everything that the primary has now is readable here."""
        [(there,)] = self._primary.execute("SELECT pg_current_wal_flush_lsn()::text")
        [(here,)] = self.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", there)
        return bool(here)


@pytest.fixture(scope="module")
def primary(postgres_programs: Programs) -> Iterator[LocalServer]:
    server = LocalServer(postgres_programs)
    yield server
    server.close()


@pytest.fixture(scope="module")
def replica(postgres_programs: Programs, primary: LocalServer) -> Iterator[_Replica]:
    server = _Replica(postgres_programs, primary)
    yield server
    server.close()


@pytest.fixture
def memory(primary: LocalServer) -> Iterator[EpisodicMemory]:
    with open_memory(primary.url()) as memory:
        yield memory


def test_a_replica_is_read_and_never_written(memory: EpisodicMemory, replica: _Replica) -> None:
    scope = memory.scope(agent="hr", user="ana")
    scope.store([("user", SAID)], session_id="monday")
    memory.flush()
    assert wait_until(replica.has_all)
    with open_memory(replica.url() + STANDBY, background=True) as reading:
        assert reading.runtime.store.read_only
        there = reading.scope(agent="hr", user="ana")
        assert there.recall("Where is the key?")[0].session_id == "monday"
        assert SAID in there.context("Where is the greenhouse key?").text
        assert [turn.text for turn in there.session("monday").turns] == [SAID]
        for write in (
            lambda: there.add("tuesday", ("user", "Hello.")),
            there.erase,
        ):
            with pytest.raises(StoreReadOnly, match="connect to the primary"):
                write()
        # An erasure reaches a reader with a warm cache as soon as its rows have gone there.
        scope.erase()
        assert wait_until(replica.has_all)
        assert there.recall("Where is the key?") == []
        assert SAID not in there.context("Where is the greenhouse key?").text


def test_a_service_on_a_replica_answers_reads(memory: EpisodicMemory, replica: _Replica) -> None:
    memory.scope(agent="hr", user="ben").store([("user", SAID)], session_id="monday")
    memory.flush()
    token = rest_server.token(memory, "agent", agents=["hr"])
    assert wait_until(replica.has_all)
    with (
        open_memory(replica.url() + STANDBY) as reading,
        rest_server.serving(reading) as url,
        EpisodicMemory.connect(url, api_key=token, retries=0) as remote,
    ):
        there = remote.scope(agent="hr", user="ben")
        assert there.recall("Where is the key?")[0].session_id == "monday"
        with pytest.raises(StoreReadOnly):
            there.add("tuesday", ("user", "Hello."))


def test_a_primary_is_refused_where_a_replica_was_asked_for(primary: LocalServer) -> None:
    with pytest.raises(StoreUnavailable):
        open_memory(primary.url() + STANDBY)
