"""The parts of a turn's score, kept apart so that each can be shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bm25 import LexicalScores
from .episode import SignalShare
from .query import QueryPlan
from .rows import Rows
from .temporal import Order

Floats = NDArray[np.float32]

# Spreads under these are chance: in a scope of three turns the nearest is not much nearer.
_LEAST_COSINE_SPREAD = 0.05
_LEAST_WORDS_SPREAD = 0.5
_UNSEEN = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Round values from a wide plateau, chosen on five LoCoMo conversations."""

    meaning: float = 0.7
    words: float = 0.3
    previous: float = 0.1
    next: float = 0.2
    speaker: float = 3.0
    first_of_speakers: float = 1.0
    date: float = 4.0
    episode: float = 0.2
    question: float = -1.0
    length: float = 0.2
    time: float = 0.5
    archived: float = 0.5
    user: float = 1.0
    order: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signals:
    """What the index found for one question, a value for each row."""

    rows: Rows
    dense: Floats
    """Cosine with the question, NaN where the row has no vector."""
    lexical: LexicalScores


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreParts:
    """What each signal adds to each row's score; None for a signal that the question has not."""

    signals: Signals
    meaning: Floats
    words: Floats
    around: Floats
    episode: Floats
    form: Floats
    side: Floats | None
    speaker: Floats | None
    date: Floats | None
    time: Floats | None
    order: Floats | None

    def total(self) -> Floats:
        score = self.meaning + self.words
        score += self.around
        score += self.episode
        score += self.form
        for part in (self.side, self.speaker, self.date, self.time, self.order):
            if part is not None:
                score += part
        return score

    def explain(self, row: int) -> tuple[SignalShare, ...]:
        """What made up one row's score, the strongest signal first."""
        shares = [share for share in self._shares(row) if abs(share.contribution) > _UNSEEN]
        return tuple(sorted(shares, key=lambda share: -abs(share.contribution)))

    def _shares(self, row: int) -> Iterator[SignalShare]:
        cosine = float(self.signals.dense[row])
        if not math.isnan(cosine):
            yield _share("meaning", cosine, self.meaning[row], f"cosine {cosine:.2f}")
        whole = self.signals.lexical.whole
        covered = min(1.0, float(self.signals.lexical.row[row]) / whole) if whole else 0.0
        yield _share(
            "words", covered, self.words[row], f"{covered:.0%} of the question's words, by rarity"
        )
        yield _share("around", self.around[row], self.around[row], "the turns before and after")
        about = float(self.signals.lexical.episode[self.signals.rows.episode[row]])
        yield _share("episode", about, self.episode[row], "the question's words in all of it")
        yield _share(
            "form",
            self.form[row],
            self.form[row],
            "a statement, a long turn, or all that is left of it"
            if self.form[row] > 0
            else "a question, or a short turn",
        )
        for signal, part, words in (
            ("side", self.side, "said by the side that the question is about"),
            ("speaker", self.speaker, "said by the person the question names"),
            ("date", self.date, "at the time the question names"),
            ("time", self.time, "tells of a time, as the question asks"),
            ("order", self.order, "first or last, as the question asks"),
        ):
            if part is not None:
                yield _share(signal, part[row], part[row], words)


def gather(signals: Signals, plan: QueryPlan, weights: Weights) -> ScoreParts:
    """Every part of the score of every row."""
    rows = signals.rows
    meaning, words = _match(signals, weights)
    return ScoreParts(
        signals=signals,
        meaning=meaning,
        words=words,
        around=_around(meaning + words, rows, weights),
        episode=_episode(signals, weights),
        form=_form(rows, weights),
        side=_side(rows, plan, weights),
        speaker=_speaker(rows, plan, weights),
        date=_date(rows, plan, weights),
        time=rows.tells_time * np.float32(weights.time) if plan.asks_time else None,
        order=_order(rows, plan, weights),
    )


def _match(signals: Signals, weights: Weights) -> tuple[Floats, Floats]:
    words = _standard(signals.lexical.row, _LEAST_WORDS_SPREAD)
    missing = np.isnan(signals.dense)
    if not missing.any():
        meaning = _standard(signals.dense, _LEAST_COSINE_SPREAD) * np.float32(weights.meaning)
        return meaning, words * np.float32(weights.words)
    # A row that has no vector yet stands by its words alone.
    meaning = np.zeros(len(words), np.float32)
    meaning[~missing] = _standard(signals.dense[~missing], _LEAST_COSINE_SPREAD) * np.float32(
        weights.meaning
    )
    share = np.where(missing, weights.meaning + weights.words, weights.words)
    return meaning, words * share.astype(np.float32)


def _standard(values: Floats, least: float) -> Floats:
    """In spreads over the mean of the scope."""
    if not len(values):
        return values
    mean = values.mean()
    variance = float(values @ values) / len(values) - float(mean) ** 2
    standard: Floats = (values - mean) * np.float32(max(variance, least * least) ** -0.5)
    return standard


def _around(match: Floats, rows: Rows, weights: Weights) -> Floats:
    around = np.zeros(len(rows), np.float32)
    around[1:] = match[:-1] * rows.together * np.float32(weights.previous)
    around[:-1] += match[1:] * rows.together * np.float32(weights.next)
    return around


def _episode(signals: Signals, weights: Weights) -> Floats:
    about = _standard(signals.lexical.episode, _LEAST_WORDS_SPREAD) * np.float32(weights.episode)
    return about[signals.rows.episode]


def _form(rows: Rows, weights: Weights) -> Floats:
    # Not so with an assistant: there the user tells while asking, and long answers are the rule.
    alike = 1 - rows.lopsided
    form: Floats = rows.question * np.float32(weights.question * alike)
    form += rows.length * np.float32(weights.length * alike)
    form += rows.archived * np.float32(weights.archived)
    return form


def _side(rows: Rows, plan: QueryPlan, weights: Weights) -> Floats | None:
    """An assistant writes more about everything; what counts is mostly what the user said."""
    if not rows.lopsided:
        return None
    towards_user = -1 if plan.asks_assistant else 1
    return rows.side * np.float32(towards_user * weights.user * rows.lopsided / 2)


def _speaker(rows: Rows, plan: QueryPlan, weights: Weights) -> Floats | None:
    if plan.speaker is None:
        return None
    said: Floats = (rows.speaker == plan.speaker) + rows.anyone
    return said * np.float32(weights.speaker if plan.only_speaker else weights.first_of_speakers)


def _date(rows: Rows, plan: QueryPlan, weights: Weights) -> Floats | None:
    if plan.window is None:
        return None
    return plan.window.closeness(rows.time) * np.float32(weights.date)


def _order(rows: Rows, plan: QueryPlan, weights: Weights) -> Floats | None:
    if plan.order is Order.NONE or rows.episodes < 2:
        return None
    place = rows.episode.astype(np.float32) * np.float32(weights.order / (rows.episodes - 1))
    return place if plan.order is Order.LATEST else np.float32(weights.order) - place


def _share(signal: str, value: float, contribution: float, words: str) -> SignalShare:
    return SignalShare(
        signal=signal,
        value=round(float(value), 4),
        contribution=round(float(contribution), 4),
        words=words,
    )
