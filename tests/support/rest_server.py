"""The REST service on a free local port, in a thread of the test's own process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import uvicorn.server

from octopus_memory import EpisodicMemory, RemoteMemory
from octopus_memory.faces.mcp import answer_mcp
from octopus_memory.faces.rest.app import make_app
from octopus_memory.faces.rest.protocol import Server
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.settings import ServerSettings

WHO = {"agentId": "hr", "userId": "ana"}
HELLO = {"role": "user", "content": "How many leave days do I have left?"}


async def _sleep_briefly(seconds: float) -> None:
    await asyncio.sleep(seconds / 20)


# To stop, uvicorn sleeps for a tenth of a second several times, in hundreds of tests.
uvicorn.server.asyncio = SimpleNamespace(**(vars(asyncio) | {"sleep": _sleep_briefly}))


@contextmanager
def serving(
    memory: EpisodicMemory, settings: ServerSettings | None = None, *, development: bool = False
) -> Iterator[str]:
    """Serve the memory, and yield the base URL."""
    settings = settings or ServerSettings()
    app = make_app(memory, settings, development=development, mcp=answer_mcp)
    server = Server(app, settings, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, name="test-service", daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        time.sleep(0.005)
    [sockets] = server.servers
    port = sockets.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def token(
    memory: EpisodicMemory,
    role: str = "admin",
    *,
    tenant: str = "default",
    agents: list[str] | None = None,
    user: str | None = None,
) -> str:
    made = memory.api_keys.create(
        tenant=tenant,
        role=role,
        name="test",
        agents=agents,
        user=user,
        actor="test",
    )
    return made.token


@contextmanager
def http_client(memory: EpisodicMemory) -> Iterator[httpx.Client]:
    """Serve the memory, and yield an HTTP client with an admin's key."""
    headers = {"Authorization": f"Bearer {token(memory)}"}
    with (
        serving(memory) as url,
        httpx.Client(base_url=url + PREFIX, headers=headers) as opened,
    ):
        yield opened


@contextmanager
def remote_memory(memory: EpisodicMemory) -> Iterator[RemoteMemory]:
    """Serve the memory, and yield a `RemoteMemory` with an admin's key."""
    with (
        serving(memory) as url,
        EpisodicMemory.connect(url, api_key=token(memory)) as remote,
    ):
        yield remote
