"""`wrap`: a client of OpenAI's or Anthropic's that remembers.

    client = octopus_memory.wrap(OpenAI(), memory.scope(user="ana"), session_id="monday")

Its calls stay as they are. Each one stores what is new in its messages, adds the memory block to
its instructions, and stores the answer. The block is never stored, nor are instructions. Nothing
that goes wrong with the memory stops a call.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from ..domain.errors import InvalidInput
from ..domain.message import Json
from ..flow import Steps, arun, ask, run
from .client_apis import APIS, Api, Messages
from .client_streams import Keeper, StreamManager, as_called, remember, remember_bytes
from .client_tools import FORMS, MOST_ROUNDS, OwnTools
from .core import AnyScope, Conversation, OnError, last_said
from .repair import plain

C = TypeVar("C")
KEY = "octopus_key"
"""An argument of a wrapped call: a call that is repeated with the same key stores nothing twice."""
_RAW = "x-stainless-raw-response"
"""The header by which the clients' `with_raw_response` and `with_streaming_response` are told."""


def wrap(
    client: C,
    scope: AnyScope,
    *,
    session_id: str = "",
    budget_tokens: int | None = None,
    tools: bool = False,
    on_error: OnError = "continue",
) -> C:
    """A copy of a client that remembers one session of one user.

    With `tools`, the model is offered the tools of the memory beside the caller's own, and its
    calls of them are answered here. With `on_error="raise"`, an error of the memory is raised in
    place of the model's answer.

    :raises InvalidInput: for an object that is no client of OpenAI's or Anthropic's, for another
        object than a user's memory, and without a `session_id`
    """
    copied: Any = getattr(client, "copy", None)
    found = [api for api in APIS if copied is not None and api.fits(client)]
    if not found:
        raise InvalidInput(
            "client", "must be a client of the openai or anthropic package, sync or async"
        )
    talk = Conversation(
        scope, session_id, budget_tokens=budget_tokens, on_error=on_error, skip_seen=True
    )
    own = {api: OwnTools(FORMS[type(api).__name__], talk) for api in found} if tools else {}
    result: C = _wrapped(copied, found, talk, own)
    return result


def _wrapped(
    copied: Callable[..., Any], found: list[Api], talk: Conversation, own: dict[Api, OwnTools]
) -> Any:
    wrapped = copied()
    is_async = hasattr(type(wrapped), "__aenter__")
    for api in found:
        calls = api.resource(wrapped)
        for name in api.calls:
            if hasattr(calls, name):
                create = getattr(calls, name)
                steps = _call(create, api, talk, own.get(api))
                setattr(calls, name, as_called(create, steps, is_async=is_async))
        # OpenAI's helpers that stream go through `create`.
        if isinstance(api, Messages):
            calls.stream = _stream(calls.stream, api, talk)

    def again(**options: Any) -> Any:
        """Copy the client with other options; the copy remembers, too."""
        return _wrapped(functools.partial(copied, **options), found, talk, own)

    wrapped.copy = wrapped.with_options = again
    return wrapped


class _Asked:
    """A call: its messages, and the keys of what it stores."""

    def __init__(self, api: Api, named: dict[str, Any], talk: Conversation) -> None:
        self.key = named.pop(KEY, None)
        self.api, self.named, self.talk = api, api.whole(named), talk
        self.given = api.inputs(self.named)

    def keys(self, part: str, count: int) -> list[str | None] | None:
        return None if self.key is None else [f"{self.key}:{part}:{i}" for i in range(count)]

    @property
    def is_raw(self) -> bool:
        headers = self.named.get("extra_headers") or {}
        return any(name.lower() == _RAW for name in headers)

    def before(self) -> Steps[dict[str, Any]]:
        """Store the messages that are new; returns the arguments with the block in them."""
        block = yield from ask(self.talk, "block", last_said(self.given))
        yield from ask(self.talk, "add_new", self.given, self.keys("in", len(self.given)))
        return self.api.inject(self.named, block)

    def store(self, said: list[Json]) -> Future[bool]:
        """Begin to store an answer, without waiting."""
        return self.talk.hand_over(said, self.keys("out", len(said)))

    def keeper(self) -> Keeper:
        return Keeper(self.api.collector(), self.store, self.talk)

    def after(self, answer: Any) -> Future[bool] | None:
        """Remember an answer: at once, or when its stream or body is read."""
        if self.is_raw:
            return remember_bytes(answer, self.api, self.keeper(), self.store)
        if self.named.get("stream"):
            remember(answer, self.keeper())
            return None
        said = self.api.outputs(answer)
        if len(choices := self.api.choices(answer)) > 1:
            self.talk.offer(choices)
        return self.store(said) if said else None


