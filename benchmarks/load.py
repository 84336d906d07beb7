"""Load test of the service, compared with an empty endpoint: python -m benchmarks.load [--kills 10]

With `--services 2 4` several services on one PostgreSQL are loaded instead: see `load_services`.

64 clients at once, 80 % add and 20 % recall over 1,000 users, each in the middle of a session, on
one node with SQLite. Every add has an idempotency key, as those of the Python client have.

Octopus serves with one process per core, and is compared with an empty endpoint in one process, as
uvicorn runs it by default, and in as many as Octopus has.

The load comes from Locust in its own virtual environment. It keeps each answer, so that every
acknowledged turn can be read back. The embedder is `hashing`, and `octopus worker` runs in its own
process, because otherwise the model would dominate the figures.

Client and server share the machine, so requests per second depend on both. CPU milliseconds per
request are those of the server alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import load_services
from benchmarks.load_processes import OCTOPUS, Program, free_port, locust_in
from octopus_memory import EpisodicMemory
from octopus_memory.ports.recall_rows import WorkKind

HERE = Path(__file__).parent
CLIENTS, USERS = 64, 1_000
_SECONDS = 20
AGENT, SESSION = "hr", "live"
OPENING = "Good morning, it is me again."
TALK = [
    ("user", "How many leave days do I have left?"),
    ("assistant", "You have 12 days remaining, and five of them must be used by March."),
    ("user", "And what was the budget for the course in Porto?"),
    ("assistant", "Anna agreed to 1,200 euros."),
]


@dataclass
class Run:
    """The result of one server."""

    name: str
    requests: int
    seconds: float
    add_ms: tuple[float, float, float]
    recall_ms: tuple[float, float, float]
    server_cpu_ms: float
    """CPU milliseconds of the server per request."""
    client_cpu_share: float
    """Share of one core that Locust used. Near 1, the client is the bottleneck."""
    errors: int
    tried_again: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    """Counts from reading everything back."""

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


def load(
    locust: Path, port: int, token: str, server: Program, options: argparse.Namespace, name: str
) -> tuple[Run, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        env = {
            **os.environ,
            "LOAD_USERS": str(USERS),
            "LOAD_TOKEN": token,
            "LOAD_RESULTS": str(results),
            "LOAD_PATIENCE": "60" if options.kills else "0",
        }
        command = [str(locust), "-f", str(HERE / "load_clients.py"), "--headless", "--only-summary"]
        command += ["-u", str(CLIENTS), "-r", str(CLIENTS), "-t", f"{options.seconds}s"]
        command += ["--stop-timeout", "60", "--host", f"http://127.0.0.1:{port}"]
        before, began = server.cpu_seconds(), time.perf_counter()
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if not results.exists():
            raise SystemExit(f"Locust failed:\n{done.stderr[-3000:]}")
        seen = json.loads(results.read_text())
        spent = server.cpu_seconds() - before
    requests = len(seen["adds"]) + len(seen["recalls"])
    run = Run(
        name=name,
        requests=requests,
        seconds=options.seconds,
        add_ms=percentiles([took for _, _, took, _ in seen["adds"]]),
        recall_ms=percentiles(seen["recalls"]),
        server_cpu_ms=spent / requests * 1e3,
        client_cpu_share=seen["cpu_seconds"] / (time.perf_counter() - began),
        errors=len(seen["errors"]),
        tried_again=seen["tried_again"],
    )
    for words, times in Counter(seen["errors"]).most_common(3):
        print(f"{name}: {times} × {words}", file=sys.stderr)
    return run, seen


def percentiles(seconds: list[float]) -> tuple[float, float, float]:
    ordered = sorted(seconds) or [0.0]
    return tuple(ordered[int(len(ordered) * share)] * 1e3 for share in (0.5, 0.95, 0.99))


def empty(locust: Path, options: argparse.Namespace, folder: Path, processes: int) -> Run:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.load_empty", str(port), str(processes)]
    server = Program(command, {}, folder / "empty.log", port)
    server.start()
    plain = argparse.Namespace(seconds=min(options.seconds, _SECONDS), kills=0)
    try:
        name = f"empty endpoint{counted(processes)}"
        return load(locust, port, "none", server, plain, name)[0]
    finally:
        server.stop()


def counted(processes: int) -> str:
    return f", {processes} processes" if processes > 1 else ""


def octopus(locust: Path, options: argparse.Namespace, folder: Path) -> Run:
    port, path = free_port(), folder / "memory.db"
    token = fill(path)
    env = {
        "OCTOPUS_DATABASE_URL": f"sqlite:///{path}",
        "OCTOPUS_EMBEDDER": "hashing",
        "OCTOPUS_SERVER__REQUESTS_PER_MINUTE": "100000000",
    }
    serve = [*OCTOPUS, "serve", "--no-worker", "--port", str(port)]
    serve += ["--processes", str(options.processes)]
    server = Program(serve, env, folder / "serve.log", port)
    worker = Program([*OCTOPUS, "worker"], env, folder / "worker.log")
    server.start()
    worker.start()
    stop = threading.Event()
    killer = threading.Thread(target=strike, args=(server, worker, options, stop))
    killer.start()
    try:
        name = f"Octopus{counted(options.processes)}"
        run, seen = load(locust, port, token, server, options, name)
        stop.set()
        killer.join()
        run.seen = {"killed": server.kills}
        run.seen |= read_back(f"http://127.0.0.1:{port}", token, seen["adds"])
    finally:
        stop.set()
        killer.join()
        codes = (server.stop(), worker.stop())
    if codes != (0, 0):
        raise SystemExit(f"server and worker ended with {codes}: see {folder}")
    run.seen |= embedded(path)
    return run


def fill(path: Path) -> str:
    """Store a closed and an open conversation for each user. Return a token."""
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        for user in range(USERS):
            scope = memory.scope(agent=AGENT, user=f"user-{user}")
            scope.store(TALK, session_id="before")
            scope.add(SESSION, ("user", OPENING))
        memory.flush()
        made = memory.api_keys.create(
            tenant="default",
            role="agent",
            name="load",
            agents=[AGENT],
            actor="load",
        )
        return made.token


def strike(
    server: Program, worker: Program, options: argparse.Namespace, stop: threading.Event
) -> None:
    """Kill the server and the worker repeatedly, soon after each restart."""
    for _ in range(options.kills):
        if stop.wait(random.uniform(0.5, 2.5)):
            return
        server.kill()
        worker.kill()
        server.start()
        worker.start()


def read_back(url: str, token: str, adds: list[Any]) -> dict[str, int]:
    """Look for each acknowledged turn at the place that its acknowledgement named."""
    acknowledged: dict[int, dict[str, tuple[int, str]]] = {}
    for user, said, _, body in adds:
        [turn] = json.loads(body)["turns"]
        acknowledged.setdefault(user, {})[turn["id"]] = (turn["ordinal"], said)
    lost = twice = unordered = extra = 0
    with EpisodicMemory.connect(url, api_key=token) as memory:
        for user, expected in acknowledged.items():
            opening, *turns = memory.scope(agent=AGENT, user=f"user-{user}").session(SESSION).turns
            assert opening.text == OPENING
            stored = {str(turn.id): (turn.ordinal, turn.text) for turn in turns}
            lost += sum(stored.get(turn) != what for turn, what in expected.items())
            twice += len(turns) - len({turn.text for turn in turns})
            unordered += [turn.ordinal for turn in turns] != list(range(1, len(turns) + 1))
            extra += len(stored.keys() - expected.keys())
    return {
        "acknowledged": len(adds),
        "lost": lost,
        "twice": twice,
        "sessions out of order": unordered,
        "stored, acknowledgement lost": extra,
    }


def embedded(path: Path) -> dict[str, int]:
    """Finish the pending work, and count texts and vectors."""
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        memory.flush()
        stats = memory.stats()
    texts = stats.turns + stats.episodes - stats.open_episodes
    return {
        "waiting to be embedded": stats.backlog[WorkKind.EMBED].waiting,
        "texts": texts,
        "vectors": sum(stats.vectors.values()),
    }


def table(runs: list[Run]) -> str:
    columns = (
        "",
        "requests/s",
        "add p50 / p95 / p99 ms",
        "recall p50 / p95 / p99 ms",
        "server CPU ms a request",
        "client's core",
        "errors",
    )
    lines = [f"| {' | '.join(columns)} |", "|---|--:|--:|--:|--:|--:|--:|"]
    for run in runs:
        add, recall = (
            " / ".join(f"{ms:.0f}" for ms in each) for each in (run.add_ms, run.recall_ms)
        )
        lines.append(
            f"| {run.name} | {run.per_second:.0f} | {add} | {recall} | {run.server_cpu_ms:.2f} "
            f"| {run.client_cpu_share:.0%} | {run.errors} |"
        )
    *floors, ours = runs
    lines += [
        f"| Octopus ÷ {floor.name} | {ours.per_second / floor.per_second:.2f} | | "
        f"| {ours.server_cpu_ms / floor.server_cpu_ms:.1f} | | |"
        for floor in floors
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--seconds", type=int, help="duration of the load")
    parser.add_argument("--kills", type=int, default=0, help="number of kills during the load")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count(),
        help="number of serving processes. Default: one per core",
    )
    parser.add_argument("--locust", type=Path, help="an installed locust program")
    parser.add_argument(
        "--services", type=int, nargs="+", help="numbers of services to load on one PostgreSQL"
    )
    parser.add_argument("--kill-every", type=float, default=10, help="seconds between two kills")
    parser.add_argument("--calm", type=float, default=60, help="seconds of a run without kills")
    parser.add_argument("--url", help="URL of an empty PostgreSQL database, with its owner")
    options = parser.parse_args()
    if options.services:
        options.seconds = options.seconds or 600
        load_services.main(options)
        return
    # Each restart takes seconds, during which requests wait.
    options.seconds = options.seconds or _SECONDS + 6 * options.kills
    locust = options.locust or locust_in(HERE.parent / "build" / "locust")
    with tempfile.TemporaryDirectory(prefix="octopus-load-") as folder:
        place = Path(folder)
        floors = [empty(locust, options, place, count) for count in sorted({1, options.processes})]
        ours = octopus(locust, options, place)
    runs = [*floors, ours]
    print(table(runs))
    print()
    for what, count in ours.seen.items():
        print(f"- {what}: {count:,}")
    print(f"- tried again after a kill: {ours.tried_again:,}")
    print()
    print(json.dumps([asdict(run) for run in runs]))
    held = ours.seen
    bad = sum(run.errors for run in runs) + held["lost"] + held["twice"]
    bad += held["sessions out of order"] + held["waiting to be embedded"]
    if held["killed"] < options.kills:
        raise SystemExit(f"only {held['killed']} kills in {options.seconds} s: raise --seconds")
    if bad or held["texts"] != held["vectors"]:
        raise SystemExit("a turn was lost or stored twice, or a request failed")


if __name__ == "__main__":
    main()
