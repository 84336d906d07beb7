"""Measure how well topic shifts are found in concatenated conversations.

Without `--data` it joins the dialogues in `topic_shift_text`, which were written for it; with it,
also the sessions of LoCoMo (`locomo10.json`, not part of this project). Where one conversation
ended and the next began is what is to be found. Nothing is told about time.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder
from octopus_memory.domain import topics
from octopus_memory.domain.topics import CosineScale, Opening, ShiftWeights, TopicTurn

DIALOGUES = Path(__file__).with_name("topic_shift_text") / "dialogues.txt"
SHUFFLES = 10
SESSIONS_JOINED = 20
CUT_LENGTHS = (2, 4, 4, 6)

Vector = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Turn:
    text: str
    said: TopicTurn
    terms: tuple[str, ...]
    vector: Vector


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Concatenated conversations, and where each except the first begins."""

    turns: tuple[Turn, ...]
    starts: tuple[int, ...]

    @property
    def mean_length(self) -> float:
        return len(self.turns) / (len(self.starts) + 1)


Conversation = tuple[Turn, ...]
Segmenter = Callable[[Stream], list[int]]


class Reader:
    """Converts texts to turns. Each text is embedded once."""

    def __init__(self) -> None:
        self._embedder = MiniLMEmbedder()
        self._analyzer = SnowballAnalyzer()
        first, second = topics.reference()
        self.scale = CosineScale.of(self._embedder.embed(first), self._embedder.embed(second))

    def conversation(self, turns: Iterable[tuple[str, bool]]) -> Conversation:
        """Convert texts, each with whether its speaker may start a topic."""
        given = list(turns)
        vectors = self._embedder.embed([text for text, _ in given])
        return tuple(
            self._turn(text, may_start, vector)
            for (text, may_start), vector in zip(given, vectors, strict=True)
        )

    def _turn(self, text: str, may_start: bool, vector: Vector) -> Turn:
        terms = tuple(self._analyzer.terms(text))
        said = TopicTurn(terms=frozenset(terms), opening=topics.opening(text), may_start=may_start)
        return Turn(text=text, said=said, terms=terms, vector=vector)


def read_dialogues(reader: Reader) -> list[Conversation]:
    blocks = DIALOGUES.read_text(encoding="utf-8").split("\n\n")
    return [
        reader.conversation((line[3:], line.startswith("U:")) for line in block.splitlines()[1:])
        for block in blocks
    ]


def read_locomo(path: Path, wanted: Sequence[int], reader: Reader) -> list[list[Conversation]]:
    """Return the sessions of each wanted conversation. The first speaker is the user."""
    samples: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    chosen = [samples[number - 1] for number in wanted] if wanted else samples
    return [_sessions(sample["conversation"], reader) for sample in chosen]


def _sessions(said: dict[str, Any], reader: Reader) -> list[Conversation]:
    found = (re.fullmatch(r"session_(\d+)", key) for key in said)
    numbers = sorted(int(match[1]) for match in found if match)
    sessions = [said[f"session_{number}"] for number in numbers]
    return [
        reader.conversation((turn["text"], turn["speaker"] == said["speaker_a"]) for turn in turns)
        for turns in sessions
        if turns
    ]


def join(conversations: Sequence[Conversation]) -> Stream:
    starts, turns = [], list[Turn]()
    for conversation in conversations:
        starts.append(len(turns))
        turns.extend(conversation)
    return Stream(turns=tuple(turns), starts=tuple(starts[1:]))


def shuffled(conversations: Sequence[Conversation], seed: int) -> list[Conversation]:
    mixed = list(conversations)
    random.Random(seed).shuffle(mixed)
    return mixed


def without_greetings(stream: Stream) -> Stream:
    """Return the stream with greetings disabled, so that only the subject decides."""
    turns = tuple(
        replace(turn, said=replace(turn.said, opening=Opening.PLAIN))
        if turn.said.opening is Opening.GREETING
        else turn
        for turn in stream.turns
    )
    return replace(stream, turns=turns)


def as_equals(session: Conversation) -> Conversation:
    """Return the stream in which both speakers may start a topic."""
    return tuple(replace(turn, said=replace(turn.said, may_start=True)) for turn in session)


def octopus(
    scale: CosineScale, weights: ShiftWeights | None = None, *, ahead: bool = False
) -> Segmenter:
    """Decide as the engine does. `ahead` also shows the answer, as in a call with both."""

    def segment(stream: Stream) -> list[int]:
        found, start = [], 0
        for place, new in enumerate(stream.turns):
            before = stream.turns[max(start, place - topics.LOOK_BACK) : place]
            said = [turn.said for turn in before]
            words = topics.by_words(said, new.said, weights)
            if words <= 0:
                continue
            earlier = np.stack([before[at].vector for at in topics.window(said)])
            following = stream.turns[place + 1 : place + 2] if ahead else ()
            answer = [turn.vector for turn in following if not turn.said.may_start]
            cosine = topics.cohesion(earlier, np.stack([new.vector, *answer]))
            if topics.is_shift(words, scale.nearness(cosine), weights):
                found.append(place)
                start = place
        return found

    return segment


