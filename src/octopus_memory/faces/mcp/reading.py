"""Resources and prompts: a conversation to read, and the context block for a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from ...domain.errors import InvalidInput, SessionNotFound
from ...domain.message import Json
from .catalogue import PROMPT, SCHEME

if TYPE_CHECKING:
    from ...domain.episode import Session
    from .state import State

PAGE_SIZE = 50
MOST_TURNS = 1_000
"""Messages of one conversation that are read: the last ones, as `read_session` returns at most."""
_LAST_PAGE = 1_000_000
_LONGEST_MESSAGE = 100_000
_LONGEST_NAME = 256


def list_sessions(state: State, cursor: Json) -> dict[str, Json]:
    """Return a page of the sessions as resources, last seen first.

    :raises InvalidInput: the cursor is not one that an earlier page returned
    """
    page = _page(cursor)
    found = state.scope.sessions(page, PAGE_SIZE)
    result: dict[str, Json] = {"resources": [_resource(session) for session in found.items]}
    if page * PAGE_SIZE < found.total_count:
        result["nextCursor"] = str(page + 1)
    return result


def read_session(state: State, uri: str) -> dict[str, Json]:
    """Return the replay of a session as text.

    :raises SessionNotFound: there is no such session in the scope
    """
    from . import results

    session_id = _session_id(uri)
    if session_id is None:
        raise SessionNotFound(uri)
    replay = state.scope.session(session_id, last=MOST_TURNS)
    text = results.session(replay).text
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def get_prompt(state: State, name: Json, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return the context block for a message, then the message.

    :raises InvalidInput: the prompt or an argument is unknown, missing or not valid
    """
    if name != PROMPT:
        raise InvalidInput("name", f"must be {PROMPT!r}, which is the only prompt")
    if unknown := set(arguments) - {"message", "session_id"}:
        raise InvalidInput(min(unknown), "is not an argument of this prompt: leave it out")
    message = _argument(arguments, "message", _LONGEST_MESSAGE)
    session_id = state.session_id
    if arguments.get("session_id") is not None:
        session_id = _argument(arguments, "session_id", _LONGEST_NAME)
    block = state.scope.context(message, session_id=session_id).text
    texts = [block, message] if block else [message]
    return {
        "description": "What earlier conversations say about the message, then the message",
        "messages": [{"role": "user", "content": {"type": "text", "text": t}} for t in texts],
        "_meta": {"session_id": session_id},
    }


def _argument(arguments: Mapping[str, Json], name: str, longest: int) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        raise InvalidInput(name, f"must be a text of 1 to {longest:,} characters")
    return value


def _page(cursor: Json) -> int:
    if cursor is None:
        return 1
    # `isdecimal` also allows digits of other scripts, which `int` reads as well.
    if isinstance(cursor, str) and len(cursor) <= 7 and cursor.isdecimal():
        page = int(cursor)
        if 1 < page <= _LAST_PAGE:
            return page
    raise InvalidInput("cursor", "must be the nextCursor of the page before")


def _resource(session: Session) -> dict[str, Json]:
    from ...domain.text.neutralize import neutralize
    from .results import iso

    return {
        "uri": SCHEME + quote(session.id, safe=""),
        "name": neutralize(session.id, _LONGEST_NAME),
        "title": f"Conversation of {session.created_at:%Y-%m-%d %H:%M} UTC",
        "description": f"{session.status}, last seen {session.last_seen_at:%Y-%m-%d %H:%M} UTC",
        "mimeType": "text/plain",
        "annotations": {
            "audience": ["user", "assistant"],
            "lastModified": iso(session.last_seen_at),
        },
    }


def _session_id(uri: str) -> str | None:
    """Return the session that a URI names; None for any other URI."""
    if not uri.startswith(SCHEME):
        return None
    try:
        session_id = unquote(uri.removeprefix(SCHEME), errors="strict")
    except UnicodeDecodeError:
        return None
    return session_id if 1 <= len(session_id) <= _LONGEST_NAME else None
