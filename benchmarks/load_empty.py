"""The empty endpoint of the load test: the same bodies and settings, no memory."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
import uvicorn
from fastapi import FastAPI

from octopus_memory.faces.rest.app import PREFIX
from octopus_memory.faces.rest.requests import SearchBody, SessionAddBody
from octopus_memory.settings import ServerSettings


@asynccontextmanager
async def _lifespan(_: FastAPI) -> AsyncIterator[None]:
    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = ServerSettings().threads
    yield


app = FastAPI(lifespan=_lifespan)


@app.post(f"{PREFIX}/sessions/{{session_id:path}}/messages", status_code=201)
def add(session_id: str, body: SessionAddBody) -> dict[str, bool]:  # noqa: ARG001 - empty
    return {"ok": True}


@app.post(f"{PREFIX}/episodes/search")
def search(body: SearchBody) -> dict[str, bool]:  # noqa: ARG001 - empty
    return {"ok": True}


@app.get("/healthz")
def healthz() -> dict[str, bool]:
    return {"ok": True}


if __name__ == "__main__":
    uvicorn.run(
        "benchmarks.load_empty:app",
        host="127.0.0.1",
        port=int(sys.argv[1]),
        workers=int(sys.argv[2]),
        log_level="warning",
        access_log=False,
        server_header=False,
    )
