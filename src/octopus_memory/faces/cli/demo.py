"""`octopus demo`: store three conversations, recall them, and show what the model reads."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from ...domain.episode import Episode, EpisodeSnippet, Scope
from ...domain.errors import InvalidInput, MissingExtra, SessionNotFound, StoreUnavailable
from ...domain.message import Json, Message, Role, as_text
from ...domain.policy import MemoryConfig
from ..given import as_url
from .database import AsJson, flags
from .tables import show_snippets, show_summary, speaker
from .terminal import Screen, counted, print_json

if TYPE_CHECKING:
    from ...domain.context import MemoryContext
    from ...engine.memory import Memory
    from ...engine.scope import MemoryScope
    from ...wiring import EpisodicMemory
    from .chat import Answerer


_BETWEEN_MESSAGES = timedelta(minutes=1)
_BUILT_IN = MemoryConfig.from_dict(MemoryConfig().to_dict())
"""Every setting is set, so that settings of the machine do not change the demo."""
_SHOWN_CHARS = 60
_NEW_SESSION = "back-in-may"
"""The session in which the user comes back, stored for the inspector alone."""
_STORED = (
    "Each session was stored whole, tool call included, and closed with a summary and key facts."
)
_RANKED = (
    "A small embedding model on this machine (MiniLM; no network, no key) turned what was said "
    "into vectors, and recall ranked by meaning, words and time together."
)


class ShowPages(Protocol):
    """Serves pages about a memory until Ctrl-C."""

    def __call__(self, memory: Memory, name: str, *, port: int, browser: bool) -> None: ...


_pages: tuple[ShowPages, Callable[[], None]] | None = None
"""Serves the inspector, which this face does not import, and checks that it is installed."""


def serve_with(show: ShowPages, check_installed: Callable[[], None]) -> None:
    """Have `--serve` show the pages of another face."""
    global _pages
    _pages = (show, check_installed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A past session of the demo."""

    id: str
    title: str
    messages: list[Message]
    times: list[datetime]


class Story:
    """The conversations of the demo, from `demo_talk.json`."""

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
class Answers:
    """Answers to the demo's question with and without the context block."""

    without_memory: str
    with_memory: str
    model: str | None
    """None for answers that were written beforehand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The result of the demo, for `--json`."""

    database: str
    kept: bool
    episodes: list[Episode]
    question: str
    recalled: list[EpisodeSnippet]
    context: MemoryContext
    answers: Answers
    recalled_for_another_user: list[EpisodeSnippet]


def demo(
    *,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Keep the database in this file. Default: a temporary file."
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Let the configured chat model answer. Default: answers written beforehand.",
        ),
    ] = False,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Then open the inspector on the demo's data, until Ctrl-C."),
    ] = False,
    port: Annotated[
        int,
        typer.Option(help="The inspector's port; 0 takes a free one.", min=0, max=65_535),
    ] = 0,
    browser: Annotated[bool, typer.Option(help="With --serve, open the browser.")] = True,
    as_json: AsJson = False,
) -> None:
    """Watch an agent remember a user across sessions, in a few seconds and offline.

    Stores, summarizes and embeds three conversations with an HR agent. Weeks later the user comes
    back: you see what the agent answers with and without memory, what memory recalls for it, and
    what the model gets to read.
    """
    story = Story()
    if serve:
        _check_serving(as_json=as_json)
    model = _live_model() if live else None
    view = DemoView(story, quiet=as_json)
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
        recalled = scope.recall(question, limit=len(story.parts), leave_out_session=_NEW_SESSION)
        context = scope.context(question, system=story["system"])
        answers = _answers(story, context, model)
        view.answers(answers)
        view.recalled(recalled)
        view.context(context)
        stranger = memory.scope(tenant="default", agent=story["agent"], user=story["stranger"])
        theirs = stranger.recall(question)
        view.end(file, kept=keep is not None, served=serve, theirs=theirs)
        if serve and _pages is not None:
            _come_back(scope, story, answers)
            _pages[0](memory, "the demo's data", port=port, browser=browser)
    if as_json:
        print_json(
            Shown(
                database=str(file),
                kept=keep is not None,
                episodes=episodes,
                question=question,
                recalled=recalled,
                context=context,
                answers=answers,
                recalled_for_another_user=theirs,
            )
        )


