"""A shared implementation for a synchronous and an asynchronous interface.

A generator yields calls, each as a pair of twins, and is sent their results; `run` makes the
synchronous call of each pair, and `arun` awaits the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

from .core import Conversation

T = TypeVar("T")
Call: TypeAlias = tuple[Callable[[], Any], Callable[[], Awaitable[Any]]]
Steps: TypeAlias = Generator[Call, Any, T]


def run(steps: Steps[T]) -> T:
    """The result of the steps, by synchronous calls."""
    answer = None
    while True:
        try:
            call, _ = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = call()


async def arun(steps: Steps[T]) -> T:
    """As `run`, by awaited calls."""
    answer = None
    while True:
        try:
            _, call = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = await call()


def ask(talk: Conversation, name: str, *arguments: Any, **named: Any) -> Steps[Any]:
    """Call a method of the conversation's scope, by its name."""
    call, awaited = getattr(talk.sync, name), getattr(talk.awaited, name)
    return (yield lambda: call(*arguments, **named), lambda: awaited(*arguments, **named))
