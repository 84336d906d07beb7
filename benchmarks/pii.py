"""Measure precision and recall of the detection of personal data.

The labelled sentences are in `data/pii`. `test.jsonl` was written before the patterns were tuned on
`dev.jsonl`; figures that are published come from it.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from octopus_memory.adapters.redactors.patterns import PatternRedactor
from octopus_memory.domain.text.pii import PiiKind, PiiSpan
from octopus_memory.ports.models import Redactor

DATA = Path(__file__).parent / "data" / "pii"
_MARK = re.compile(r"⟦([A-Z_]+):(.*?)⟧", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Sentence:
    text: str
    spans: tuple[PiiSpan, ...]
    source: str


def parse(marked: str, source: str) -> Sentence:
    """Parse `call ⟦PHONE_NUMBER:212-555-0147⟧` into a text and its span."""
    text, done, spans = "", 0, list[PiiSpan]()
    for mark in _MARK.finditer(marked):
        text += marked[done : mark.start()]
        spans.append(PiiSpan(len(text), len(text) + len(mark[2]), PiiKind(mark[1])))
        text += mark[2]
        done = mark.end()
    return Sentence(text=text + marked[done:], spans=tuple(spans), source=source)


def read(name: str) -> list[Sentence]:
    lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [parse(row["marked"], row["source"]) for row in rows]


@dataclass(frozen=True, kw_only=True)
class Counts:
    right: int = 0
    found: int = 0
    there: int = 0
    missed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            right=self.right + other.right,
            found=self.found + other.found,
            there=self.there + other.there,
            missed=self.missed + other.missed,
        )

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return 1 - self.missed / self.there if self.there else 1.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def exact(one: PiiSpan, other: PiiSpan) -> bool:
    return one == other


def overlaps(one: PiiSpan, other: PiiSpan) -> bool:
    return one.kind == other.kind and one.start < other.end and other.start < one.end


def count(
    sentence: Sentence, found: Sequence[PiiSpan], same: Callable[[PiiSpan, PiiSpan], bool]
) -> dict[PiiKind, Counts]:
    counts: dict[PiiKind, Counts] = {}
    for kind in PiiKind:
        there = [span for span in sentence.spans if span.kind == kind]
        seen = [span for span in found if span.kind == kind]
        counts[kind] = Counts(
            right=sum(any(same(span, true) for true in there) for span in seen),
            found=len(seen),
            there=len(there),
            missed=sum(not any(same(span, true) for span in seen) for true in there),
        )
    return counts


def measure(
    redactor: Redactor, sentences: Sequence[Sentence], same: Callable[[PiiSpan, PiiSpan], bool]
) -> dict[PiiKind, Counts]:
    totals = dict.fromkeys(PiiKind, Counts())
    for sentence in sentences:
        for kind, counts in count(sentence, redactor.find(sentence.text), same).items():
            totals[kind] += counts
    return totals


def table(redactor: Redactor, sentences: Sequence[Sentence]) -> Iterator[str]:
    whole, touched = (measure(redactor, sentences, same) for same in (exact, overlaps))
    yield "| | labelled | precision | recall | F1 | precision, overlap | recall, overlap |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    everything = [sum(parts.values(), Counts()) for parts in (whole, touched)]
    rows = [(f"`{kind}`", whole[kind], touched[kind]) for kind in PiiKind]
    for label, one, other in [*rows, ("**all**", *everything)]:
        yield (
            f"| {label} | {one.there} | {one.precision:.3f} | {one.recall:.3f} | {one.f1:.3f} "
            f"| {other.precision:.3f} | {other.recall:.3f} |"
        )
    clean = [sentence for sentence in sentences if not sentence.spans]
    left = sum(not redactor.find(sentence.text) for sentence in clean)
    yield f"\nOf {len(clean)} sentences with nothing personal, {left} were left as they are."


def errors(redactor: Redactor, sentences: Sequence[Sentence]) -> Iterator[str]:
    for sentence in sentences:
        found, true = set(redactor.find(sentence.text)), set(sentence.spans)
        for word, spans in (("missed", true - found), ("wrong", found - true)):
            for span in sorted(spans, key=lambda span: span.start):
                shown = sentence.text[span.start : span.end]
                yield f"{word} {span.kind}: {shown!r} in {sentence.text!r}"


def speeds(redactor: Redactor) -> Iterator[str]:
    """Return the CPU time of one call. The first call, which loads data, is not counted."""
    plain = "we walked down the long road to nowhere and back again "
    busy = "We walked down the long road, and then Maria asked about order 12345 from 2024-03-09. "
    short = "can you call me back on (212) 555-0147 after six? I'm at work until then"
    texts = {
        "a short message": short,
        "2 KB, a name and numbers in each sentence": (busy * 24)[:2_000],
        "1 MB of the same": (busy * 12_000)[:1_000_000],
        "1 MB with nothing to find": (plain * 19_000)[:1_000_000],
    }
    redactor.find(busy)
    for label, text in texts.items():
        calls = max(1, 100_000 // len(text))
        start = time.thread_time()
        for _ in range(calls):
            redactor.find(text)
        yield f"{label}: {(time.thread_time() - start) / calls * 1_000:.2f} ms"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", choices=("dev", "test"), default="test")
    parser.add_argument("--errors", action="store_true", help="list misses and false positives")
    parser.add_argument("--speed", action="store_true", help="measure the time of a call instead")
    options = parser.parse_args(arguments)
    if options.speed:
        print("\n".join(speeds(PatternRedactor())))
        return 0
    sentences, redactor = read(options.half), PatternRedactor()
    sources = Counter(sentence.source for sentence in sentences)
    parts = [("written one by one", "written"), ("generated from templates", "generated")]
    for label, source in parts:
        print(f"\n{options.half}, {sources[source]} sentences {label}\n")
        print("\n".join(table(redactor, [s for s in sentences if s.source == source])))
    print(f"\n{options.half}, all {len(sentences)} sentences\n")
    print("\n".join(table(redactor, sentences)))
    if options.errors:
        print("\n" + "\n".join(errors(redactor, sentences)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