def _remember(scope: MemoryScope, part: Part) -> Episode:
    """Store a session, unless an earlier run with the same `--keep` did."""
    try:
        return scope.session(part.id).episodes[0].episode
    except SessionNotFound:
        return scope.store(part.messages, session_id=part.id, at=part.times)


def _check_serving(*, as_json: bool) -> None:
    """Check that the inspector can be shown, before the demo runs.

    :raises MissingExtra: its packages are not installed
    """
    if as_json:
        raise InvalidInput("--serve", "must not be given with --json")
    if _pages is not None:
        _pages[1]()


def _can_serve() -> bool:
    try:
        _check_serving(as_json=False)
    except MissingExtra:
        return False
    return True


def _come_back(scope: MemoryScope, story: Story, answers: Answers) -> None:
    """Store the last question with its answer, and what the model was shown for it."""
    try:
        scope.session(_NEW_SESSION)
    except SessionNotFound:
        question = story["question"]
        scope.context(question, system=story["system"], session_id=_NEW_SESSION)
        scope.add(_NEW_SESSION, [("user", question), ("assistant", answers.with_memory)])


def _live_model() -> Answerer:
    from ...settings import load
    from .chat import Echo, answerer

    model = answerer(load())
    if isinstance(model, Echo):
        raise InvalidInput(
            "--live", "needs a chat model: set OPENAI_API_KEY, or OPENAI_BASE_URL for your own"
        )
    return model


def _answers(story: Story, context: MemoryContext, model: Answerer | None) -> Answers:
    if model is None:
        return Answers(
            without_memory=story["answer_without"], with_memory=story["answer_with"], model=None
        )
    bare = [
        {"role": "system", "content": story["system"]},
        {"role": "user", "content": story["question"]},
    ]
    with closing(model):
        return Answers(
            without_memory=model.answer(bare),
            with_memory=model.answer(context.messages),
            model=model.name,
        )


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="octopus-demo-") as folder:
        yield Path(folder) / "demo.db"


@contextmanager
def _open(file: Path, story: Story) -> Iterator[EpisodicMemory]:
    """Open a memory with the clock of the demo, independent of the user's settings."""
    from ...settings import load
    from ...wiring import EpisodicMemory, build

    settings = load(
        database_url=as_url(str(file)),
        embedder="minilm",
        summarizer="extractive",
        tokenizer="approximate",
    )
    if file.exists():
        _check_is_demo(settings.url, story)
    parts = build(settings, clock=_Standing(story.now), config=_BUILT_IN)
    with EpisodicMemory(parts, run_in_background=False) as memory:
        yield memory


def _check_is_demo(url: str, story: Story) -> None:
    """Refuse a database that was not created by the demo, without changing it.

    :raises InvalidInput: it holds other conversations
    """
    from ...wiring import EpisodicMemory

    own, known, stored = {*(part.id for part in story.parts), _NEW_SESSION}, set[str](), 0
    # An older Octopus made a file that cannot be opened only to read.
    with suppress(StoreUnavailable), EpisodicMemory.open(f"{url}?mode=ro", background=False) as old:
        scope = old.scope(agent=story.scope.agent, user=story.scope.user)
        known = {each.id for each in scope.sessions(page_size=len(own) + 1).items}
        stored = old.stats().sessions
    if not known or not known <= own or stored > len(known):
        raise InvalidInput(
            "--keep", "the file exists and was not created by the demo: choose another path"
        )


