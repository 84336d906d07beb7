"""Remember and recall over MCP: a client of the `/mcp` of a service.

pip install 'octopus-memory[server]' 'mcp>=2,<3'
python mcp_client.py                # starts a service in development mode, and stops it
python mcp_client.py https://memory.example.com/mcp TOKEN
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

SAID = [
    {"role": "user", "content": "My sister Ada moves to Lisbon in May."},
    {"role": "assistant", "content": "Noted. Shall I remind you before she leaves?"},
]


async def main(url: str, token: str | None) -> None:
    # Whose memory it is, is for this program to say. The model gets tools that cannot name others.
    headers = {"X-Octopus-Agent": "assistant", "X-Octopus-User": "ana"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        async with Client(streamable_http_client(f"{url}?session=monday", http_client=http)) as one:
            await one.call_tool("remember", {"messages": SAID})
            await one.call_tool("close_session", {})
        async with Client(streamable_http_client(f"{url}?session=friday", http_client=http)) as two:
            found = await two.call_tool("recall", {"query": "Where does my sister move to?"})
            assert found.structured_content is not None
            [best, *_] = found.structured_content["episodes"]
            print(best["session_id"], best["turns"][0]["text"])
            asked = {"message": "When is Ada going to move?"}
            for message in (await two.get_prompt("context", asked)).messages:
                print(message.content.text)


@contextmanager
def service() -> Iterator[str]:
    """Run a service for trials on a free port, with a database that is deleted afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder, "memory.db"))
        command = [sys.executable, "-m", "octopus_memory", "serve", "--dev", "--db", database]
        command += ["--port", str(port)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:  # noqa: S603 - ours
            try:
                while not _answers(port):
                    if server.poll() is not None:
                        raise SystemExit("the service did not start: run octopus serve --dev")
                    time.sleep(0.1)
                yield f"http://127.0.0.1:{port}/mcp"
            finally:
                server.terminate()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1], sys.argv[2]))
    else:
        with service() as own:
            asyncio.run(main(own, None))
