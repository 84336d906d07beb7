"""One implementation for a synchronous and an asynchronous caller.

A generator yields what is to be done, as a pair of calls, and is sent the result or the error.
`run` makes the first call of each pair, and `arun` awaits the second. What has no steps of its own,
such as a call of an embedded memory, is awaited on a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
Pair: TypeAlias = tuple[Callable[[], Any], Callable[[], Awaitable[Any]]]
Steps: TypeAlias = Generator[Pair, Any, T]

_THREADS = 32
"""Calls of embedded memories that run at once; the loop's own threads stay the application's."""


def run(steps: Steps[T]) -> T:
    """The result of the steps, by synchronous calls."""
    try:
        call, _ = next(steps)
        while True:
            try:
                answer = call()
            except Exception as error:  # noqa: BLE001 - the steps decide
                call, _ = steps.throw(error)
            else:
                call, _ = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


async def arun(steps: Steps[T]) -> T:
    """As `run`, by awaited calls."""
    try:
        _, call = next(steps)
        while True:
            try:
                answer = await call()
            except Exception as error:  # noqa: BLE001 - the steps decide
                _, call = steps.throw(error)
            else:
                _, call = steps.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def both(steps: Callable[P, Steps[T]]) -> Callable[P, T]:
    """A function that runs the steps. Its attribute `steps` is for `ask` and `awaited`."""

    @functools.wraps(steps)
    def call(*args: P.args, **named: P.kwargs) -> T:
        return run(steps(*args, **named))

    call.__dict__["steps"] = steps
    return call


def ask(owner: Any, name: str, /, *args: Any, **named: Any) -> Steps[Any]:
    """Call a method by its name: by its steps, or else on a thread where the caller awaits."""
    steps = getattr(getattr(type(owner), name, None), "steps", None)
    if steps is not None:
        return (yield from steps(owner, *args, **named))
    call = functools.partial(getattr(owner, name), *args, **named)
    return (yield call, lambda: on_thread(call))


def awaited(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """The twin of a synchronous method, for a class whose `sync` has the method."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **named: P.kwargs) -> T:
        # By name, because the synchronous object may be a remote one.
        found: T = await arun(ask(self.sync, method.__name__, *args, **named))
        return found

    call.__dict__.pop("steps", None)
    return call


def awaits(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The twin of a method that `both` made, in the same class."""
    steps = vars(method)["steps"]

    @functools.wraps(method)
    async def call(self: S, /, *args: P.args, **named: P.kwargs) -> T:
        return await arun(steps(self, *args, **named))

    call.__dict__.pop("steps")
    return call


@functools.cache
def threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="octopus-aio")


# A forked child has the pool without its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.cache_clear)


async def on_thread(do: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> T:
    """Run a call on a thread of Octopus's own, in the context of the caller."""
    call = functools.partial(contextvars.copy_context().run, do, *args, **named)
    return await asyncio.get_running_loop().run_in_executor(threads(), call)
