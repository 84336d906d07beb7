"""The processes of the load test: the servers, the worker, and Locust in its own environment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path

OCTOPUS = [sys.executable, "-m", "octopus_memory"]
LOCUST = "locust==2.47.0"
_TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Program:
    """A process with its children, which can be killed and restarted.

    Its CPU time is that of all of them in all their lives.
    """

    def __init__(
        self, command: Sequence[str], env: dict[str, str], log: Path, port: int | None = None
    ) -> None:
        self._command = list(command)
        self._env = {**os.environ, **env}
        self._log = log
        self._port = port
        self._spent = 0.0
        self.kills = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if self._port is not None:
            self._wait_until_it_answers(self._port)

    def _wait_until_it_answers(self, port: int) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                raise SystemExit(f"{self._command} exited: see {self._log}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"{self._command} does not answer: see {self._log}")

    def cpu_seconds(self) -> float:
        return self._spent + self._now()

    def _now(self) -> float:
        assert self._process is not None
        stats = Path("/proc").glob("[0-9]*/stat")
        return sum(_ticks(stat, self._process.pid) for stat in stats) / _TICKS

    def kill(self) -> None:
        """Kill all of its processes at once."""
        assert self._process is not None
        self.kills += 1
        self._spent += self._now()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)

    def stop(self) -> int:
        assert self._process is not None
        self._spent += self._now()
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


def _ticks(stat: Path, group: int) -> int:
    """Return the CPU ticks of a process of this group; 0 for others."""
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0


def locust_in(folder: Path) -> Path:
    """Return the locust program. Installs it into a virtual environment once."""
    program = folder / "bin" / "locust"
    if not program.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", LOCUST], check=True)
    return program
