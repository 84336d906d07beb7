"""SQL Server's words, and which error of ours they become."""

from __future__ import annotations

import pytest

from octopus_memory.adapters.stores.sqlserver import errors as sqlserver_errors
from octopus_memory.domain.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

DEADLOCK = "Transaction (Process ID 52) was deadlocked and has been chosen as the deadlock victim."


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Login failed for user 'ana'.", StoreUnavailable),
        ('Cannot open database "ana" requested by the login. The login failed.', StoreUnavailable),
        ("SSL Provider: certificate verify failed:self-signed certificate", StoreUnavailable),
        ("Client unable to establish connection; Login timeout expired", StoreUnavailable),
        ("TCP Provider: Error code 0x2746", StoreUnavailable),
        ("Failed to load the driver. Please read the documentation", StoreUnavailable),
        ("CREATE TABLE permission denied in database 'ana'.", StoreUnavailable),
        ("The SELECT permission was denied on the object 'ana'", StoreUnavailable),
        ("The INSERT permission was denied on the object 'ana'", StoreReadOnly),
        ('Failed to update database "ana" because the database is read-only.', StoreReadOnly),
        ("Could not allocate a new page for database 'ana'", StoreFull),
        ("Could not allocate space for object 'ana' in database 'ana'", StoreFull),
        ("The transaction log for database 'ana' is full due to 'LOG_BACKUP'.", StoreFull),
        ("Lock request time out period exceeded.", StoreBusy),
        ("Timeout expired; Query timeout expired", StoreBusy),
        (DEADLOCK, StoreBusy),
        ("Violation of UNIQUE KEY constraint 'x'. Cannot insert duplicate key 'ana'", StoreBusy),
        ("Invalid object name 'ana'.", StoreCorrupt),
        ("SQL Server detected a logical consistency-based I/O error: ana", StoreCorrupt),
        ("Something new about ana", StoreError),
    ],
)
def test_errors_are_ours_and_name_nobody(words: str, kind: type[StoreError]) -> None:
    found = sqlserver_errors.translate(words)
    assert type(found) is kind
    assert "ana" not in str(found)


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ("Violation of PRIMARY KEY constraint 'PK'. Cannot insert duplicate key", True),
        ("Cannot insert duplicate key row in object 'x' with unique index 'y'", True),
        ("Driver Error: Serialization failure; DDBC Error: irgendetwas", True),
        ("Snapshot isolation transaction aborted due to update conflict.", True),
        ("Cannot insert the value NULL into column 'x'", False),
        ("Lock request time out period exceeded.", False),
    ],
)
def test_only_a_race_is_run_again(words: str, lost: bool) -> None:
    assert sqlserver_errors.lost_race(words) is lost


def test_a_lost_connection_is_told_whatever_its_words() -> None:
    assert type(sqlserver_errors.translate("kein Wort", lost=True)) is StoreUnavailable
