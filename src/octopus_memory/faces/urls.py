"""Database URLs, as people give them and as they may be shown."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlsplit


def as_url(db: str | None) -> str | None:
    """What `--db` gives, as a URL: a bare path is an SQLite file's."""
    if db is None or "://" in db:
        return db
    return f"sqlite:///{quote(str(Path(db).expanduser()))}"


def shown_url(url: str) -> str:
    """A database's URL without its password."""
    split = urlsplit(url)
    if split.password is None:
        return url
    host = split.netloc.rpartition("@")[2]
    return split._replace(netloc=f"{split.username or ''}:***@{host}").geturl()
