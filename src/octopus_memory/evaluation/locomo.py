"""LoCoMo: ten long chats of two friends, with questions (Maharana et al., ACL 2024).

`speaker_a` plays the user and `speaker_b` the assistant; both keep their names. The data have dates
of sessions, not of turns, so each turn has the time of its session.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from . import fields
from .conversation import BenchTurn, Conversation, Question

LABELS = {
    "1": "multi-hop",
    "2": "temporal",
    "3": "open-domain",
    "4": "single-hop",
    "5": "adversarial",
}
ANSWERABLE = ("1", "2", "3", "4")

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_DATE = "%I:%M %p on %d %B, %Y"


def read(text: str, left_out: Counter[str], *, captions: bool = False) -> list[Conversation]:
    """Read LoCoMo. `captions` adds the captions of images to the turns that shared them."""
    return [
        _conversation(sample, f"sample {place}", left_out, captions=captions)
        for place, sample in enumerate(fields.records(text))
    ]


def _conversation(
    sample: Any, where: str, left_out: Counter[str], *, captions: bool
) -> Conversation:
    said = fields.field(sample, "conversation", dict, where)
    turns = _turns(said, where, captions=captions)
    session_of = {turn.id: turn.session_id for turn in turns}
    questions = [
        _question(asked, session_of, f"{where}, qa {place}", left_out)
        for place, asked in enumerate(fields.field(sample, "qa", list, where))
    ]
    return Conversation(
        id=str(sample.get("sample_id", where)),
        turns=tuple(turns),
        questions=tuple(asked for asked in questions if asked is not None),
    )


def _turns(said: Mapping[str, Any], where: str, *, captions: bool) -> list[BenchTurn]:
    first = fields.field(said, "speaker_a", str, where)
    numbers = sorted(int(found[1]) for key in said if (found := _SESSION.fullmatch(key)))
    turns: list[BenchTurn] = []
    for number in numbers:
        session = f"session_{number}"
        spoken = fields.field(said, session, list, where)
        if not spoken:
            continue
        date = fields.field(said, f"{session}_date_time", str, where)
        at = fields.moment(date, _DATE, f"{where}, {session}")
        for place, turn in enumerate(spoken):
            here = f"{where}, {session}[{place}]"
            speaker = fields.field(turn, "speaker", str, here)
            turns.append(
                BenchTurn(
                    id=fields.field(turn, "dia_id", str, here),
                    session_id=session,
                    role="user" if speaker == first else "assistant",
                    name=speaker,
                    text=_text(turn, here, captions=captions),
                    at=at,
                )
            )
    return turns


def _text(turn: Mapping[str, Any], where: str, *, captions: bool) -> str:
    text = fields.field(turn, "text", str, where)
    caption = turn.get("blip_caption") if captions else None
    return f"{text} [shared an image: {caption}]" if caption else text


def _question(
    asked: Any, session_of: Mapping[str, str], where: str, left_out: Counter[str]
) -> Question | None:
    named = _evidence(fields.field(asked, "evidence", list, where), left_out)
    turns = frozenset(turn for turn in named if turn in session_of)
    left_out["evidence ids that name no turn"] += len(named - turns)
    if not turns:
        left_out["questions without evidence"] += 1
        return None
    return Question(
        text=fields.field(asked, "question", str, where),
        category=str(asked.get("category", "")),
        evidence_turns=turns,
        evidence_sessions=frozenset(session_of[turn] for turn in turns),
        answer=fields.optional_text(asked, "answer", where),
    )


def _evidence(given: list[Any], left_out: Counter[str]) -> frozenset[str]:
    """Return ids as the turns spell them. The data also have "D8:6; D9:17", "D:11:26" and "D"."""
    found: set[str] = set()
    for text in given:
        places = _EVIDENCE.findall(str(text))
        if not places:
            left_out["evidence ids that name no turn"] += 1
        found.update(f"D{int(session)}:{int(turn)}" for session, turn in places)
    return frozenset(found)
