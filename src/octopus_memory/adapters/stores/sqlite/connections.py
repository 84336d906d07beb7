"""The open connections of one store: to a file, or to a database in memory."""

from __future__ import annotations

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress


class Connections(ABC):
    """Lends connections to reads, and one to the group commit. Thread-safe."""

    @abstractmethod
    def take(self) -> sqlite3.Connection:
        """A connection for one call, which gives it back."""

    @abstractmethod
    def give_back(self, raw: sqlite3.Connection) -> None:
        """Roll back what the call left open, and let another call have the connection."""

    @abstractmethod
    def drop(self, raw: sqlite3.Connection) -> None:
        """End a call that failed: its error may keep a result that was not read to its end."""

    @abstractmethod
    def take_writer(self) -> sqlite3.Connection:
        """The connection of the group commit, which holds the write lock of the process."""

    @abstractmethod
    def drop_writer(self, raw: sqlite3.Connection) -> None:
        """End the writer's transaction, whatever its state."""

    @abstractmethod
    def close(self) -> None: ...


class FileConnections(Connections):
    """As many connections to a file as there are calls at once."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._idle: list[sqlite3.Connection] = []
        self._is_closed = False

    def take(self) -> sqlite3.Connection:
        # Pop without a check, because another thread could pop in between.
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def give_back(self, raw: sqlite3.Connection) -> None:
        try:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
        except sqlite3.Error:
            raw.close()
            raise
        self._idle.append(raw)
        if self._is_closed:
            self._close_idle()

    def drop(self, raw: sqlite3.Connection) -> None:
        # While a result is open, the connection reads an old snapshot.
        raw.close()

    def take_writer(self) -> sqlite3.Connection:
        return self._connect()

    def drop_writer(self, raw: sqlite3.Connection) -> None:
        # Closing rolls back an open transaction.
        raw.close()

    def close(self) -> None:
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        # Another thread may close them as well.
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class MemoryConnection(Connections):
    """The one connection to a database in memory, which calls use one after the other.

    The database lives as long as its connection.
    """

    def __init__(self, raw: sqlite3.Connection, lock: threading.RLock) -> None:
        """`lock` is the write lock of the process."""
        self._raw = raw
        self._lock = lock

    def take(self) -> sqlite3.Connection:
        self._lock.acquire()
        return self._raw

    def give_back(self, raw: sqlite3.Connection) -> None:
        try:
            self.drop_writer(raw)
        finally:
            self._lock.release()

    def drop(self, raw: sqlite3.Connection) -> None:
        self.give_back(raw)

    def take_writer(self) -> sqlite3.Connection:
        return self._raw

    def drop_writer(self, raw: sqlite3.Connection) -> None:
        if raw.in_transaction:
            raw.execute("ROLLBACK")

    def close(self) -> None:
        with self._lock:
            self._raw.close()
