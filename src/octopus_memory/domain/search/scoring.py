"""Scoring of rows, one array per signal, so that every score can be explained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..episode import SignalShare
from .bm25 import LexicalScores
from .features import SUMMARY, WEIGHTS, RowFeatures
from .languages import Reading
from .query import QueryPlan
from .temporal import Order
from .terms import Flag

Floats = NDArray[np.float32]

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
