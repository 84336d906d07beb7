"""JSON output. Fields are named like the Python attributes, times are ISO 8601 in UTC."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

import typer

from ...domain.message import Json, Message

# Control characters that a terminal obeys, and surrogates that no encoding can write.
_UNSAFE = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def to_plain(value: object) -> Json:
    """Convert dataclasses to dicts, and ids and times to text."""
    match value:
        case Message():
            return dict(value.body)
        case UUID():
            return str(value)
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case list() | tuple():
            return [to_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def print_json(value: object, *, indent: int | None = 2) -> None:
    """Print one JSON value. Without `indent` it is one line."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    text = json.dumps(to_plain(value), ensure_ascii="utf" not in encoding, indent=indent)
    typer.echo(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
