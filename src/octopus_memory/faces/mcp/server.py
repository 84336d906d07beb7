"""The MCP server on standard input and output: one JSON message a line, in both directions."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from ...domain.message import Json
from .catalogue import reads_only
from .protocol import answer, is_id, needs_memory
from .state import State

if TYPE_CHECKING:
    from ...engine.scope import MemoryScope
    from ...remote import RemoteScope

log = logging.getLogger(__name__)

_CALLS_AT_ONCE = 8
_POLL_SECONDS = 0.5
_CHUNK_BYTES = 65_536


def serve(opening: AbstractContextManager[MemoryScope | RemoteScope]) -> None:
    """Serve until standard input ends, the client is gone, or SIGTERM or SIGINT comes.

    The memory is opened after the first answer, so that a client need not wait for it to learn
    what the server offers.
    """
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    source, sink = _take_pipes()
    with _closing(sink), Connection(sink, ended) as connection:
        # A daemon, because nothing can interrupt its wait for the next line.
        threading.Thread(target=connection.read, args=(_lines(source),), daemon=True).start()
        _wait(connection.begun)
        with opening as scope, connection.using(State(scope)):
            _wait(ended)


@contextmanager
def _closing(sink: BinaryIO) -> Iterator[None]:
    try:
        yield
    finally:
        # Closing writes what is left, to a client that may be gone.
        with suppress(OSError):
            sink.close()


def _wait(event: threading.Event) -> None:
    # A signal that another thread receives does not end a wait without a timeout.
    while not event.wait(_POLL_SECONDS):
        pass


def _take_pipes() -> tuple[int, BinaryIO]:
    """Take standard input and output for the protocol.

    What a library prints then goes to standard error, and what it reads is empty.
    """
    source, sink = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return source, os.fdopen(sink, "wb")


def _lines(source: int) -> Iterator[bytes]:
    """Read lines without a file object, whose lock the waiting thread would hold at exit."""
    parts: list[bytes] = []
    while chunk := os.read(source, _CHUNK_BYTES):
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for other in others:
            yield b"".join(parts)
            parts = [other]
    yield b"".join(parts)


class Connection:
    """Answers the messages of one client."""

    def __init__(self, sink: BinaryIO, ended: threading.Event) -> None:
        self.begun = threading.Event()
        """Set when the first message was answered, needs the memory, or will never come."""
        self._sink = sink
        self._ended = ended
        self._lock = threading.Lock()
        self._reads = ThreadPoolExecutor(_CALLS_AT_ONCE, "octopus-mcp")
        # One thread, so that messages are stored in the order in which they came.
        self._writes = ThreadPoolExecutor(1, "octopus-mcp-writes")
        self._calls: dict[Json, Future[None]] = {}
        self._state: Future[State] = Future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The memory could not be opened: calls that wait for it end without an answer.
        self._state.cancel()
        self._finish()

    @contextmanager
    def using(self, state: State) -> Iterator[None]:
        """Answer calls with this state. Leaving it waits for the calls that were accepted."""
        self._state.set_result(state)
        try:
            yield
        finally:
            self._finish()

    def _finish(self) -> None:
        self._reads.shutdown()
        self._writes.shutdown()

    def read(self, lines: Iterator[bytes]) -> None:
        """Handle each line until there are no more."""
        try:
            for line in lines:
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    log.info("ignored a line that is not JSON")
                    continue
                self._handle(message)
        except (OSError, RuntimeError, ValueError) as error:
            # The client is gone, or the server stopped while a line came in.
            log.info("stopped reading: %s", type(error).__name__)
        finally:
            self._ended.set()
            self.begun.set()

    def _handle(self, message: Json) -> None:
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": id_}}:
                self._cancel(id_)
            case {"id": str() | int() as id_} if needs_memory(message) and is_id(id_):
                pool = self._reads if _only_reads(message) else self._writes
                self._calls[id_] = call = pool.submit(self._answer, message)
                call.add_done_callback(lambda _: self._calls.pop(id_, None))
                self.begun.set()
            case _:
                self._answer(message)

    def _cancel(self, id_: Json) -> None:
        """Drop a call that waits for a thread. A running call is not interrupted."""
        call = self._calls.get(id_) if isinstance(id_, str | int) else None
        if call is not None:
            call.cancel()

    def _answer(self, message: Json) -> None:
        response = answer(self._state.result, message)
        if response is None:
            return
        line = json.dumps(response).encode() + b"\n"
        try:
            with self._lock:
                self._sink.write(line)
                self._sink.flush()
        except OSError as error:
            log.info("stopped writing, the client is gone: %s", type(error).__name__)
            self._ended.set()
        finally:
            self.begun.set()


def _only_reads(message: Json) -> bool:
    match message:
        case {"method": "tools/call", "params": {"name": name}}:
            return reads_only(name)
        case _:
            return True
