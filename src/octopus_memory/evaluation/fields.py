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


def moment(text: str, form: str, where: str) -> datetime:
    """A time written as `form` says; these files name no zone, so it is taken as UTC."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInput("data", f"{where} has a date that is not written {form!r}") from error
