"""Actions of child processes in the tests of forgetting."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from octopus_memory import EpisodicMemory, NotFound


def open_memory(url: str) -> EpisodicMemory:
    return EpisodicMemory.open(url, embedder="hashing", background=False)


def forget(url: str, begin: Callable[[], None]) -> None:
    """Preview, then be killed at some moment of the removal."""
    with open_memory(url) as memory:
        scope = memory.scope(user="ana")
        token = scope.forget("my mum's zanzibarquark").token
        begin()
        scope.forget(confirm=token)


def confirm(pipe: Connection, url: str, token: str, barrier: Barrier) -> None:
    """Confirm a token that another process confirms at the same time."""
    with open_memory(url) as memory:
        scope = memory.scope(user="ana")
        barrier.wait()
        try:
            pipe.send(scope.forget(confirm=token).removed["turns"])
        except NotFound:
            pipe.send(None)


def forget_topics(pipe: Connection, url: str, topics: list[str], barrier: Barrier) -> None:
    """Forget one topic after the other, while another process forgets others."""
    with open_memory(url) as memory:
        scope = memory.scope(user="ana")
        barrier.wait()
        for topic in topics:
            scope.forget(confirm=scope.forget(topic).token)
        pipe.send("done")