def where_users_speak(segment: Segmenter) -> Segmenter:
    """Move each cut to a turn that may start a topic, because Octopus uses roles as well."""

    def moved(stream: Stream) -> list[int]:
        may = [place for place, turn in enumerate(stream.turns) if place and turn.said.may_start]
        return sorted({min(may, key=lambda at: (abs(at - cut), -at)) for cut in segment(stream)})

    return moved


def never(_: Stream) -> list[int]:
    return []


def every_mean_length(stream: Stream) -> list[int]:
    """Cut at the average length of the conversations, which no detector knows."""
    length = max(1, round(stream.mean_length))
    return list(range(length, len(stream.turns), length))


def at_random(stream: Stream) -> list[int]:
    """Cut at random places, given the number of conversations."""
    return sorted(random.Random(0).sample(range(1, len(stream.turns)), len(stream.starts)))


def at_greetings(stream: Stream) -> list[int]:
    """Cut at each greeting that does not answer one."""
    greets = [turn.said.opening is Opening.GREETING for turn in stream.turns]
    return [
        place
        for place in range(1, len(greets))
        if greets[place] and not any(greets[max(0, place - 2) : place])
    ]


def texttiling(block: int, sequence: int | None = None) -> Segmenter:
    """Cut by Hearst's algorithm, between token sequences moved to the next turn, or by turns."""

    def segment(stream: Stream) -> list[int]:
        if sequence is None:
            return _deep_gaps([Counter(turn.terms) for turn in stream.turns], block)
        tokens = [(term, place) for place, turn in enumerate(stream.turns) for term in turn.terms]
        pieces = [tokens[at : at + sequence] for at in range(0, len(tokens), sequence)]
        gaps = _deep_gaps([Counter(term for term, _ in piece) for piece in pieces], block)
        found = {round((pieces[gap - 1][-1][1] + pieces[gap][0][1] + 1) / 2) for gap in gaps}
        return sorted(found - {0})

    return segment


def _deep_gaps(counts: Sequence[Counter[str]], block: int) -> list[int]:
    """Return the cuts by Hearst's depth score and cutoff."""
    scores = [
        _cosine(*(sum(side, Counter()) for side in (counts[:gap][-block:], counts[gap:][:block])))
        for gap in range(1, len(counts))
    ]
    smooth = np.convolve(np.pad(scores, 1, mode="edge"), np.ones(3) / 3, "valid")
    depths = np.array([_depth(smooth, place) for place in range(len(smooth))])
    cutoff = depths.mean() - depths.std() / 2
    kept: list[int] = []
    for place in np.argsort(-depths):
        if depths[place] <= max(0, cutoff):
            break
        if all(abs(place - other) > 3 for other in kept):
            kept.append(int(place))
    return sorted(place + 1 for place in kept)


def _depth(scores: NDArray[np.float64], place: int) -> float:
    left = right = place
    while left > 0 and scores[left - 1] >= scores[left]:
        left -= 1
    while right < len(scores) - 1 and scores[right + 1] >= scores[right]:
        right += 1
    return float(scores[left] + scores[right] - 2 * scores[place])


def _cosine(one: Counter[str], other: Counter[str]) -> float:
    norms = math.sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
    return sum(count * other[term] for term, count in one.items()) / norms if norms else 0.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    pk: float
    window_diff: float
    precision: float
    recall: float
    f1: float
    f1_within_1: float
    f1_within_2: float

    @classmethod
    def of(cls, stream: Stream, found: Sequence[int]) -> Figures:
        pk, window_diff = _window_errors(stream, found)
        precision, recall, f1 = _boundary_f1(stream.starts, found, 0)
        return cls(
            pk=pk,
            window_diff=window_diff,
            precision=precision,
            recall=recall,
            f1=f1,
            f1_within_1=_boundary_f1(stream.starts, found, 1)[2],
            f1_within_2=_boundary_f1(stream.starts, found, 2)[2],
        )

    @classmethod
    def mean(cls, figures: Sequence[Figures]) -> Figures:
        names = cls.__dataclass_fields__
        return cls(**{n: float(np.mean([getattr(f, n) for f in figures])) for n in names})

    def cells(self) -> str:
        return " | ".join(f"{getattr(self, name):.2f}" for name in self.__dataclass_fields__)


