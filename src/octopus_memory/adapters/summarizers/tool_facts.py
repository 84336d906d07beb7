"""Key facts from tool results: values that the conversation does not repeat."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ...domain.episode import SAYS, Turn
from ...domain.message import Json, Role
from ...domain.text.neutralize import LINE_BREAK
from .sentences import one_line_of, shorten, speaker_of

_RESULT_CHARS = 4_000
_FACT_CHARS = 240
_VALUE_CHARS = 80


def tool_facts(turns: Sequence[Turn], limit: int) -> dict[int, str]:
    """At most `limit` facts by the turn's position: the newest results with new values."""
    said = "\n".join(turn.text for turn in turns if turn.role is not Role.TOOL).casefold()
    facts: dict[int, str] = {}
    for turn in reversed(turns):
        if len(facts) >= limit:
            break
        if turn.role is Role.TOOL and (line := _result_line(turn.text, said)):
            fact = f"{speaker_of(turn)}{SAYS}{line.replace(SAYS, ', ')}"
            if fact not in facts.values():
                facts[turn.ordinal] = fact
    return facts


def _result_line(text: str, said: str) -> str:
    """The result in one line, or empty if the conversation contains all of it."""
    pairs = list(_pairs(_parsed(text)))
    if not pairs:
        lines = _lines(text[:_RESULT_CHARS])
        is_said = all(line.casefold() in said for line in lines)
        return "" if is_said else shorten(LINE_BREAK.join(lines), _FACT_CHARS)
    is_new = [value.casefold() not in said for _, value in pairs]
    if not any(is_new):
        return ""
    room = _FACT_CHARS
    kept: set[int] = set()
    # New values come first, because not everything may fit.
    for i in sorted(range(len(pairs)), key=lambda i: not is_new[i]):
        room -= len(pairs[i][0]) + len(pairs[i][1]) + 3
        if room < 0:
            break
        kept.add(i)
    shown = [f"{name} {value}".strip() for name, value in map(pairs.__getitem__, sorted(kept))]
    return ", ".join(shown) + "." if shown else ""


def _lines(text: str) -> list[str]:
    """Non-empty lines, kept apart, because a role header may begin one."""
    return [line for line in map(one_line_of, text.splitlines()) if line]


def _parsed(text: str) -> Json:
    if not text.lstrip().startswith(("{", "[")) or len(text) > _RESULT_CHARS:
        return None
    try:
        # Keep numbers as written: a search for 64.90 does not match 64.9.
        parsed: Json = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    return parsed


def _pairs(value: Json, name: str = "") -> Iterator[tuple[str, str]]:
    """Scalar values of a result, each with its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _pairs(inner, one_line_of(str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from _pairs(inner, name)
    elif isinstance(value, str) and (lines := _lines(value)):
        yield name, shorten(LINE_BREAK.join(lines), _VALUE_CHARS)
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
