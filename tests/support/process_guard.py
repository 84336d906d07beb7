"""Refuses to start a process in a test that is not marked for it, so that the marks stay true."""

from __future__ import annotations

import multiprocessing.process
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

_STARTS: tuple[tuple[Any, str], ...] = (
    (subprocess.Popen, "__init__"),
    (multiprocessing.process.BaseProcess, "start"),
    (os, "fork"),
    (os, "posix_spawn"),
)


# Python runs `uname` for this once, and libraries such as openai ask for it in a test.
platform.processor()


class ProcessRefusedError(BaseException):
    """A process was started by a test without the mark.

    Not an `Exception`, because the code under test must not take it for a failure of the program.
    """


@contextmanager
def processes_refused(test: str) -> Iterator[None]:
    """Raise `ProcessRefusedError` where `test` starts a process by any of Python's ways."""
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in _STARTS:
            if hasattr(owner, name):
                patched.setattr(owner, name, _refuse(test, name))
        yield


def _refuse(test: str, name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise ProcessRefusedError(
            f"{test} starts a process ({name}): mark it `process`, "
            "or `server` where it needs a database server"
        )

    return refuse
