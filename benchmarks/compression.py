"""Measure codecs on chat turns, one turn at a time, as a store writes them.

Without `--data` it measures a generated sample of words that the dictionary has not seen; with
it, JSON Lines of messages, or the turns of LoCoMo (`locomo10.json`, not part of this project).
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import zstandard

from octopus_memory.adapters.stores.sql import codec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import train_dictionary

HELD_OUT = ROOT / "benchmarks" / "compression_text"
HELD_OUT_SEED = 7
HELD_OUT_COUNT = 2000
REPEATS = 5
GZIP_LEVELS = (1, 6, 9)
LEVELS = (1, 2, 3, 6, 9)
# Higher levels than considered, to show what more time would gain.
SLOW_LEVELS = (12, 19)

Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    name: str
    encode: Callable[[bytes], bytes]
    decode: Callable[[bytes], bytes]


@dataclass(frozen=True, kw_only=True)
class Row:
    name: str
    before: int
    after: int
    encode_us: float
    decode_us: float

    def markdown(self) -> str:
        return (
            f"| {self.name} | {self.before:,} | {self.after:,} | {self.before / self.after:.2f} "
            f"| {self.encode_us:.1f} | {self.decode_us:.1f} |"
        )


def generated() -> Iterator[Any]:
    sources = train_dictionary.read_sources(HELD_OUT)
    yield from islice(train_dictionary.Generator(sources, HELD_OUT_SEED), HELD_OUT_COUNT)


def read_messages(path: Path) -> Iterator[Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        for sample in json.loads(text):
            yield from _locomo_messages(sample["conversation"])
    else:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())


def _locomo_messages(conversation: dict[str, Any]) -> Iterator[Any]:
    for key, turns in conversation.items():
        if key.startswith("session_") and isinstance(turns, list):
            for turn in turns:
                first = turn["speaker"] == conversation["speaker_a"]
                yield {"role": "user" if first else "assistant", "content": turn["text"]}


def joined(messages: Iterable[Any], size: int) -> Iterator[Any]:
    """Join consecutive turns until they are longer than `size` characters."""
    text = ""
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        text += f"{content} " if isinstance(content, str) else ""
        if len(text) >= size:
            yield {"role": "assistant", "content": text.rstrip()}
            text = ""


def candidates() -> Iterator[Candidate]:
    for level in GZIP_LEVELS:
        yield _gzip(level)
    for level in LEVELS:
        yield _zstd(f"zstd {level}", level, None)
    for level in (*LEVELS, *SLOW_LEVELS):
        dictionary = zstandard.ZstdCompressionDict(train_dictionary.TARGET.read_bytes())
        dictionary.precompute_compress(level=level)
        yield _zstd(f"zstd {level} + dictionary", level, dictionary)


def _gzip(level: int) -> Candidate:
    encode = partial(gzip.compress, compresslevel=level, mtime=0)
    return Candidate(name=f"gzip {level}", encode=encode, decode=gzip.decompress)


def _zstd(name: str, level: int, dictionary: zstandard.ZstdCompressionDict | None) -> Candidate:
    def encode(data: bytes) -> bytes:
        return zstandard.ZstdCompressor(
            level=level, dict_data=dictionary, write_checksum=True, write_dict_id=False
        ).compress(data)

    def decode(data: bytes) -> bytes:
        return zstandard.ZstdDecompressor(dict_data=dictionary).decompress(data)

    return Candidate(name=name, encode=encode, decode=decode)


def measure(candidate: Candidate, texts: list[bytes]) -> Row:
    encoded, encode_us = _timed(candidate.encode, texts)
    decoded, decode_us = _timed(candidate.decode, encoded)
    if decoded != texts:
        raise SystemExit(f"{candidate.name} does not restore its input")
    return Row(
        name=candidate.name,
        before=sum(map(len, texts)),
        after=sum(map(len, encoded)),
        encode_us=encode_us,
        decode_us=decode_us,
    )


def measure_codec(messages: list[Any], before: int) -> Row:
    """Measure the codec of the product, including JSON and the choice of codec."""
    encoded, encode_us = _timed(codec.encode, messages)
    decoded, decode_us = _timed(lambda pair: codec.decode(*pair), encoded)
    if decoded != messages:
        raise SystemExit("the codec does not restore its input")
    return Row(
        name="**codec.py, JSON included**",
        before=before,
        after=sum(len(payload) for _, payload in encoded),
        encode_us=encode_us,
        decode_us=decode_us,
    )


def _timed(work: Callable[[Given], Made], items: list[Given]) -> tuple[list[Made], float]:
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        made = [work(item) for item in items]
        best = min(best, time.process_time() - start)
    return made, best / len(items) * 1e6


def table(messages: list[Any]) -> Iterator[str]:
    texts = [train_dictionary.as_stored(message) for message in messages]
    before = sum(map(len, texts))
    yield f"{len(texts):,} turns, {before / len(texts):.0f} bytes each on average\n"
    yield "| codec | bytes before | after | ratio | µs to encode | µs to decode |"
    yield "|---|--:|--:|--:|--:|--:|"
    for candidate in candidates():
        yield measure(candidate, texts).markdown()
    yield measure_codec(messages, before).markdown()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, help="JSON Lines of messages, or LoCoMo's .json")
    parser.add_argument("--join", type=int, metavar="CHARACTERS", help="join turns to this size")
    options = parser.parse_args(arguments)
    messages = list(read_messages(options.data) if options.data else generated())
    if options.join:
        messages = list(joined(messages, options.join))
    for line in table(messages):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
