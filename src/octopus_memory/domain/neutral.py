"""Other people's words, made safe inside a prompt.

A stored message may have been written to pass for an instruction: with a chat template's tokens, a
role header, or the markers of the block it will stand in. `neutralise` puts it on one line, takes
out what cannot be seen, and puts a visible dot into each such marker: `<·|im_start|>`, `system·:`.
Leave the dots out, and the words are what was written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

DOT = "\u00b7"
LINE_BREAK = " / "
ELLIPSIS = "\u2026"

_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SENTENCE_END = re.compile("[.!?][\"')\\]\u201d]*(?=\\s)|[\u3002\uff01\uff1f\u061f\u0964]")

# Controls, Unicode's default-ignorable characters, and the three flags that are spelt with such.
_HIDDEN = re.compile(
    "(?P<flag>\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|"
    "\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f)|"
    "(?P<joiner>[\u200c\u200d])|"
    "(?P<selector>[\ufe00-\ufe0f\U000e0100-\U000e01ef])|"
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SYMBOLS = ("So", "Sm", "Lo", "Po")
_CUT_OFF = re.compile("[\u200c\u200d\U000e0000-\U000e007f\\s]+$")

_LOOKALIKES = {
    "a": "\u0430\u03b1\u0251\u1d00",
    "b": "\u0432\u03b2\u0299",
    "c": "\u0441\u1d04",
    "d": "\u0501\u1d05",
    "e": "\u0435\u03b5\u1d07",
    "f": "\ua730",
    "g": "\u0261\u0262",
    "h": "\u04bb\u043d\u03b7\u029c",
    "i": "\u0456\u03b9\u0131\u026a",
    "j": "\u0458\u1d0a",
    "k": "\u043a\u03ba\u1d0b",
    "l": "\u04cf\u029f",
    "m": "\u043c\u03bc\u1d0d",
    "n": "\u0578\u03bd\u0274",
    "o": "\u043e\u03bf\u0585\u1d0f",
    "p": "\u0440\u03c1\u1d18",
    "q": "\u051b",
    "r": "\u0433\u0280",
    "s": "\u0455\ua731",
    "t": "\u0442\u03c4\u1d1b",
    "u": "\u057d\u1d1c",
    "v": "\u0475\u1d20",
    "w": "\u051d\u1d21",
    "x": "\u0445\u03c7",
    "y": "\u0443\u03c5\u028f",
    "z": "\u03b6\u1d22",
    "[": "\u3010\u3014\u3016\u301a\u27e6\u2045",
    "]": "\u3011\u3015\u3017\u301b\u27e7\u2046",
    "<": "\u2039\u3008\u27e8\u2329\u276e\u02c2",
    ">": "\u203a\u3009\u27e9\u232a\u276f\u02c3",
    "|": "\u2223\u2502\u01c0\u4e28\u23d0",
    ":": "\u2236\ua789\u02d0\u0589\u05c3",
    "-": "\u2010\u2012\u2013\u2014\u2015\u2212\u2500\u2501",
    "#": "\u266f",
    "/": "\u2044\u2215\u29f8",
    "_": "\u2581",
}
_PLAIN = str.maketrans({odd: plain for plain, odds in _LOOKALIKES.items() for odd in odds})

_ROLES = "system|assistant|user|human|developer|tool|ai"
_TAGS = (
    f"{_ROLES}|s|bos|eos|pad|unk|im_start|im_end|im_sep|start_of_turn|end_of_turn|begin_of_text|"
    "endoftext|system[-_ ]?(?:prompt|message|reminder|instructions?)|instructions?|think|"
    "tool_(?:calls?|response|results?)|function_(?:calls?|results?)|invoke"
)
_BRACKETED = (
    "inst|sys|system[-_ ]?prompt|available_tools|tool_(?:calls?|results|content)|"
    r"(?:end\s+of\s+)?past[\s_-]*conversations?(?:[\s_-]*context)?|"
    r"(?:end\s+of\s+)?earlier\s+in\s+this\s+conversation"
)
_FIELDS = r"date|summary|key[\s_-]*facts?|said"
_DECOR = r"[\s>*_~`\"'\u2022+=|#(\[-]{0,16}"
_CLOSE = r"[\s*_~`\"')\]]{0,8}"
_ROLE_HEADER = (
    rf"{_DECOR}(?:{_ROLES})(?:\s(?:prompt|message|instructions?|note|override|update))?{_CLOSE}():"
)

# All on folded text; the empty group is where the dot goes.
_ANYWHERE = re.compile(
    "|".join(
        (
            r"<()\s*\|\s*[^<>|]{1,64}\|\s*>",
            r"<()<\s*/?\s*sys\s*>\s*>",
            rf"<()\s*/?\s*(?:[a-z]{{1,8}}:)?(?:{_TAGS})(?:\s[^<>]{{0,80}})?/?\s*>",
            rf"\[()\s*/?\s*(?:{_BRACKETED})\s*\]",
        )
    )
)
_BREAK = re.compile(r"/ (?<= / )|\\n|[.!?] ")
_AFTER_SENTENCE = re.compile(_ROLE_HEADER)
_AT_LINE_START = re.compile(
    "|".join(
        (
            rf"[\s>*]{{0,8}}\[()\s*/?\s*(?:{_ROLES})\s*\]",
            r"[\s>*]{0,8}-()\s?-\s?-",
            rf"[\s>*]{{0,8}}#()#{{0,5}}\s*(?:{_ROLES})\s*(?=\Z|/ )",
            rf"{_DECOR}#\s*(?:instructions?|response|input){_CLOSE}():",
            rf"{_DECOR}(?:{_FIELDS}){_CLOSE}():",
            _ROLE_HEADER,
        )
    )
)


def neutralise(text: str, limit: int | None = None) -> str:
    """`text` on one line, with nothing hidden in it and its markers defused; idempotent.

    Lines are joined with " / ". Markers are found in any case, in full-width and look-alike letters
    and with invisible characters inside. With a `limit`, the result has at most so many characters.
    """
    if limit is not None and len(text) > 4 * limit:
        # A message can be megabytes long, and only its beginning will be shown.
        text = text[: 4 * limit] + ELLIPSIS
    # What is removed or put in can bring other characters together.
    while (safer := _defused(_one_line(text))) != text:
        text = safer
    return text if limit is None else shorten(text, limit)


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut after a sentence or a word, with "…" for what is left out."""
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    head = text[: limit - 1]
    ends = [found.end() for found in _SENTENCE_END.finditer(head)]
    if ends and limit // 2 < ends[-1] <= limit - 2:
        return f"{head[: ends[-1]]} {ELLIPSIS}"
    if not text[limit - 1].isspace() and (space := head.rfind(" ")) > limit // 2:
        head = head[:space]
    return _CUT_OFF.sub("", head).removesuffix(LINE_BREAK.rstrip()) + ELLIPSIS


