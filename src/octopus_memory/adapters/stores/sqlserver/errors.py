"""SQL Server errors as `StoreError`s.

The driver reports the server's text and the class of an error, but not its number. So each session
asks for English, and this module matches the text. It is not passed on, because it may contain a
name or a value.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from ....domain.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_RACES = re.compile(
    # Texts of 2627, 2601, 1205, 3960 and 3961.
    r"Violation of (PRIMARY|UNIQUE) KEY constraint|Cannot insert duplicate key row"
    r"|chosen as the deadlock victim"
    r"|Snapshot isolation transaction .*(update conflict|modified by a DDL statement)",
    re.IGNORECASE | re.DOTALL,
)
_SERIALIZATION = "Serialization failure"
"""The driver's text for SQLSTATE 40001."""

Kinds: TypeAlias = tuple[tuple[str, type[StoreError], str], ...]

_NOT_OPENED: Kinds = (
    (
        r"Failed to load the driver",
        StoreUnavailable,
        (
            "the SQL Server driver could not be loaded: install the system libraries it needs "
            "(Debian and Ubuntu: apt-get install libltdl7 libkrb5-3)"
        ),
    ),
    (
        r"Cannot open database|Database .* does not exist",
        StoreUnavailable,
        "there is no such database, or the login may not use it: create it, and a user in it",
    ),
    (
        r"Login failed|Invalid authorization specification|access token",
        StoreUnavailable,
        "SQL Server refused the login: check the user and password of the database URL",
    ),
    (
        r"certificate|SSL Provider",
        StoreUnavailable,
        (
            "the server's certificate is not trusted: install it, or add "
            "?TrustServerCertificate=yes to the database URL where the network is safe"
        ),
    ),
)
_ENDED = re.compile(
    # Texts of 596, 6005, 983, 976, 40197 (also 40143 and 40540), 952 and 922.
    r"session is in the kill state|SHUTDOWN is in progress|Unable to access availability database"
    r"|participating in an availability group|encountered an error processing your request"
    r"|is in transition\. Try|is being recovered",
    re.IGNORECASE,
)
_RESTARTING = (
    "SQL Server ended the session, because it restarts, fails over to another replica, or was told "
    "to: try again in a minute"
)
_NOT_DONE: Kinds = (
    (
        r"(INSERT|UPDATE|DELETE) permission was denied|is read-only",
        StoreReadOnly,
        "the login may not write: grant it INSERT, UPDATE and DELETE on the octopus_ tables",
    ),
    (
        r"permission was denied|permission denied|do(es)? not have permission",
        StoreUnavailable,
        "the login lacks a permission: docs/howto/sql-server.md says what it needs",
    ),
    (
        r"snapshot isolation is not allowed",
        StoreUnavailable,
        "run ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON in the database",
    ),
    (
        (
            r"Could not allocate (a new page|space)|transaction log for database .* is full"
            r"|reached its size quota"
        ),
        StoreFull,
        "the database or its log is full, and nothing was changed: free some space and try again",
    ),
    (
        # Texts of 3958, 3966 and 3967.
        r"versioned row was not found|version store",
        StoreFull,
        (
            "tempdb has no room for the versions of rows that reads need: give it more, or end the "
            "transaction that has been open for long"
        ),
    ),
    (
        # Texts of 701, 802, 1204, 8645, 8651, 10928, 10929, 40501, 49918, 49919 and 49920.
        (
            r"insufficient (system )?memory|cannot obtain a LOCK resource"
            r"|waiting for memory resources|requested memory grant"
            r"|limit for the database is|maximum limit is|is currently (too )?busy"
            r"|Cannot process (create or update )?request"
        ),
        StoreBusy,
        (
            "the server has no memory, locks or connections left for this, and nothing was "
            "changed: try again later, or make fewer calls at once"
        ),
    ),
    (
        (
            r"Lock request time out|Query timeout|Timeout expired|Operation canceled|deadlock"
            r"|resource limit|duplicate key|Snapshot isolation transaction"
        ),
        StoreBusy,
        "it conflicts with other work on the server, and nothing was changed: try again",
    ),
    (
        r"consistency-based I/O error|Invalid (object|column) name",
        StoreCorrupt,
        "a table is damaged or changed: run DBCC CHECKDB, or restore the database from a backup",
    ),
)
_UNREACHABLE = re.compile(
    r"Login timeout|establish connection|Connection (not open|failure|timeout|operation failed)"
    r"|Communication link|TCP Provider|network-related|closed connection|is not currently available"
    r"|server rejected|Disconnect error|broken",
    re.IGNORECASE,
)
_DOWN = (
    "SQL Server cannot be reached: check the host and port of the database URL, and that the "
    "server runs"
)
IN_DOUBT = (
    "the connection to SQL Server was lost while a write was being confirmed: it may or may not "
    "be stored. Repeat it with the same idempotency key"
)


def translate(words: str, *, lost: bool = False) -> StoreError:
    """The `StoreError` for a driver message; `lost` if the connection is known to be lost."""
    known = _reason(words, _NOT_OPENED)
    if known is None and ended(words):
        known = StoreUnavailable(_RESTARTING)
    if known is None and (lost or _UNREACHABLE.search(words)):
        known = StoreUnavailable(_DOWN)
    return (
        known
        or _reason(words, _NOT_DONE)
        or StoreError(
            f"SQL Server refused a statement ({_driver_words(words)}): look into the server's log, "
            "and check that the login may do this"
        )
    )


def _driver_words(words: str) -> str:
    """The driver's own words for the SQLSTATE, without the server's, which may hold a value."""
    found = re.match(r"Driver Error: ([\w ,/()-]{1,80})", words)
    return found[1].strip() if found else "it gave no reason"


def _reason(words: str, kinds: Kinds) -> StoreError | None:
    for pattern, kind, message in kinds:
        if re.search(pattern, words, re.IGNORECASE):
            return kind(message)
    return None


def ended(words: str) -> bool:
    """True if the server ended the session, so that a new connection is needed."""
    return _ENDED.search(words) is not None


def lost_race(words: str) -> bool:
    """True if a concurrent transaction caused the failure, and nothing was committed."""
    return _SERIALIZATION in words or _RACES.search(words) is not None
