"""The export format: content of lines, and errors of the reader."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from octopus_memory import ImportReport, InvalidInput
from octopus_memory.domain.ids import new_id
from octopus_memory.domain.transfer.export_format import (
    LineCount,
    derived_id,
    encode_line,
    header,
    id_beside,
    is_header,
    time_text,
)
from octopus_memory.domain.transfer.export_reader import ExportLine, read_lines

MADE_AT = datetime(2025, 3, 14, 9, 26, 53, 589793, tzinfo=UTC)
HEADER = header(made_at=MADE_AT, tenant="acme", user="ana", agent=None)


def whole(*bodies: dict[str, Any]) -> list[str]:
    """Lines of a whole export: header, these lines, and a matching trailer."""
    tally = LineCount()
    lines = []
    for body in (HEADER, *bodies):
        lines.append(encode_line(body))
        tally.add(lines[-1], body["kind"])
    return [*lines, encode_line(tally.trailer())]


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "草 é 🐙",
        "a\u2028b\u2029c\x85d",
        "\ud800",
        "\udc00\ud800",
        "\0\n\r\x1b\x7f\x9f",
        '"\\',
    ],
)
def test_any_text_is_one_line_of_utf_8(text: str):
    line = encode_line({"kind": "turn", "text": text})
    assert line.splitlines() == [line]
    assert json.loads(line.encode().decode()) == {"kind": "turn", "text": text}


def test_text_that_people_read_stays_readable():
    assert "草 é 🐙" in encode_line({"text": "草 é 🐙"})


def test_times_are_utc_with_every_microsecond():
    moment = MADE_AT.astimezone(timezone(timedelta(hours=5)))
    assert time_text(moment) == "2025-03-14T09:26:53.589793Z"


def test_an_id_that_is_made_from_parts_is_always_the_same():
    made = derived_id(1_741_944_413_589, "a", "bc")
    assert made == derived_id(1_741_944_413_589, "a", "bc")
    others = {derived_id(1_741_944_413_589, *parts) for parts in (("ab", "c"), ("a", "b"), ("a",))}
    assert made not in others
    assert len(others) == 3
    assert (made.version, made.variant) == (7, UUID(int=0x80 << 56).variant)
    assert made.int >> 80 == 1_741_944_413_589


def test_an_id_beside_another_keeps_its_time():
    own = new_id()
    beside = id_beside(own, "acme", "hr", "ana")
    assert beside != own
    assert beside.int >> 80 == own.int >> 80
    assert beside == id_beside(own, "acme", "hr", "ana")
    assert beside != id_beside(own, "acme", "hr", "ben")


def test_a_whole_export_is_read():
    lines = whole({"kind": "scope", "agent": "hr"}, {"kind": "turn", "n": 1})
    assert [line.kind for line in read_lines(lines)] == ["header", "scope", "turn"]
    assert [line.number for line in read_lines(lines)] == [1, 2, 3]


def test_line_ends_and_blank_lines_do_not_matter():
    lines = whole({"kind": "scope", "agent": "hr"})
    dressed = ["\n", f"{lines[0]}\r\n", "  \n", *(f"{line}\n" for line in lines[1:]), "\n"]
    assert [line.number for line in read_lines(dressed)] == [2, 4]


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda lines: [], "lines: are empty"),
        (lambda lines: lines[:-1], "line 2: is the last but not a trailer: the export is cut off"),
        (lambda lines: [*lines[:-1], lines[-1][:-20]], "line 3: is not JSON"),
        (lambda lines: [lines[0], "[1]", lines[-1]], "line 2: must be a JSON object"),
        (lambda lines: [lines[0], lines[-1]], "line 2, scopes: does not match the lines before"),
        (lambda lines: [lines[0], lines[1] + " ", lines[2]], "line 3, sha256: does not match"),
        (lambda lines: lines[1:], "line 1, format: is not octopus-export"),
        (lambda lines: [*lines, lines[0]], "line 4: must not follow the trailer"),
        (
            lambda lines: [lines[0].replace('"version":3', '"version":4'), *lines[1:]],
            "line 1, version: is 4, but this Octopus reads up to 3: pip install --upgrade",
        ),
    ],
)
def test_errors_name_their_line(spoil, problem: str):
    with pytest.raises(InvalidInput) as raised:
        list(read_lines(spoil(whole({"kind": "scope", "agent": "hr"}))))
    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize(
    ("method", "value", "problem"),
    [
        ("text", 1, "must be text"),
        ("name", "", "must have 1 to 256 characters"),
        ("name", None, "must be text"),
        ("texts", ["a", 1], "must be a list of texts"),
        ("items", "ab", "must be a list"),
        ("flag", 1, "must be true or false"),
        ("count", -1, "must be a whole number"),
        ("count", True, "must be a whole number"),
        ("count", 2**31, "must be a whole number"),
        ("table", [], "must be an object"),
        ("time", "yesterday", "must be a time such as"),
        ("time", "2025-03-14T09:26:53", "must have a time zone"),
        ("uuid", "42", "must be a UUID"),
    ],
)
def test_each_field_is_checked(method: str, value: Any, problem: str):
    line = ExportLine(7, {"f": value})
    with pytest.raises(InvalidInput, match=f"^line 7, f: {problem}"):
        getattr(line, method)("f")
    with pytest.raises(InvalidInput, match="^line 7, g: is missing$"):
        getattr(line, method)("g")


def test_only_an_export_has_its_header():
    assert is_header(HEADER)
    assert not is_header({"format": "other"})
    assert not is_header([HEADER])
    assert not is_header("octopus-export")


def test_a_report_warns_of_what_retention_will_take():
    assert ImportReport(source="octopus", episodes=3).warnings == ()
    [warning] = ImportReport(source="octopus", episodes=3, overdue=2).warnings
    assert warning.startswith("2 of the imported episodes are older")
    assert ImportReport(source="octopus", overdue=2).to_dict()["warnings"] == [warning]
