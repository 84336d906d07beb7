"""Short dialogues in five languages, each with the turn that answers and questions about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.paths import DATA

_FILE = DATA / "everyday_dialogues.txt"


@dataclass
class Dialogue:
    language: str
    subject: str
    turns: list[tuple[str, str]] = field(default_factory=list)
    answer: str = ""
    questions: list[str] = field(default_factory=list)


def dialogues(language: str) -> list[Dialogue]:
    found: list[Dialogue] = []
    for line in _FILE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            found.append(Dialogue(*line.split()[1:]))
        elif line.startswith("? "):
            found[-1].questions.append(line[2:])
        elif line and not line.startswith("#"):
            who, _, text = line.lstrip("*").partition(": ")
            found[-1].turns.append(("user" if who == "u" else "assistant", text))
            if line.startswith("*"):
                found[-1].answer = text
    return [each for each in found if each.language == language]
