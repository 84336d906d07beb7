"""`octopus serve` and `octopus worker` as processes, and clients that talk to them."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from octopus_memory import EpisodicMemory, OctopusError, RemoteScope, Turn
from octopus_memory.ports.recall_rows import WorkKind

CLIENTS = 4
PROGRAM = [sys.executable, "-m", "octopus_memory"]


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

    def read(self, path: str) -> str:
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            page: str = answer.read().decode()
            return page

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
    """Sends one message after the other, and retries each until it is acknowledged."""

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
    """Wait until each client got another answer, so that a kill comes in the middle of writes."""
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
