"""The service and its worker are killed while clients write: nothing is lost, nothing is twice."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from tests.support import rest_server
from tests.support.service_processes import Program, check_all_there, serve, talking, wait_for_more

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process without a word"
    ),
]

KILLS = 2


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


def serving(server: Program) -> set[int]:
    """The processes that serve; one more keeps account of what they share."""
    assert server.process is not None
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(each) for each in children if b"spawn_main" in command_of(each)}


def command_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process's children")
def test_a_killed_service_process_is_replaced(
    tmp_path: Path, path: Path, token: str, env: dict[str, str]
):
    server = serve(tmp_path, env, "--processes", "2")
    with server:
        with talking(server.port, token) as clients:
            for _ in range(KILLS):
                wait_for_more(clients)
                before = serving(server)
                os.kill(min(before), signal.SIGKILL)
                while len(serving(server) | before) < 3:
                    time.sleep(0.05)
            wait_for_more(clients)
        answered = 'octopus_http_requests_total{method="POST"'
        # A client that stops in the middle of a request is answered with 400, on another line.
        lines = [each for each in server.read("/metrics").splitlines() if answered in each]
        counted = sum(float(line.split()[-1]) for line in lines)
        # Who is killed may have answered each client once more than it counted.
        told = sum(len(client.acknowledged) for client in clients)
        assert counted >= told - KILLS * len(clients)
        assert server.end(signal.SIGTERM) == 0
    check_all_there(path, clients)
    assert "Traceback" not in server.log.read_text()


def test_killing_the_first_process_ends_the_others(
    tmp_path: Path, path: Path, token: str, env: dict[str, str]
):
    server = serve(tmp_path, env, "--processes", "2")
    with server, talking(server.port, token) as clients:
        wait_for_more(clients)
        server.end(signal.SIGKILL)
        # The port is free again, and what was said goes on.
        while server.answers():
            time.sleep(0.05)
        server.start()
        wait_for_more(clients)
        assert server.end(signal.SIGTERM) == 0
        server.start()
        wait_for_more(clients)
    check_all_there(path, clients)
