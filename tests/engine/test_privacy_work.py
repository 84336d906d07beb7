"""How much work redaction is: it grows with the text, and not with its square."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import octopus_memory
from octopus_memory import EpisodicMemory, MemoryConfig, PrivacyConfig

PACKAGE = str(octopus_memory.__path__[0])
FEW, MANY = 150, 900

VALUES: dict[str, Callable[[int], str]] = {
    "mail": lambda n: f"write to somebody{n}@example.com",
    "phone": lambda n: f"call +1 212 555 {n:04}",
    "network": lambda n: f"it runs on 10.0.{n // 250}.{n % 250 + 1}",
    "person": lambda n: f"my colleague Anna {_word(n)} said so",
    "born": lambda n: f"I was born on {n % 28 + 1} March {1900 + n // 28}",
}


def _word(number: int) -> str:
    letters = "abcdefghij"
    return "B" + "".join(letters[int(digit)] for digit in f"{number:04}") + "er"


def _lines_run(call: Callable[[], Any]) -> int:
    """How many lines of Octopus are executed, each as often as it is."""
    count = 0

    def line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def called(frame: FrameType, event: str, _: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_work_grows_with_the_number_of_values(memory: EpisodicMemory, value: Callable[[int], str]):
    memory.configure("hr", MemoryConfig(privacy=PrivacyConfig(pii="redact", numbered=True)))
    scope = memory.scope(agent="hr", user="ana")
    scope.add("warm", ("user", value(0)))

    def text(count: int) -> str:
        return ". ".join(value(number) for number in range(count))

    few = _lines_run(lambda: scope.add("few", ("user", text(FEW))))
    many = _lines_run(lambda: scope.add("many", ("user", text(MANY))))
    assert many < few * (MANY / FEW) * 1.8
    [stored] = scope.session("many").turns
    assert f"_{MANY // 2}]" in stored.text
