"""A server that ends a connection right behind an answer, before it says that it is done."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from sqlalchemy.engine import make_url

from octopus_memory import StoreAnswerLost
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.testing import make_append, make_next
from octopus_memory.testing.store.base import ANA, texts
from tests.support.postgres_installation import Database

_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"
FATAL = b"E" + (len(_FIELDS) + 4).to_bytes(4) + _FIELDS


class Between:
    """Passes on what the server and its client say, and once ends the talk behind some words."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listens.getsockname()[1]
        self.ends_behind = b""
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listens.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._server) as server:
            other = {client: server, server: client}
            while True:
                for one in select.select([client, server], [], [])[0]:
                    said = one.recv(65_536)
                    before, found, _ = said.partition(self.ends_behind or b"never said")
                    if not said or (one is server and found):
                        client.sendall(before + found + FATAL if found else b"")
                        self.ends_behind = b""
                        return
                    other[one].sendall(said)

    def close(self) -> None:
        self._listens.close()


@pytest.fixture
def between(postgres_database: Database) -> Iterator[Between]:
    url = make_url(postgres_database.url)
    between = Between(url.host or "127.0.0.1", url.port or 5432)
    yield between
    between.close()


@pytest.fixture
def store(postgres_database: Database, between: Between) -> Iterator[PostgresStore]:
    url = make_url(postgres_database.url).set(host="127.0.0.1", port=between.port)
    # What is encrypted cannot be read in between.
    url = url.update_query_dict({"sslmode": "disable"})
    store = PostgresStore(url.render_as_string(hide_password=False), pool_size=1)
    yield store
    store.close()


def test_a_commit_that_was_answered_is_not_called_undone(store: PostgresStore, between: Between):
    write = make_append(ANA, "hello")
    store.append(write)
    between.ends_behind = b"COMMIT\0"
    with pytest.raises(StoreAnswerLost, match="idempotency key"):
        store.append(make_next(write, "perhaps"))
    assert texts(store, write) == ["hello", "perhaps"]
    store.append(make_next(write, "after"))
    assert texts(store, write) == ["hello", "perhaps", "after"]


def test_a_read_is_asked_again(
    store: PostgresStore, between: Between, caplog: pytest.LogCaptureFixture
):
    write = make_append(ANA, "hello")
    store.append(write)
    expected = store.recall_state(ANA), store.replay(ANA, write.session_id)
    between.ends_behind = b"SELECT 1\0"
    assert store.recall_state(ANA) == expected[0]
    between.ends_behind = b"SELECT 1\0"
    assert store.replay(ANA, write.session_id) == expected[1]
    between.ends_behind = b"UPDATE 1\0"
    store.append(make_next(write, "world"))
    assert texts(store, write) == ["hello", "world"]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
