"""The part that every integration shares: whose memory, what is new, and the block to inject."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from ..async_scope import AsyncMemoryScope
from ..calls import ScopeCalls
from ..domain.checks import parse_messages
from ..domain.episode import Turn, check_name
from ..domain.errors import (
    InvalidInput,
    InvalidMessage,
    InvalidSetting,
    MessageTooLarge,
    OctopusError,
    SessionNotFound,
    ToolResultWithoutCall,
)
from ..domain.message import AS_GIVEN, Json, Message, Role
from ..domain.policy import LARGEST_MESSAGE
from ..domain.replay import SessionReplay
from ..flow import Steps, arun, ask, awaits, both, run
from ..settings import Settings, load
from . import alignment, outbox
from .repair import digest, plain, reduced, repaired

__all__ = ["digest", "plain"]

log = logging.getLogger(__name__)
T = TypeVar("T")

AnyScope: TypeAlias = ScopeCalls | AsyncMemoryScope
"""A user's memory with one agent: embedded, behind a service, or awaited."""
OnError: TypeAlias = Literal["continue", "raise"]
"""What an integration does when memory fails: the agent goes on without it, or gets the error."""

_SLACK = 64
"""Turns of a session that are read beyond twice as many as a caller gives."""
_WIDER = 4
_MOST_SEEN = 20_000


@functools.cache
def time_limit() -> float:
    """Return the seconds that an agent waits for its memory: `context_timeout_seconds`."""
    try:
        return load().context_timeout_seconds
    except InvalidSetting as error:
        log.warning("the settings are not valid, so the usual time limit holds: %s", error)
        return Settings().context_timeout_seconds


