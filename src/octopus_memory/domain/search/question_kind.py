"""The kind of a question, which decides how the context block is filled.

| kind | example | what the block shows |
|---|---|---|
| point | "Which train do I take?" | the passages that match best |
| list | "Which books have I read?" | as many matching passages as the budget holds |
| time | "What did I do last week?" | what was said at that time, or tells of it |
| overview | "Summarise how my plans developed" | the whole, in the order of time |
| small talk | "Thanks!" | the facts that every answer needs |

The patterns are strings, so that `re` compiles each on the first question in its language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from ...words import listed, pattern
from ..context import QuestionKind
from .temporal import DateWindow, Order, date_window, session_cue
from .time_phrases import times_in_english, without_times


class Question(NamedTuple):
    """A question, and what it asks for."""

    kind: QuestionKind
    about: str
    """The question without words that only say how to answer, such as "summarise" or "in order"."""
    has_subject: bool = True
    """False if it names nothing but a time or the memory itself: "What did we discuss?"."""
    times: str = ""
    """The question in English, as far as it names times or an order; empty if it names none."""
    window: DateWindow | None = None
    conversation: Order = Order.NONE
    """The conversation it names: the last before this one, or the first."""
    of_user: bool = False
    """True if it asks for what the user said, as in "the order in which I brought up …"."""


def read_question(
    text: str, language: str, asked_at: datetime, terms: Callable[[str], Sequence[object]]
) -> Question:
    """Decide the kind of a question, for recall, the block and its explanation.

    :param terms: gives the words of a text in that language that are no stopwords
    """
    times = times_in_english(text, language)
    window = date_window(times, asked_at) if times else None
    conversation = session_cue(times) if times else Order.NONE
    if window is not None or conversation is not Order.NONE:
        kind = QuestionKind.TIME
    elif _matches("overview", text, language):
        kind = QuestionKind.OVERVIEW
    elif _matches("list", text, language):
        kind = QuestionKind.LIST
    else:
        kind = QuestionKind.POINT
    about, has_subject = text, True
    if kind in (QuestionKind.TIME, QuestionKind.OVERVIEW):
        framed = _without_frame(text, language)
        rest = re.sub(
            pattern("questions", "vague"), " ", without_times(framed, language), flags=re.IGNORECASE
        )
        has_subject = bool(terms(rest))
        about = framed if has_subject else text
    return Question(
        kind=kind,
        about=about,
        has_subject=has_subject,
        times=times,
        window=window,
        conversation=conversation,
        of_user=kind is QuestionKind.OVERVIEW and _matches("of user", text, language),
    )


def _without_frame(text: str, language: str) -> str:
    frame = pattern("questions", f"{language} frame")
    if not frame:
        return text
    rest = re.sub(frame, " ", text, flags=re.IGNORECASE)
    return " ".join(rest.split()).strip(" ?.,!¿¡？。，")


def _matches(kind: str, text: str, language: str) -> bool:
    wanted = pattern("questions", f"{language} {kind}")
    return bool(wanted) and re.search(wanted, text, re.IGNORECASE) is not None


def asks_time(text: str, language: str) -> bool:
    """True if the answer is a time: "since when", "um wie viel Uhr"."""
    wanted = pattern("questions", f"{language} asks time")
    return bool(wanted) and re.match(wanted, text, re.IGNORECASE) is not None


def asks_assistant(text: str, language: str) -> bool:
    """True if it asks for something the assistant said: "what did you recommend"."""
    return _matches("asks assistant", text, language)


_LONGEST_TALK = 120
_WORD = re.compile(r"\w+")


def is_small_talk(text: str) -> bool:
    """Return True for a message that only greets, thanks or agrees, so that it needs no memory.

    A thank-you or a farewell may name somebody or have one word more of its own.
    """
    if len(text) > _LONGEST_TALK:
        return False
    asks = "?" in text or "\uff1f" in text
    has_cue = re.search(pattern("questions", "small talk cue"), text.casefold()) is not None
    return _words_beside_talk(text) <= (has_cue and not asks) and (has_cue or not asks)


def _words_beside_talk(text: str) -> int:
    """Count the words that are not small talk."""
    rest = re.sub(pattern("questions", "small talk phrases"), " ", text.casefold())
    known = listed("questions", "small talk")
    return sum(word not in known for word in _WORD.findall(rest))
