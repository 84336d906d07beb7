"""SQLite URLs: three slashes and a relative path, or four and an absolute one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ....domain.errors import InvalidSetting

_SLASHES = "write sqlite:///memory.db, with three slashes"


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def as_url(given: str | Path | None) -> str | None:
    """The URL of a database; text without a scheme is the path of an SQLite file."""
    if given is None:
        return None
    if isinstance(given, str) and _SCHEME.match(given):
        return given
    return f"sqlite:///{quote(str(given))}"


class SqliteLocation(NamedTuple):
    path: str
    read_only: bool


def read_url(url: str) -> SqliteLocation:
    """Parse a URL; `?mode=ro` opens read-only.

    :raises InvalidSetting: when the URL is malformed or would open another file than meant
    """
    try:
        split = urlsplit(url)
    except ValueError as error:
        raise InvalidSetting("database_url", f"is not a URL: {_SLASHES}") from error
    path, options = unquote(split.path.removeprefix("/")), parse_qs(split.query)
    problem = None
    if split.netloc:
        problem = f"has a host: {_SLASHES}"
    elif "#" in url:
        problem = "must not contain #, which ends the path of a URL: write %23"
    elif not path:
        problem = (
            "must name a file: write sqlite:///memory.db, or sqlite:///:memory: for one that "
            "is gone when it is closed"
        )
    elif path.split("/")[0] == "~":
        problem = "must not begin with ~, which is not expanded: write the whole path"
    elif "\0" in path:
        problem = "must not contain a NUL character"
    elif set(options) - {"mode"} or options.get("mode", ["ro"]) != ["ro"]:
        problem = "only ?mode=ro may follow an SQLite path"
    if problem is not None:
        raise InvalidSetting("database_url", problem)
    return SqliteLocation(path, read_only="mode" in options)
