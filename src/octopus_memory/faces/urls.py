"""Database URLs, as users give them and as output shows them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlsplit

from ..domain.errors import InvalidSetting

_SECRET = re.compile(r"(\b(?:ssl)?(?:password|pwd)=)[^&]*", re.IGNORECASE)


def as_url(db: str | None) -> str | None:
    """Return `--db` as a URL. A path stands for an SQLite file."""
    if db is None or "://" in db:
        return db
    if not db.strip():
        raise InvalidSetting("db", "must be a path or a URL")
    return f"sqlite:///{quote(str(Path(db).expanduser()))}"


def is_in_memory(url: str) -> bool:
    return url.partition("?")[0] == "sqlite:///:memory:"


def shown_url(url: str) -> str:
    """Return the URL of a database without its password."""
    try:
        split = urlsplit(url)
        password, host = split.password, split.netloc.rpartition("@")[2]
    except ValueError:
        return f"{url.partition(':')[0]}://***"
    if "@" in split.path:
        # The password has a slash that was not escaped.
        return f"{split.scheme}://***"
    query = _SECRET.sub(r"\1***", split.query)
    if password is None and query == split.query:
        return url
    netloc = split.netloc if password is None else f"{split.username or ''}:***@{host}"
    return split._replace(netloc=netloc, query=query).geturl()
