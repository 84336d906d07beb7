"""Routes as Octopus has them: functions that know who asks and run on a thread."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.routing import APIRoute
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from .headers import header
from .threads import Threads

PREFIX = "/api/octopus"
_CALLER = "caller"
_JSON = "application/json"


class _Name(PathConvertor):
    """Whatever stands there, slashes and line breaks, too."""

    regex = "(?s:.*)"


register_url_convertor("name", _Name())


def router(tag: str) -> APIRouter:
    """The routes of one subject, for `APIRouter.routes` of the application."""
    return APIRouter(prefix=PREFIX, tags=[tag], route_class=Route)


class Route(APIRoute):
    """Gives its function the `caller` that was let in, where it asks for one.

    A dependency of the framework's would be looked at anew for each request, and its pool of
    threads costs more than a write.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, _called(endpoint), **options)
        self._by_the_framework = self.app
        needs = self.dependant
        others = needs.query_params or needs.cookie_params or needs.dependencies
        if len(needs.body_params) == 1 and not others:
            self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A plain JSON body is read by what the framework worked out when the route was made.

        It would work that out again for each request. Whatever is not plain, or not right, is left
        to it, so that it is refused in the same words.
        """
        request = Request(scope, receive)
        try:
            content = await request.body()
        except ClientDisconnect as error:
            raise HTTPException(400, "the body ended before it was whole") from error
        values = self._read(scope, content)
        if values is None:
            await self._by_the_framework(scope, _again(content, receive), send)
        else:
            response: Response = await self.endpoint(request, **values)
            await response(scope, receive, send)

    def _read(self, scope: Scope, content: bytes) -> dict[str, Any] | None:
        """The function's values; None where the framework should have a look."""
        needs = self.dependant
        if (header(scope, b"content-type") or "").partition(";")[0] != _JSON:
            return None
        try:
            given = [(needs.body_params[0], json.loads(content))]
        except (ValueError, RecursionError):
            return None
        given += [(each, scope["path_params"][each.alias]) for each in needs.path_params]
        given += [
            (each, header(scope, each.alias.lower().encode())) for each in needs.header_params
        ]
        values = {}
        for field, value in given:
            values[field.name], wrong = field.validate(value)
            if wrong:
                return None
        return values


def _again(content: bytes, receive: Receive) -> Receive:
    """A body that was read already, for whoever reads it next."""
    left: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _called(endpoint: Callable[..., Any]) -> Callable[..., Awaitable[Response]]:
    signature = inspect.signature(endpoint)
    known = _CALLER in signature.parameters
    waits = inspect.iscoroutinefunction(endpoint)

    @wraps(endpoint)
    async def call(request: Request, **values: Any) -> Response:
        if known:
            values[_CALLER] = request.scope["state"]["principal"]
        threads: Threads = request.scope["app"].state.threads
        answered: Response
        if waits:
            answered = await endpoint(request, **values)
        else:
            answered = await threads.run(partial(endpoint, request, **values))
        return answered

    shown = [each for each in signature.parameters.values() if each.name != _CALLER]
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return call
