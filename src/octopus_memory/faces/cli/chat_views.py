"""How a chat is shown: to a person, or as JSON lines."""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import typer

from ...domain.episode import Episode, EpisodeSnippet
from ...domain.errors import OctopusError
from ...domain.text.neutralize import shorten
from .json_output import print_json
from .tables import show_snippets, show_summary
from .terminal import Screen, clean, counted

if TYPE_CHECKING:
    from ...domain.context import MemoryContext

_LONGEST_BEFORE = 160
_HELP = """\
/recall QUERY   find past conversations
/recent         list the last ones
/new            close the session and begin another, which remembers it
/quit           close the session and leave (so do /end, Ctrl-D and Ctrl-C)
/help           this list
Anything else is said to the agent; put a blank before a message that starts with /."""


class View(ABC):
    """What happens in a chat, told to whoever watches."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    @abstractmethod
    def start(self, session_id: str, model: str, known: int, before: EpisodeSnippet | None) -> None:
        """A session begins; `before` is the last one that is remembered."""

    @abstractmethod
    def said(self, text: str) -> None: ...

    @abstractmethod
    def context(self, context: MemoryContext) -> None: ...

    @abstractmethod
    def thinking(self) -> AbstractContextManager[object]: ...

    @abstractmethod
    def answer(self, words: str) -> None: ...

    @abstractmethod
    def found(self, command: str, snippets: Sequence[EpisodeSnippet]) -> None: ...

    @abstractmethod
    def help(self) -> None: ...

    @abstractmethod
    def unknown(self, name: str) -> None: ...

    @abstractmethod
    def error(self, error: OctopusError) -> None: ...

    @abstractmethod
    def end(self, session_id: str, episode: Episode | None) -> None: ...


class PersonView(View):
    """`flags` lead to the same memory, in a command that is suggested."""

    def __init__(self, *, quiet: bool, flags: str) -> None:
        super().__init__(quiet=quiet)
        self._screen = Screen()
        self._flags = flags
        self._started = False

    def start(self, session_id: str, model: str, known: int, before: EpisodeSnippet | None) -> None:
        screen = self._screen
        if self._started:
            screen.gap()
            screen.write(("New session", "bold"), (f"  session {session_id}", "dim"))
            return
        self._started = True
        screen.write(("Octopus chat", "bold"), (f"  session {session_id}", "dim"))
        if model == "echo":
            screen.write(
                "No model is configured, so an echo answers; memory works all the same. "
                "Set OCTOPUS_OPENAI_BASE_URL or OCTOPUS_OPENAI_API_KEY for a real one."
            )
        else:
            screen.write(f"{model} answers.")
        if known:
            screen.write(f"The session goes on after {counted(known, 'message')}.")
        if before is not None and not self._quiet:
            screen.write(
                f"It remembers earlier sessions. The last, {before.date:%Y-%m-%d}: "
                f"{shorten(before.summary, _LONGEST_BEFORE)}"
            )
        elif not self._quiet:
            screen.write(
                "Tell it something about yourself, then /new, and ask about it: before each "
                "answer you see what memory adds."
            )
        screen.write(("/help lists the commands; /quit ends the session.", "dim"))

    def said(self, text: str) -> None:
        # On a terminal it stands there already, where it was typed.
        if not sys.stdin.isatty():
            self._screen.gap()
            self._screen.write(("you> ", "bold green"), text)

    def context(self, context: MemoryContext) -> None:
        if self._quiet:
            return
        if context.text:
            title = f"memory adds {counted(context.block_tokens, 'token')}"
            self._screen.panel(title, context.text, dim=True)
        else:
            self._screen.write(("(memory has nothing to add)", "dim"))

    def thinking(self) -> AbstractContextManager[object]:
        if self._screen.is_terminal:
            return self._screen.console.status("thinking…")
        return contextlib.nullcontext()

    def answer(self, words: str) -> None:
        self._screen.row(("agent> ", "bold cyan"), text=words)

    def found(self, command: str, snippets: Sequence[EpisodeSnippet]) -> None:
        if snippets:
            show_snippets(self._screen, snippets, scored=command == "recall")
        else:
            self._screen.write("Nothing found in earlier sessions.")

    def help(self) -> None:
        self._screen.write(_HELP)

    def unknown(self, name: str) -> None:
        words = "needs a query" if name == "/recall" else "is no command"
        self._screen.write(f"{name} {words}: /help lists them.")

    def error(self, error: OctopusError) -> None:
        typer.echo(f"error: {clean(str(error))}", err=True)

    def end(self, session_id: str, episode: Episode | None) -> None:
        screen = self._screen
        screen.gap()
        if episode is None:
            screen.write("Nothing was said, so nothing is remembered.")
            return
        screen.write("Session closed. This is remembered:")
        show_summary(screen, episode)
        screen.write((f"octopus replay {session_id}{self._flags}", "cyan"), " shows it again.")


class JsonView(View):
    """One object a line, each with its `event`."""

    def start(self, session_id: str, model: str, known: int, before: EpisodeSnippet | None) -> None:
        _emit(
            "start",
            session_id=session_id,
            model=model,
            messages_before=known,
            remembered=before,
        )

    def said(self, text: str) -> None:
        pass

    def context(self, context: MemoryContext) -> None:
        if not self._quiet:
            _emit("context", context=context)

    def thinking(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def answer(self, words: str) -> None:
        _emit("answer", content=words)

    def found(self, command: str, snippets: Sequence[EpisodeSnippet]) -> None:
        _emit(command, snippets=snippets)

    def help(self) -> None:
        _emit("help", text=_HELP)

    def unknown(self, name: str) -> None:
        _emit("unknown", command=name)

    def error(self, error: OctopusError) -> None:
        _emit("error", error={"type": type(error).__name__, "message": str(error)})

    def end(self, session_id: str, episode: Episode | None) -> None:
        _emit("end", session_id=session_id, episode=episode)


def _emit(event: str, **values: object) -> None:
    print_json({"event": event, **values}, indent=None)
