"""A stand-in for SQL Server's driver: takes the T-SQL of the store, and runs it on SQLite.

No SQL Server can be had everywhere the tests run. This one knows the few forms that the store
writes, refuses every other, and keeps to what the real one documents: the order of ids, the type
that every parameter is declared to have, how many parameters a statement may have. The suite
against a real server is in tests/stores.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from typing import Any, TypeAlias
from uuid import UUID

import mssql_python
from mssql_python import exceptions
from mssql_python.constants import ConstantsDDBC as Odbc

Declared: TypeAlias = tuple[int, int, int]
_MOST_PARAMETERS = 2_100
_MOST_ROWS = 1_000
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")
_DUPLICATE = (
    "[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]Violation of PRIMARY KEY constraint "
    "'PK'. Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (0x616E61)."
)


def in_server_order(value: UUID) -> bytes:
    """SQL Server compares the groups of an id from the last to the first (`SqlGuid.CompareTo`)."""
    kept = value.bytes_le
    return bytes(kept[place] for place in (10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3))


def _from_server_order(ordered: bytes) -> UUID:
    return UUID(bytes_le=ordered[12:] + ordered[10:12] + ordered[8:10] + ordered[6:8] + ordered[:6])


sqlite3.register_converter("UNIQUEIDENTIFIER", _from_server_order)
sqlite3.register_converter("BIT", lambda raw: raw == b"1")


class Server:
    """A database, its locks by name, and the next error to raise."""

    def __init__(self) -> None:
        self.data = sqlite3.connect(
            ":memory:",
            isolation_level=None,
            check_same_thread=False,
            detect_types=sqlite3.PARSE_DECLTYPES,
        )
        self.turn = threading.RLock()
        self.locks: dict[str, Connection] = {}
        self.seen: list[str] = []
        self.declared: list[tuple[str, list[Declared]]] = []
        """Statements with the declared type of each parameter."""
        self.snapshots = 0
        self.tables = 0
        self.recovery_model = 3
        self.reseeded: dict[str, int] = {}
        """Identity seeds of empty tables; the double starts at 1 anyway."""
        self.failures: list[tuple[str, Exception]] = []
        self.down: Exception | None = None
        self.says_first = False
        """True if the server sends a message, as a result without rows, before an answer."""
        self.gone = False
        """True if every connection has lost its server; the driver notices when it closes one."""

    def close(self) -> None:
        self.data.close()

    def fail(self, at: str, words: str, kind: str = "OperationalError", driver: str = "") -> None:
        """Raise this error at the next statement that contains `at`, or at the next "COMMIT"."""
        error = getattr(exceptions, kind)(driver or "General error", f"[Microsoft][x]{words}")
        self.failures.append((at, error))

    def facts(self) -> dict[str, Any]:
        """Answers of the server to queries that contain these words."""
        return {
            "@@version": "Microsoft SQL Server 2022 - 16.0.4000.1 (X64)",
            "schema_name()": "dbo",
            "test max support": "test max support",
            "fn_listextendedproperty": 1,
            "snapshot_isolation_state": self.snapshots,
            "recovery_model": self.recovery_model,
            "sys.tables": self.tables,
            "SUM(CAST(size AS BIGINT))": 1_024,
            "SELECT file_id FROM sys.database_files": 2,
            "DBCC SHRINKFILE": 2,
        }

    def check(self, statement: str) -> None:
        self.seen.append(statement)
        for place, (at, error) in enumerate(self.failures):
            if at in statement:
                del self.failures[place]
                raise error


class Driver:
    """As much of the module `mssql_python` as SQLAlchemy asks for."""

    apilevel, threadsafety, paramstyle = "2.0", 1, "pyformat"
    __version__ = mssql_python.__version__
    Binary = staticmethod(mssql_python.Binary)
    STRING, BINARY = mssql_python.STRING, mssql_python.BINARY
    NUMBER, DATETIME = mssql_python.NUMBER, mssql_python.DATETIME
    Warning, Error = exceptions.Warning, exceptions.Error
    InterfaceError, DatabaseError = exceptions.InterfaceError, exceptions.DatabaseError
    DataError, OperationalError = exceptions.DataError, exceptions.OperationalError
    IntegrityError, InternalError = exceptions.IntegrityError, exceptions.InternalError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError

    def __init__(self, server: Server) -> None:
        self._server = server

    def pooling(self, **_options: Any) -> None: ...

    def connect(self, words: str, **options: Any) -> Connection:
        assert "Server=" in words
        assert options["timeout"] > 0
        if self._server.down:
            raise self._server.down
        return Connection(self._server)


class Connection:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.autocommit = False
        self.timeout = 0
        self.isolation = ""
        self.reading: Cursor | None = None
        self._begun = False

    def cursor(self) -> Cursor:
        return Cursor(self)

    def begin(self) -> None:
        """Lock the server; a second connection of the same thread shares the lock.

        A reader of a snapshot waits for nobody.
        """
        if self.isolation == "SNAPSHOT":
            return
        self.server.turn.acquire()
        if self._begun or self.server.data.in_transaction:
            self.server.turn.release()
            return
        self._begun = True
        self.server.data.execute("BEGIN")

    def commit(self) -> None:
        if self._begun:
            try:
                self.server.check("COMMIT")
            except exceptions.Error:
                self.rollback()
                raise
        self._end("COMMIT")

    def rollback(self) -> None:
        self._end("ROLLBACK")

    def _end(self, how: str) -> None:
        if self._begun:
            self._begun = False
            self.server.data.execute(how)
            self.server.turn.release()

    def close(self) -> None:
        self.rollback()
        for name in [name for name, owner in self.server.locks.items() if owner is self]:
            del self.server.locks[name]
        if self.server.gone:
            raise exceptions.OperationalError(
                "Communication link failure", "[Microsoft][x]TCP Provider: Error code 0x68"
            )


class Cursor:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self._rows: list[tuple[Any, ...]] = []
        self._sizes: list[Declared] = []
        self._next: list[tuple[Any, ...]] | None = None

    def close(self) -> None:
        self._rows = []

    def is_read(self) -> bool:
        return not self._rows

    def setinputsizes(self, sizes: list[Declared]) -> None:
        """Declare types for the next statement only, as the driver does."""
        self._sizes = sizes

    def execute(self, statement: str, parameters: Any = ()) -> None:
        server, other = self.connection.server, self.connection.reading
        assert other in (None, self) or other.is_read(), "the connection is busy with other rows"
        self.connection.reading = self
        sizes, self._sizes = self._sizes, []
        server.check(statement)
        assert "READPAST" not in statement or "READCOMMITTEDLOCK" in statement, (
            "READPAST needs READCOMMITTEDLOCK where READ_COMMITTED_SNAPSHOT is on"
        )
        self._give([], None)
        answer = _of_the_server(self.connection, statement, parameters)
        if answer is not None:
            self._next = answer if server.says_first and "SELECT @answer" in statement else None
            if self._next is None:
                self._give(answer, ["answer"])
            return
        check_view(server, statement)
        if not self.connection.autocommit:
            self.connection.begin()
        if parameters:
            server.declared.append((statement, sizes))
        done = self._run(server, to_sqlite(statement), _values(statement, parameters, sizes))
        if done.description is None:
            self.rowcount = done.rowcount
        else:
            rows = [tuple(map(_read, row)) for row in done.fetchall()]
            self._give(rows, [column[0] for column in done.description])

    @staticmethod
    def _run(server: Server, statement: str, values: dict[str, Any]) -> sqlite3.Cursor:
        with server.turn:
            try:
                return server.data.execute(statement, values)
            except sqlite3.IntegrityError as error:
                raise exceptions.IntegrityError(
                    "Integrity constraint violation", _DUPLICATE
                ) from error

    def _give(self, rows: list[tuple[Any, ...]], names: list[str] | None) -> None:
        self._rows = rows
        self.description = names and [(name, *[None] * 6) for name in names]

    def nextset(self) -> bool:
        if self._next is None:
            return False
        answer, self._next = self._next, None
        self._give(answer, ["answer"])
        return True

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows


_BARE = re.compile(r"\b(WHERE|AND|OR) [\w.\[\]]+\s*(AND|OR|\)|$)")
"""A column used as a condition, which T-SQL does not allow."""
_SILENT = re.compile(
    r"SET (NOCOUNT OFF|LANGUAGE \w+|LOCK_TIMEOUT \d+|IDENTITY_INSERT \w+ (ON|OFF))"
    r"|CHECKPOINT|UPDATE STATISTICS \w+"
    r"|ALTER (TABLE|INDEX ALL ON) \w+ REBUILD"
    r"|ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH NO_WAIT"
    r"|DECLARE @name SYSNAME = DB_NAME\(\); EXEC sp_clean_db_free_space @dbname = @name"
)


_TSQL_WORDS = frozenset(
    {
        *("active", "and", "archived", "as", "binary", "bit", "case", "cast", "char", "convert"),
        *("create", "datalength", "datetimeoffset", "deleted", "else", "end", "exists", "from"),
        *("is", "join", "lower", "not", "null", "on", "or", "select", "substring", "then"),
        *("varchar", "view", "when", "where"),
    }
)


def check_view(server: Server, statement: str) -> None:
    """Check what SQLite takes unread until it is selected from: the columns of a view, its words.

    SQLite has no binary texts, so that the double cannot select from it.
    """
    if not statement.lstrip().upper().startswith("CREATE VIEW"):
        return
    tables = dict(re.findall(r"(?:FROM|JOIN) (\w+) (\w)\b", statement))
    columns = {
        alias: {row[1] for row in server.data.execute(f"PRAGMA table_info({table})")}
        for table, alias in tables.items()
    }
    for alias, column in re.findall(r"\b([a-z])\.\[?(\w+)\]?", statement):
        assert column in columns[alias], f"the view reads {alias}.{column}, which is no column"
    names = re.findall(r"AS (\w+),?$", statement, re.MULTILINE)
    assert len(set(names)) == len(names), "a column of the view has a name twice"
    bare = re.sub(r"'[^']*'|\b[a-z]\.\[?\w+\]?|AS (?!\w+\(|bit)\w+|\d+", " ", statement)
    known = _TSQL_WORDS | tables.keys() | set(tables.values()) | {"octopus_episodes_readable"}
    unknown = set(re.findall(r"[a-z_]+", bare.lower())) - known
    assert not unknown, f"T-SQL has no {sorted(unknown)}"
    assert not re.search(r"\|\||::|\b(TRUE|FALSE)\b", bare), "T-SQL writes + and bits"


def _of_the_server(
    connection: Connection, statement: str, parameters: Any
) -> list[tuple[Any, ...]] | None:
    """Return the answer to a query about the server itself."""
    server = connection.server
    if _is_set(connection, statement):
        return []
    if "applock" in statement.lower():
        return _app_lock(connection, statement)
    if "CHECKIDENT" in statement or "IDENT_CURRENT" in statement:
        return _identity(server, statement, parameters)
    if "sys.objects" in statement:
        found = "SELECT name FROM sqlite_master WHERE name = 'octopus_schema'"
        return server.data.execute(found).fetchall()
    return next(([(value,)] for part, value in server.facts().items() if part in statement), None)


def _is_set(connection: Connection, statement: str) -> bool:
    """Return True for a statement that sets something and has no result."""
    if level := re.fullmatch(r"SET TRANSACTION ISOLATION LEVEL (.+)", statement):
        connection.isolation = level[1]
    elif statement == "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON":
        connection.server.snapshots = 1
    else:
        return _SILENT.fullmatch(statement) is not None
    return True


def _identity(server: Server, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
    if reseed := re.fullmatch(r"DBCC CHECKIDENT \('(\w+)', RESEED, (\d+)\)", statement):
        _reseed(server, reseed[1], int(reseed[2]))
        return []
    return [(_last_number(server, parameters[0]) or 1,)]


def _last_number(server: Server, table: str) -> int | None:
    """Return the last identity; None before the first row."""
    found = server.data.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
    return next((number for (number,) in found), None)


def _reseed(server: Server, table: str, number: int) -> None:
    if _last_number(server, table) is None:
        server.reseeded[table] = number
    else:
        change = "UPDATE sqlite_sequence SET seq = ? WHERE name = ?"
        server.data.execute(change, (number, table))


def _app_lock(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    locks = connection.server.locks
    if name := re.search(r"sp_getapplock @Resource = N'([^']+)'", statement):
        return [(0 if locks.setdefault(name[1], connection) is connection else -1,)]
    if name := re.search(r"APPLOCK_MODE\('public', N'([^']+)'", statement):
        return [("Exclusive" if locks.get(name[1]) is connection else "NoLock",)]
    [name] = re.findall(r"sp_releaseapplock @Resource = N'([^']+)'", statement)
    if locks.get(name) is not connection:
        raise exceptions.ProgrammingError(
            "Syntax error or access violation",
            f"[Microsoft][x]Cannot release the application lock (resource: '{name}')",
        )
    del locks[name]
    return []


def _values(statement: str, parameters: Any, sizes: list[Declared]) -> dict[str, Any]:
    places, page = _places(statement)
    assert places == len(parameters), "every parameter has a place"
    assert len(sizes) == places, "the driver would type a parameter by its value"
    if page is not None:
        assert parameters[page] > 0, "no page has less than one row"
    kept = [_write(value, *size) for value, size in zip(parameters, sizes, strict=True)]
    return {f"p{place}": value for place, value in enumerate(kept, 1)}


@lru_cache(512)
def _places(statement: str) -> tuple[int, int | None]:
    """Return the number of parameters, and the index of the page size."""
    assert not re.search(r"%\(\w+\)s", statement), "the driver reads names in quadratic time"
    places = statement.count("?")
    assert places < _MOST_PARAMETERS, "the server takes no more parameters"
    page = statement.find("FETCH FIRST ? ROWS")
    return places, None if page < 0 else statement.count("?", 0, page)


_INTEGERS = {
    Odbc.SQL_SMALLINT.value: 2**15,
    Odbc.SQL_INTEGER.value: 2**31,
    Odbc.SQL_BIGINT.value: 2**63,
}


def _write(value: Any, kind: int, size: int, digits: int) -> Any:
    """Return the value as stored; raises for one that the driver could not bind to its type."""
    if value is None:
        return None
    match Odbc(kind):
        case Odbc.SQL_GUID:
            assert isinstance(value, bytes), "the driver binds an id of a declared type as bytes"
            return in_server_order(UUID(bytes_le=value))
        case Odbc.SQL_DATETIMEOFFSET:
            assert value.utcoffset() == timedelta(0), "times are kept in UTC"
            assert (size, digits) == (33, 6)
            return value.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
        case Odbc.SQL_BIT:
            assert isinstance(value, bool), "the driver binds nothing else to a bit"
        case Odbc.SQL_VARBINARY:
            assert isinstance(value, bytes)
            assert len(value) <= (size or len(value)), "the driver would cut it"
        case Odbc.SQL_WVARCHAR:
            assert isinstance(value, str)
            length = len(value.encode("utf-16-le", "surrogatepass")) // 2
            assert length <= (size or length), "the driver would cut it"
        case _:
            assert -_INTEGERS[kind] <= value < _INTEGERS[kind], "the driver would cut it"
    return value


def _read(value: Any) -> Any:
    if isinstance(value, str) and _TIME.fullmatch(value):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


@lru_cache(512)
def to_sqlite(statement: str) -> str:
    """Translate the statement for SQLite; raises for a form that the store does not write."""
    numbers = count(1)
    text = re.sub(r"\?", lambda _: f":p{next(numbers)}", statement)
    text = re.sub(r" WITH \((UPDLOCK|HOLDLOCK)[A-Z, ]*\)", "", text)
    text = re.sub(r"\(SELECT TOP (\d+) ([^()]*)\)", r"(SELECT \2 LIMIT \1)", text)
    match text.split(maxsplit=1)[0].upper():
        case "SELECT":
            text = _select(text)
        case "INSERT" | "UPDATE":
            text = _output_last(text)
        case "DELETE":
            text = re.sub(
                r"^DELETE TOP \((\d+)\) FROM (\w+)( WHERE .+)?$",
                r"DELETE FROM \2 WHERE rowid IN (SELECT rowid FROM \2\3 LIMIT \1)",
                text,
                flags=re.DOTALL,
            )
        case "CREATE":
            text = _create(text)
        case "ALTER":
            text = re.sub(r" COLLATE \w+|\(max\)", "", text.replace(" ADD ", " ADD COLUMN "))
        case "DROP":
            text = text.partition(" ON ")[0]
        case word:
            raise AssertionError(f"the store does not write {word}")
    assert not _BARE.search(text), f"a column is no condition: {text}"
    assert not re.search(r" IS (?!NULL|NOT NULL)", text), f"nothing IS but NULL: {text}"
    for word in (" TOP ", "FETCH FIRST", "OUTPUT", "MERGE", "FOR UPDATE", "LIMIT ALL"):
        assert word not in text, f"{word} in {text}"
    return text


def _select(text: str) -> str:
    page = re.compile(r"OFFSET (:\w+|0) ROWS\s+FETCH FIRST (:\w+) ROWS ONLY")
    text = page.sub(r"LIMIT \2 OFFSET \1", text)
    top = re.compile(r"^SELECT (DISTINCT )?TOP (\d+) (.+)$", re.DOTALL)
    return top.sub(r"SELECT \1\3 LIMIT \2", text)


def _output_last(text: str) -> str:
    assert text.count("), (") < _MOST_ROWS, "VALUES takes no more rows"
    found = re.search(r" OUTPUT (inserted\.[\w\[\]]+(?:, inserted\.[\w\[\]]+)*)", text)
    if found is None:
        return text
    text = text.replace(found[0], "", 1)
    return f"{text} RETURNING {found[1].replace('inserted.', '')}"


def _create(text: str) -> str:
    text = re.sub(r" COLLATE \w+|(NON)?CLUSTERED |\(max\)", "", text)
    key = re.search(r"(\[?\w+\]?) BIGINT NOT NULL IDENTITY", text)
    if key is not None:
        text = text.replace(key[0], f"{key[1]} INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL")
        text = re.sub(r"PRIMARY KEY \(\S+\),?\s*", "", text)
        text = re.sub(r",\s*\)\s*$", ")", text)
    return text