def _one_line(text: str) -> str:
    # Halves of a pair are joined, and a lone one becomes U+FFFD.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    lines = (_HIDDEN.sub(_kept, line).strip() for line in _LINE_BREAKS.split(whole))
    return LINE_BREAK.join(line for line in lines if line)


def _kept(found: re.Match[str]) -> str:
    """What stays of a hidden character: one that changes how its neighbours are drawn."""
    char, line = found.group(), found.string
    before = line[found.start() - 1 : found.start()]
    after = line[found.end() : found.end() + 1]
    match found.lastgroup:
        case "flag":
            return char
        case "joiner":
            return char if _joins(before) and _joins(after) else ""
        case "selector":
            return char if _takes(char, before) else ""
        case _:
            return " " if char == "\t" else ""


def _joins(char: str) -> bool:
    """Emoji, and the letters of Arabic, Persian and the Indic scripts."""
    if not char or char < "\u0600" or "\uff00" <= char <= "\uffef":
        return False
    return unicodedata.category(char) in ("So", "Sk", "Lo", "Mn", "Mc")


def _takes(selector: str, char: str) -> bool:
    if not char:
        return False
    kind = unicodedata.category(char)
    if selector > "\ufe0f":
        return kind == "Lo"
    return char in "0123456789#*\u2139\u3030" or (not char.isascii() and kind in _SYMBOLS)


def _defused(line: str) -> str:
    plain = line.lower() if line.isascii() else [_plain(char) for char in line]
    points = set(_weak_points("".join(plain)))
    if not points:
        return line
    parts: list[str] = []
    at = 0
    for char, letters in zip(line, plain, strict=True):
        if not points.isdisjoint(range(at, at + len(letters))):
            parts.append(DOT)
        parts.append(char)
        at += len(letters)
    return "".join(parts)


def _weak_points(folded: str) -> Iterator[int]:
    """Where a dot breaks a marker."""
    found = [*_ANYWHERE.finditer(folded), _AT_LINE_START.match(folded)]
    for brk in _BREAK.finditer(folded):
        marker = _AFTER_SENTENCE if brk.group()[0] in ".!?" else _AT_LINE_START
        found.append(marker.match(folded, brk.end()))
    for match in found:
        if match and match.lastindex:
            yield match.start(match.lastindex)


@lru_cache(maxsize=4096)
def _plain(char: str) -> str:
    """The small ASCII letters and signs that a reader takes it for, where there are such."""
    letters = unicodedata.normalize("NFKD", char).casefold().translate(_PLAIN)
    kept = (c for c in letters if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return "".join(" " if c.isspace() else c for c in kept)
