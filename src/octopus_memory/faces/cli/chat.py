"""`octopus chat`: a small chat that remembers, and the models that answer in it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from ...domain.episode import Episode, EpisodeSnippet
from ...domain.errors import InvalidSetting, MissingExtra, ModelError, OctopusError, SessionNotFound
from ...domain.ids import new_id
from ...domain.message import Json
from ...domain.text.neutralize import shorten
from ..given import actor_of
from .database import Agent, AsJson, Db, Tenant, User, flags, open_or_make
from .tables import show_snippets, show_summary
from .terminal import Screen, clean, counted, print_json

if TYPE_CHECKING:
    from openai import OpenAI

    from ...domain.context import MemoryContext
    from ...engine.scope import MemoryScope
    from ...settings import Settings

_SYSTEM = "You are a helpful assistant."
_FLUSH_SECONDS = 10.0
_LONGEST_BEFORE = 160
_HELP = """\
/recall QUERY   find past conversations
/recent         list the last ones
/new            close the session and start another, which remembers it
/quit           close the session and leave (so do /end, Ctrl-D and Ctrl-C)
/help           this list
Anything else goes to the agent. Put a blank before a message that starts with /."""


def chat(
    *,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Continue this session. Default: a new one.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show what memory adds.")] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Talk in the terminal, and see what memory adds.

    An OpenAI-compatible endpoint answers, if the settings name one (in the environment
    OCTOPUS_OPENAI_BASE_URL, OCTOPUS_OPENAI_API_KEY, OCTOPUS_CHAT_MODEL); otherwise an echo does. In
    the chat, /new starts another session, which remembers this one; /help lists the commands;
    /quit, Ctrl-D and Ctrl-C close the session.
    """
    from ...settings import load

    model = answerer(load())
    here = flags(db, tenant, agent, user)
    view: PersonView | JsonView = (
        JsonView(quiet=quiet) if as_json else PersonView(quiet=quiet, flags=here)
    )
    with contextlib.closing(model), open_or_make(db, background=None) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        talk = _Talk(scope, model, view, session)
        talk.start()
        with contextlib.suppress(KeyboardInterrupt):
            talk.run(_lines())
        talk.end()
        with contextlib.suppress(ModelError):
            memory.flush(timeout=_FLUSH_SECONDS)
    if talk.failed:
        raise typer.Exit(1)


class _Talk:
    """A running chat."""

    def __init__(
        self,
        scope: MemoryScope,
        model: Answerer,
        view: PersonView | JsonView,
        session_id: str | None,
    ) -> None:
        self._scope = scope
        self._model = model
        self._view = view
        self.session_id = session_id or str(new_id())
        self.history = self._known()
        self.failed = False

    def run(self, lines: Iterator[str]) -> None:
        for line in lines:
            text = line.strip()
            if text in ("/end", "/quit"):
                return
            if line.startswith("/"):
                self._command(*text.split(maxsplit=1))
            elif text:
                self._say(text)

    def start(self) -> None:
        """Show which model answers, and the last session that is remembered."""
        before = self._scope.recent(1, leave_out_session=self.session_id)
        self._view.start(
            self.session_id, self._model.name, len(self.history), before[0] if before else None
        )

    def end(self) -> None:
        """Close the session, and show what is remembered of it."""
        self._view.end(self.session_id, self._closed())

    def _start_another(self) -> None:
        self.end()
        self.session_id = str(new_id())
        self.history = []
        self.start()

    def _closed(self) -> Episode | None:
        try:
            self._scope.close_session(self.session_id)
            return self._scope.session(self.session_id).episodes[-1].episode
        except SessionNotFound:
            return None

    def _known(self) -> list[dict[str, Json]]:
        try:
            return self._scope.session(self.session_id).messages()
        except SessionNotFound:
            return []

    def _say(self, text: str) -> None:
        message = {"role": "user", "content": text}
        context = self._scope.context(
            message, history=self.history, system=_SYSTEM, session_id=self.session_id
        )
        self._view.said(text)
        self._view.context(context)
        # Stored before the model is asked, so that a failure of the model loses nothing.
        self._scope.add(self.session_id, message)
        self.history.append(message)
        try:
            with self._view.thinking():
                words = self._model.answer(context.messages)
        except ModelError as error:
            self.failed = True
            self._view.error(error)
            return
        answer = {"role": "assistant", "content": words}
        self._scope.add(self.session_id, answer)
        self.history.append(answer)
        self._view.answer(words)

    def _command(self, name: str, rest: str = "") -> None:
        try:
            if name == "/recall" and rest:
                found = self._scope.recall(rest, leave_out_session=self.session_id)
                self._view.found("recall", found)
            elif name == "/recent":
                self._view.found("recent", self._scope.recent(leave_out_session=self.session_id))
            elif name == "/new":
                self._start_another()
            elif name == "/help":
                self._view.help()
            else:
                self._view.unknown(name)
        except OctopusError as error:
            self._view.error(error)


