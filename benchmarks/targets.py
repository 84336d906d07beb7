"""The target figures of Octopus, and the result of a run for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .measure import ratio

Result = dict[str, Any]
"""The JSON that a run wrote."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table of targets."""

    what: str
    floor: str
    target: str
    reached: str
    held: bool | None
    """None if the run did not measure it."""
    best_peer: str


def rows(result: Result) -> list[Row]:
    """Return every target, measured by this run or not."""
    return [
        _recall(result, 10_000, 4),
        _recall(result, 100_000, 4),
        _same_scope(result),
        *(_scope(result, turns) for turns in (10_000, 100_000)),
        _agreement(result),
        _one_add(result),
        _twenty(result),
        _times(result, "whole session of 20 turns, p50", "a session of 20", 10_000, 3),
        _bytes(result),
        _started(result, "import, CPU", "import"),
        _started(result, "cold start to first recall, CPU", "start"),
        _memory(result),
        _with_model(result),
        _installed(result),
        _mixed(result),
    ]


def figure(result: Result, name: str, job: str, turns: int) -> Result | None:
    """Return the figure of a job of a subject at a size; None if it was not measured."""
    for found in result["subjects"].get(name, {}).get("figures", ()):
        if found["job"] == job and found["turns"] == turns:
            return dict(found)
    return None


def peers(result: Result) -> list[str]:
    return [name for name in result["subjects"] if name != "octopus"]


def times_floor(found: Result | None, key: str = "p50") -> float | None:
    if not found or not found["subject"]:
        return None
    return ratio(found["subject"][key], found["floor"][key])


def _best(
    result: Result, value: Callable[[str], float | None], words: str, *, largest: bool = False
) -> str:
    known = [(found, name) for name in peers(result) if (found := value(name)) is not None]
    if not known:
        return "–"
    found, name = max(known) if largest else min(known)
    return f"{format(found, words.partition('|')[0])}{words.partition('|')[2]} ({name})"


def _row(what: str, target: str, reached: float | None, words: str, *, most: float) -> Row:
    shown = "not measured" if reached is None else _shown(reached, words)
    held = None if reached is None else round(reached, 2) <= most
    return Row(what=what, floor="–", target=target, reached=shown, held=held, best_peer="–")


def _shown(value: float, words: str) -> str:
    form, _, unit = words.partition("|")
    return f"{format(value, form)}{unit}"


def _with(row: Row, **changed: str) -> Row:
    return Row(**{**row.__dict__, **changed})


def _times(result: Result, what: str, job: str, turns: int, most: float, key: str = "p50") -> Row:
    mine = figure(result, "octopus", job, turns)
    row = _row(what, f"≤ {most} × floor", times_floor(mine, key), ".1f| ×", most=most)
    return _with(
        row,
        floor=f"{mine['floor'][key]:.2f} ms" if mine else "–",
        best_peer=_best(
            result, lambda name: times_floor(figure(result, name, job, turns), key), ".1f| ×"
        ),
    )


def _recall(result: Result, turns: int, most: float) -> Row:
    what = f"recall top 5, hybrid, query vector given, {turns:,} turns / 100 users, p50"
    return _times(result, what, "recall", turns, most)


def _same_scope(result: Result) -> Row:
    found = _of_million(result, "same scope, 1M beside 10k", 100)
    what = "same scope size, 1M instead of 10k turns in the database, p50"
    row = _row(what, "≤ 1.2 ×", times_floor(found), ".2f| ×", most=1.2)
    return _with(row, best_peer=_best(result, lambda name: _growth(result, name), ".1f| × at 100k"))


def _growth(result: Result, name: str) -> float | None:
    """Return the growth of a recall from 1,000 to 100,000 turns of all users, for peers."""
    few, many = (figure(result, name, "recall", turns) for turns in (1_000, 100_000))
    return many["subject"]["p50"] / few["subject"]["p50"] if few and many else None


def _scope(result: Result, turns: int) -> Row:
    found = _of_million(result, "recall in one scope", turns)
    row = _row(
        f"scope of {turns:,} turns, p50", "≤ 5 × floor", times_floor(found), ".1f| ×", most=5
    )
    return _with(row, floor=f"{found['floor']['p50']:.2f} ms") if found else row


def _of_million(result: Result, job: str, scope: int) -> Result | None:
    for found in result["subjects"].get("octopus", {}).get("figures", ()):
        if found["job"] == job and found["scope"] == scope:
            return dict(found)
    return None


