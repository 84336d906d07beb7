"""Replay of a session: its episodes and turns, and the message list for a provider."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .episode import Episode, Session, Turn
from .errors import InvalidInput
from .forms import FORMS, in_form
from .message import AS_GIVEN, Json, Role, as_text


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeReplay:
    """An episode and its turns; an archived episode has a summary and no turns.

    If only a session's last turns were requested, the first episode may lack its first turns.
    """

    episode: Episode
    turns: tuple[Turn, ...]

    def messages(self, form: str = "openai") -> list[dict[str, Json]]:
        """The turns as a provider accepts them; for an archived episode, its summary.

        `form` is one of "openai" (chat completions), "responses", "anthropic" and "gemini".
        """
        if form != "openai":
            return in_form(_checked(form), self._bodies())
        if self.episode.is_archived:
            return [_archived(self.episode)]
        return provider_messages(self.turns)

    def _bodies(self) -> list[Mapping[str, Json]]:
        if self.episode.is_archived:
            return [_archived(self.episode)]
        return [turn.message.body for turn in self.turns]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReplay:
    """Episodes and turns of one session, in order: all of them, or the last ones."""

    session: Session
    episodes: tuple[EpisodeReplay, ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(turn for replay in self.episodes for turn in replay.turns)

    def messages(self, form: str = "openai") -> list[dict[str, Json]]:
        """The history as a provider accepts it.

        `form` is one of "openai" (chat completions), "responses", "anthropic" and "gemini". A
        message that was added in the form is given back exactly as it was.

        It has only keys of the chat-completion format, and every tool call is followed by its
        result. Calls without a result are left out, as are results whose call came before the
        turns that were read. An archived episode becomes a system message with its summary.
        """
        if form != "openai":
            bodies = [body for replay in self.episodes for body in replay._bodies()]  # noqa: SLF001
            return in_form(_checked(form), bodies)
        history: list[dict[str, Json]] = []
        for replay in self.episodes:
            history += replay.messages()
        return history


def _checked(form: str) -> str:
    if form not in FORMS:
        raise InvalidInput("form", f"must be one of {', '.join(FORMS)}")
    return form


def provider_messages(turns: Sequence[Turn]) -> list[dict[str, Json]]:
    """Turns as messages that chat-completion providers accept."""
    bodies = [turn.message.body for turn in turns]
    # Fast path: most messages have only a role and a content.
    plain = [dict(body) for body in bodies if len(body) == 2 and body.get("content") is not None]
    if len(plain) == len(bodies):
        return plain
    # Fast path: without tool calls there is nothing to pair.
    if not any(body["role"] == _TOOL or "tool_calls" in body for body in bodies):
        return [_spoken(body) for body in bodies if _says_something(body)]
    answered = _answered(turns)
    requested = {r["id"]: r for turn in turns for r in turn.message.requests}
    history: list[dict[str, Json]] = []
    open_calls: set[str] = set()
    for i, turn in enumerate(turns):
        if turn.role is Role.TOOL:
            call_id = turn.message.body["tool_call_id"]
            if call_id not in open_calls:
                # The tool turn carries its call, or another message came between call and result.
                request = _request_of(turn) or requested.get(call_id)
                if request is None:
                    continue
                history.append({"role": "assistant", "content": None, "tool_calls": [request]})
            open_calls.discard(call_id)
            history.append(_result(turn))
            continue
        body = _spoken(turn.message.body)
        requests = [r for r in turn.message.requests if (i, r["id"]) in answered]
        open_calls = {request["id"] for request in requests}
        if requests:
            body["tool_calls"] = requests
        if requests or _says_something(turn.message.body):
            history.append(body)
    return history


def _says_something(body: Mapping[str, Json]) -> bool:
    if AS_GIVEN in body and not body.get("content"):
        # An item of another form that only its own provider reads.
        return False
    return body.get("content") is not None or bool(body.get("refusal"))


def _answered(turns: Sequence[Turn]) -> set[tuple[int, str]]:
    """(Index, call id) of every request whose result comes before the next spoken message."""
    found: set[tuple[int, str]] = set()
    asking, asked = -1, set[str]()
    for i, turn in enumerate(turns):
        if turn.role is not Role.TOOL:
            asking, asked = i, {request["id"] for request in turn.message.requests}
        elif (call_id := turn.message.body["tool_call_id"]) in asked:
            found.add((asking, call_id))
    return found


_TOOL = Role.TOOL.value
_PROVIDER_KEYS = frozenset(("role", "content", "name", "refusal", "audio"))


def _spoken(body: Mapping[str, Json]) -> dict[str, Json]:
    said = {key: value for key, value in body.items() if key in _PROVIDER_KEYS}
    if "name" in said and said["name"] is None:
        del said["name"]
    return said


def _request_of(turn: Turn) -> dict[str, Json] | None:
    call = turn.tool_call
    if call is None:
        return None
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    function = {"name": call.function_name, "arguments": arguments}
    return {"id": call.tool_call_id, "type": "function", "function": function}


def _result(turn: Turn) -> dict[str, Json]:
    content = turn.message.content
    if content is None:
        content = as_text(turn.message.body.get("result"))
    return {
        "role": "tool",
        "tool_call_id": turn.message.body["tool_call_id"],
        "content": content,
    }


def _archived(episode: Episode) -> dict[str, Json]:
    from .text.neutralize import neutralize  # noqa: PLC0415 - its patterns take a while to compile

    # A summary quotes other people: as a system message it must not pass for an instruction.
    summary = neutralize(episode.summary or "no summary")
    return {"role": "system", "content": f"[Archived conversation] It was about: {summary}"}
