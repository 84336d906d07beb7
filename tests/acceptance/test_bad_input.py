"""Whatever a caller gives by mistake: it works, or it is an error of ours and changes nothing."""

from __future__ import annotations

import inspect
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from octopus_memory import (
    EpisodicMemory,
    InvalidInput,
    InvalidMessage,
    MemoryConfig,
    MemoryScope,
    OctopusError,
    StoreError,
)

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    float("nan"),
    "",
    "\x00",
    "\ud800",
    "x" * 300,
    b"bytes",
    [],
    [None],
    ["text"],
    {},
    {1: 2},
    {"a": object()},
    set(),
    (),
    object(),
    UUID(int=1),
    datetime(2024, 1, 1),
    [datetime(2024, 1, 1)],
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    [("robot", "x")],
    {"role": "user", "content": object()},
]
CALLS = sorted(
    name for name, _ in inspect.getmembers(MemoryScope, callable) if not name.startswith("_")
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("input") / "memory.db"


@pytest.fixture(scope="module")
def memory(path: Path) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(f"sqlite:///{path}", embedder="hashing", background=False) as opened:
        yield opened


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    scope = memory.scope(user="u")
    scope.add("open", ("user", "about my leave days"))
    return scope


def rows(path: Path) -> dict[str, int]:
    conn = sqlite3.connect(path)
    try:
        # A call that is refused is recorded, too, and a number beside the log says how long it is.
        names = conn.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
            " AND name NOT IN ('octopus_audit', 'octopus_meta')"
        ).fetchall()
        counts = {name: conn.execute(f"SELECT count(*) FROM {name}") for (name,) in names}
        return {name: count.fetchone()[0] for name, count in counts.items()}
    finally:
        conn.close()


def good(scope: MemoryScope, name: str) -> dict[str, Any]:
    """What the call needs, before one of it is spoilt."""
    known = {
        "episode_or_session_id": "open",
        "messages": [("user", "one more thing")],
        "episode_id": scope.open_episode("open").id,
        "turn_id": scope.open_episode("open").id,
        "session_id": "open",
        "query": "leave days",
        "message": "How many leave days?",
        "text": "Prefers tea",
        "fact_id": scope.add_fact("Prefers coffee").id,
    }
    needed = inspect.signature(getattr(scope, name)).parameters.values()
    return {one.name: known[one.name] for one in needed if one.default is one.empty}


def error_of(call: Callable[[], object]) -> OctopusError | None:
    try:
        call()
    except OctopusError as error:
        return error
    return None


@pytest.mark.filterwarnings("ignore:session_id of recall")
@pytest.mark.parametrize("name", CALLS)
def test_an_odd_argument_is_taken_or_refused(memory: EpisodicMemory, path: Path, name: str):
    scope = memory.scope(user=name)
    call = getattr(scope, name)
    for parameter in inspect.signature(call).parameters:
        for odd in ODD:
            arguments = good(scope, name) | {parameter: odd}
            before = rows(path)
            error = error_of(lambda: call(**arguments))  # noqa: B023 - called at once
            assert not isinstance(error, StoreError)
            assert error is None or rows(path) == before
    # What was taken can be read.
    for episode in scope.episodes(page_size=1_000):
        assert scope.session(episode.session_id).messages() is not None
    memory.run_pending()
    assert scope.recall("leave days", limit=1_000) is not None


@pytest.mark.parametrize("config", [None, [], "x", MemoryConfig])
def test_settings_must_be_settings(memory: EpisodicMemory, config: Any):
    with pytest.raises(InvalidInput, match="config"):
        memory.configure("hr", config)


NOT_JSON: list[Any] = [object(), b"bytes", {1, 2}, {"a": object()}]


@pytest.mark.parametrize("value", NOT_JSON)
def test_a_tools_arguments_must_be_json(scope: MemoryScope, value: Any):
    with scope.episode() as ep, pytest.raises(InvalidMessage, match="plain JSON"):
        ep.add_tool_call("f", value, "result", tool_call_id="c")


