"""The threads of the service: what a call returns and raises, and how many run at once."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from octopus_memory.faces.rest.routing import Threads

WHO: ContextVar[str] = ContextVar("who")


def test_a_call_gives_what_it_returns_and_raises():
    async def calls() -> list[object]:
        threads = Threads(2)
        WHO.set("ana")
        there = await threads.run(lambda: (WHO.get(), threading.current_thread().name))
        raised = await asyncio.gather(
            threads.run(lambda: int("x")),
            threads.run(lambda: next(iter([]))),
            return_exceptions=True,
        )
        threads.stop()
        return [there, *raised]

    (who, thread), wrong, ended = asyncio.run(calls())
    assert (who, thread.startswith("octopus-request")) == ("ana", True)
    assert isinstance(wrong, ValueError)
    # Else whoever waits for it would wait for ever.
    assert isinstance(ended, RuntimeError)


def test_no_more_calls_at_once_than_there_are_threads():
    lock, together, most = threading.Lock(), threading.Barrier(2), []
    running: list[int] = []

    def call(number: int) -> int:
        with lock:
            running.append(number)
            most.append(len(running))
        together.wait(timeout=20)
        with lock:
            running.remove(number)
        return number

    async def calls() -> list[int]:
        threads = Threads(2)
        done = await asyncio.gather(*(threads.run(lambda n=n: call(n)) for n in range(6)))
        threads.stop()
        return done

    assert asyncio.run(calls()) == list(range(6))
    assert max(most) == 2


def test_a_caller_that_goes_away_leaves_the_thread_to_the_next():
    began, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        go_on.wait(timeout=20)

    async def calls() -> str:
        threads = Threads(1)
        gone = asyncio.ensure_future(threads.run(slow))
        await asyncio.to_thread(began.wait, 20)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        go_on.set()
        answer = await threads.run(lambda: "next")
        threads.stop()
        return answer

    assert asyncio.run(calls()) == "next"


def test_the_threads_end_when_they_are_stopped():
    async def one(threads: Threads) -> threading.Thread:
        return await threads.run(threading.current_thread)

    threads = Threads(3)
    thread = asyncio.run(one(threads))
    threads.stop()
    thread.join(timeout=20)
    assert not thread.is_alive()
    # A service that starts again has threads again.
    assert asyncio.run(one(threads)) is not thread
    threads.stop()


def test_an_abandoned_call_keeps_its_thread():
    async def calls() -> int:
        threads, go_on = Threads(8), threading.Event()
        slow = asyncio.create_task(threads.run(lambda: go_on.wait(30)))
        await asyncio.sleep(0)
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        # On a thread of its own, so that it need not wait for the other.
        await threads.run(go_on.set)
        threads.stop()
        return threads._busy

    assert asyncio.run(asyncio.wait_for(calls(), 30)) <= 1
