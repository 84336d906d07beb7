"""The command line in the test's own process, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from octopus_memory.__main__ import program


def use_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to the folder and name a database in it, without the developer's own settings."""
    for name in [name for name in os.environ if name.startswith(("OCTOPUS_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OCTOPUS_DATABASE_URL", "sqlite:///memory.db")
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "hashing")
    # Not beside the database, where keys may not be, nor in the developer's home.
    monkeypatch.setenv(
        "OCTOPUS_KEYS_PATH", str(folder.with_name(f"{folder.name}-keys") / "keys.db")
    )
    monkeypatch.setenv("PYTHONWARNINGS", "error")


def run(*args: object, stdin: str | bytes | None = None, code: int = 0) -> Result:
    done = CliRunner().invoke(program(), [str(arg) for arg in args], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done


def run_json(*args: object, stdin: str | bytes | None = None, code: int = 0) -> Any:
    return json.loads(run(*args, "--json", stdin=stdin, code=code).stdout)


def errors_on_terminal(*command: str) -> bytes:
    """Return what a program writes to standard error, if that is a terminal that can draw.

    The terminal is read while the program runs, because its buffer takes few kilobytes.
    """
    import pty

    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    shown = b""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=slave, env=env) as program:
        os.close(slave)
        # Reading fails on Linux when the program has closed its side.
        with suppress(OSError):
            while got := os.read(master, 65536):
                shown += got
    os.close(master)
    assert program.returncode == 0, shown.decode()
    return shown
