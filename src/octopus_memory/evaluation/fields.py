"""Reading others' JSON: what is missing or of another kind is named, and where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from ..domain.errors import InvalidInput

T = TypeVar("T")


def field(record: Any, key: str, kind: type[T], where: str) -> T:
    """The value of `key`.

    :raises InvalidInput: when it is missing or no `kind`
    """
    if not isinstance(record, Mapping):
        raise InvalidInput("data", f"{where} is no JSON object: is it another dataset's file?")
    value = record.get(key)
    if not isinstance(value, kind):
        raise InvalidInput(
            "data", f"{where} has no {key!r} that is a {kind.__name__}: is it another format?"
        )
    return value


def parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        at = f" (column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput("data", f"{where} is no JSON{at}") from error


def records(text: str) -> list[Any]:
    """The file as a list; one object alone is a list of one."""
    found = parse(text, "the file")
    if isinstance(found, dict):
        return [found]
    if not isinstance(found, list):
        raise InvalidInput("data", "the file is no list of JSON objects: is it another format?")
    return found


def names(record: Mapping[str, Any], key: str, where: str) -> frozenset[str]:
    """A list of ids, or none."""
    given = record.get(key, [])
    if not isinstance(given, list):
        raise InvalidInput("data", f"{where} has {key!r} that is no list of ids")
    return frozenset(map(str, given))


def texts(record: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Return a list of texts in its order; empty where the key is missing.

    :raises InvalidInput: when it is no list of texts, or one of them is blank
    """
    given = record.get(key, [])
    if not isinstance(given, list) or not all(isinstance(t, str) and t.strip() for t in given):
        raise InvalidInput("data", f"{where} has {key!r} that is no list of texts")
    return tuple(given)


def optional_text(record: Mapping[str, Any], key: str, where: str) -> str | None:
    """Return a text, or a number as text; None where the key is missing or null.

    :raises InvalidInput: when it is anything else
    """
    given = record.get(key)
    if not isinstance(given, str | int | float | None):
        raise InvalidInput("data", f"{where} has {key!r} that is no text")
    return None if given is None else str(given)


def moment(text: Any, form: str, where: str) -> datetime:
    """A time written as `form` says; these files name no zone, so it is taken as UTC."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except (TypeError, ValueError) as error:
        raise InvalidInput("data", f"{where} has a date that is not written {form!r}") from error
