"""The arguments of a call, checked as the embedded memory checks them, and encoded for the service.

An argument of one name means the same in every call, so that it is checked by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from ..domain.checks import (
    Times,
    check_flag,
    check_limit,
    check_metadata,
    check_place,
    episode_id_of,
    fact_id_of,
    filters_of,
    kinds_of,
    left_out_session,
    message_of,
    parse_messages,
    parse_turns,
    session_id_of,
    turn_choice,
    turn_id_of,
)
from ..domain.episode import Turn, check_name, check_time
from ..domain.errors import InvalidInput
from ..domain.facts import check_fact_text, check_given_slot, check_kind
from ..domain.ids import as_id
from ..domain.policy import LARGEST_MESSAGE
from ..domain.wire import read
from .transport import not_ours

Given: TypeAlias = "dict[str, Any]"
"""The arguments of one call, by name."""
_NEVER = datetime.max.replace(tzinfo=UTC)
_LONGEST_QUERY = 10_000


def _time(field: str, at: datetime) -> str:
    return check_time(field, at).isoformat()


def _flag(field: str, value: bool) -> bool:
    check_flag(field, value)
    return value


def _metadata(_: str, given: Any) -> dict[str, Any]:
    check_metadata(given)
    return dict(given)


def _texts(field: str, values: Any) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInput(field, "must be a list of short texts")
    return list(values)


def _turn_id(_: str, given: Any) -> str | None:
    found = as_id("turn_id", given, Turn)
    return None if found is None else str(found)


def episode_id(given: Any) -> str:
    return str(episode_id_of(given))


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "as_of": _time,
    "at": _time,
    "ended_at": _time,
    "episode_id": lambda _, given: episode_id(given),
    "fact_id": lambda _, given: str(fact_id_of(given)),
    "facts": lambda _, given: [str(fact_id_of(each)) for each in given],
    "history": _flag,
    "key_facts": _texts,
    "kind": lambda _, given: check_kind(given).value,
    "kinds": lambda _, given: sorted(kind.value for kind in kinds_of(given) or ()),
    "last": lambda name, given: check_limit(given, name),
    "metadata": _metadata,
    "pinned": _flag,
    "session_id": check_name,
    "since": _time,
    "slot": lambda _, given: check_given_slot(given),
    "text": check_fact_text,
    "turn_id": _turn_id,
    "turns": lambda _, given: [str(turn_id_of(each)) for each in given],
    "until": _time,
}


def checked(name: str, given: Given, optional: Collection[str]) -> Given:
    """Check and encode the arguments of a call; `optional` ones may be None.

    :raises InvalidInput: naming the argument
    """
    done = _SPECIAL[name](given) if name in _SPECIAL else {}
    for each in given.keys() & _CHECKS.keys():
        if given[each] is not None or each not in optional:
            given[each] = _CHECKS[each](each, given[each])
    return given | done


def _open_episode(given: Given) -> Given:
    # The client makes the session id, so that the call can be retried.
    return {"session_id": session_id_of(given.pop("session_id"))}


def _add(given: Given) -> Given:
    check_place(given["episode_or_session_id"])
    said = message_of(given.pop("messages"), given.pop("content"))
    more = {each: given.pop(each) for each in ("at", "tokens", "keys", "index")}
    turns = parse_turns(said, max_bytes=LARGEST_MESSAGE, now=_NEVER, **more)
    return {
        "messages": [dict(message.body) for message in turns.messages],
        "at": _times(more["at"], turns.times),
        "tokens": turns.tokens,
        "keys": turns.keys,
        "index": None if all(turns.indexed) else turns.indexed,
    }


def _store(given: Given) -> Given:
    at = given.pop("at")
    turns = parse_turns(given.pop("messages"), max_bytes=LARGEST_MESSAGE, now=_NEVER, at=at)
    times = _times(at, turns.times)
    facts, ended_at = given.pop("key_facts"), given.pop("ended_at")
    return {
        "messages": [dict(message.body) for message in turns.messages],
        "times" if isinstance(times, list) else "at": times,
        "close": {
            "reason": given.pop("reason"),
            "summary": given.pop("summary"),
            "keyFacts": None if facts is None else _texts("key_facts", facts),
            "at": None if ended_at is None else _time("ended_at", ended_at),
        },
    }


def _times(at: Times, spread: Sequence[datetime]) -> str | list[str] | None:
    """Encode one time for all turns, or one for each."""
    if at is None:
        return None
    return _time("at", at) if isinstance(at, datetime) else [each.isoformat() for each in spread]


def stored(body: Any, sent: Sequence[Any]) -> list[Turn]:
    """Read the turns of an `add`. Where all were stored, the answer omits what was sent."""
    try:
        turns = body["turns"]
        given = sent if len(sent) == len(turns) else [{}] * len(turns)
        whole = [
            each if each["message"] is not None else each | {"message": message}
            for each, message in zip(turns, given, strict=True)
        ]
        made: list[Turn] = read(list[Turn], whole)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise not_ours() from error
    return made


def _recent(given: Given) -> Given:
    left_out = left_out_session(given.pop("leave_out_session"), given.pop("session_id"))
    return {"leave_out_session": left_out}


def _recall(given: Given) -> Given:
    query = given.pop("query")
    if not isinstance(query, str):
        raise InvalidInput("query", f"must be text, not {type(query).__name__}")
    names = {each: given.pop(each) for each in ("roles", "sessions", "metadata")}
    kept, metadata = filters_of(**names), names["metadata"]
    return _recent(given) | {
        "query": query.replace("\0", " ")[:_LONGEST_QUERY],
        "topK": given.pop("limit"),
        "roles": None if kept.roles is None else sorted(kept.roles),
        "sessions": None if kept.sessions is None else sorted(kept.sessions),
        "metadata": None if metadata is None else dict(metadata),
    }


def _context(given: Given) -> Given:
    if given.pop("count_tokens") is not None:
        raise InvalidInput("count_tokens", "must not be given: the service counts for itself")
    history, message = given.pop("history"), given.pop("message")
    past = parse_messages(history, max_bytes=LARGEST_MESSAGE) if history else []
    if not isinstance(message, str):
        message = dict(parse_messages(message, max_bytes=LARGEST_MESSAGE)[0].body)
    return {"message": message, "history": [dict(each.body) for each in past]}


def _remove_turns(given: Given) -> Given:
    ids, last = given.pop("ids"), given.pop("last")
    chosen = turn_choice(ids, last)
    # After the first attempt the last turns are others, so only named ones are retried.
    named = None if ids is None else sorted(map(str, chosen))
    return {"ids": named, "last": last, "safe": ids is not None}


def _injections(given: Given) -> Given:
    after = given.pop("after")
    last = None if after is None else as_id("after", getattr(after, "id", after))
    return {"after": None if last is None else str(last)}


_SPECIAL: dict[str, Callable[[Given], Given]] = {
    "add": _add,
    "context": _context,
    "injections": _injections,
    "open_episode": _open_episode,
    "recall": _recall,
    "recall_turns": _recall,
    "recent": _recent,
    "remove_turns": _remove_turns,
    "store": _store,
}
