"""`octopus mcp` on its pipes: what it writes there, and how it ends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from tests.support.mcp_process import MAIN, TEA, Raw

pytestmark = pytest.mark.process

POSIX = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no such signals")
STRAY = f"""
from octopus_memory.faces.mcp.tools import Recent
run = Recent.run
def stray(self, state):
    print("stray words of a library", flush=True)
    return run(self, state)
Recent.run = stray
{MAIN}
"""


def test_nothing_but_the_protocol_is_on_standard_output(tmp_path: Path):
    with Raw("--db", str(tmp_path / "m.db"), main=STRAY) as server:
        assert server.greet()["serverInfo"]["name"] == "octopus"
        assert not server.call("remember", messages=TEA)["isError"]
        assert "Darjeeling" in server.call("recent")["content"][0]["text"]
        server.process.stdin.write("this is no JSON\n")
        assert server.call("read_session", session_id="x")["isError"]
        assert server.end() == ("", "stray words of a library\n")
    assert server.process.returncode == 0


TOLD_IN_A_CALL = f"""
import os, signal
from octopus_memory.faces.mcp.tools import Remember
run = Remember.run
def told(self, state):
    os.kill(os.getpid(), signal.{{}})
    return run(self, state)
Remember.run = told
{MAIN}
"""


@POSIX
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_after_the_call_at_hand(tmp_path: Path, name: str):
    """Standard input stays open all the while."""
    path = tmp_path / "m.db"
    with Raw("--db", str(path), "--user", "ana", main=TOLD_IN_A_CALL.format(name)) as server:
        server.greet()
        server.send("tools/call", name="remember", arguments={"messages": TEA, "session_id": "s"})
        assert server.process.wait(60) == 0
        assert server.process.stderr.read() == ""
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        turns = memory.scope(user="ana").session("s").turns
    assert [turn.text for turn in turns] == [said["content"] for said in TEA]


def test_a_client_that_is_gone_ends_it(tmp_path: Path):
    with Raw("--db", str(tmp_path / "m.db")) as server:
        server.greet()
        server.process.stdout.close()
        server.send("tools/list")
        server.process.stdin.close()
        assert server.process.wait(60) == 0
        assert server.process.stderr.read() == ""


def test_a_database_that_cannot_be_opened_ends_it(tmp_path: Path):
    """What the server offers is told before the memory is opened."""
    with Raw("--db", "oracle://db/memory") as server:
        assert server.greet()["serverInfo"]["name"] == "octopus"
        assert server.process.wait(60) == 1
        assert server.process.stderr.read().startswith("error: ")
    with Raw("--db", str(tmp_path)) as server:
        server.send("tools/call", name="recent", arguments={})
        assert server.process.wait(60) == 1
        assert server.process.stderr.read().startswith("error: ")
