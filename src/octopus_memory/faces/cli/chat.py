"""`octopus chat`: a small chat that remembers."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.episode import Episode
from ...domain.errors import ModelError, OctopusError, SessionNotFound
from ...domain.ids import new_id
from ...domain.message import Json
from .actor import actor
from .chat_views import JsonView, PersonView, View
from .database import flags, open_or_make
from .options import Agent, AsJson, Db, Tenant, User

if TYPE_CHECKING:
    from ...engine.scope import MemoryScope
    from .agents import Answerer

_SYSTEM = "You are a helpful assistant."
_FLUSH_SECONDS = 10.0


def chat(
    *,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Go on with this session; without it, a new one.", show_default=False
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Do not show what memory adds to each message.")
    ] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Talk in the terminal, and see what memory adds.

    The answers come from the OpenAI-compatible endpoint that the settings name (in the environment
    OCTOPUS_OPENAI_BASE_URL, OCTOPUS_OPENAI_API_KEY, OCTOPUS_CHAT_MODEL); without one, an echo
    answers. Inside the chat, /new begins another session, which remembers this one; /help lists the
    commands; /quit, Ctrl-D and Ctrl-C close the session.
    """
    from ...settings import load
    from .agents import answerer

    model = answerer(load())
    here = flags(db, tenant, agent, user)
    view: View = JsonView(quiet=quiet) if as_json else PersonView(quiet=quiet, flags=here)
    with contextlib.closing(model), open_or_make(db, background=None) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor())
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
    """One run of the chat."""

    def __init__(
        self, scope: MemoryScope, model: Answerer, view: View, session_id: str | None
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
        """Tell who answers, and what is remembered from before."""
        before = self._scope.recent(1, session_id=self.session_id)
        self._view.start(
            self.session_id, self._model.name, len(self.history), before[0] if before else None
        )

    def end(self) -> None:
        """Close the session, if anything was ever said in it, and tell what is remembered."""
        self._view.end(self.session_id, self._closed())

    def _begin_anew(self) -> None:
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
        # Stored before the model is asked: nothing is lost while it thinks.
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
                found = self._scope.recall(rest, session_id=self.session_id)
                self._view.found("recall", found)
            elif name == "/recent":
                self._view.found("recent", self._scope.recent(session_id=self.session_id))
            elif name == "/new":
                self._begin_anew()
            elif name == "/help":
                self._view.help()
            else:
                self._view.unknown(name)
        except OctopusError as error:
            self._view.error(error)


def _lines() -> Iterator[str]:
    """What is typed, or what comes through a pipe, until it ends."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with contextlib.suppress(ImportError):
        # Gives input() its line editing.
        import readline  # noqa: F401
    while True:
        try:
            yield input("you> ")
        except EOFError:
            return
