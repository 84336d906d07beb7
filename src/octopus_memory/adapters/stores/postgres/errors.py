"""PostgreSQL errors as `StoreError`s. No message contains SQL, a parameter or a stored value."""

from __future__ import annotations

import re
from typing import Final

import sqlalchemy as sa

from ....domain.errors import (
    StoreAnswerLost,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

SERIALIZATION, DEADLOCK, DUPLICATE = "40001", "40P01", "23505"
CHANGED_PLAN, NOT_PREPARED = "0A000", "26000"
OUTDATED: Final = frozenset({CHANGED_PLAN, NOT_PREPARED})
"""SQLSTATEs of stale prepared statements. Retry on a new connection."""
LOCK_TIMEOUT: Final = "55P03"
RACES: Final = frozenset({SERIALIZATION, DEADLOCK, DUPLICATE}) | OUTDATED
"""SQLSTATEs caused by a concurrent transaction. Retry the whole transaction."""

_Kind = tuple[type[StoreError], str]
_RESTORE = "restore the database from a backup"
_BUSY: _Kind = (StoreBusy, "it conflicts with other transactions; try again")
_GONE: _Kind = (
    StoreUnavailable,
    "the server closed the connection; nothing was changed, try again",
)
_BROKEN: _Kind = (StoreCorrupt, _RESTORE)
# The statements fit the schema, so a table or column must have been changed.
_CHANGED: _Kind = (StoreCorrupt, f"the tables were changed by hand: {_RESTORE}")

_CODES: dict[str, _Kind] = {
    SERIALIZATION: _BUSY,
    DEADLOCK: _BUSY,
    DUPLICATE: _BUSY,
    LOCK_TIMEOUT: _BUSY,
    CHANGED_PLAN: _BUSY,
    NOT_PREPARED: _BUSY,
    "57014": (StoreBusy, "it took longer than statement_timeout_seconds; try again, or raise it"),
    "53300": (StoreBusy, "the server has no free connection: lower pool_size, or raise its limit"),
    "53200": (StoreBusy, "the server is out of memory; try again"),
    "53100": (StoreFull, "the server's disk is full; nothing was changed, free some space"),
    "25006": (StoreReadOnly, "this server or role is read-only: connect to the primary"),
    "42501": (StoreReadOnly, "the role lacks a right: grant what the guide on PostgreSQL lists"),
    "58030": (StoreUnavailable, "the server's disk failed; nothing was changed"),
    "58P01": _BROKEN,
    "XX001": _BROKEN,
    "XX002": _BROKEN,
    "42P01": _CHANGED,
    "42703": _CHANGED,
    "42P05": (
        StoreError,
        "a pooler mixes up connections: use one that supports prepared statements (PgBouncer 1.21)",
    ),
    "42804": _CHANGED,
}
_CLASSES: dict[str, _Kind] = {"08": _GONE, "57": _GONE}
_NODE = re.compile(r"(?:remote node \S+@|connections to the node |could not connect to )(\S+:\d+)")
_NODE_LOST_IN_COMMIT = "could not commit transaction for shard"
_LOST_ANSWER = (
    "the connection was lost before the server confirmed the write: check it, or repeat the "
    "call with the same idempotency key, which stores nothing twice"
)


def translate(error: sa.exc.DBAPIError, where: str) -> StoreError:
    code = getattr(error.orig, "sqlstate", None)
    if code is None or error.connection_invalidated:
        return _unreachable(error, where)
    if node := silent_node(error.orig):
        return StoreUnavailable(
            f"{where}: its node {node} does not answer, so that calls about that node's users "
            "fail; nothing was changed, try again"
        )
    if _NODE_LOST_IN_COMMIT in str(error.orig):
        return StoreAnswerLost(f"{where}: {_LOST_ANSWER}")
    kind, advice = _CODES.get(code) or _CLASSES.get(code[:2]) or (StoreError, "see its log")
    return kind(f"{where}: {type(error.orig).__name__} ({code}): {advice}")


def _unreachable(error: sa.exc.DBAPIError, where: str) -> StoreError:
    if answer_lost(error):
        return StoreAnswerLost(f"{where}: {_LOST_ANSWER}")
    if error.connection_invalidated:
        return StoreUnavailable(f"{where}: {_GONE[1]}")
    # The message of a failed connection contains no more than the address.
    said = " ".join(str(error.orig).split())
    return StoreUnavailable(
        f"{where}: {said} (check that the server runs, and database_url: host, port, name, role)"
    )


def answer_lost(error: sa.exc.DBAPIError) -> bool:
    """True if the connection was lost during a commit, which is sent without a statement."""
    return error.connection_invalidated and error.statement is None


def is_lost(error: BaseException | None) -> bool:
    """True if an established connection was lost."""
    return isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated


def is_outdated(error: BaseException | None) -> bool:
    """True if a connection's prepared statements are stale."""
    return getattr(error, "sqlstate", None) in OUTDATED


def is_end_of_connection(error: BaseException) -> bool:
    """True if the server closes the connection after this error."""
    ends = (getattr(error, "sqlstate", None) or "").startswith(("08", "57P0"))
    return ends and silent_node(error) is None


def silent_node(error: BaseException | None) -> str | None:
    """The node of a distributed database that the coordinator could not reach, as `host:port`."""
    if not (getattr(error, "sqlstate", None) or "").startswith("08"):
        return None
    found = _NODE.search(str(error))
    return found and found[1]


def is_race(error: sa.exc.DBAPIError) -> bool:
    """True if a concurrent transaction caused the failure, and nothing was committed."""
    code = getattr(error.orig, "sqlstate", None)
    return code in RACES or (is_lost(error) and not answer_lost(error))
