"""Scoring of rows, one array per signal, so that a score can be explained, and calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..episode import SignalShare
from ..errors import InvalidSetting
from .bm25 import LexicalScores
from .features import SUMMARY, WEIGHTS, RowFeatures
from .languages import Reading
from .query import QueryPlan
from .temporal import Order
from .terms import Flag

Floats = NDArray[np.float32]

# Log odds below this give a relevance of practically 0.
_LEAST_ODDS = -60.0
_NONE = np.zeros(1, np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitLine:
    """Linear model of the log odds that a row answers the question."""

    bias: float
    cosine: float
    coverage: float

    def __post_init__(self) -> None:
        for name in ("bias", "cosine", "coverage"):
            _check(name, getattr(self, name), least=-math.inf if name == "bias" else 0)

    def odds(self, cosine: Floats, coverage: Floats) -> Floats:
        odds = cosine * self.cosine + coverage * self.coverage
        odds += self.bias
        return odds


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A logistic model, fitted for one embedder by `benchmarks/fit_calibration.py`.

    A row's relevance comes from its own evidence, limited by its rank, so that a lower rank never
    has a higher relevance.
    """

    both: LogitLine
    meaning: LogitLine
    """For questions without words."""
    words: LogitLine
    """For rows without a vector."""
    glossed: LogitLine
    """For a question in a language that the embedder reads word for word: cosines are lower."""
    foreign: LogitLine
    """For a question in a language that the embedder cannot read: cosines mean nothing."""
    behind: float
    """Log odds lost per point of score behind the best row."""

    def __post_init__(self) -> None:
        _check("behind", self.behind, least=0)

    @classmethod
    def default(cls) -> Self:
        """Calibration of the built-in embedder, used for embedders without one of their own."""
        return cls(
            both=LogitLine(bias=-1.4, cosine=6.3, coverage=3.2),
            meaning=LogitLine(bias=-1.9, cosine=9.7, coverage=0.0),
            words=LogitLine(bias=0.4, cosine=0.0, coverage=4.7),
            glossed=LogitLine(bias=-1.1, cosine=6.3, coverage=3.2),
            foreign=LogitLine(bias=1.5, cosine=0.0, coverage=3.0),
            behind=0.4,
        )

    def odds(
        self, cosine: Floats, coverage: Floats | None, reading: Reading = Reading.FLUENT
    ) -> Floats:
        """Log odds of each row from its own evidence; cosines may be NaN, coverage None."""
        if coverage is None:
            odds = self.meaning.odds(cosine, _NONE)
        elif reading is Reading.NONE:
            return self.foreign.odds(_NONE, coverage)
        else:
            line = self.glossed if reading is Reading.GLOSSED else self.both
            odds = line.odds(cosine, coverage)
        if math.isnan(np.add.reduce(odds)):
            missing = np.isnan(cosine)
            odds[missing] = _LEAST_ODDS
            if coverage is not None:
                odds[missing] = self.words.odds(_NONE, coverage[missing])
        return odds

    def relevance(
        self, scores: Sequence[float], odds: Sequence[float], beyond: float = -math.inf
    ) -> list[float]:
        """Calibrated relevance of rows sorted best first.

        Monotone: no row gets more than its predecessor. A row gets at most the best odds among
        itself and the rows after it, and at most the first row's minus the cost of being behind.
        `beyond` is the best odds among rows not given.
        """
        if not scores:
            return []
        shown = list(accumulate(reversed(odds), max, initial=beyond))[:0:-1]
        most = shown[0] - self.behind * scores[0]
        return [
            _likely(min(can, most + self.behind * score))
            for score, can in zip(scores, shown, strict=True)
        ]


def _likely(odds: float) -> float:
    return 1 / (1 + math.exp(-max(odds, _LEAST_ODDS)))


def _check(name: str, value: float, *, least: float) -> None:
    if not math.isfinite(value) or value < least:
        raise InvalidSetting(f"calibration.{name}", "must be finite; slopes must not be negative")


# Minimum standard deviations: in a scope of three turns, smaller differences are chance.
_LEAST_COSINE_SPREAD = 0.05
_LEAST_WORDS_SPREAD = 0.5
_UNSEEN = 0.005
_LEAST_CHANCE = 1e-6