class _Standing:
    """A clock that always returns the same time."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now


class DemoView:
    """Shows each step of the demo, or nothing where the caller prints JSON at the end."""

    def __init__(self, story: Story, *, quiet: bool) -> None:
        self._story = story
        self._screen = Screen(quiet=quiet)

    def start(self) -> None:
        agent, user = self._story["agent_name"], self._story["user_name"]
        self._screen.write(
            ("Octopus: episodic memory for AI agents\n", "bold"),
            f"{user} talks with {agent}, an HR agent, in three sessions, and comes back weeks "
            f"later. Everything below really happens, on this machine.",
        )

    def remembered(self, part: Part, episode: Episode) -> None:
        screen = self._screen
        screen.rule(f"{_day(episode.started_at)} · session {part.id}")
        for message in part.messages:
            self._say(message)
        screen.gap()
        screen.write(("Stored and closed. Its summary, made without a language model:", "dim"))
        show_summary(screen, episode)

    def _say(self, message: Message) -> None:
        call = message.tool_call
        if call is not None:
            words = f"{call.function_name}({as_text(call.arguments)}) → {as_text(call.result)}"
            self._screen.row(("tool  ", "yellow"), text=words, style="dim")
            return
        name = self._story["user_name" if message.role is Role.USER else "agent_name"]
        self._screen.row(speaker(message.role, name), text=message.text)

    def recalled(self, snippets: Sequence[EpisodeSnippet]) -> None:
        self._screen.rule("What memory found for this message, and why")
        show_snippets(self._screen, snippets, summaries=False, explain=True)

    def context(self, context: MemoryContext) -> None:
        screen = self._screen
        screen.rule("What the model got to read")
        screen.panel(f"context block, {counted(context.block_tokens, 'token')}", context.text)
        rule = MemoryConfig().recall
        screen.write(
            "It quotes what is worth most for its tokens, oldest first. Below a relevance of "
            f"{rule.min_recall_score} little would be spent; the last "
            f"{rule.recent_sessions_to_inject} sessions get a line each where there is room."
        )
        screen.write(
            f"It goes between the system prompt and the history. The message list, "
            f"{counted(context.tokens, 'token')} in all:"
        )
        for place, message in enumerate(context.messages):
            lead = (f"{place}  ", "dim"), (f"{message['role']:<8}", "bold")
            screen.row(*lead, text=_start_of(as_text(message["content"])), indent=2)

    def answers(self, answers: Answers) -> None:
        screen, story, agent = self._screen, self._story, self._story["agent_name"]
        screen.rule(f"{_day(story.now)} · a new session")
        screen.row(speaker(Role.USER, story["user_name"]), text=story["question"])
        screen.gap()
        by = "written beforehand, no model was asked" if answers.model is None else answers.model
        screen.write((f"Without memory ({by}):", "dim"))
        screen.row(speaker(Role.ASSISTANT, agent), text=answers.without_memory)
        screen.gap()
        screen.write((f"With memory ({by}):", "bold"))
        screen.row(speaker(Role.ASSISTANT, agent), text=answers.with_memory)

    def end(
        self, file: Path, *, kept: bool, served: bool, theirs: Sequence[EpisodeSnippet]
    ) -> None:
        screen, story = self._screen, self._story
        screen.rule("What just happened")
        found = "nothing" if not theirs else counted(len(theirs), "episode")
        removed = "removed when you stop the inspector" if served else "removed now"
        where = f"kept in {file}" if kept else f"in {file}, {removed}"
        scoped = (
            f"Another user ({story['stranger']}) asked {story['agent_name']} the same and got "
            f"{found}: a memory belongs to one tenant, agent and user."
        )
        for line in (
            _STORED,
            _RANKED,
            scoped,
            f"The data {'is' if served else 'was'} one SQLite file, {where}.",
        ):
            screen.row(("- ", "cyan"), text=line)
        screen.gap()
        if served:
            screen.rule("The inspector")
            return
        screen.write(("Next:", "bold"))
        for command, does in self._next(file, kept=kept):
            screen.write((command, "bold cyan"), (f"\n    {does}", ""), indent=2)

    def _next(self, file: Path, *, kept: bool) -> list[tuple[str, str]]:
        story = self._story
        here = flags(str(file), "default", story["agent"], story["user"])
        if kept:
            return [
                (f'octopus recall "who covers for me"{here}', "search what was said"),
                (f"octopus replay {story.parts[0].id}{here}", "read a session again"),
                (f"octopus chat{here}", "go on talking with this memory"),
            ]
        serve = "octopus demo --serve"
        if not _can_serve():
            serve = f"pip install 'octopus-memory[server]' && {serve}"
        return [
            ("octopus chat", "talk yourself, and see what memory adds to each message"),
            (serve, "the same, and look into it with the browser"),
            ("octopus demo --keep demo.db", "the same, and search it afterwards"),
            ("octopus doctor", "check what is configured and what works"),
        ]


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _start_of(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
