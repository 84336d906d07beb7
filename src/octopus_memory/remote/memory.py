"""The remote memory: the declared calls, each as a request to the service."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from functools import cache, wraps
from types import GenericAlias, SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, get_type_hints
from urllib.parse import quote
from uuid import UUID, uuid4

from ..async_scope import AsyncMemoryScope
from ..calls import ScopeCalls, calls
from ..domain.context import MemoryContext
from ..domain.episode import (
    Episode,
    EpisodeSnippet,
    Page,
    Scope,
    Session,
    Turn,
    TurnHit,
    check_name,
)
from ..domain.erasure import EraseReceipt
from ..domain.errors import EpisodeNotFound, InvalidInput
from ..domain.facts import Fact
from ..domain.forget import ForgetPreview
from ..domain.ledger import EpisodeUses, Injection
from ..domain.policy import ConfigPart, MemoryConfig, change_of
from ..domain.replay import EpisodeReplay, SessionReplay
from ..domain.wire import Route, camel, optional, read, route_of
from ..flow import Steps, awaited, both
from . import arguments
from .arguments import Given
from .transport import Request, Transport, not_ours, segment

if TYPE_CHECKING:
    import httpx

_TENANT, _LIBRARY = "default", "library"
_FLUSH_SECONDS = 20.0
"""Longest wait of the service in one request."""
_NAMES = {"kinds": "kind", "turns": "turnIds", "facts": "factIds", "leave_out_session": "sessionId"}
"""Arguments that have another name on the wire than their own in camelCase."""


class RemoteMemory:
    """A memory behind a service. Thread-safe; `close` it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 3,
        client: httpx.Client | None = None,
    ) -> None:
        self._transport = Transport(url, api_key, timeout=timeout, retries=retries, client=client)

    def scope(
        self,
        *,
        tenant: str = _TENANT,
        agent: str = "default",
        user: str,
        actor: str = _LIBRARY,
    ) -> RemoteScope:
        """Return one user's memory with one agent, in the API key's tenant.

        The service's audit log records the credential, and after it the `actor` if one is given.
        """
        if tenant != _TENANT:
            raise InvalidInput("tenant", "must not be given: the API key determines it")
        names = {"tenant": tenant, "agent": agent, "user": user}
        texts = {k: str(v) if isinstance(v, UUID) else v for k, v in names.items()}
        named = None if actor == _LIBRARY else actor
        return RemoteScope(self._transport, Scope(**texts), actor=named)

    @both
    def config(self, agent: str) -> Steps[MemoryConfig]:
        """Return an agent's effective settings."""
        found = yield from self._transport.send(Request("GET", _config_path(agent)))
        return MemoryConfig.from_dict(found)

    @both
    def configure(
        self, agent: str, config: MemoryConfig | ConfigPart | Mapping[str, Any]
    ) -> Steps[None]:
        """Change an agent's settings for the API key's tenant: see `Memory.configure`."""
        change = Request("PUT", _config_path(agent), body=change_of(config))
        yield from self._transport.send(change)

    @both
    def config_sources(self, agent: str) -> Steps[dict[str, dict[str, str]]]:
        """Return the layer of each of an agent's settings: see `Memory.config_sources`."""
        asked = Request("GET", _config_path(agent), {"sources": "true"})
        found: dict[str, dict[str, str]] = (yield from self._transport.send(asked))["sources"]
        return found

    @both
    def reset_config(self, agent: str) -> Steps[None]:
        """Remove an agent's stored settings for the API key's tenant."""
        yield from self._transport.send(Request("DELETE", _config_path(agent)))

    @both
    def flush(self, timeout: float | None = None) -> Steps[bool]:
        """Wait until the service has nothing left to embed; False where that takes longer.

        Without a `timeout` it asks again until it is done.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _FLUSH_SECONDS if until is None else until - time.monotonic()
            seconds = max(0.0, min(left, _FLUSH_SECONDS))
            asked = Request("POST", "/flush", body={"seconds": seconds})
            if (yield from self._transport.send(asked))["done"]:
                return True
            if until is not None and time.monotonic() >= until:
                return False

    @both
    def close(self) -> Steps[None]:
        """Close the connections; those of other event loops end with their loops."""
        yield from self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _config_path(agent: str) -> str:
    return f"/agents/{segment(check_name('agent', agent))}/memory-config"


class RemoteScope(ScopeCalls):
    """`MemoryScope`, over HTTP. A call without a method here is sent as it is declared."""

    def __init__(self, transport: Transport, scope: Scope, *, actor: str | None = None) -> None:
        self._actor = None if actor is None else check_name("actor", actor)
        self._transport = transport
        self.scope = scope

    def __repr__(self) -> str:
        return f"RemoteScope({self.scope})"

    def _send(self, name: str, given: Given) -> Steps[Any]:
        """Send the request of a call, and read its answer by the type that is declared."""
        route, kind = route_of(calls()[name]), _answer(name)
        body = yield from self._transport.send(self._request(route, given))
        if body is None or kind is type(None):
            return None
        try:
            return read(kind, body if route.inside is None else body[route.inside])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # They are not the caller's fault.
            raise not_ours() from error

    def _request(self, route: Route, given: Given) -> Request:
        headers: dict[str, str] = {}
        if (actor := given.pop("actor", None) or self._actor) is not None:
            headers["Octopus-Actor"] = quote(check_name("actor", actor), safe=":@/")
        if "idempotency_key" in given:
            headers["Idempotency-Key"] = _key(given.pop("idempotency_key"))
        given = {"user_id": self.scope.user, **given}
        whose = {"agentId": self.scope.agent}
        if "{user_id}" not in route.path:
            whose["userId"] = given.pop("user_id")
        places = {name: each for name, each in given.items() if f"{{{name}}}" in route.path}
        path = route.path.format_map({name: segment(each) for name, each in places.items()})
        rest = {
            _NAMES.get(name) or camel(name): each
            for name, each in given.items()
            if name not in places
        }
        safe = rest.pop("safe", route.retry)
        query: dict[str, Any] = whose
        body: dict[str, Any] | None = rest
        if route.method in {"GET", "DELETE"}:
            query, body = whose | rest, None
        elif "userId" in whose:
            query, body = {}, whose | rest
        return Request(route.method, path, query, body, headers, safe, route.done)

    def _add(self, given: Given) -> Steps[Any]:
        where, route = given.pop("episode_or_session_id"), route_of(ScopeCalls.add)
        if isinstance(where, str):
            given["session_id"] = where
        else:
            given["episode_id"] = arguments.episode_id(where)
            route = route._replace(path="/episodes/{episode_id}/messages")
        sent = given["messages"]
        return arguments.stored(
            (yield from self._transport.send(self._request(route, given))), sent
        )

    def _close_episode(self, given: Given) -> Steps[Any]:
        again = {"episode_id": given["episode_id"]}
        closed = yield from self._send("close_episode", given)
        return closed or (yield from self._send("get", again)).episode

    def _recall(self, given: Given, name: str = "recall") -> Steps[Any]:
        return (yield from self._send(name, given)) if given["query"] else []

    def _recall_turns(self, given: Given) -> Steps[Any]:
        return self._recall(given, "recall_turns")

    def _turn(self, given: Given) -> Steps[Any]:
        if given["turn_id"] is None:
            return None
        found = yield from self._send("turn", given)
        return found[0] if found else None

    def _facts(self, given: Given) -> Steps[Any]:
        return [] if given["kinds"] == [] else (yield from self._send("facts", given))

    def _uses(self, given: Given) -> Steps[Any]:
        try:
            return (yield from self._send("uses", given))
        except EpisodeNotFound as error:
            return EpisodeUses(episode_id=UUID(str(error.episode_id)))


def _key(given: str | None) -> str:
    """The key of a write, which makes it safe to retry, for a header, which takes ASCII only."""
    key = str(uuid4()) if given is None else check_name("idempotency_key", given)
    return key if key.isascii() and key.isprintable() else segment(key)


_TYPES: dict[str, Any] = {
    each.__name__: each
    for each in (
        Episode,
        EpisodeReplay,
        EpisodeSnippet,
        EpisodeUses,
        Fact,
        ForgetPreview,
        Injection,
        MemoryContext,
        Page,
        Session,
        SessionReplay,
        Turn,
        TurnHit,
    )
} | {"EraseReceipt": EraseReceipt, "ForgetReceipt": EraseReceipt}
"""What answers are made of. The declarations name them without importing them."""


@cache
def _answer(name: str) -> Any:
    """The type of a call's answer; of one turn that may not be there, a list of it."""
    declared = SimpleNamespace(__annotations__={"answer": calls()[name].__annotations__["return"]})
    found = get_type_hints(declared, _TYPES)["answer"]
    return GenericAlias(list, (inner,)) if (inner := optional(found)) else found


