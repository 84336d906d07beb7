"""What people give to a face: database URLs, dates and times, and who they are."""

from __future__ import annotations

import getpass
import re
from datetime import UTC, datetime, time
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


def actor_of(face: str) -> str:
    """Return the name of the face and of the system's user who runs it."""
    try:
        return f"{face}:{getpass.getuser()}"
    except (OSError, KeyError):
        return face


def parse_moment(text: str, bare: time) -> datetime:
    """Parse a date or a time as UTC. A date gets the time `bare`.

    :raises ValueError: the text is neither; the message says how to write one
    """
    try:
        moment = datetime.fromisoformat(text)
        if len(text) <= len("2025-03-14"):
            moment = datetime.combine(moment.date(), bare)
        # A time without a zone is UTC.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text!r} is not a date or time: write 2025-03-14 or 2025-03-14T09:30+01:00"
        ) from error