def _lines() -> Iterator[str]:
    """Yield the lines that the user types, or those of a pipe."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with contextlib.suppress(ImportError):
        # Importing it gives input() line editing.
        import readline  # noqa: F401
    while True:
        try:
            yield input("you> ")
        except EOFError:
            return


class PersonView:
    """Shows a chat to a person. `flags` are the options of suggested commands."""

    def __init__(self, *, quiet: bool, flags: str) -> None:
        self._quiet = quiet
        self._screen = Screen()
        self._flags = flags
        self._started = False

    def start(self, session_id: str, model: str, known: int, before: EpisodeSnippet | None) -> None:
        """Show that a session begins. `before` is the last session that is remembered."""
        screen = self._screen
        if self._started:
            screen.gap()
            screen.write(("New session", "bold"), (f"  session {session_id}", "dim"))
            return
        self._started = True
        screen.write(("Octopus chat", "bold"), (f"  session {session_id}", "dim"))
        if model == "echo":
            screen.write(
                "No model is configured, so an echo answers. Memory works all the same. "
                "Set OCTOPUS_OPENAI_BASE_URL or OCTOPUS_OPENAI_API_KEY for a real one."
            )
        else:
            screen.write(f"{model} answers.")
        if known:
            screen.write(f"The session continues after {counted(known, 'message')}.")
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
        # A terminal shows it already, where the user typed it.
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
        words = "needs a query" if name == "/recall" else "is not a command"
        self._screen.write(f"{name} {words}: /help lists them.")

    def error(self, error: OctopusError) -> None:
        typer.echo(f"error: {clean(str(error))}", err=True)

    def end(self, session_id: str, episode: Episode | None) -> None:
        screen = self._screen
        screen.gap()
        if episode is None:
            screen.write("Nothing was said, so nothing was stored.")
            return
        screen.write("Session closed. This is remembered:")
        show_summary(screen, episode)
        screen.write((f"octopus replay {session_id}{self._flags}", "cyan"), " shows it again.")


class JsonView:
    """Prints one JSON object per event."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

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


_SECONDS = 120.0


class Answerer(Protocol):
    @property
    def name(self) -> str: ...

    def answer(self, messages: Sequence[dict[str, Json]]) -> str:
        """Return the text of the answer.

        :raises ModelError: when there is none
        """

    def close(self) -> None: ...


def answerer(settings: Settings) -> Answerer:
    """Return the chat model if a key or an address is set, else the echo."""
    if settings.openai_base_url is None and settings.openai_api_key is None:
        return Echo()
    return ChatModel(settings)


class Echo:
    """Repeats the message. Memory works with it as with a model."""

    name = "echo"

    def answer(self, messages: Sequence[dict[str, Json]]) -> str:
        return f"You said: {messages[-1]['content']}"

    def close(self) -> None:
        pass


class ChatModel:
    """Asks a chat model of OpenAI, or of any endpoint with the same API."""

    def __init__(self, settings: Settings) -> None:
        self._model = settings.chat_model
        self._client = _client(settings)

    @property
    def name(self) -> str:
        return self._model

    def answer(self, messages: Sequence[dict[str, Json]]) -> str:
        import openai

        asked: Any = list(messages)
        try:
            made = self._client.chat.completions.create(model=self._model, messages=asked)
            text = made.choices[0].message.content
        except openai.APIStatusError as error:
            raise ModelError(
                self._remedy(_STATUS.get(error.status_code), error.status_code)
            ) from error
        except openai.APITimeoutError as error:
            raise ModelError(self._remedy(f"gave no answer within {_SECONDS:g} s")) from error
        except openai.APIConnectionError as error:
            words = "cannot be reached: check OCTOPUS_OPENAI_BASE_URL and the network"
            raise ModelError(self._remedy(words)) from error
        except Exception as error:
            # A server that is not such an API may answer anything, and the library does not check.
            words = "gave no chat completion: check that OCTOPUS_OPENAI_BASE_URL ends as it should"
            raise ModelError(self._remedy(words)) from error
        if not text:
            raise ModelError(self._remedy("answered without text"))
        return str(text)

    def close(self) -> None:
        self._client.close()

    def _remedy(self, words: str | None, status: int | None = None) -> str:
        seen = "" if status is None else f" (status {status})"
        return f"{self._model} at {self._client.base_url.host} {words or 'refused'}{seen}"


def _client(settings: Settings) -> OpenAI:
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("openai", "octopus chat with a model") from error
    key = settings.openai_api_key
    # A server that the user runs may need no key.
    given = "none" if key is None else key.get_secret_value()
    if not given or not given.isascii() or not given.isprintable() or " " in given:
        raise InvalidSetting(
            "openai_api_key",
            "must not be empty, and must not contain blanks or non-ASCII characters",
        )
    return openai.OpenAI(api_key=given, base_url=settings.openai_base_url, timeout=_SECONDS)


_STATUS = {
    401: "did not accept the key: check OCTOPUS_OPENAI_API_KEY",
    403: "does not let this key use the model: check OCTOPUS_OPENAI_API_KEY",
    404: "knows no such model or path: check OCTOPUS_CHAT_MODEL and OCTOPUS_OPENAI_BASE_URL",
    429: "is over its rate limit or quota: wait, or raise the quota",
}
