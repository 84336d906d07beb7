"""Streamable HTTP: the answer to one POST. No request depends on an earlier one.

Revisions with `initialize` get a session id from it, which is only a name: each process of a
service takes the id that another gave, and none keeps it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Mapping
from uuid import uuid4

from ...domain.message import Json
from ..exchange import Exchange, Reply
from .protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MODERN,
    NAMED,
    UNKNOWN_METHOD,
    VERSION_KEY,
    VERSIONS,
    InvalidRequest,
    answer,
    is_id,
    unsupported,
    version_of,
)
from .state import State

MOST_IN_BATCH = 20
_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_METHOD = "mcp-method"
_NAME = "mcp-name"
_UNIQUE = frozenset({_SESSION, _VERSION, _METHOD, _NAME})
_BATCHES = "2025-03-26"
"""The only revision with batches. It is assumed where the header is missing, which it lacks."""
_SESSION_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_NO_SESSION = 404
"""HTTP's status as the code of an error: those of the protocol are all below -32000."""


def exchange(request: Exchange) -> Reply:
    """Answer a POST."""
    try:
        return _answered(request)
    except InvalidRequest as error:
        status = error.code if error.code > 0 else 400
        return Reply(status=status, body=error.to_json(_id(request.message)))


def _answered(request: Exchange) -> Reply:
    counts = Counter(name for name, _ in request.headers)
    for name in _UNIQUE:
        if counts[name] > 1:
            raise InvalidRequest(HEADER_MISMATCH, f"{name} must be sent once")
    headers = dict(request.headers)
    version = headers.get(_VERSION)
    if version in MODERN or _names_version(request.message):
        return _modern(request, headers)
    if version is not None and version not in VERSIONS:
        raise unsupported(version)
    return _with_session(request, headers)


def _names_version(message: Json) -> bool:
    return isinstance(message, dict) and version_of(message.get("params")) is not None


def _id(message: Json) -> Json:
    """Return the id for an error; None if the message has no valid one."""
    id_ = message.get("id") if isinstance(message, dict) else None
    return id_ if is_id(id_) else None


def _modern(request: Exchange, headers: Mapping[str, str]) -> Reply:
    """Answer a request that names its revision itself."""
    message = request.message
    if not _is_request(message):
        if _is_notification(message):
            return Reply(status=202)
        raise _not_a_request()
    assert isinstance(message, dict)
    _check_headers(message, headers)
    response = _respond(_state(request), request, message)
    error = response.get("error")
    if not isinstance(error, dict):
        return Reply(status=200, body=response)
    return Reply(status=404 if error["code"] == UNKNOWN_METHOD else 400, body=response)


def _check_headers(message: Mapping[str, Json], headers: Mapping[str, str]) -> None:
    """Check that the headers repeat the body, because proxies may decide by them.

    :raises InvalidRequest: a header is missing or says something else
    """
    method, params = message["method"], message.get("params")
    version = version_of(params)
    if version is None:
        raise InvalidRequest(INVALID_PARAMS, f"_meta: {VERSION_KEY} must be given")
    for name, value in ((_VERSION, version), (_METHOD, method)):
        if headers.get(name) != value:
            raise InvalidRequest(HEADER_MISMATCH, f"{name} must be as in the body")
    field = NAMED.get(method) if isinstance(method, str) else None
    named = params.get(field) if field is not None and isinstance(params, dict) else None
    if named is not None and _decoded(headers.get(_NAME)) != named:
        raise InvalidRequest(HEADER_MISMATCH, f"{_NAME} must be the {field} in the body")


def _decoded(value: str | None) -> str | None:
    """Return the value of a header that may be encoded; None if it is missing or malformed."""
    encoded = None if value is None else _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _with_session(request: Exchange, headers: Mapping[str, str]) -> Reply:
    """Answer a message of a revision that begins with `initialize`."""
    session_id = headers.get(_SESSION)
    if session_id is not None and _SESSION_ID.fullmatch(session_id) is None:
        raise InvalidRequest(_NO_SESSION, "Mcp-Session-Id must be one that initialize returned")
    message = request.message
    if isinstance(message, list):
        return _batch(request, message, headers)
    if not _is_message(message):
        raise _not_a_request()
    if not _is_request(message):
        return Reply(status=202)
    assert isinstance(message, dict)
    if message["method"] != "initialize":
        return Reply(status=200, body=_respond(_state(request, session_id), request, message))
    # A configured session needs no other.
    given = {} if request.session_id is not None else {"Mcp-Session-Id": str(uuid4())}
    return Reply(status=200, body=_respond(_state(request), request, message), headers=given)


def _batch(request: Exchange, messages: list[Json], headers: Mapping[str, str]) -> Reply:
    if headers.get(_VERSION, _BATCHES) != _BATCHES:
        raise InvalidRequest(INVALID_REQUEST, "a body must be one message, not a batch")
    if not 1 <= len(messages) <= MOST_IN_BATCH:
        raise InvalidRequest(INVALID_REQUEST, f"a batch must have 1 to {MOST_IN_BATCH} messages")
    responses: list[Json] = []
    state = _state(request, headers.get(_SESSION))
    for message in messages:
        if not _is_message(message) or _stands_alone(message):
            responses.append(_not_a_request().to_json(_id(message)))
        elif _is_request(message):
            assert isinstance(message, dict)
            responses.append(_respond(state, request, message))
    return Reply(status=200, body=responses) if responses else Reply(status=202)


def _stands_alone(message: Json) -> bool:
    """Return whether a message must not be in a batch."""
    is_first = isinstance(message, dict) and message.get("method") == "initialize"
    return is_first or _names_version(message)


def _respond(state: State, request: Exchange, message: dict[str, Json]) -> dict[str, Json]:
    response = answer(lambda: state, message, request.role)
    assert response is not None
    return response


def _state(request: Exchange, session_id: str | None = None) -> State:
    session_id = request.session_id or session_id
    return State(
        request.scope,
        role=request.role,
        session_id=session_id,
        is_lasting=session_id is not None,
    )


def _is_message(message: Json) -> bool:
    """Return whether a message is a request, a notification, or a response."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return False
    if "method" in message:
        return _is_request(message) or _is_notification(message)
    return is_id(message.get("id")) and ("result" in message or "error" in message)


def _is_request(message: Json) -> bool:
    return _has_method(message) and isinstance(message, dict) and is_id(message.get("id"))


def _is_notification(message: Json) -> bool:
    return _has_method(message) and isinstance(message, dict) and "id" not in message


def _has_method(message: Json) -> bool:
    return (
        isinstance(message, dict)
        and message.get("jsonrpc") == "2.0"
        and isinstance(message.get("method"), str)
    )


def _not_a_request() -> InvalidRequest:
    return InvalidRequest(INVALID_REQUEST, "the body must be one JSON-RPC request or notification")
