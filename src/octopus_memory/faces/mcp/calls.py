"""Runs a tool, and turns errors into words that a model can act on."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ...domain.errors import (
    EpisodeNotFound,
    FactNotFound,
    IdempotencyConflict,
    OctopusError,
    ScopeKeyError,
    SessionNotFound,
    StoreAnswerLost,
    StoreError,
)
from . import catalogue
from .results import Answer
from .state import State
from .tools import TOOLS

log = logging.getLogger(__name__)


def call_tool(state: State, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Run a tool and return its answer, or an error in words that a model can act on."""
    tool = TOOLS.get(name)
    if tool is None:
        return _refused(f"unknown tool {name[:100]!r}: the tools are {', '.join(TOOLS)}")
    if not catalogue.may_call(state.role, name):
        return _refused(f"{name}: the role {state.role} of the credential may not do this")
    try:
        return tool.model_validate(arguments).run(state)
    except ValidationError as error:
        return _refused(_invalid_arguments(error))
    except OctopusError as error:
        return _refused(remedy(error))
    except Exception as error:  # noqa: BLE001 - its message may contain what a user said
        log_failure(name, error)
        return _refused(f"{name} failed ({type(error).__name__}): see the server's log")


def log_failure(what: str, error: Exception) -> None:
    """Log the kind and the place of an error. Its message may contain what a user said."""
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed: %s\n%s", what, type(error).__name__, where)


def remedy(error: OctopusError) -> str:
    """Return what a model can do about an error. The error's own text names calls of Python."""
    match error:
        case EpisodeNotFound() | FactNotFound() | SessionNotFound():
            return _not_found(error)
        case IdempotencyConflict():
            return (
                f"idempotency_key: {error.key!r} was used before: if it was for these messages, "
                "they are stored; else give another key"
            )
        case StoreAnswerLost():
            log.warning("the connection to the database was lost: %s", error.for_log())
            return (
                "the connection to the memory was lost, so this may or may not be done: check with "
                "recent, or call again with the same idempotency_key"
            )
        case StoreError():
            # The message may name the database's host and user.
            log.warning("the database failed: %s", error.for_log())
            return (
                f"the memory cannot do this now ({type(error).__name__}), and nothing was changed: "
                "try again; if it keeps failing, see the server's log"
            )
        case ScopeKeyError():
            log.warning("the key store failed: %s", error.for_log())
            return (
                f"the memory cannot be read or written now ({type(error).__name__}), and nothing "
                "was changed: see the server's log"
            )
        case _:
            return str(error)


def _refused(words: str) -> Answer:
    return Answer(text=words, is_error=True)


def _invalid_arguments(error: ValidationError) -> str:
    """Return what is wrong with each argument, without repeating its value."""
    found = []
    for each in error.errors(include_input=False, include_url=False):
        place = ".".join(str(part) for part in each["loc"])
        words = each["msg"].removeprefix("Value error, ")
        problem = "unknown argument: leave it out" if each["type"] == "extra_forbidden" else words
        found.append(f"{place}: {problem}")
    return "; ".join(found)


def _not_found(error: EpisodeNotFound | FactNotFound | SessionNotFound) -> str:
    match error:
        case EpisodeNotFound():
            return f"episode_id: no episode {error.episode_id} here: recall and recent list them"
        case FactNotFound():
            return f"fact_id: no fact {error.fact_id} here: facts lists them"
        case SessionNotFound():
            return (
                f"session_id: no session {error.session_id!r} here: recall and recent list the "
                "sessions, remember starts one"
            )
