"""A double of `scope.forget`, for tests of the tool that calls it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest


@dataclass(frozen=True)
class Item:
    what: str
    text: str
    date: datetime
    reason: str = ""


@dataclass(frozen=True)
class Preview:
    token: str
    expires_at: datetime
    is_clear: bool
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Receipt:
    removed: dict[str, int]
    is_complete: bool = True


@dataclass
class Forgetting:
    """Lists the one turn that has the word, and removes it for the token."""

    asked: list[str | None] = field(default_factory=list)

    def __call__(self, scope: Any, about: str | None = None, *, confirm: str | None = None) -> Any:
        self.asked.append(about or confirm)
        if confirm is not None:
            return Receipt({"turns": 1})
        now = datetime(2026, 3, 14, tzinfo=UTC)
        hits = scope.recall_turns(about or "", limit=1)
        items = tuple(Item("turn", hit.text, hit.at) for hit in hits)
        return Preview("token-1", now, bool(items), items)


def install(monkeypatch: pytest.MonkeyPatch, *kinds: type[Any]) -> Forgetting:
    """Give classes of scopes the method."""
    made = Forgetting()
    for kind in kinds:
        monkeypatch.setattr(
            kind,
            "forget",
            lambda self, *given, **named: made(self, *given, **named),
            raising=False,
        )
    return made
