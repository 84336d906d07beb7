"""Word lists and patterns that classify sentences as facts, wishes, filler or markup."""

from __future__ import annotations

import re

from ...words import pattern, sections

# Words besides the stopwords that tell little about a conversation's subject.
FREQUENT = " ".join(sections("sentences")["frequent"])
FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
LINK = re.compile(r"!?\[([^][\n]{0,200})\]\([^()\s]{0,500}\)")
URL = re.compile(r"https?://([^\s/]+)\S*")
MARKUP = re.compile(r"(?m)^[\s>#*+\-–•|]*|\*\*|__|`+|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff|]")
NUMBERING = re.compile(r"(?m)^[ \t]*\d{1,2}[.)]\s+(?=\S)")


def _of(name: str) -> str:
    return pattern("sentences", name)


def _opener(words: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?i)^(?:(?:{words})(?:,? (?-i:[A-ZÀ-Þ])\w+\.?){{0,2}}(?:[,!.…:]+| [-–])(?:\s+|$)"
        rf"|(?:and|but|so|ok|okay|yeah|also),?\s+)+|{_of('foreign opener')}"
    )


_GREETING, _YES, _ASSENT = map(_of, ("greeting", "assent yes", "assent"))
OPENER = _opener(f"{_GREETING}|{_YES}|{_ASSENT}")
# Openings of answers: "yes" from anyone, and "sure" from a person. An assistant says "sure" before
# anything.
PERSON_OPENER = _opener(_GREETING)
ASSISTANT_OPENER = _opener(f"{_GREETING}|{_ASSENT}")
# First word of an answer that needs its question: yes, no and the like.
YES_NO = re.compile(_of("yes no"))
# An assistant's question whose answer is not worth remembering.
IDLE_QUESTION = re.compile(_of("idle question"))
# An offer: the answer to it is at most a decision.
OFFER = re.compile(_of("offer"))
# A question without a question mark.
ASKING = re.compile(_of("asking"))
# Dates, times and amounts without digits.
WHEN = re.compile(_of("when"))
NAME = re.compile(r"(?<=[\w,;:] )(?!I\b)[A-ZÀ-Þ][\w'’]+")
FIRST_PERSON = re.compile(_of("first person"))
SECOND_PERSON = re.compile(r"(?i)\b(?:you|your)\b")
# Lasting facts (likes, traits, work, home), events, plans and decisions.
STATED = re.compile(_of("stated"))
REQUEST = re.compile(_of("request"))
TASK = re.compile(_of("task"))
RESULT = re.compile(_of("result"))
ADVICE = re.compile(_of("advice"))
FILLER = re.compile(_of("filler"))
DANGLING = re.compile(_of("dangling"))
