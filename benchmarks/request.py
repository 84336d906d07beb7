"""Measure the CPU time of a REST request inside the application: python -m benchmarks.request

64 clients at once call the ASGI application directly, 80 % adds and 20 % recalls over 200 users, on
SQLite with the `hashing` embedder. There is no socket and no other process, so the figures are
valid on a busy machine, too. Compare two checkouts in turns, or `taskset -c 0` with all cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from octopus_memory import EpisodicMemory
from octopus_memory.faces.rest.app import make_app
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.settings import ServerSettings

CLIENTS, USERS, AGENT = 64, 200, "hr"
WARM_UP = 1_000


async def load(app: FastAPI, token: str, numbers: range) -> None:
    waiting = iter(numbers)

    async def client() -> None:
        for number in waiting:
            await ask(app, token, number)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def ask(app: FastAPI, token: str, number: int) -> None:
    path, body = _request(number)
    content = json.dumps(body).encode()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": str(len(content)),
        "authorization": f"Bearer {token}",
        "idempotency-key": f"k{number}",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    await app(scope, receive, send)
    if sent[0]["status"] not in {200, 201}:
        raise SystemExit(f"the request failed: {sent}")


def _request(number: int) -> tuple[str, dict[str, Any]]:
    who: dict[str, Any] = {"agentId": AGENT, "userId": f"user-{number % USERS}"}
    if number % 5 == 4:
        return f"{PREFIX}/episodes/search", who | {"query": "what about the budget?", "topK": 5}
    said = {"role": "user", "content": f"Note {number}: we talked about the budget."}
    return f"{PREFIX}/sessions/live/messages", who | {"messages": [said]}


async def measure(app: FastAPI, token: str, requests: int, rounds: int) -> list[float]:
    """Return the CPU milliseconds per request of each round."""
    async with app.router.lifespan_context(app):
        await load(app, token, range(WARM_UP))
        found = []
        for number in range(rounds):
            first = WARM_UP + number * requests
            before = time.process_time()
            await load(app, token, range(first, first + requests))
            found.append((time.process_time() - before) / requests * 1e3)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.request", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_500, help="requests per round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="octopus-request-") as folder,
        EpisodicMemory.open(
            Path(folder) / "memory.db", embedder="hashing", background=False
        ) as memory,
    ):
        made = memory.api_keys.create(
            tenant="default",
            role="agent",
            name="load",
            agents=[AGENT],
            actor="load",
        )
        app = make_app(memory, replace(ServerSettings(), requests_per_minute=10**9))
        found = asyncio.run(measure(app, made.token, options.requests, options.rounds))
    print("CPU ms a request:", " ".join(f"{each:.3f}" for each in found))


if __name__ == "__main__":
    main()