_LONG = "a statement, a long turn, or the summary of an archived episode"
_SHORT = "a question, or a short turn"


class Signals(NamedTuple):
    """Results of the index for one question, one value per row."""

    rows: RowFeatures
    dense: Floats
    """Cosine with the question; NaN for rows without a vector."""
    lexical: LexicalScores
    sample: Signals | None = None
    """Signals of rows sampled from the whole scope, if `rows` are only part of it: mean and
    deviation come from these."""


class QuerySignal(NamedTuple):
    """A signal that only some questions have."""

    signal: str
    adds: Floats
    """Contribution to each row's score."""
    words: str


class ScoreParts(NamedTuple):
    """Contribution of each signal to each row's score, and their sum."""

    signals: Signals
    meaning: Floats
    words: Floats
    around: Floats
    episode: Floats
    """Contribution by episode number."""
    asked: tuple[QuerySignal, ...]
    score: Floats

    def why(
        self, row: int, relevance: float, scale: float
    ) -> Callable[[], tuple[SignalShare, ...]]:
        """A function that explains one row's relevance. It keeps no array alive.

        `scale` is the log odds of one point of score.
        """
        rows, dense, lexical, _ = self.signals
        episode = rows.episode.item(row)
        return partial(
            _shares,
            relevance=relevance,
            scale=scale,
            cosine=dense.item(row),
            meaning=self.meaning.item(row),
            covered=lexical.row.item(row) / lexical.full_match if lexical.full_match else 0.0,
            words=self.words.item(row),
            around=self.around.item(row),
            about=lexical.episode.item(episode),
            episode=self.episode.item(episode),
            form=rows.form.item(row),
            summary=rows.role.item(row) == SUMMARY,
            has_words=rows.archived.item(row) > 0 or rows.flags.item(row) & Flag.OWN_WORDS > 0,
            asked=[(signal, adds.item(row), words) for signal, adds, words in self.asked],
        )


def gather(signals: Signals, plan: QueryPlan) -> ScoreParts:
    """Compute all parts of the score of every row."""
    rows = signals.rows
    meaning, words = _match(signals, plan.reading)
    match = meaning + words
    around = _neighbors(match, rows)
    usual = signals.sample and signals.sample.lexical.episode
    episode = _standard(signals.lexical.episode, _LEAST_WORDS_SPREAD, WEIGHTS.episode, usual)
    asked = tuple(_asked(rows, plan))
    score = match
    score += around
    score += episode.take(rows.episode)
    score += rows.form
    for signal in asked:
        score += signal.adds
    return ScoreParts(signals, meaning, words, around, episode, asked, score)


def _match(signals: Signals, reading: Reading) -> tuple[Floats, Floats]:
    of_meaning, of_words = WEIGHTS.meaning, WEIGHTS.words
    if reading is Reading.NONE:
        of_meaning, of_words = WEIGHTS.foreign_meaning, WEIGHTS.foreign_words
    meaning = _standard(signals.dense, _LEAST_COSINE_SPREAD, of_meaning)
    if signals.sample is None and (not len(meaning) or not math.isnan(meaning[0])):
        words = _standard(signals.lexical.row, _LEAST_WORDS_SPREAD, of_words)
        return meaning, words
    # A row without a vector is scored by its words alone.
    missing = np.isnan(signals.dense)
    there = ~missing
    meaning = np.zeros(len(missing), np.float32)
    usual_cosine = usual_words = None
    if signals.sample is not None:
        usual_cosine = signals.sample.dense[~np.isnan(signals.sample.dense)]
        usual_words = signals.sample.lexical.row
    meaning[there] = _standard(signals.dense[there], _LEAST_COSINE_SPREAD, of_meaning, usual_cosine)
    words = _standard(signals.lexical.row, _LEAST_WORDS_SPREAD, 1.0, usual_words)
    share = np.where(missing, of_meaning + of_words, of_words)
    return meaning, words * share.astype(np.float32)


