"""HTTP: JSON bodies and headers of requests; responses as JSON, tags, compression and streams."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from itertools import chain, islice
from typing import Any

from fastapi import Request, Response
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_jsonable_python
from starlette.responses import StreamingResponse
from starlette.types import Scope

from .problems import BODY_TOO_LARGE, MEDIA_TYPE, FieldProblem, Problem, Refused
from .responses import Form

_ZIP_FROM = 2_048
"""Bytes from which on a response is compressed. Shorter ones are sent faster as they are."""
_ZIP_LEVEL = 3
_GZIP = zlib.MAX_WBITS | 16
_LOST = "\ufffd\ufffd\ufffd".encode()
"""What pydantic writes for half a surrogate pair in a key. In a value it fails."""
_WORDS = {
    400: "The body is malformed.",
    401: "The credential is missing or not valid.",
    403: "The credential is for another agent or user, or its role may not do this.",
    404: "Not found.",
    408: "The body came too slowly.",
    409: "The request conflicts with the present state.",
    413: "The body or a message is too large.",
    415: "The Content-Type is not JSON.",
    422: "A value is not valid. `errors` names the field.",
    429: "Too many requests. Wait as long as `Retry-After` says.",
    503: "The database, a model or the issuer of JWTs cannot be reached. Try again.",
    507: "The database is full.",
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the documented problems of a route: the given codes, and those of every route."""
    every = {400, 401, 403, 408, 413, 415, 422, 429, 503, 507, *codes}
    return {
        code: {
            "description": _WORDS[code],
            "model": Problem,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for code in sorted(every)
    }


def header(scope: Scope, name: bytes) -> str | None:
    """Return the first header of this lower-case name; None if there is none."""
    for each, value in scope["headers"]:
        if each == name:
            text: str = value.decode("latin-1")
            return text
    return None


def answer(
    request: Request,
    form: Form,
    value: Any,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a value as a JSON response."""
    return sent(request, _written(form, value), status, headers or {})


def tagged(request: Request, form: Form, value: Any) -> Response:
    """Return a JSON response with an `ETag`, or 304 if the client has it already."""
    content = _written(form, value)
    tag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return sent(request, content, 200, headers)


def sent(
    request: Request,
    content: bytes,
    status: int,
    headers: dict[str, str],
    media_type: str = "application/json",
) -> Response:
    """Return a response, compressed if it is long. Runs on a thread, not on the event loop."""
    if len(content) >= _ZIP_FROM:
        headers = headers | {"Vary": "Accept-Encoding"}
        if _takes_gzip(request):
            content = zlib.compress(content, _ZIP_LEVEL, _GZIP)
            headers["Content-Encoding"] = "gzip"
    return Response(content, status, headers=headers, media_type=media_type)


def streamed(request: Request, lines: Iterator[str], media_type: str) -> Response:
    """Return a response that sends lines as they come, without holding all of them.

    Waits for the first line, because its error can still become the status of the response. A
    later error can only break off the body.
    """
    lines = chain(list(islice(lines, 1)), lines)
    headers = {"Vary": "Accept-Encoding"}
    if not _takes_gzip(request):
        return StreamingResponse(lines, media_type=media_type, headers=headers)
    headers["Content-Encoding"] = "gzip"
    return StreamingResponse(_zipped(lines), media_type=media_type, headers=headers)


def _zipped(lines: Iterator[str]) -> Iterator[bytes]:
    packer = zlib.compressobj(_ZIP_LEVEL, wbits=_GZIP)
    for line in lines:
        if packed := packer.compress(line.encode()):
            yield packed
    yield packer.flush()


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _written(form: Form, value: Any) -> bytes:
    writer, body = _writer(form.shape), form.write(value)
    try:
        content = writer.dump_json(body, by_alias=True)
    except PydanticSerializationError:
        content = _LOST
    if _LOST not in content:
        return content
    # Half a surrogate pair, which a client may have sent, can only be written escaped.
    plain = writer.dump_python(body, by_alias=True)
    return json.dumps(plain, default=to_jsonable_python).encode()


@cache
def _writer(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


MOST_VALUES = 200_000
"""Limit for the whole body: ten thousand messages with twenty values each."""
MOST_KEYS = 1_000
"""Limit for one object."""
MOST_ITEMS = 10_000
"""Limit for one list."""
DEEPEST = 128
"""Limit on levels: a message may have 100, and stands in a list in an object."""
_JSON = "application/json"


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type is `application/json`, or another that ends in `+json`."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == _JSON or (kind.startswith("application/") and kind.endswith("+json"))


def read_json(content: bytes, content_type: str | None) -> Any:
    """Parse a body. Return None for an empty one.

    :raises Refused: the body is not JSON, or over one of the limits
    """
    if not content:
        return None
    if not is_json(content_type):
        raise Refused(
            415,
            "unsupported-media-type",
            f"Content-Type must be {_JSON}. Send it as a header.",
        )
    _check_count(content)
    try:
        # From bytes the parser would guess other encodings, which the count does not handle.
        value = json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise _malformed("is not UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _malformed(f"is not valid JSON at {place}") from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        # Python refuses integers of very many digits.
        raise _malformed("has a number that is too long") from error
    _check_shape(content, value)
    return value


def _check_count(content: bytes) -> None:
    """Refuse a body with too many values without parsing it."""
    if _separators(content) < MOST_VALUES:
        return
    # Punctuation inside strings does not count. Every string ends with a quotation mark that no
    # backslash precedes, and each value has two strings at most, one of them its key.
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 4 * MOST_VALUES:
        raise _too_large(MOST_VALUES, "values")
    if sum(_separators(part) for part in bare.split(b'"')[::2]) >= MOST_VALUES:
        raise _too_large(MOST_VALUES, "values")


def _separators(content: bytes) -> int:
    """Count commas and opening brackets: at least the number of values less one."""
    return content.count(b",") + _brackets(content)


def _brackets(content: bytes) -> int:
    return content.count(b"[") + content.count(b"{")


def _check_shape(content: bytes, value: Any) -> None:
    """Refuse values that are nested too deep, and objects and lists that are too long."""
    if content.count(b",") < MOST_KEYS and _brackets(content) <= DEEPEST:
        return
    layer = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for each in layer:
            if isinstance(each, dict):
                if len(each) > MOST_KEYS:
                    raise _too_large(MOST_KEYS, "keys in one object")
                below += each.values()
            elif isinstance(each, list):
                if len(each) > MOST_ITEMS:
                    raise _too_large(MOST_ITEMS, "items in one list")
                below += each
        if not below:
            return
        layer = below
    raise _too_deep()


def _malformed(problem: str) -> Refused:
    return _refused(400, "invalid-input", problem)


def _too_large(most: int, what: str) -> Refused:
    return _refused(413, BODY_TOO_LARGE, f"must have at most {most:,} {what}")


def _too_deep() -> Refused:
    return _refused(422, "invalid-input", f"must be nested at most {DEEPEST} levels deep")


def _refused(status: int, name: str, problem: str) -> Refused:
    field = FieldProblem(field="body", problem=problem)
    return Refused(status, name, f"body: {problem}", fields=[field])