class Unbroken:
    """Finishes work that was begun, although its caller is cancelled."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def finish(self, work: Awaitable[T]) -> T:
        """Await work that goes on when the caller is cancelled."""
        task = asyncio.ensure_future(_coroutine(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)


class Conversation(Unbroken):
    """A session of one user. The caller chooses both, never the model.

    Unless `on_error` is "raise", no error and no delay of the memory reaches the agent. With
    `skip_seen`, history that this object was given before is not stored again, even if the session
    does not have it any more, because it was removed.
    """

    def __init__(
        self,
        scope: AnyScope,
        session_id: str,
        *,
        budget_tokens: int | None = None,
        on_error: OnError = "continue",
        skip_seen: bool = False,
    ) -> None:
        super().__init__()
        if on_error not in ("continue", "raise"):
            raise InvalidInput("on_error", 'must be "continue" or "raise"')
        if not hasattr(scope, "recall"):
            raise InvalidInput(
                "scope",
                f'must be a user\'s memory, such as memory.scope(user="ana"), not a '
                f"{type(scope).__name__}",
            )
        if not session_id:
            raise InvalidInput(
                "session_id", 'must name the conversation, such as session_id="monday"'
            )
        self.session_id = check_name("session_id", session_id)
        self.sync: Any = scope.sync if isinstance(scope, AsyncMemoryScope) else scope
        self.awaited = scope if isinstance(scope, AsyncMemoryScope) else AsyncMemoryScope(scope)
        self.raises = on_error == "raise"
        self._budget, self._skip_seen = budget_tokens, skip_seen
        self._seen: dict[Hashable, None] = {}
        self._instead: dict[alignment.Mark, alignment.Mark] = {}
        """Choices of the last answer that were not stored, each with the one that was."""

    @both
    def block(self, query: str) -> Steps[str]:
        """The memory block for what the user says now; "" where nothing fits or memory is away."""
        if not query.strip():
            return ""
        named = {"session_id": self.session_id, "budget_tokens": self._budget}
        made = ask(self.sync, "context", query, **named)
        found = yield from ask(self, "within_limit", made, None)
        return "" if found is None else str(found.text)

    ablock = awaits(block)

    @both
    def within_limit(self, asked: Steps[T], instead: T) -> Steps[T]:
        """Return what memory answers within the time limit; else log why not, and go on."""
        if self.raises:
            return (yield from asked)
        try:
            found: T = yield (
                lambda: _in_time(asked),
                lambda: asyncio.wait_for(arun(asked), time_limit()),
            )
        except Exception as error:  # noqa: BLE001 - nothing of memory's may stop the agent
            _log("the model is asked without its memory", error)
            return instead
        return found

    awithin_limit = awaits(within_limit)

    @both
    def unless_failing(self, work: Steps[str], instead: str) -> Steps[str]:
        """Return what a call answers, however long it takes; `instead` where it fails.

        A cancelled caller does not stop it.
        """
        try:
            found: str = yield lambda: run(work), lambda: self.finish(arun(work))
        except Exception as error:
            if self.raises:
                raise
            _log("a tool of the memory failed", error)
            return instead
        return found

    aunless_failing = awaits(unless_failing)

    @both
    def tail(self, count: int | None = None) -> Steps[SessionReplay | None]:
        """The last turns of the session, or all; None for one that is new."""
        last = None if count is None else max(1, count)
        try:
            found: SessionReplay = yield from ask(self.sync, "session", self.session_id, last=last)
        except SessionNotFound:
            return None
        return found

    @both
    def add(
        self,
        messages: Sequence[Json],
        keys: Sequence[str | None] | None = None,
        *,
        index: bool | Sequence[bool] = True,
        at: Any = None,
    ) -> Steps[None]:
        """Store messages that are new, or that have keys.

        A cancelled caller does not stop it, nor the others: what was said is stored.
        """
        more = {"index": index, "at": at}
        yield from self._store(messages, lambda: self._add(list(messages), keys, **more))

    aadd = awaits(add)

    @both
    def add_new(
        self, messages: Sequence[Json], keys: Sequence[str | None] | None = None
    ) -> Steps[None]:
        """Store those of a caller's messages that the session does not have: see `alignment`.

        A message whose key is known is not stored again either, even if it was removed since.
        """
        yield from self._store(messages, lambda: self._add_new(list(messages), keys))

    aadd_new = awaits(add_new)

    @both
    def add_now(self, messages: Sequence[Json]) -> Steps[None]:
        """Store what is said now, without what the session ends with unanswered."""
        yield from self._store(messages, lambda: self._add_now(list(messages)))

    aadd_now = awaits(add_now)

    def _store(self, messages: Sequence[Json], store: Callable[[], Any]) -> Steps[None]:
        if not messages:
            return
        if self.raises:
            yield store, lambda: self._waited(outbox.on_thread(store))
        else:
            yield from ask(self, "wait", self.put(messages, store))

    @both
    def wait(self, settled: Future[Any] | None) -> Steps[None]:
        """Wait until something is stored, within the time limit; None is stored already."""
        if settled is not None:
            limit = None if self.raises else time_limit()
            with suppress(TimeoutError):
                yield lambda: settled.result(limit), lambda: self._waited(settled)

    async def _waited(self, settled: Future[Any]) -> None:
        """Wait, too. A cancelled caller does not stop the storing."""
        stored = asyncio.ensure_future(asyncio.wrap_future(settled))
        # Not `wait_for`, which would cancel it.
        done, _ = await asyncio.wait([stored], timeout=None if self.raises else time_limit())
        for each in done:
            await each

    def hand_over(
        self, messages: Sequence[Json], keys: Sequence[str | None] | None = None
    ) -> Future[Any]:
        """Begin to store messages, without waiting. With `on_error="raise"`, the result raises."""
        given = list(messages)

        def store() -> bool:
            self._add(given, keys)
            return True

        return outbox.on_thread(store) if self.raises else self.put(given, store)

    def guarded(self, do: Callable[[], T]) -> T | None:
        """Return what a call returns; None if it fails, unless errors are to be raised."""
        try:
            return do()
        except Exception as error:
            if self.raises:
                raise
            _log("the model is asked without its memory", error)
            return None

    def put(self, messages: Sequence[Json], store: Callable[[], Any]) -> Future[Any]:
        """Give work to the outbox, which does it after the session's other work."""
        memory = getattr(self.sync, "_memory", None)
        whose = self.sync.scope
        lane = (id(memory or type(self.sync)), whose.tenant, whose.agent, whose.user)
        out = outbox.Outgoing(
            store=store,
            messages=len(messages),
            size=lambda: len(json.dumps(messages, default=str)),
            report_lost=getattr(memory, "count_lost", None),
        )
        return outbox.OUTBOX.put((*lane, self.session_id), out)

    def _add(
        self,
        messages: list[Json],
        keys: Sequence[str | None] | None = None,
        **more: Any,
    ) -> None:
        """Store messages. A tool result whose call the session does not have stands alone."""
        named = {"keys": keys, **more}
        given = [repaired(each) for each in messages]
        try:
            self.sync.add(self.session_id, given, **named)
        except ToolResultWithoutCall:
            self.sync.add(self.session_id, [alone(each) for each in given], **named)
        except MessageTooLarge:
            smaller = [alone(reduced(each)) for each in given]
            self.sync.add(self.session_id, smaller, **named)

    def _add_new(self, messages: list[Json], keys: Sequence[str | None] | None) -> None:
        turns: list[Message] = []
        names: list[str | None] = []
        for number, each in enumerate(messages):
            parts = turns_in(each)
            turns += parts
            names += keys_of(keys[number] if keys else None, len(parts))
        marks = [alignment.mark(turn) for turn in turns]
        count = 2 * len(turns) + _SLACK
        stored = self._stored(count)
        known = list(map(_mark, stored))
        places, now = alignment.new_places(marks, known), alignment.start_of_now(marks, known)
        if len(stored) == count and any(at < now for at in places):
            # The history may go on before what was read.
            stored = self._stored(_WIDER * count)
            places = alignment.new_places(marks, list(map(_mark, stored)))
        seen: Collection[Hashable] = self._seen if self._skip_seen else ()
        new = [at for at in places if at >= now or marks[at] not in seen]
        for at in new:
            self._replace(self._instead.pop(marks[at], None), stored)
        if new:
            self._add([dict(turns[at].body) for at in new], [names[at] for at in new])
        if self._skip_seen:
            self._seen.update(dict.fromkeys(marks))
        while len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]

    def _add_now(self, messages: list[Json]) -> None:
        turns = [turn for each in messages for turn in turns_in(each)]
        marks = [alignment.mark(turn) for turn in turns]
        stored = [_mark(turn) for turn in self._stored(len(turns) + _SLACK)]
        count = alignment.repeated(marks, alignment.unanswered(stored))
        if rest := turns[count:]:
            self._add([dict(turn.body) for turn in rest])

    def offer(self, choices: Sequence[Json]) -> None:
        """Note answers of which the caller keeps one; the first of them is stored meanwhile."""
        first, *others = [alignment.mark(turn) for each in choices for turn in turns_in(each)]
        self._instead = dict.fromkeys(others, first)

    def _replace(self, unkept: alignment.Mark | None, stored: Sequence[Turn]) -> None:
        """Remove the answer in whose place the caller kept another."""
        gone = [turn for turn in stored if unkept is not None and _mark(turn) == unkept][-1:]
        if gone:
            self.sync.remove_turns(self.session_id, ids=gone)

    def _stored(self, count: int) -> Sequence[Turn]:
        found = self.tail(count)
        return () if found is None else found.turns


