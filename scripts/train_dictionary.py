"""Train the zstd dictionary for stored turns on generated chat.

No user's text and no licensed text goes in: every sentence is in `dictionary_text/`, written for
this purpose. The same sources, seed and zstd version give the same bytes.

Without an option it writes the dictionary; `--check` fails where the file differs from what
would be written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import string
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / "scripts" / "dictionary_text"
TARGET = ROOT / "src" / "octopus_memory" / "adapters" / "stores" / "sql" / "data" / "turns-v1.zdict"

SEED = 20250314
DICTIONARY_BYTES = 64 * 1024
DICTIONARY_ID = 0x4F435401
SAMPLES = 12000
SEGMENT_BYTES = 1000
MATCH_BYTES = 8
LEVEL = 3
TOOL_SHARE = 0.08
SUMMARIES = "summaries"

_SLOT = re.compile(r"\{([a-z]+)\}")
_CALL_ID_LETTERS = string.ascii_letters + string.digits
_NUMERIC_SLOTS = {"{int}", "{float}", "{flag}"}


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Sentences by domain and role, values of slots, and tools."""

    user: dict[str, list[str]]
    assistant: dict[str, list[str]]
    slots: dict[str, list[str]]
    tools: list[dict[str, object]]


def read_sources(folder: Path) -> Sources:
    user: dict[str, list[str]] = {}
    assistant: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.txt")):
        if path.name == "slots.txt":
            continue
        user[path.stem], assistant[path.stem] = _split_roles(_lines(path))
    slots = dict(_slot(line) for line in _lines(folder / "slots.txt"))
    tools = [json.loads(line) for line in _lines(folder / "tools.jsonl")]
    return Sources(user=user, assistant=assistant, slots=slots, tools=tools)


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def _slot(line: str) -> tuple[str, list[str]]:
    name, _, values = line.partition(": ")
    return name, values.split(" | ")


def _split_roles(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    user: list[str] = []
    assistant: list[str] = []
    for line in lines:
        text = line.replace("\\n", "\n")
        if not text.startswith("a: "):
            user.append(text.removeprefix("u: "))
        if not text.startswith("u: "):
            assistant.append(text.removeprefix("a: "))
    return user, assistant


class Generator:
    """Yields endless messages in the JSON forms that the stores compress."""

    def __init__(self, sources: Sources, seed: int) -> None:
        self._sources = sources
        self._random = random.Random(seed)
        self._domains = sorted(sources.user)
        self._weights = [len(sources.user[name]) for name in self._domains]

    def __iter__(self) -> Iterator[object]:
        while True:
            domain = self._random.choices(self._domains, self._weights)[0]
            if domain == SUMMARIES:
                yield self._summary()
            else:
                yield from self._exchange(domain)

    def _exchange(self, domain: str) -> Iterator[object]:
        yield {"role": "user", "content": self._say(self._sources.user[domain])}
        if self._random.random() < TOOL_SHARE:
            yield from self._tool_use()
        yield {"role": "assistant", "content": self._say(self._sources.assistant[domain])}

    def _summary(self) -> list[str]:
        facts = self._random.sample(self._sources.user[SUMMARIES], self._random.randint(0, 4))
        texts = [self._random.choice(self._sources.assistant[SUMMARIES]), *facts]
        return [self._fill(text) for text in texts]

    def _say(self, sentences: list[str]) -> str:
        count = min(self._random.choices((1, 2, 3, 4), (4, 5, 3, 1))[0], len(sentences))
        return " ".join(self._fill(text) for text in self._random.sample(sentences, count))

    def _tool_use(self) -> Iterator[object]:
        """Yield a tool call in the forms of clients, then as stores split it off."""
        tool = self._random.choice(self._sources.tools)
        name = tool["name"]
        arguments = self._fill_json(tool["arguments"])
        result = self._fill_json(tool["result"])
        call_id = "call_" + "".join(self._random.choices(_CALL_ID_LETTERS, k=24))
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = {"tool_calls": [{"id": call_id, "type": "function", "function": function}]}
        record = {
            "function_name": name,
            "arguments": arguments,
            "result": result,
            "duration_ms": self._random.randint(3, 4000),
            "is_error": name == "lookup",
        }
        yield {"role": "assistant", "content": None, **calls}
        yield {"role": "tool", "tool_call_id": call_id, "content": json.dumps(result)}
        yield {"tool_call_id": call_id, **record}
        yield {"role": "assistant", "content": None}
        yield calls
        yield record

    def _fill(self, text: str) -> str:
        slots = self._sources.slots
        return _SLOT.sub(
            lambda found: self._random.choice(slots[found[1]]) if found[1] in slots else found[0],
            text,
        )

    def _fill_json(self, value: object) -> object:
        if isinstance(value, dict):
            return {key: self._fill_json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._fill_json(item) for item in value]
        if not isinstance(value, str):
            return value
        filled = self._fill(value)
        return json.loads(filled) if value in _NUMERIC_SLOTS else filled


def as_stored(message: object) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def samples(folder: Path, seed: int, count: int) -> list[bytes]:
    """Return the first `count` messages of a seed as the bytes that a store compresses."""
    messages = iter(Generator(read_sources(folder), seed))
    return [as_stored(next(messages)) for _ in range(count)]


def train(texts: Sequence[bytes]) -> bytes:
    dictionary = zstandard.train_dictionary(
        DICTIONARY_BYTES,
        list(texts),
        k=SEGMENT_BYTES,
        d=MATCH_BYTES,
        dict_id=DICTIONARY_ID,
        level=LEVEL,
    )
    return dictionary.as_bytes()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    options = parser.parse_args(arguments)
    made = train(samples(TEXT, SEED, SAMPLES))
    version = ".".join(map(str, zstandard.ZSTD_VERSION))
    print(f"{len(made)} bytes, sha256 {hashlib.sha256(made).hexdigest()}, zstd {version}")
    if options.check:
        same = TARGET.read_bytes() == made
        print("unchanged" if same else f"differs from {TARGET.name}")
        return 0 if same else 1
    TARGET.write_bytes(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