def _window_errors(stream: Stream, found: Sequence[int]) -> tuple[float, float]:
    """Return Pk (Beeferman) and WindowDiff (Pevzner and Hearst). Window: half the mean length."""
    size, width = len(stream.turns), max(2, round(stream.mean_length / 2))
    true, seen = np.zeros(size + 1, int), np.zeros(size + 1, int)
    true[list(stream.starts)] = 1
    seen[list(found)] = 1
    true, seen = true.cumsum(), seen.cumsum()
    inside_true = true[width:size] - true[: size - width]
    inside_seen = seen[width:size] - seen[: size - width]
    pk = ((inside_true > 0) != (inside_seen > 0)).mean()
    return float(pk), float((inside_true != inside_seen).mean())


def _boundary_f1(
    true: Sequence[int], found: Sequence[int], within: int
) -> tuple[float, float, float]:
    left, hits = set(true), 0
    for place in found:
        near = [start for start in left if abs(start - place) <= within]
        if near:
            left.remove(min(near, key=lambda start: abs(start - place)))
            hits += 1
    if not hits:
        return 0.0, 0.0, 0.0
    precision, recall = hits / len(found), hits / len(true)
    return precision, recall, 2 * precision * recall / (precision + recall)


def data_sets(options: argparse.Namespace, reader: Reader) -> Iterator[tuple[str, list[Stream]]]:
    if options.data:
        chats = read_locomo(options.data, options.conversations, reader)
        people = [[as_equals(session) for session in sessions] for sessions in chats]
        joined = [join(sessions) for sessions in people]
        yield "LoCoMo, the sessions of two people in order", joined
        yield "the same, greetings not seen", [without_greetings(stream) for stream in joined]
        mixed = shuffled([session for sessions in people for session in sessions], 1)
        groups = range(0, len(mixed) - SESSIONS_JOINED // 2, SESSIONS_JOINED)
        yield (
            "LoCoMo, sessions of different people shuffled",
            [join(mixed[at : at + SESSIONS_JOINED]) for at in groups],
        )
        yield (
            "LoCoMo, one as the user and the other as the assistant, who begins many sessions",
            [join(sessions) for sessions in chats],
        )
    dialogues = read_dialogues(reader)[options.dialogues]
    yield (
        f"{len(dialogues)} dialogues with an assistant",
        [join(shuffled(dialogues, seed)) for seed in range(SHUFFLES)],
    )
    yield (
        "the same, cut to one to three questions",
        [join(shuffled(_cut(dialogues, seed), seed)) for seed in range(SHUFFLES)],
    )


def _cut(dialogues: Sequence[Conversation], seed: int) -> list[Conversation]:
    chance = random.Random(seed)
    return [dialogue[: chance.choice(CUT_LENGTHS)] for dialogue in dialogues]


def segmenters(scale: CosineScale) -> dict[str, Segmenter]:
    return {
        "never": never,
        "every mean length": where_users_speak(every_mean_length),
        "at random, as many": where_users_speak(at_random),
        "TextTiling": where_users_speak(texttiling(6, sequence=10)),
        "TextTiling by turns": where_users_speak(texttiling(6)),
        "at each greeting": at_greetings,
        "Octopus, words only": octopus(scale, ShiftWeights(nearness=0, needed=2)),
        "Octopus, no cues": octopus(scale, ShiftWeights(greeting=0, announced=0, reply=0)),
        "**Octopus**": octopus(scale),
        "Octopus, answer known": octopus(scale, ahead=True),
    }


def tables(options: argparse.Namespace) -> Iterator[str]:
    reader = Reader()
    for name, streams in data_sets(options, reader):
        turns = sum(len(stream.turns) for stream in streams)
        starts = sum(len(stream.starts) for stream in streams)
        yield f"\n{name}: {len(streams)} streams, {turns:,} turns, {starts:,} boundaries\n"
        yield "| | Pk | WindowDiff | precision | recall | F1 | F1 ±1 | F1 ±2 |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|"
        for label, segment in segmenters(reader.scale).items():
            measured = [Figures.of(stream, segment(stream)) for stream in streams]
            yield f"| {label} | {Figures.mean(measured).cells()} |"


def _places(given: str) -> slice:
    first, _, last = given.partition("-")
    return slice(int(first) - 1, int(last or first))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="LoCoMo's .json")
    parser.add_argument(
        "--conversations",
        type=lambda given: [int(number) for number in given.split(",")],
        default=[],
        metavar="1,3,5",
        help="which conversations of LoCoMo. Default: all",
    )
    parser.add_argument(
        "--dialogues", type=_places, default=slice(None), metavar="1-20", help="which dialogues"
    )
    for line in tables(parser.parse_args(arguments)):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
