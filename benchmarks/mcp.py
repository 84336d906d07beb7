"""Start of `octopus mcp`: a new process until it has answered a client's first requests.

    python -m benchmarks.mcp

A client starts one for every window, and waits for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

SAID = [{"role": "user", "content": "My favourite tea is Darjeeling."}]
GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}
TOOLS: tuple[str, dict[str, Any]] = ("tools/list", {})
RECALL: tuple[str, dict[str, Any]] = (
    "tools/call",
    {"name": "recall", "arguments": {"query": "Which tea do I like?"}},
)
REMEMBER: tuple[str, dict[str, Any]] = (
    "tools/call",
    {"name": "remember", "arguments": {"messages": SAID}},
)


class Start(NamedTuple):
    """A start, up to its last answer."""

    cpu_seconds: float
    seconds: float
    resident_mb: float


def start(database: Path, *requests: tuple[str, dict[str, Any]]) -> Start:
    """Start the server, send `initialize` and then the requests, and stop it at the last answer."""
    began = time.perf_counter()
    # Otherwise sources would be compiled at each start. Installed packages are compiled once.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "octopus_memory", "mcp", "--db", str(database)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert process.stdin is not None
    assert process.stdout is not None
    for number, (method, params) in enumerate([("initialize", GREETING), *requests]):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        if "result" not in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{method} failed: {answer}")
    taken = time.perf_counter() - began
    resident = _resident_mb(process.pid)
    process.kill()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdin.close()
    process.stdout.close()
    return Start(used.ru_utime + used.ru_stime, taken, resident)


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    line = next(row for row in status.splitlines() if row.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def best(times: int, database: Path, *requests: tuple[str, dict[str, Any]]) -> Start:
    """Measure several starts after one that warms the caches. Returns the least of each."""
    starts = [start(database, *requests) for _ in range(times + 1)][1:]
    return Start(*map(min, zip(*starts, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="starts of each kind")
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "memory.db")
        start(database, REMEMBER)
        print("| until | CPU, s | time, s | memory, MB |\n|---|--:|--:|--:|")
        for name, requests in (("tools/list", [TOOLS]), ("the first recall", [TOOLS, RECALL])):
            found = best(times, database, *requests)
            print(
                f"| {name} | {found.cpu_seconds:.2f} | {found.seconds:.2f} "
                f"| {found.resident_mb:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
