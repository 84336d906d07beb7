"""Reasons of the block and the ledger, in words for a page."""

from __future__ import annotations

from ...domain.block.passages import LeftOutReason
from ...domain.context import QuestionKind
from ...domain.errors import EpisodeNotFound, FactNotFound, NotFound, SessionNotFound
from ...domain.facts import FactKind
from ...domain.ledger import Injected, InjectedKind
from ...ports.recall_rows import WorkKind

KINDS: dict[str, str] = {
    FactKind.NAME: "Name",
    FactKind.LANGUAGE: "Language",
    FactKind.INSTRUCTION: "Instructions",
    FactKind.CONSTRAINT: "Constraints",
    FactKind.PREFERENCE: "Preferences",
    FactKind.PERSON: "People",
    FactKind.HOME: "Home",
    FactKind.WORK: "Work",
    FactKind.PLAN: "Plans",
    FactKind.OTHER: "Other",
}
QUESTIONS: dict[str, str] = {
    QuestionKind.POINT: "a question about one thing",
    QuestionKind.LIST: "a question that asks for several things",
    QuestionKind.TIME: "a question about a time",
    QuestionKind.OVERVIEW: "a question about everything",
    QuestionKind.SMALL_TALK: "small talk, for which nothing is searched",
}
WORK: dict[str, str] = {
    WorkKind.EMBED: "vectors",
    WorkKind.SUMMARIZE: "better summaries",
    WorkKind.INDEX: "copies to the mirror",
    WorkKind.UNINDEX: "removals from the mirror",
    WorkKind.TIMES: "times named in old messages",
}
LEFT_OUT: dict[str, str] = {
    LeftOutReason.BUDGET: "no room in the budget",
    LeftOutReason.RELEVANCE: "too little to do with the message",
    LeftOutReason.SHARE: "its kind had used its share of the budget",
    LeftOutReason.SESSION: "part of the session that is going on",
    LeftOutReason.HISTORY: "the history holds the same words",
    LeftOutReason.SUBJECT: "the message is not about it",
}
SIGNALS: dict[str, str] = {
    "question": "fits the question",
    "meaning": "close in meaning",
    "words": "same words",
    "around": "messages around it",
    "episode": "its conversation",
    "form": "full statement",
    "side": "who said it",
    "speaker": "the person named",
    "date": "the time named",
    "time": "mentions a time",
    "order": "first or last",
}
"""Names of the signals beside their bars."""
_HELPED = {
    "meaning": "is close in meaning",
    "words": "shares words with the message",
    "around": "stands among messages that match",
    "episode": "belongs to a conversation about the same thing",
    "form": "is a full statement",
    "side": "was said by the side that the message asks about",
    "speaker": "was said by the person asked about",
    "date": "was said at the time asked about",
    "time": "names a time, as the message asks for one",
    "order": "is as early or as late as the message asks for",
    "recall tool": "was looked up by the model with its recall tool",
}
_FACTS: dict[str, str] = {
    "pinned": "It is pinned, so it is always shown.",
    FactKind.NAME: "The user's name is always shown.",
    FactKind.LANGUAGE: "The user's language is always shown.",
    FactKind.INSTRUCTION: "The user's instructions are always shown.",
    FactKind.CONSTRAINT: "Every answer must respect it, so it is always shown.",
}


def missing(error: NotFound) -> str:
    """Return what a page says of a thing that is not there."""
    match error:
        case SessionNotFound():
            return f"This user has no session “{error.session_id}”. It may have been erased."
        case EpisodeNotFound():
            return "This user has no such episode. It may have been erased."
        case FactNotFound():
            return "This user has no such fact. It may have been replaced or deleted."
    return "There is no such entry. It may have been removed, or its time is over."


def why(item: Injected) -> str:
    """Return a sentence that says why an item of the ledger was shown or cut."""
    if item.reason in LEFT_OUT:
        return _sentence(LEFT_OUT[item.reason])
    match item.kind:
        case InjectedKind.FACT:
            kind = KINDS.get(item.reason, "other").lower()
            return _FACTS.get(item.reason, f"A fact ({kind}) that the message is about.")
        case InjectedKind.SUMMARY if item.reason == "recent":
            return "It is one of the last conversations."
        case InjectedKind.SUMMARY:
            return "Its conversation is about the same thing."
    named = [_HELPED[name] for name in item.reason.split(", ") if name in _HELPED]
    if not named:
        return "Little speaks for it, but there was room."
    *first, last = named
    return f"It {', '.join(first)} and {last}." if first else f"It {last}."


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
