"""Reads fields of JSON files, with errors that name the field and its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from ..domain.errors import InvalidInput

T = TypeVar("T")


def field(record: Any, key: str, kind: type[T], where: str) -> T:
    """Return the value of `key`.

    :raises InvalidInput: when it is missing or no `kind`
    """
    if not isinstance(record, Mapping):
        raise InvalidInput(
            "data", f"{where} must be a JSON object: is this a file of another dataset?"
        )
    value = record.get(key)
    if not isinstance(value, kind):
        raise InvalidInput(
            "data", f"{where} must have {key!r} of type {kind.__name__}: is this another format?"
        )
    return value


def parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        at = f" (column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput("data", f"{where} must be JSON{at}") from error


def records(text: str) -> list[Any]:
    """Return the list in a file. A single object counts as a list of one."""
    found = parse(text, "the file")
    if isinstance(found, dict):
        return [found]
    if not isinstance(found, list):
        raise InvalidInput("data", "must be a list of JSON objects: is this another format?")
    return found


def names(record: Mapping[str, Any], key: str, where: str) -> frozenset[str]:
    """Return a list of ids; empty if the key is missing."""
    given = record.get(key, [])
    if not isinstance(given, list):
        raise InvalidInput("data", f"{where}: {key!r} must be a list of ids")
    return frozenset(map(str, given))


def texts(record: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Return a list of texts in its order; empty if the key is missing.

    :raises InvalidInput: when it is no list of texts, or one of them is blank
    """
    given = record.get(key, [])
    if not isinstance(given, list) or not all(isinstance(t, str) and t.strip() for t in given):
        raise InvalidInput("data", f"{where}: {key!r} must be a list of texts")
    return tuple(given)


def dates(record: Mapping[str, Any], key: str, where: str) -> tuple[date, ...]:
    """Return a list of days in its order; empty if the key is missing.

    :raises InvalidInput: when one is not written as in 2024-05-01
    """
    try:
        return tuple(map(date.fromisoformat, texts(record, key, where)))
    except ValueError as error:
        raise InvalidInput("data", f"{where}: {key!r} must be days such as 2024-05-01") from error


def optional_text(record: Mapping[str, Any], key: str, where: str) -> str | None:
    """Return a text, or a number as text; None if the key is missing or null.

    :raises InvalidInput: when it is anything else
    """
    given = record.get(key)
    if not isinstance(given, str | int | float | None):
        raise InvalidInput("data", f"{where}: {key!r} must be a text")
    return None if given is None else str(given)


def moment(text: Any, form: str, where: str) -> datetime:
    """Parse a time of the format `form` as UTC, because these files name no zone."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except (TypeError, ValueError) as error:
        raise InvalidInput("data", f"{where}: the date must have the format {form!r}") from error