def _call(
    create: Callable[..., Any], api: Api, talk: Conversation, own: OwnTools | None
) -> Callable[..., Steps[Any]]:
    def steps(**named: Any) -> Steps[Any]:
        asked = _Asked(api, named, talk)
        given = yield from asked.before()
        if own is None or asked.is_raw:
            answer = yield from _ask(create, given)
        else:
            answer = yield from _Rounds(create, given, api, own).answer()
        yield from ask(talk, "wait", talk.guarded(lambda: asked.after(answer)))
        return answer

    return steps


def _ask(create: Callable[..., Any], named: dict[str, Any]) -> Steps[Any]:
    """Ask the model."""
    return (yield lambda: create(**named), lambda: create(**named))


class _Rounds:
    """One answer, for which the model is asked again after it called memory's tools."""

    def __init__(
        self, create: Callable[..., Any], named: dict[str, Any], api: Api, own: OwnTools
    ) -> None:
        self._create, self._api, self._own = create, api, own
        self._named = own.offered(named)
        self._number = 0
        self._streamed, self._collector = own.stream(), api.collector()

    def answer(self) -> Steps[Any]:
        answer = yield from _ask(self._create, self._named)
        if self._named.get("stream"):
            is_async = hasattr(type(answer), "__anext__")
            events = answer._iterator  # noqa: SLF001 - the one place from which it reads
            answer._iterator = self._aevents(events) if is_async else self._events(events)  # noqa: SLF001
            return answer
        while self._number < MOST_ROUNDS:
            said = self._api.outputs(answer)
            if not self._own.calls(said):
                return answer
            again = yield from self._following(said)
            if again is None:
                break
            answer = again
        return self._own.without_own(answer)

    def _following(self, said: list[Json]) -> Steps[Any]:
        """Answer memory's calls and ask the model again; None where it is the caller's turn."""
        self._number += 1
        calls = self._own.calls(said) if self._number <= MOST_ROUNDS else []
        answers = yield from self._own.answer(calls)
        if not calls or not self._own.goes_on(said):
            if calls:
                self._own.keep(said, answers)
            return None
        self._named = self._own.followed(self._named, said, answers)
        is_last = self._number == MOST_ROUNDS
        named = self._own.last(self._named) if is_last else self._named
        return (yield from _ask(self._create, named))

    def _take(self, event: Any) -> list[Any]:
        self._collector.take(plain(event))
        return self._streamed.take(event)

    def _next(self) -> Steps[Any]:
        """The events of the next round; None after the last."""
        events = yield from self._following(self._collector.messages())
        if events is not None:
            self._streamed.next_round()
            self._collector = self._api.collector()
        return events

    def _events(self, events: Iterator[Any] | None) -> Iterator[Any]:
        while events is not None:
            for event in events:
                yield from self._take(event)
            events = run(self._next())
        yield from self._streamed.released()

    async def _aevents(self, events: AsyncIterator[Any] | None) -> AsyncIterator[Any]:
        while events is not None:
            async for event in events:
                for each in self._take(event):
                    yield each
            events = await arun(self._next())
        for each in self._streamed.released():
            yield each


def _stream(stream: Callable[..., Any], api: Messages, talk: Conversation) -> Callable[..., Any]:
    @functools.wraps(stream)
    def call(**named: Any) -> Any:
        asked = _Asked(api, named, talk)

        def begin() -> Steps[Any]:
            return stream(**(yield from asked.before()))

        return StreamManager(begin, asked.keeper())

    return call
