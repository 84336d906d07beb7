"""The arithmetic and the tables of `benchmarks.adoption`. Nothing is installed or timed here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import adoption
from benchmarks.adoption import Installed, Start, Started
from tests.support.paths import ROOT

HERE = Path(sys.executable)
PROGRAMS = [Start(name=name, python=HERE, code="") for name in ("`import json`", "recall")]


def installed(name: str, megabytes: float, distributions: int) -> Installed:
    return Installed(
        name=name,
        command=f"pip install {name}",
        python=HERE,
        megabytes=megabytes,
        distributions=distributions,
    )


def test_the_extras_are_those_of_the_project_that_are_for_users():
    found = adoption.extras((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"client", "postgres", "server"} <= set(found)
    assert not adoption.NOT_FOR_USERS & set(found)
    assert found == sorted(found)


def test_medians_leave_out_the_first_round_and_programs_take_turns():
    rounds = [(900.0, 90.0), (900.0, 90.0), (1.0, 10.0), (5.0, 50.0)]
    rounds += [(2.0, 20.0), (8.0, 60.0), (9.0, 30.0), (6.0, 70.0)]
    times, order = iter(rounds), []

    def run(program: Start) -> tuple[float, float]:
        order.append(program.name)
        return next(times)

    assert adoption.measure(PROGRAMS, 3, run) == [
        Started(cpu_ms=2.0, resident_mb=20.0),
        Started(cpu_ms=6.0, resident_mb=60.0),
    ]
    assert order == ["`import json`", "recall"] * 4


def test_sizes_stand_beside_the_base():
    text = adoption.sizes_table(
        [
            installed("base", 300.0, 40),
            installed("light client", 36.4, 8),
            installed("x", 310.0, 42),
        ]
    )
    assert "| `pip install base` | 300 |  | 40 |" in text
    assert "| `pip install light client` | 36 | -264 | 8 |" in text
    assert "| `pip install x` | 310 | +10 | 42 |" in text


def test_starts_stand_beside_the_import_of_json():
    measured = [Started(cpu_ms=20.0, resident_mb=9.2), Started(cpu_ms=50.0, resident_mb=41.0)]
    text = adoption.starts_table(PROGRAMS, measured)
    assert "| `import json` | 20 | 1.0 | 9 |" in text
    assert "| recall | 50 | 2.5 | 41 |" in text


@pytest.mark.process
def test_a_process_that_fails_is_no_measurement():
    with pytest.raises(RuntimeError, match="broken failed with status 3"):
        adoption.start_once(Start(name="broken", python=HERE, code="raise SystemExit(3)"))


@pytest.mark.process
def test_a_process_is_measured_by_itself():
    cpu_ms, resident_mb = adoption.start_once(Start(name="bare", python=HERE, code=""))
    assert cpu_ms > 0
    assert resident_mb > 1