def _mark(turn: Turn) -> alignment.Mark:
    return alignment.mark(turn.message)


def _coroutine(work: Awaitable[T]) -> Coroutine[Any, Any, T]:
    async def run() -> T:
        return await work

    return run()


def _in_time(asked: Steps[T]) -> T:
    waiting = outbox.on_thread(lambda: run(asked))
    try:
        return waiting.result(time_limit())
    except Exception:
        waiting.cancel()
        raise


def _log(what: str, error: Exception) -> None:
    reason = error.for_log() if isinstance(error, OctopusError) else type(error).__name__
    log.warning("%s: %s", what, reason)


def parsed(messages: Sequence[Json]) -> list[Message]:
    """The turns that messages become."""
    return parse_messages(list(messages), max_bytes=LARGEST_MESSAGE) if messages else []


def turns_in(message: Json) -> list[Message]:
    """Return the turns of a message; what the memory cannot store becomes what it can."""
    given = repaired(message)
    try:
        return parsed([given])
    except InvalidMessage:
        return parsed([reduced(given)])


def last_said(messages: Sequence[Json]) -> str:
    """The words of the user's last message."""
    for given in reversed(messages):
        for message in reversed(turns_in(given)):
            if message.role is Role.USER and message.text.strip():
                return message.text
    return ""


class Call(NamedTuple):
    """A tool call of a framework's message."""

    id: str
    name: str
    arguments: Json


class Result(NamedTuple):
    """A tool result of a framework's message."""

    id: str
    text: str
    is_error: bool = False


def turns_of(
    form: str,
    item: Json,
    *,
    role: str,
    text: str,
    calls: Sequence[Call] = (),
    results: Sequence[Result] = (),
) -> list[dict[str, Json]]:
    """Return the turns of a framework's message: one for each tool result, and one for the rest.

    The first turn keeps the message as it came, for `items_of`. A message without text, calls and
    results is replayed and never recalled.
    """
    made: list[dict[str, Json]] = [
        {"role": "tool", "tool_call_id": id_ or "call", "content": said, "is_error": is_error}
        for id_, said, is_error in results
    ]
    if calls:
        asked = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in calls
        ]
        made.append({"role": "assistant", "content": text or None, "tool_calls": asked})
    elif text or not made:
        made.append({"role": role, "content": text})
    for number, body in enumerate(made):
        body[AS_GIVEN] = {"form": form} if number else {"form": form, "item": item}
    if not (text or calls or results):
        made[0][AS_GIVEN]["opaque"] = True
    return made


def keys_of(key: str | None, count: int) -> list[str | None]:
    """Return the keys of the turns of a message."""
    return [key and (f"{key}#{number}" if number else key) for number in range(count)]


def items_of(form: str, turns: Sequence[Turn]) -> list[Json]:
    """Return the messages that turns were stored from, as the framework gave them."""
    kept = [turn.message.body.get(AS_GIVEN) or {} for turn in turns]
    return [each["item"] for each in kept if each.get("form") == form and "item" in each]


def alone(body: Mapping[str, Json]) -> dict[str, Json]:
    """A tool result that can stand without its call: a history that was cut may begin with one."""
    return {"function_name": "tool", **body} if body.get("role") == "tool" else dict(body)
