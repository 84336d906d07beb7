"""Reads the JSON body of a request, within limits that make a hostile body cheap to refuse.

The parser and the validator hold Python's global lock until they are done. So even on a thread of
its own, a body of a million values would delay every other request. The limits are checked before.
"""

from __future__ import annotations

import json
from typing import Any

from .problems import BODY_TOO_LARGE, FieldProblem, Refused

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
