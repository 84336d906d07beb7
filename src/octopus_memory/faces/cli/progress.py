"""Progress bars on standard error, if that is a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from ...engine.memory import Memory

Report: TypeAlias = Callable[[int], None]
"""Called with the number that is done."""
_POLL_SECONDS = 0.2


def bar(label: str, total: int) -> AbstractContextManager[Report]:
    """Show a bar. Call the given function with the number that is done."""
    return _bar(label, total, MofNCompleteColumn())


def byte_bar(label: str, total: int | None) -> AbstractContextManager[Report]:
    """Show a bar over bytes. `total` is None if it is unknown."""
    return _bar(label, total, DownloadColumn())


@contextmanager
def _bar(label: str, total: int | None, amount: ProgressColumn) -> Iterator[Report]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def watch_backlog(label: str, memory: Memory) -> Iterator[None]:
    """Show a bar over the pending work while the block does it."""
    total = waiting(memory)
    if not total or not Console(stderr=True).is_terminal:
        yield
        return
    finished = threading.Event()
    with bar(label, total) as done:

        def look() -> None:
            while not finished.wait(_POLL_SECONDS):
                done(max(0, total - waiting(memory)))

        watcher = threading.Thread(target=look, name="octopus-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()


def waiting(memory: Memory) -> int:
    """Return how much work is pending, of every kind."""
    return sum(work.waiting for work in memory.backlog().values())
