"""The longest pause of an event loop while an asynchronous client is used, plain and wrapped.

    python benchmarks/loop_pause.py [--calls 50] [--rounds 5]

A task that wakes every millisecond measures how long the loop was busy with something else. The
provider is the fake server of `octopus_memory.testing`, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

import octopus_memory
from octopus_memory import EpisodicMemory
from octopus_memory.testing.openai_server import FakeOpenAIServer


def serve(pipe: Connection) -> None:
    """Serve until the other end of the pipe says so."""
    with FakeOpenAIServer() as server:
        pipe.send(server.base_url)
        pipe.recv()


async def longest_pause(client: Any, calls: int) -> float:
    """Return the longest pause in milliseconds over calls that each send a history of 20."""
    longest, is_over = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not is_over:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before - 0.001)

    watching = asyncio.create_task(watch())
    history: list[dict[str, str]] = []
    for number in range(calls):
        history.append({"role": "user", "content": f"What about my plan number {number}?"})
        answer = await client.chat.completions.create(model="m", messages=history[-20:])
        history.append({"role": "assistant", "content": answer.choices[0].message.content})
    is_over = True
    await watching
    return longest * 1000


def main() -> None:
    """Print the median of the longest pauses, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    url = ours.recv()
    found: dict[str, list[float]] = {"plain": [], "wrapped": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        EpisodicMemory.open(f"sqlite:///{Path(folder) / 'memory.db'}") as memory,
    ):
        scope = memory.scope(user="ana")
        for number in range(options.rounds + 1):
            for kind, pauses in found.items():
                client = AsyncOpenAI(base_url=url, api_key="any")
                if kind == "wrapped":
                    client = octopus_memory.wrap(client, scope, session_id=f"s{number}")
                pause = asyncio.run(longest_pause(client, options.calls))
                if number:  # The first round loads modules and the model.
                    pauses.append(pause)
    ours.send(None)
    process.join()
    for kind, pauses in found.items():
        each = ", ".join(f"{pause:.1f}" for pause in pauses)
        print(f"{kind:8} median {statistics.median(pauses):6.1f} ms   ({each})")
    ratio = statistics.median(found["wrapped"]) / statistics.median(found["plain"])
    print(f"wrapped is {ratio:.2f} times plain, over {options.calls} calls")


if __name__ == "__main__":
    main()