def _agreement(result: Result) -> Row:
    found = _agreed(result, "octopus")
    held = None
    shown = "not measured"
    if found:
        least, fewest = min(v["agreement"] for v in found), min(v["fewest"] for v in found)
        lost = max(v["cosine_lost"] for v in found)
        shown = f"{least:.3f} (cosine lost {lost:.5f}), never fewer than {fewest:.0f} of 5"
        held = least >= 0.995 and fewest == 5
    others = [v["agreement"] for name in peers(result) for v in _agreed(result, name)]
    return Row(
        what="agreement with exact search, and never fewer than k when k exist",
        floor="1.00",
        target="1.00",
        reached=shown,
        held=held,
        best_peer=f"{min(others):.2f}–{max(others):.2f}" if others else "–",
    )


def _agreed(result: Result, name: str) -> list[dict[str, float]]:
    figures = result["subjects"].get(name, {}).get("figures", ())
    return [f["values"] for f in figures if f["job"] == "agreement with exact search"]


def _one_add(result: Result) -> Row:
    what = "one durable add, CPU"
    return _times(result, what, "add, 1 a call", 10_000, 3, key="cpu")


def _twenty(result: Result) -> Row:
    job = "add, 20 a call"
    mine = figure(result, "octopus", job, 10_000)
    share = ratio(1.0, times_floor(mine))
    row = _row("20 a call, turns/s", "≥ 0.4 of floor", share, ".2f| of floor", most=float("inf"))
    held = None if share is None else share >= 0.4
    rate = 20 / mine["floor"]["p50"] * 1e3 if mine else None
    peer = _best(
        result,
        lambda name: ratio(1.0, times_floor(figure(result, name, job, 10_000))),
        ".2f|",
        largest=True,
    )
    return Row(
        **{
            **row.__dict__,
            "held": held,
            "floor": f"{rate:,.0f}/s" if rate else "–",
            "best_peer": peer,
        }
    )


def _bytes(result: Result) -> Row:
    def of(name: str) -> float | None:
        found = figure(result, name, "bytes a turn", 10_000)
        return None if found is None else float(found["values"]["subject"])

    mine = figure(result, "octopus", "bytes a turn", 10_000)
    row = _row(
        "bytes a turn on disk, vector and all", "≤ 1,500", of("octopus"), ",.0f|", most=1_500
    )
    with_vectors = {
        name for name in peers(result) if "recall" in result["subjects"][name].get("can", ())
    }
    return _with(
        row,
        floor=f"{mine['values']['floor']:,.0f}" if mine else "–",
        best_peer=_best(result, lambda name: of(name) if name in with_vectors else None, ",.0f|"),
    )


def _started(result: Result, what: str, key: str) -> Row:
    def of(name: str) -> float | None:
        found = result["subjects"].get(name, {})
        mine, floor = found.get(f"subject_{key}"), found.get(f"floor_{key}")
        return ratio(mine["cpu_seconds"], floor["cpu_seconds"]) if mine and floor else None

    floor = result["subjects"].get("octopus", {}).get(f"floor_{key}")
    row = _row(what, "≤ 2 × floor", of("octopus"), ".1f| ×", most=2)
    return _with(
        row,
        floor=f"{floor['cpu_seconds']:.2f} s" if floor else "–",
        best_peer=_best(result, of, ".1f| ×"),
    )


def _memory(result: Result) -> Row:
    def of(name: str, whose: str = "subject") -> float | None:
        found = result["subjects"].get(name, {}).get(f"{whose}_start")
        return float(found["resident_mb"]) if found else None

    floor = of("octopus", "floor")
    row = _row("memory then", "≤ 60 MB", of("octopus"), ".0f| MB", most=60)
    return _with(
        row,
        floor=f"{floor:.0f} MB" if floor else "–",
        best_peer=_best(result, of, ".0f| MB"),
    )


def _with_model(result: Result) -> Row:
    size = result["subjects"].get("octopus", {}).get("model_mb")
    what = "memory with the embedder's model in it"
    return _row(what, "≤ 250 MB", None if size is None else float(size), ".0f| MB", most=250)


def _installed(result: Result) -> Row:
    def of(name: str) -> float | None:
        size = result["subjects"].get(name, {}).get("installed_mb")
        return None if size is None else float(size)

    what = "installed size with the embedder, fresh virtual environment"
    row = _row(what, "≤ 330 MB", of("octopus"), ".0f| MB", most=330)
    return _with(row, best_peer=_best(result, of, ".0f| MB without one"))


def _mixed(result: Result) -> Row:
    def words(found: dict[str, float]) -> str:
        return f"{found['errors']:.0f} errors, {found['lost']:.0f} lost in {found['calls']:,.0f}"

    found = result["subjects"].get("octopus", {}).get("mixed")
    others: Iterable[str] = (
        f"{name} {words(result['subjects'][name]['mixed'])}"
        for name in peers(result)
        if "mixed" in result["subjects"][name]
    )
    return Row(
        what="4 threads and a second process, 10,000 mixed calls",
        floor="–",
        target="0 errors",
        reached=words(found) if found else "not measured",
        held=found["errors"] == found["lost"] == 0 if found else None,
        best_peer="; ".join(others) or "–",
    )