@pytest.mark.parametrize("value", NOT_JSON)
def test_a_tools_result_must_be_json(scope: MemoryScope, value: Any):
    with scope.episode() as ep, pytest.raises(InvalidMessage, match="plain JSON"):
        ep.add_tool_call("f", {}, value, tool_call_id="c")


@pytest.mark.parametrize("role", ["user", "system", "tool"])
@pytest.mark.parametrize("requests", [5, "x", [5], [{}], {"id": "c"}])
def test_only_an_assistant_asks_for_tools(scope: MemoryScope, role: str, requests: Any):
    """On any other message the key means nothing: it is kept as it is, or refused."""
    message = {"role": role, "content": "x", "tool_calls": requests}
    if role == "tool":
        message |= {"tool_call_id": "c", "function_name": "f"}
    session_id = f"{role} {requests}"
    try:
        scope.add(session_id, message)
    except InvalidMessage:
        return
    replay = scope.session(session_id)
    assert dict(replay.turns[0].message.body) == message
    assert replay.messages()
    scope.add(session_id, ("user", "and it goes on"))
    scope.close_session(session_id)


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_a_time_that_utc_has_not(scope: MemoryScope, moment: datetime):
    calls: list[Callable[[], object]] = [
        lambda: scope.add("s", ("user", "x"), at=moment),
        lambda: scope.recall("leave days", since=moment),
        lambda: scope.heartbeat("open", at=moment),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()


def nested(depth: int) -> Any:
    value: Any = "the innermost"
    for _ in range(depth):
        value = [value]
    return value


def from_deep_inside(call: Callable[[], Any], frames: int) -> Any:
    return call() if frames == 0 else from_deep_inside(call, frames - 1)


@pytest.mark.parametrize("depth", [50, 95, 105, 500, 900, 100_000])
def test_stored_content_can_be_read_from_a_deep_stack(scope: MemoryScope, depth: int):
    message = {"role": "user", "content": "x", "extra": nested(depth)}
    session_id = f"depth {depth}"
    if depth > 100:
        with pytest.raises(InvalidMessage, match=r"deep|plain JSON"):
            scope.add(session_id, message)
        with pytest.raises(InvalidInput, match=r"metadata.*deep"):
            scope.open_episode(session_id, metadata={"extra": nested(depth)})
        return
    scope.add(session_id, message)
    spare = sys.getrecursionlimit() - len(inspect.stack()) - 250
    replay = from_deep_inside(lambda: scope.session(session_id), spare)
    assert dict(replay.turns[0].message.body) == message


SMALL_STACK = """
import threading
from octopus_memory import EpisodicMemory, InvalidInput

def nested(wrap):
    value = "the innermost"
    for _ in range(100_000):
        value = wrap(value)
    return value

# Made and ended in the main thread: to free them takes Python a deep stack, too.
wraps = (lambda value: [value], lambda value: (value,), lambda value: {"a": value})
deep = [nested(wrap) for wrap in wraps]

def call():
    with EpisodicMemory.open("sqlite:///:memory:", embedder="hashing", background=False) as memory:
        scope = memory.scope(user="u")
        for value in deep:
            message = {"role": "user", "content": "x", "extra": value}
            for given in (
                lambda: scope.add("s", message),
                lambda: scope.open_episode("s", metadata={"extra": value}),
                lambda: scope.context(message, history=[message]),
            ):
                try:
                    given()
                except InvalidInput as error:
                    print("nested" in str(error) or "deep" in str(error))

threading.stack_size(256 * 1024)
thread = threading.Thread(target=call)
thread.start()
thread.join()
"""


@pytest.mark.process
def test_no_depth_ends_a_process_whose_stack_is_small():
    """Python 3.13 lets JSON recurse for 10,000 levels, whatever room the thread has."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_STACK], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 9)
