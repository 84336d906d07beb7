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
        # 596, 6005, 983, 976, 40197, 40143, 952, 922, 4221: the server moves, stops or restarts.
        (
            "Cannot continue the execution because the session is in the kill state.",
            StoreUnavailable,
        ),
        ("SHUTDOWN is in progress.", StoreUnavailable),
        (
            (
                "Unable to access availability database 'ana' because the database replica is not "
                "in the PRIMARY or SECONDARY role."
            ),
            StoreUnavailable,
        ),
        (
            (
                "The target database, 'ana', is participating in an availability group and is "
                "currently not accessible for queries."
            ),
            StoreUnavailable,
        ),
        (
            (
                "The service has encountered an error processing your request. Please try again. "
                "Error code 40166."
            ),
            StoreUnavailable,
        ),
        ("Database 'ana' is in transition. Try the statement later.", StoreUnavailable),
        (
            "Database 'ana' is being recovered. Waiting until recovery is finished.",
            StoreUnavailable,
        ),
        # 701, 802, 1204, 8645, 8651, 10928, 10929, 40501, 49918, 49920: it has too much to do.
        (
            "There is insufficient system memory in resource pool 'ana' to run this query.",
            StoreBusy,
        ),
        ("There is insufficient memory available in the buffer pool.", StoreBusy),
        (
            (
                "The instance of the SQL Server Database Engine cannot obtain a LOCK resource at "
                "this time. Rerun your statement when there are fewer active users."
            ),
            StoreBusy,
        ),
        (
            (
                "A timeout occurred while waiting for memory resources to execute the query in "
                "resource pool 'ana' (2). Rerun the query."
            ),
            StoreBusy,
        ),
        (
            (
                "Could not perform the operation because the requested memory grant was not "
                "available in resource pool 'ana' (2). Rerun the query."
            ),
            StoreBusy,
        ),
        (
            "Resource ID: 1. The request limit for the database is 60 and has been reached.",
            StoreBusy,
        ),
        (
            (
                "Resource ID: 1. The request minimum guarantee is 0, maximum limit is 60 and the "
                "current usage for the database is 50. However, the server is currently too busy "
                "to support requests greater than 40 for this database."
            ),
            StoreBusy,
        ),
        ("The service is currently busy. Retry the request after 10 seconds.", StoreBusy),
        ("Cannot process request. Not enough resources to process request.", StoreBusy),
        ("Cannot process request. Too many operations in progress for subscription.", StoreBusy),
        # 3958 and 3966: tempdb has no room for versions of rows.
        (
            (
                "Transaction aborted when accessing versioned row in table 'ana' in database 'x'. "
                "Requested versioned row was not found. Your tempdb is probably out of space."
            ),
            StoreFull,
        ),
        (
            (
                "Transaction is rolled back when accessing version store. It was earlier marked as "
                "victim when the version store was shrunk due to insufficient space in tempdb."
            ),
            StoreFull,
        ),
        ("Something new about ana", StoreError),
    ],
)
def test_server_errors_become_octopus_errors_without_names(
    words: str, kind: type[StoreError]
) -> None:
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
def test_only_a_race_is_retried(words: str, lost: bool) -> None:
    assert sqlserver_errors.lost_race(words) is lost


def test_a_lost_connection_is_told_whatever_its_words() -> None:
    assert type(sqlserver_errors.translate("kein Wort", lost=True)) is StoreUnavailable


@pytest.mark.parametrize(
    ("words", "ended"),
    [
        ("Cannot continue the execution because the session is in the kill state.", True),
        ("SHUTDOWN is in progress.", True),
        ("Unable to access availability database 'x' because the database replica is not", True),
        ("The service has encountered an error processing your request.", True),
        ("There is insufficient system memory in resource pool 'x' to run this query.", False),
        ("Lock request time out period exceeded.", False),
    ],
)
def test_a_session_that_the_server_ends_is_known(words: str, ended: bool) -> None:
    assert sqlserver_errors.ended(words) is ended
