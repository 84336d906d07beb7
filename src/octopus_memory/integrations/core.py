"""The part that every integration shares: whose memory, what is new, and the block to inject."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ..aio import AsyncMemoryScope
from ..domain.checks import parse_messages
from ..domain.episode import Turn, TurnHit, check_name
from ..domain.errors import OctopusError, SessionNotFound, ToolResultWithoutCall
from ..domain.message import AS_GIVEN, Json, Message, Role
from ..domain.policy import LARGEST_MESSAGE
from ..domain.replay import SessionReplay

if TYPE_CHECKING:
    from ..engine.scope import MemoryScope
    from ..remote import RemoteScope

log = logging.getLogger(__name__)
T = TypeVar("T")

AnyScope: TypeAlias = "MemoryScope | RemoteScope | AsyncMemoryScope"
"""A user's memory with one agent: embedded, behind a service, or awaited."""


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
    """A session of one user. The caller chooses both, never the model."""

    def __init__(
        self, scope: AnyScope, session_id: str, *, budget_tokens: int | None = None
    ) -> None:
        super().__init__()
        self.session_id = check_name("session_id", session_id)
        self.sync: Any = scope.sync if isinstance(scope, AsyncMemoryScope) else scope
        self.awaited = scope if isinstance(scope, AsyncMemoryScope) else AsyncMemoryScope(scope)
        self._budget = budget_tokens

    def block(self, query: str) -> str:
        """The memory block for what the user says now; "" where nothing fits or memory is away."""
        if not query.strip():
            return ""
        try:
            made = self.sync.context(query, session_id=self.session_id, budget_tokens=self._budget)
        except OctopusError as error:
            return _without(error)
        return str(made.text)

    async def ablock(self, query: str) -> str:
        """As `block`."""
        if not query.strip():
            return ""
        try:
            made = await self.awaited.context(
                query, session_id=self.session_id, budget_tokens=self._budget
            )
        except OctopusError as error:
            return _without(error)
        return made.text

    def tail(self, count: int) -> SessionReplay | None:
        """The last turns of the session; None for one that is new."""
        try:
            found: SessionReplay = self.sync.session(self.session_id, last=max(1, count))
        except SessionNotFound:
            return None
        return found

    async def atail(self, count: int) -> SessionReplay | None:
        """As `tail`."""
        try:
            return await self.awaited.session(self.session_id, last=max(1, count))
        except SessionNotFound:
            return None

    def add(
        self,
        messages: Sequence[Json],
        keys: Sequence[str | None] | None = None,
        *,
        index: bool | Sequence[bool] = True,
    ) -> None:
        """Store messages. A tool result whose call the session does not have stands alone."""
        if not messages:
            return
        try:
            self.sync.add(self.session_id, list(messages), keys=keys, index=index)
        except ToolResultWithoutCall:
            given = [alone(each) for each in messages]
            self.sync.add(self.session_id, given, keys=keys, index=index)

    async def aadd(
        self,
        messages: Sequence[Json],
        keys: Sequence[str | None] | None = None,
        *,
        index: bool | Sequence[bool] = True,
    ) -> None:
        """As `add`. A cancelled caller does not stop it: what was said is stored."""
        if messages:
            await self.finish(self._aadd(list(messages), keys, index))

    async def _aadd(
        self, messages: list[Json], keys: Sequence[str | None] | None, index: bool | Sequence[bool]
    ) -> None:
        try:
            await self.awaited.add(self.session_id, messages, keys=keys, index=index)
        except ToolResultWithoutCall:
            given = [alone(each) for each in messages]
            await self.awaited.add(self.session_id, given, keys=keys, index=index)


def _coroutine(work: Awaitable[T]) -> Coroutine[Any, Any, T]:
    async def run() -> T:
        return await work

    return run()


def _without(error: OctopusError) -> str:
    log.warning("the model is asked without its memory: %s", error.for_log())
    return ""


def parsed(messages: Sequence[Json]) -> list[Message]:
    """The turns that messages become."""
    return parse_messages(list(messages), max_bytes=LARGEST_MESSAGE) if messages else []


def last_said(messages: Sequence[Json]) -> str:
    """The words of the user's last message."""
    for message in reversed(parsed(messages)):
        if message.role is Role.USER and message.text.strip():
            return message.text
    return ""


def new_ones(given: Sequence[Json], stored: SessionReplay | None) -> list[Json]:
    """Return the messages that the session does not end with yet.

    Callers send the whole history, its end, or only the last message, so an overlap with the end
    of the session is already stored.
    """
    known = [] if stored is None else [_mark(turn.message) for turn in stored.turns]
    marks = [[_mark(message) for message in parsed([each])] for each in given]
    for count in range(len(given), 0, -1):
        head = [mark for some in marks[:count] for mark in some]
        if head and known[-len(head) :] == head:
            return list(given[count:])
    return list(given)


def _mark(message: Message) -> tuple[Any, ...]:
    """Equal for two messages that say the same, whatever else their client wrote beside it."""
    body = message.body
    calls = tuple(request["id"] for request in message.requests)
    item = (body.get(AS_GIVEN) or {}).get("item", {}) if not message.text and not calls else {}
    kept = (str(item.get("type")), str(item.get("id"))) if item else ()
    return message.role.value, message.text.strip(), calls, body.get("tool_call_id"), kept


def plain(value: Any) -> Any:
    """A client's object as JSON, whether it is a model of pydantic's or a dict already."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_none=True, warnings=False)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


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


def digest(value: Json) -> str:
    """Return a short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def alone(body: Mapping[str, Json]) -> dict[str, Json]:
    """A tool result that can stand without its call: a history that was cut may begin with one."""
    return {"function_name": "tool", **body} if body.get("role") == "tool" else dict(body)


def found_lines(hits: Sequence[TurnHit]) -> str:
    """Return the answer of a recall tool."""
    lines = [f"{hit.at:%Y-%m-%d} {hit.role}: {hit.text}" for hit in hits]
    return "\n".join(lines) or "Nothing was found."