def _standard(values: Floats, least: float, weight: float, usual: Floats | None = None) -> Floats:
    """Standardize values over the scope and weight them; all NaN if any is.

    `usual` holds values of the whole scope, if `values` are only part of it.
    """
    if not len(values):
        return values
    among = values if usual is None or not len(usual) else usual
    mean = float(np.add.reduce(among)) / len(among)
    # Not by `dot`, which starts the BLAS threads and waits for them.
    variance = float(np.add.reduce(among * among)) / len(among) - mean**2
    standard: Floats = values - mean
    standard *= weight * max(variance, least * least) ** -0.5
    return standard


def _neighbors(match: Floats, rows: RowFeatures) -> Floats:
    around = np.zeros(len(match), np.float32)
    np.multiply(match[:-1], rows.by_previous, out=around[1:])
    around[:-1] += match[1:] * rows.by_next
    return around


def _asked(rows: RowFeatures, plan: QueryPlan) -> Iterator[QuerySignal]:
    if rows.lopsided:
        side = -rows.towards_user if plan.asks_assistant else rows.towards_user
        yield QuerySignal(
            "side", side, "said by the side, user or assistant, that the question is about"
        )
    if plan.speaker is not None:
        weight = WEIGHTS.speaker if plan.only_speaker else WEIGHTS.first_of_speakers
        said: Floats = ((rows.speaker == plan.speaker) + rows.anyone) * weight
        yield QuerySignal("speaker", said, "said by the person the question names")
    if plan.window is not None:
        near = plan.window.closeness(rows.time, rows.told) * WEIGHTS.date
        yield QuerySignal("date", near, "at the time the question names")
    if plan.asks_time:
        times = rows.tells_time * WEIGHTS.time
        yield QuerySignal("time", times, "mentions a time, as the question asks for one")
    if plan.order is not Order.NONE and rows.episodes > 1:
        yield QuerySignal("order", _order(rows, plan), "first or last, as the question asks")


def _order(rows: RowFeatures, plan: QueryPlan) -> Floats:
    rank = rows.episode.astype(np.float32) * (WEIGHTS.order / (rows.episodes - 1))
    return rank if plan.order is Order.LATEST else WEIGHTS.order - rank


def _shares(
    *,
    relevance: float,
    scale: float,
    cosine: float,
    meaning: float,
    covered: float,
    words: float,
    around: float,
    about: float,
    episode: float,
    form: float,
    summary: bool,
    has_words: bool,
    asked: Sequence[tuple[str, float, str]],
) -> tuple[SignalShare, ...]:
    """Contributions of the signals to the log odds of a row, strongest first; they add up to it.

    Signals compare the row with the rest of the scope. The last one, "question", is the remainder:
    how well the best row answers the question at all, and how far this row is behind it.
    """
    covered = min(1.0, covered)
    by_words = f"{covered:.0%} of the question's words, by rarity"
    if summary and not has_words:
        by_words = "matched in its turns, not in its summary"
    all_of_it = [
        (
            "meaning",
            cosine,
            meaning,
            f"cosine {cosine:.2f}{' with its summary' if summary else ''}",
        ),
        ("words", covered, words, by_words),
        ("around", around, around, "the turns before and after"),
        ("episode", about, episode, "the question's words in the whole episode"),
        ("form", form, form, _LONG if form > 0 else _SHORT),
        *((signal, adds, adds, why) for signal, adds, why in asked),
    ]
    shares = [
        SignalShare(
            signal=signal,
            value=round(value, 4),
            contribution=round(scale * adds, 4),
            words=why,
        )
        for signal, value, adds, why in all_of_it
    ]
    seen = [share for share in shares if not abs(share.contribution) <= _UNSEEN]
    odds = log_odds(relevance)
    rest = odds - sum(share.contribution for share in seen if not math.isnan(share.contribution))
    question = SignalShare(
        signal="question",
        value=round(relevance, 4),
        contribution=round(rest, 4),
        words="how well the best match answers the question, and how far this one is behind it",
    )
    return tuple(sorted([*seen, question], key=lambda share: -abs(share.contribution)))


def log_odds(chance: float) -> float:
    """Log odds of a probability, clipped to a finite range."""
    chance = min(max(chance, _LEAST_CHANCE), 1 - _LEAST_CHANCE)
    return math.log(chance / (1 - chance))
