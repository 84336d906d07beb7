"""`octopus demo`: an agent that remembers, from the first word to the model's context."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...domain.episode import Episode, EpisodeSnippet, Scope
from ...domain.errors import InvalidInput, SessionNotFound
from ...domain.message import Json, Message
from ...domain.policy import MemoryConfig
from ..urls import as_url
from .json_output import print_json
from .options import AsJson

if TYPE_CHECKING:
    from ...domain.context import MemoryContext
    from ...engine.scope import MemoryScope
    from ...settings import Settings
    from ...wiring import EpisodicMemory

_BETWEEN_MESSAGES = timedelta(minutes=1)
_BUILT_IN = MemoryConfig.from_dict(MemoryConfig().to_dict())
"""Every setting set: the story goes by no setting of the machine that it is told on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A past session of the story."""

    id: str
    title: str
    messages: list[Message]
    times: list[datetime]


class Story:
    """Who talks with whom about what; the words are in `demo_talk.json`."""

    def __init__(self) -> None:
        text = files(__package__).joinpath("demo_talk.json").read_text(encoding="utf-8")
        self._told: dict[str, Any] = json.loads(text)

    def __getitem__(self, name: str) -> str:
        return str(self._told[name])

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(self["now"])

    @property
    def scope(self) -> Scope:
        return Scope(tenant="default", agent=self["agent"], user=self["user"])

    @cached_property
    def parts(self) -> list[Part]:
        return [_part(given) for given in self._told["sessions"]]


def _part(given: dict[str, Json]) -> Part:
    start = datetime.fromisoformat(given["start"])
    messages = [Message(body) for body in given["messages"]]
    times = [start + place * _BETWEEN_MESSAGES for place in range(len(messages))]
    return Part(id=given["id"], title=given["title"], messages=messages, times=times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the demo did, for `--json`."""

    database: str
    kept: bool
    episodes: list[Episode]
    question: str
    recalled: list[EpisodeSnippet]
    context: MemoryContext
    recalled_for_another_user: list[EpisodeSnippet]


def demo(
    *,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Keep the database in this file; without it, a temporary one is removed.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Watch an agent remember a user across sessions, in a few seconds and offline.

    Three conversations with an HR agent are stored, summarised and embedded. Weeks later the user
    comes back, and you see what is recalled and what the model gets to read.
    """
    from .demo_view import DemoView, Silent

    story = Story()
    view = Silent() if as_json else DemoView(story)
    with _place(keep) as file, _open(file, story) as memory:
        scope = memory.scope(tenant="default", agent=story["agent"], user=story["user"])
        view.start()
        episodes = []
        for part in story.parts:
            episode = _remember(scope, part)
            episodes.append(episode)
            view.remembered(part, episode)
        memory.flush()
        question = story["question"]
        recalled = scope.recall(question, limit=len(story.parts))
        view.recalled(recalled)
        context = scope.context(question, system=story["system"])
        view.context(context)
        stranger = memory.scope(tenant="default", agent=story["agent"], user=story["stranger"])
        theirs = stranger.recall(question)
        view.end(file, kept=keep is not None, theirs=theirs)
    if as_json:
        print_json(
            Shown(
                database=str(file),
                kept=keep is not None,
                episodes=episodes,
                question=question,
                recalled=recalled,
                context=context,
                recalled_for_another_user=theirs,
            )
        )


def _remember(scope: MemoryScope, part: Part) -> Episode:
    """Store a session, unless an earlier run with the same `--keep` did."""
    try:
        return scope.session(part.id).episodes[0].episode
    except SessionNotFound:
        return scope.store(part.messages, session_id=part.id, at=part.times)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="octopus-demo-") as folder:
        yield Path(folder) / "demo.db"


@contextmanager
def _open(file: Path, story: Story) -> Iterator[EpisodicMemory]:
    """A memory that lives in the story's time, whatever the user's own settings are."""
    from ...settings import load
    from ...wiring import EpisodicMemory, build

    settings = load(
        database_url=as_url(str(file)),
        embedder="minilm",
        summarizer="extractive",
        tokenizer="approximate",
    )
    if file.exists():
        _check_is_demo(settings, story)
    parts = build(settings, clock=_Standing(story.now), config=_BUILT_IN)
    with EpisodicMemory(parts, run_in_background=False) as memory:
        yield memory


def _check_is_demo(settings: Settings, story: Story) -> None:
    """Nobody's own memories get the demo's among them."""
    from ...wiring import open_store

    store = open_store(settings)
    try:
        foreign = store.stats().sessions > len(story.parts) or not any(
            store.session(story.scope, part.id) for part in story.parts
        )
    finally:
        store.close()
    if foreign:
        raise InvalidInput("--keep", "this file is there, and not the demo's: name a new one")


class _Standing:
    """A clock that stands still."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now
