"""SQLiteSession of the OpenAI Agents SDK: history without search."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import Subject

if TYPE_CHECKING:
    from ..data import Data, Turn

_MOST_OPEN = 100
Answer = TypeVar("Answer")


class Agents(Subject):
    name = "agents"
    package = "openai-agents"
    imports = "from agents import SQLiteSession"
    can = frozenset({"history", "erase"})
    notes = "SQLiteSession on a file, as it sets it up: WAL, SQLite's own default of synchronous"

    def __init__(self, folder: Path, data: Data | None) -> None:
        from agents import SQLiteSession

        super().__init__(folder, data)
        self._make = SQLiteSession
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._names: dict[int, set[str]] = defaultdict(set)
        self._loops = threading.local()
        self._lock = threading.Lock()

    def _session(self, user: int, session: str) -> Any:
        name = f"user-{user}/{session}"
        with self._lock:
            self._names[user].add(name)
            found = self._open.pop(name, None) or self._make(name, self.folder / "sessions.db")
            self._open[name] = found
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
        return found

    def _run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        loop = getattr(self._loops, "own", None)
        if loop is None:
            loop = self._loops.own = asyncio.new_event_loop()
        answer: Answer = loop.run_until_complete(call)
        return answer

    def add(self, user: int, session: str, turns: Sequence[Turn]) -> None:
        items = [{"role": turn.role, "content": turn.text} for turn in turns]
        self._run(self._session(user, session).add_items(items))

    def session(self, user: int, session: str) -> list[str]:
        found: list[Any] = self._run(self._session(user, session).get_items())
        return [item["content"] for item in found]

    def last(self, user: int, session: str, count: int) -> list[str]:
        found: list[Any] = self._run(self._session(user, session).get_items(limit=count))
        return [item["content"] for item in found]

    def erase(self, user: int) -> None:
        for name in list(self._names[user]):
            self._run(self._session(user, name.split("/", 1)[1]).clear_session())

    def close(self) -> None:
        for session in self._open.values():
            session.close()
        self._open.clear()


SUBJECT = Agents
