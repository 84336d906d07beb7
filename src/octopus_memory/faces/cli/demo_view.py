"""What `octopus demo` shows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.episode import Episode, EpisodeSnippet
from ...domain.message import Message, Role, as_text
from ...domain.policy import MemoryConfig
from .database import flags
from .tables import show_snippets, show_summary, speaker
from .terminal import Screen, counted

if TYPE_CHECKING:
    from ...domain.context import MemoryContext
    from .demo import Part, Story

_SHOWN_CHARS = 60
_STORED = (
    "Each session was stored whole, tool call included, and closed with a summary and key facts."
)
_RANKED = (
    "A small embedding model on this machine (MiniLM; no network, no key) turned what was said "
    "into vectors, and recall ranked by meaning, words and time together."
)


class Silent:
    """Shows nothing: the caller prints JSON at the end."""

    def start(self) -> None:
        pass

    def remembered(self, part: Part, episode: Episode) -> None:
        pass

    def recalled(self, snippets: Sequence[EpisodeSnippet]) -> None:
        pass

    def context(self, context: MemoryContext) -> None:
        pass

    def end(self, file: Path, *, kept: bool, theirs: Sequence[EpisodeSnippet]) -> None:
        pass


class DemoView(Silent):
    """Tells the story on the screen."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._screen = Screen()

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
        screen.write(("Stored and closed. What is made of it, without a language model:", "dim"))
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
        screen, story = self._screen, self._story
        screen.rule(f"{_day(story.now)} · a new session")
        screen.row(speaker(Role.USER, story["user_name"]), text=story["question"])
        screen.gap()
        screen.write(("What memory finds for this message, and why:", "bold"))
        screen.gap()
        show_snippets(screen, snippets, summaries=False, explain=True)

    def context(self, context: MemoryContext) -> None:
        screen = self._screen
        screen.rule("What the model gets to read")
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

    def end(self, file: Path, *, kept: bool, theirs: Sequence[EpisodeSnippet]) -> None:
        screen, story = self._screen, self._story
        screen.rule("What just happened")
        found = "nothing" if not theirs else counted(len(theirs), "episode")
        where = f"kept in {file}" if kept else f"in {file}, removed now"
        scoped = (
            f"Another user ({story['stranger']}) asked {story['agent_name']} the same and got "
            f"{found}: a memory belongs to one tenant, agent and user."
        )
        for line in (_STORED, _RANKED, scoped, f"The data was one SQLite file, {where}."):
            screen.row(("- ", "cyan"), text=line)
        screen.gap()
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
        return [
            ("octopus chat", "talk yourself, and see what memory adds to each message"),
            ("octopus demo --keep demo.db", "the same, and search it afterwards"),
            ("octopus doctor", "check what is configured and what works"),
        ]


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _start_of(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