class AsyncRemoteMemory:
    """`RemoteMemory` for asyncio. One object serves any number of event loops."""

    def __init__(self, sync: RemoteMemory) -> None:
        self.sync = sync

    @classmethod
    def connect(
        cls, url: str, *, api_key: str | None = None, timeout: float = 30.0, retries: int = 3
    ) -> Self:
        """Connect to a service, without the engine: this needs the extra `client` alone."""
        return cls(RemoteMemory(url, api_key, timeout=timeout, retries=retries))

    def scope(
        self,
        *,
        tenant: str = "default",
        agent: str = "default",
        user: str,
        actor: str = "library",
    ) -> AsyncMemoryScope:
        """See `RemoteMemory.scope`."""
        return AsyncMemoryScope(self.sync.scope(tenant=tenant, agent=agent, user=user, actor=actor))

    config = awaited(RemoteMemory.config)
    configure = awaited(RemoteMemory.configure)
    config_sources = awaited(RemoteMemory.config_sources)
    reset_config = awaited(RemoteMemory.reset_config)
    flush = awaited(RemoteMemory.flush)
    close = awaited(RemoteMemory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _sent(name: str, declared: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a declared call, for both kinds of callers."""
    signature = inspect.signature(declared)
    nullable = {each.name for each in signature.parameters.values() if each.default is None}
    own = vars(RemoteScope).get(f"_{name}")

    @both
    @wraps(declared)
    def steps(self: RemoteScope, *args: Any, **named: Any) -> Steps[Any]:
        bound = signature.bind(self, *args, **named)
        bound.apply_defaults()
        bound.arguments.pop("self")
        given = arguments.checked(name, dict(bound.arguments), nullable)
        return (yield from own(self, given) if own else self._send(name, given))

    return steps


for _name, _declared in calls().items():
    setattr(RemoteScope, _name, _sent(_name, _declared))
