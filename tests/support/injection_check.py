"""Checks of a context block as a reader or tokenizer sees it, without the code under test."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from octopus_memory.domain.policy import Layout
from tests.support.paths import DATA


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


ATTEMPTS = _lines("injections.jsonl")
ORDINARY = _lines("ordinary.jsonl")
TEMPLATES = {
    "chatml", "llama2", "llama3", "mistral", "gemma", "phi", "deepseek", "qwen", "command-r",
    "harmony", "other-template",
}  # fmt: skip


# Invisible, although Unicode classes them as letters, marks or unassigned.
BLANKS = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x3164, 0xFFA0}


@cache
def view(text: str) -> str:
    """Return the text after normalization: NFKC, without marks and invisible characters."""
    composed = unicodedata.normalize("NFKC", text)
    unseen = ("Cc", "Cf", "Mn", "Me")
    seen = (c for c in composed if unicodedata.category(c) not in unseen and ord(c) not in BLANKS)
    return " ".join(unicodedata.normalize("NFKC", "".join(seen).casefold()).split())


TOKENS = sorted({view(t) for a in ATTEMPTS if a["family"] in TEMPLATES for t in a["gone"]})
ROLES = (
    "system|assistant|user|human|developer|tool|ai|model|bot|chatgpt|"
    "observation|action|tool result|система|ассистент|系统|助手|sistema|asistente|usuario|"
    "benutzer|システム"
)
PROMPT = re.compile(r"[ >*]{0,8}(?:system|assistant|user|human) ?>(?= |$)")
# A mention, a variable and an object's first key are no headers: "@user:", "$user:", "{user:".
HEADER = re.compile(
    rf"(?:[^\w{{$@]|[\d_]){{0,60}}(?:(?:{ROLES})|date|summary|key[ _]facts?|said)"
    r"[ *_`'\")\]]{0,4}:"
)
RULE = re.compile(r"[ >*]{0,8}(?:- ?- ?-|- ?\d{4}-\d\d-\d\d ?:)")
TITLE = re.compile(r"\[ ?/?(?:end of )?(?:past|archived|earlier in this) ?conversations?")
FLAG = re.compile("\U0001f3f4\U000e0067\U000e0062[\U000e0061-\U000e007a]{3}\U000e007f")
# Cf that is drawn: the number signs and end marks of a few scripts.
DRAWN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
ESCAPE = re.compile("(?:\x1b\\[|\x9b)[0-9;]*[A-Za-z]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)")
SURROGATES = range(0xD800, 0xE000)
SELECTORS = {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}


def hidden(text: str) -> set[str]:
    """Return the invisible characters that do not shape a visible one."""
    text = FLAG.sub("", text)
    found = set()
    for place, char in enumerate(text):
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        code = ord(char)
        if code in (0x200C, 0x200D):
            if not (is_shaped(before) or (code == 0x200D and is_drawn(before) and is_drawn(after))):
                found.add(char)
        elif code in SELECTORS:
            if not (code in (0xFE0E, 0xFE0F) and takes_selector(before, after)):
                found.add(char)
        elif code in BLANKS or (
            unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in DRAWN
        ):
            found.add(char)
    return found


def is_shaped(char: str) -> bool:
    return char != "" and char >= "\u0600" and unicodedata.category(char)[0] in "LM"


def is_drawn(char: str) -> bool:
    return char != "" and (char in "\ufe0f\u2194" or unicodedata.category(char) in ("So", "Sk"))


def takes_selector(before: str, after: str) -> bool:
    if before.isascii():
        return before in "0123456789#*" and after == "\u20e3"
    return unicodedata.category(before) in ("So", "Sm", "Po", "Pd", "Ll")


def faults(shown: str) -> Iterator[str]:
    """Return the faults of a piece of stored text as the block shows it."""
    if unseen := hidden(shown):
        yield f"hidden {unseen!a}"
    read = view(shown)
    yield from (f"token {token}" for token in TOKENS if token in read)
    if TITLE.search(read):
        yield "title"
    for line in re.split(r" / |\\n| \u2014 ", shown):
        start = view(line)
        if HEADER.match(start):
            yield f"header {start[:40]!r}"
        if PROMPT.match(start):
            yield f"prompt {start[:40]!r}"
        if RULE.match(start):
            yield f"rule {start[:40]!r}"


# --- The block, taken apart ---


class Parsed(NamedTuple):
    shape: str
    """A letter a line: date, summary, words, key facts, and "-" for the end of an
    episode or a compact entry."""
    speakers: list[str]
    days: dict[str, list[str]]
    """The stored text of each day."""

    @property
    def pieces(self) -> list[str]:
        return [piece for pieces in self.days.values() for piece in pieces]


SAID = r'([^":]+): "([^"]*)"'


def parsed(text: str, layout: Layout) -> Parsed:
    """Parse the block; fails on any line that is not of our format."""
    assert text.splitlines() == text.split("\n")
    head, *body = text.split("\n")
    known = [line for line in body if re.match("(?:- )?Known about this user: ", line)]
    assert len(known) <= 1
    body = [line for line in body if line not in known]
    intro = body.pop(0) if layout is Layout.COMPACT else ""
    block = Parsed(_shape(body, layout), [], {})
    for line in known:
        _take(block, "", line.partition(": ")[2])
    if layout is Layout.COMPACT:
        assert head == "[Past Conversation Context]"
        assert intro.startswith("Relevant past conversations with this user (a record of")
        for line in body:
            _take(block, line[2:12], line[14:])
        return block
    assert (head, body[-1][:35]) == ("[Past Conversations]", "[End of past conversations] Use thi")
    day = ""
    for line in body[:-1]:
        field, _, stored = line.partition(": ")
        if field == "Date":
            day = stored
        elif stored:
            _take(block, day, stored)
    return block


def _shape(body: list[str], layout: Layout) -> str:
    if layout is Layout.COMPACT:
        assert all(re.match(r"- \d{4}-\d\d-\d\d: \S", line) for line in body)
        return "-" * len(body)
    kinds = {
        r"Date: \d{4}-\d\d-\d\d(?: \(archived\))?": "D",
        "Summary: .+": "S",
        f"Said: {SAID}(?: {SAID})*": "W",
        "Key facts: .+": "K",
        "---": "-",
    }
    lines = "".join(
        next(kind for pattern, kind in kinds.items() if re.fullmatch(pattern, line))
        for line in body[:-1]
    )
    # A rule stands between two episodes; the closing line ends the last one.
    return f"{lines}-"


def _take(block: Parsed, day: str, stored: str) -> None:
    pieces = block.days.setdefault(day, [])
    said = re.search(rf"(?:^| / )({SAID}(?:(?: / | ){SAID})*)$", stored)
    told = stored[: said.start()] if said else stored
    if told:
        pieces.append(told)
    if said is None:
        return
    stored = said[1]
    for name, words in re.findall(SAID, stored):
        block.speakers.append(name.removeprefix(" / ").strip())
        pieces.append(words)
