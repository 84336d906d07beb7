"""The service and its worker are killed while clients write: nothing is lost, nothing is twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
import rest_server

from octopus_memory import EpisodicMemory, OctopusError, RemoteScope, Turn
from octopus_memory.ports.store import WorkKind

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
)

CLIENTS, KILLS = 4, 2
PROGRAM = [sys.executable, "-c", "from octopus_memory.command import main; main()"]


@dataclass
class Program:
    """`octopus serve` or `octopus worker`, as a process of its own."""

    arguments: list[str]
    log: Path
    env: dict[str, str]
    port: int | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    lives: int = field(default=0, init=False)

    def start(self) -> None:
        self.lives += 1
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*PROGRAM, *self.arguments], env=self.env, stdout=log, stderr=subprocess.STDOUT
            )
        while self.port is not None and not self.answers():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=10):
                return True
        except OSError:
            return False

    def end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


@dataclass
class Client:
    """Says one thing after the other, each until it is acknowledged."""

    scope: RemoteScope
    stop: threading.Event
    acknowledged: list[Turn] = field(default_factory=list)
    error: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                said = f"what I said as number {len(self.acknowledged)}"
                self.acknowledged += self.scope.add("s", ("user", said))
        except OctopusError as error:
            self.error = error


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def token(path: Path) -> str:
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        return rest_server.token(memory, "agent", agents=["hr"])


@pytest.fixture
def env(path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "OCTOPUS_DATABASE_URL": f"sqlite:///{path}",
        "OCTOPUS_EMBEDDER": "hashing",
    }


def serve(tmp_path: Path, env: dict[str, str], *options: str) -> Program:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    arguments = ["serve", "--port", str(port), *options]
    return Program(arguments, tmp_path / "serve.log", env, port)


@contextmanager
def talking(port: int | None, token: str) -> Iterator[list[Client]]:
    """Clients that write until the block ends, each as a user of its own."""
    url, stop = f"http://127.0.0.1:{port}", threading.Event()
    with EpisodicMemory.connect(url, api_key=token, retries=30, timeout=30) as memory:
        clients = [
            Client(memory.scope(agent="hr", user=f"user-{number}"), stop)
            for number in range(CLIENTS)
        ]
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        try:
            yield clients
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def wait_for_more(clients: list[Client]) -> None:
    """Until each client has been answered again: the kill that follows is in the middle."""
    before = [len(client.acknowledged) for client in clients]
    while any(
        len(client.acknowledged) < count + 3 and client.error is None
        for client, count in zip(clients, before, strict=True)
    ):
        time.sleep(0.01)


def check_all_there(path: Path, clients: list[Client]) -> None:
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        for client in clients:
            assert client.error is None
            turns = memory.scope(agent="hr", user=client.scope.scope.user).session("s").turns
            assert [turn.id for turn in turns] == [turn.id for turn in client.acknowledged]
            assert [turn.text for turn in turns] == [
                f"what I said as number {place}" for place in range(len(turns))
            ]
            assert [turn.ordinal for turn in turns] == list(range(len(turns)))
        assert memory.flush(timeout=60)
        stats = memory.stats()
        assert stats.turns == sum(len(client.acknowledged) for client in clients)
        assert stats.backlog[WorkKind.EMBED].waiting == 0
        assert sum(stats.vectors.values()) == stats.turns
        for client in clients:
            scope = memory.scope(agent="hr", user=client.scope.scope.user)
            refs = Counter(turn.embedding_ref for turn in scope.session("s").turns)
            assert set(refs.values()) == {1}
            assert None not in refs


def test_server_and_worker_killed_in_the_middle(
    tmp_path: Path, path: Path, token: str, env: dict[str, str]
):
    server = serve(tmp_path, env, "--no-worker")
    worker = Program(["worker"], tmp_path / "worker.log", env)
    with ExitStack() as stack:
        stack.enter_context(server)
        stack.enter_context(worker)
        with talking(server.port, token) as clients:
            for _ in range(KILLS):
                wait_for_more(clients)
                wait_until_it_works(worker)
                worker.end(signal.SIGKILL)
                server.end(signal.SIGKILL)
                server.start()
                worker.start()
            wait_for_more(clients)
        assert server.end(signal.SIGTERM) == 0
        wait_until_it_works(worker)
        assert worker.end(signal.SIGTERM) == 0
    check_all_there(path, clients)
    assert "Traceback" not in server.log.read_text() + worker.log.read_text()


def wait_until_it_works(worker: Program) -> None:
    """Before that, a signal ends it as it would any program."""
    assert worker.process is not None
    while worker.log.read_text().count("Octopus works on") < worker.lives:
        assert worker.process.poll() is None, worker.log.read_text()
        time.sleep(0.05)


def test_a_server_that_is_told_to_stop_finishes_first(
    tmp_path: Path, path: Path, token: str, env: dict[str, str]
):
    server = serve(tmp_path, env)
    with server:
        with talking(server.port, token) as clients:
            wait_for_more(clients)
            assert server.end(signal.SIGTERM) == 0
            server.start()
            wait_for_more(clients)
        assert server.end(signal.SIGINT) == 0
    check_all_there(path, clients)
    log = server.log.read_text()
    assert "Traceback" not in log
    assert "what I said" not in log
    lines = [json.loads(line) for line in log.splitlines() if "request_id" in line]
    assert sum(line["status"] == 201 for line in lines) >= sum(
        len(client.acknowledged) for client in clients
    )
