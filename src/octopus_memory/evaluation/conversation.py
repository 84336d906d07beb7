"""Conversations and questions of a benchmark, independent of the file format."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from ..domain.message import Json, Message, ToolCall

UNANSWERABLE = "questions without an answer"
"""Key under which `Dataset.left_out` counts `Conversation.unanswerable`."""

_AFTER_THE_LAST_WORD = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTurn:
    id: str
    session_id: str
    role: str
    text: str
    at: datetime
    name: str | None = None
    function: str | None = None
    """The function that was called, if a tool turn names it."""
    arguments: Json = None

    @property
    def message(self) -> Message:
        """Return the turn as a message. A tool turn carries its call."""
        if self.function is not None:
            return Message.tool(
                ToolCall(
                    tool_call_id=self.id,
                    function_name=self.function,
                    arguments=self.arguments,
                    result=self.text,
                )
            )
        body: dict[str, Json] = {"role": self.role, "content": self.text}
        if self.role == "tool":
            body["tool_call_id"] = self.id
        if self.name is not None:
            body["name"] = self.name
        return Message(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and where its answer was said."""

    text: str
    category: str
    evidence_turns: frozenset[str]
    evidence_sessions: frozenset[str]
    asked_at: datetime | None = None
    answer: str | None = None
    answer_words: tuple[str, ...] = ()
    """Short strings of the evidence that contain the answer."""
    answer_dates: tuple[date, ...] = ()
    """Days that a block must name beside the answer's words."""
    forbidden_words: tuple[str, ...] = ()
    """Short strings that no block may hold, because the user had them forgotten."""
    rubric: tuple[str, ...] = ()
    """Points that a judge looks for in an answer."""
    language: str | None = None

    @property
    def has_gold(self) -> bool:
        """Tell whether the data say what a right answer is."""
        return bool(self.answer or self.rubric)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What the user had forgotten, and when."""

    about: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The history of one user, sessions in the order of time, and the questions about it."""

    id: str
    turns: tuple[BenchTurn, ...]
    questions: tuple[Question, ...]
    unanswerable: tuple[Question, ...] = ()
    """Questions that the data mark as having no evidence: small talk, or never answered."""
    forgotten: tuple[Forgotten, ...] = ()

    def asked_at(self, question: Question) -> datetime:
        """Return when a question without a date is asked: a day after the last turn."""
        return question.asked_at or max(turn.at for turn in self.turns) + _AFTER_THE_LAST_WORD

    def about(self, categories: Collection[str]) -> Conversation:
        """Return the conversation with the questions of these categories only."""
        return replace(
            self,
            questions=tuple(a for a in self.questions if a.category in categories),
            unanswerable=tuple(a for a in self.unanswerable if a.category in categories),
        )

    def of_user(self) -> Conversation:
        """Return the conversation with the turns of the user only, and the evidence in them."""
        turns = tuple(turn for turn in self.turns if turn.role == "user")
        session_of = {turn.id: turn.session_id for turn in turns}
        questions = (_reduced(asked, session_of) for asked in self.questions)
        return replace(self, turns=turns, questions=tuple(filter(_has_evidence, questions)))


def _reduced(asked: Question, session_of: dict[str, str]) -> Question:
    turns = frozenset(asked.evidence_turns & session_of.keys())
    if asked.evidence_turns:
        sessions = frozenset(session_of[turn] for turn in turns)
    else:
        sessions = asked.evidence_sessions & frozenset(session_of.values())
    return replace(asked, evidence_turns=turns, evidence_sessions=sessions)


def _has_evidence(asked: Question) -> bool:
    return bool(asked.evidence_turns or asked.evidence_sessions)
