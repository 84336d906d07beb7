"""What `octopus serve` refuses, before it serves anybody."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopus_memory.__main__ import program
from octopus_memory.domain.errors import OctopusError
from octopus_memory.faces.rest.command import _listening
from octopus_memory.faces.rest.multiprocess import Serving
from octopus_memory.settings import ServerSettings


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(program(), ["serve", "--db", "memory.db", *arguments])
    assert done.exit_code == 1
    return done.stderr.strip().removeprefix("error: ")


def test_a_stranger_in_development_mode():
    assert refused("--dev", "--host", "0.0.0.0").startswith(
        "host: must be a loopback address with --dev"
    )


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_that_is_taken(taken: int, processes: str):
    words = refused("--port", str(taken), "--processes", processes)
    assert words.startswith(f"port: cannot listen on 127.0.0.1:{taken}")
    assert words.endswith("choose another with --port or --host")


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="ports are not shared here")
def test_a_port_that_another_service_shares_out():
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        assert refused("--port", str(port), "--processes", "2").startswith("port: cannot listen")


def test_an_address_of_another_machine():
    assert refused("--host", "192.0.2.1").startswith("host: cannot listen on 192.0.2.1")


def test_a_database_in_memory_for_several_processes():
    said = refused("--db", "sqlite:///:memory:", "--processes", "2")
    assert said.startswith("processes: must be 1 for a database in memory")


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="ports are not shared here")
def test_a_port_of_processes_that_are_still_starting():
    with _listening(ServerSettings(port=0, processes=2)) as listeners:
        port = listeners[0].getsockname()[1]
        assert [each.getsockname()[1] for each in listeners] == [port, port]
        assert refused("--port", str(port), "--processes", "2").startswith("port: cannot listen")


@pytest.mark.process
def test_processes_that_end_by_themselves_are_not_started_again_and_again():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = Serving(sys.exit, [listener])
        with pytest.raises(OctopusError, match="octopus-serve-0 exited"):
            serving.run_until_signal(lambda: None)
        # Nobody is let in who would not be answered.
        assert listener.fileno() == -1


@pytest.mark.parametrize("options", [(), ("--dev",)])
def test_a_service_without_a_key_says_so(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("octopus_memory.faces.rest.command._run", lambda *_, **__: None)
    serve = ["serve", "--db", "memory.db", "--port", "0", "--no-worker", *options]
    said = "no API key yet, so every request is refused. Make one with: octopus keys create"
    assert (said in CliRunner().invoke(program(), serve).stderr) is not bool(options)
    make = ["keys", "create", "--db", "memory.db", "--role", "admin", "--name", "me"]
    assert CliRunner().invoke(program(), make).exit_code == 0
    assert said not in CliRunner().invoke(program(), serve).stderr
