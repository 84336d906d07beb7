"""Neutralization of stored text before it is put into a prompt.

A stored message may try to pass for an instruction, with tokens of a chat template, a role header,
or the markers of the memory block. `neutralize` puts the text on one line, removes invisible
characters, and breaks each marker with a visible dot: `<·|im_start|>`, `system·:`. Without the
dots, the words are the original ones.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate

from ...words import pattern, sections

# Capitals that resemble other letters than their lower-case forms do.
_CAPITALS = str.maketrans(
    {"\u0397": "h", "\u039d": "n", "\u03a5": "y", "\u0405": "s", "\u054f": "s", "\u03f2": "c",
     "\u03f9": "c", "\u03fa": "m", "\u0417": "z", "\ufe30": ":"}
)  # fmt: skip
# Letters in black circles and squares, and regional indicators, which spell flags.
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)
_IN_ORDER = {first + at: chr(ord("a") + at) for first in _ALPHABETS for at in range(26)}


_NAMED = {"space": " ", "hash": "#"}


@cache
def _lookalikes() -> dict[int, str]:
    """Plain characters by the code points that resemble them."""
    found = dict(_IN_ORDER)
    for line in sections("roles")["lookalikes"]:
        plain, *odds = line.split()
        found |= {int(odd, 16): _NAMED.get(plain, plain) for odd in odds}
    return found


@lru_cache(maxsize=4096)
def plain(char: str) -> str:
    """The lower-case ASCII characters that `char` resembles, or the character itself.

    Combining marks and invisible characters become empty, and every space becomes " ".
    """
    letters = unicodedata.normalize("NFKD", char.translate(_CAPITALS)).translate(_CAPITALS)
    folded = unicodedata.normalize("NFKD", letters.casefold().translate(_lookalikes()))
    kept = (c for c in folded if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return "".join(" " if c.isspace() else c for c in kept)


def _folded_role(word: str) -> str:
    return re.escape("".join(map(plain, word)))


_FOREIGN = "|".join(line.partition(" ")[2] for line in sections("roles")["foreign"])
FOREIGN_ROLES = "|".join(sorted(set(map(_folded_role, _FOREIGN.split("|")))))
"""A pattern for text folded by `lookalikes.plain`."""


DOT = "\u00b7"
_MARK = "*"
"""Reads as a mark, and as no letter."""
LINE_BREAK = " / "
ELLIPSIS = "\u2026"

_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SENTENCE_END = re.compile("[.!?][\"')\\]\u201d]*(?=\\s)|[\u3002\uff01\uff1f\u061f\u0964]")

# Terminal escape sequences, control characters, Unicode's default-ignorable characters, and the
# three flags that are encoded with such (England, Scotland, Wales).
_HIDDEN = re.compile(
    "(?P<flag>\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|"
    "\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f)|"
    "(?P<joiner>[\u200c\u200d])|"
    "(?P<selector>[\ufe0e\ufe0f])|"
    "(?:\x1b\\[[0-?]{0,32}|\x9b[0-?]{1,32})[ -/]{0,4}[@-~]|"
    "(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]{0,200}(?:\x07|\x1b\\\\|\x9c)|"
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U00013430-\U00013440"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Scripts in which joiners change the shape of letters: Arabic, Syriac, N'Ko, scripts of India.
_SHAPED = re.compile(
    "[\u0600-\u109f\u1780-\u18af\u1900-\u1c4f\ua840-\uabff\U00010d00-\U00011fff\U0001e900-\U0001e95f]"
)
_VIRAMA = 9
_CUT_OFF = re.compile("[\u200c\u200d\ufe0e\ufe0f\U000e0000-\U000e007f\\s]+$")

_ROLES, _TOKENS, _BRACKETED, _STEPS = (
    pattern("roles", name) for name in ("roles", "tokens", "bracketed", "steps")
)
_TAGS = f"{_ROLES}|{pattern('roles', 'tags')}"
_ROLE = (
    rf"(?:gpt4\scorrect\s|new\s|updated\s)?(?:{_ROLES}|{FOREIGN_ROLES})"
    r"(?:[\s_-](?:prompt|messages?|instructions?|note|override|update))?"
)
_FIELDS = r"date|summary|key[\s_-]{0,4}facts?|said"
# Excludes the dot, so that a broken marker does not match again.
_GAP = f"(?:[^\\w{DOT}]|_)"


def _spaced(words: str) -> str:
    """A pattern for words whose letters may be spaced apart."""
    return f"{_GAP}{{0,4}}".join(f"{_GAP}?".join(word) for word in words.split())


_END_OF = _spaced("end of")
_CONVERSATIONS = f"{_spaced('conversation')}{_GAP}?s?(?:{_GAP}{{0,4}}{_spaced('context')})?"
_TITLES = (
    f"(?:{_spaced('past')}|{_spaced('archived')}|{_spaced('earlier in this')}){_GAP}{{0,4}}"
    f"{_CONVERSATIONS}"
)
_HEADINGS = f"{_ROLE}|instructions?|response|input"
_DECOR = r"(?:[^\w{$@]|[\d_]){0,80}+"
_CLOSE = r"[\s*_~`\"')\]}\\]{0,8}"
# Excludes the full stop, so that a longer line that was cut short does not match.
_TO_THE_END = rf"(?:[^\w{DOT}.]{{0,16}}(?=\Z|/ )|[\s:]{{0,4}}(?:#|==|\*\*|__|~~))"
_APART = "|".join(map(_spaced, ("system", "assistant", "human")))
_ROLE_HEADER = rf"{_DECOR}(?:{_ROLE}|{_APART}|{_STEPS}){_CLOSE}():"
# A console prompt such as "user>"; after "<" it would be a tag.
_ROLE_PROMPT = rf"[\s>*#(\[\"'-]{{0,8}}(?:{_ROLE})[\s*_]{{0,2}}()>(?=\s|\Z)"

# All match folded text; the empty group marks the position of the dot. The two long ones are
# compiled on first use, because that takes a tenth of the time of the whole import.
_OPENING = re.compile(r"[<\[{(#\"']")
_ANYWHERE = "|".join(
    (
        r"<()\s{0,8}\|\s{0,8}[^<>|\s][^<>|]{0,63}\|\s{0,8}>",
        r"<()<\s{0,8}/?\s{0,8}sys\s{0,8}>\s{0,8}>",
        rf"<()/?(?:[a-z]{{1,8}}:)?(?:{_TAGS})(?=[\s=:|/>]|\Z)",
        rf"<()\s{{0,8}}/?\s{{0,8}}(?:{_TAGS}|{_TOKENS})\s{{0,8}}/?\s{{0,8}}>",
        rf"\[()\s{{0,8}}/?\s{{0,8}}(?:{_BRACKETED})\s{{0,8}}\]",
        rf"[\[{{<]()/?{_GAP}{{0,6}}(?:{_END_OF}{_GAP}{{0,4}})?(?:{_TITLES})",
        rf"\(()(?:{_END_OF}{_GAP}{{0,4}})?(?:{_TITLES})\)",
        rf"##\s{{0,4}}(?:{_HEADINGS})\s{{0,4}}():",
        rf"[\"']role\\?[\"']\s{{0,8}}():\s{{0,8}}\\?[\"'](?:{_ROLES})\\?[\"']",
        r"[\"'](?:tool_calls?|function_call)\\?[\"']\s{0,8}():",
    )
)
# Positions where a line may seem to begin; in a summary, lines have become sentences.
_BREAK = re.compile(r"/ (?<= / )|\\[nr]|<br\s?/?>|\s{3,}|- (?<= - )|[.!?][\"')\]*_]{0,3} |\u3002 ?")
_AT_LINE_START = "|".join(
    (
        rf"[\s>*/]{{0,8}}\[()\s{{0,8}}/?\s{{0,8}}{_ROLE}\s{{0,8}}\]",
        r"[\s>*/]{0,8}-()\s{0,3}-\s{0,3}-",
        r"[\s>*/]{0,8}-\s{0,3}\d{4}-\d\d-\d\d\s{0,3}():",
        rf"[\s>*/]{{0,8}}(?:#|==|\*\*|__|~~)(){_GAP}{{0,16}}(?:{_HEADINGS}){_TO_THE_END}",
        rf"{_DECOR}{_END_OF}(){_GAP}{{1,4}}(?:{_TITLES})",
        rf"{_DECOR}{_spaced('past')}(){_GAP}{{1,4}}{_CONVERSATIONS}{_TO_THE_END}",
        rf"[\s>*/]{{0,8}}#{{1,6}}\s{{0,4}}(?:instructions?|response|input){_CLOSE}():",
        rf"{_DECOR}(?:{_FIELDS}){_CLOSE}():",
        _ROLE_HEADER,
        _ROLE_PROMPT,
    )
)
# Templates with both roles on one line write them in capitals: "USER: hello ASSISTANT:".
_SHOUTED = re.compile(
    r"\b(?:USER|ASSISTANT|SYSTEM|HUMAN)\s{0,2}():|"
    r"(?<![</])\b(?:USER|ASSISTANT|SYSTEM|HUMAN)()>(?=\s|\Z)"
)


def neutralize(text: str, limit: int | None = None) -> str:
    """Put `text` on one line without invisible characters, and break its markers; idempotent.

    Lines are joined with " / ". Markers are found in any case, in full-width and lookalike letters
    and with invisible characters inside. The result has at most `limit` characters.
    """
    if limit is not None and len(text) > 4 * limit:
        # A message can be megabytes long, but only its beginning is shown.
        text = text[: 4 * limit] + ELLIPSIS
    # Repeat, because removing or inserting characters can form new markers.
    while (safer := _defused(_one_line(text))) != text:
        text = safer
    return text if limit is None else shorten(text, limit)


def shorten(text: str, limit: int) -> str:
    """Cut to at most `limit` characters after a sentence or a word, with "…" at the end."""
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
    # Joins surrogate pairs; a lone surrogate becomes U+FFFD.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    lines = (_HIDDEN.sub(_kept, line).strip() for line in _LINE_BREAKS.split(whole))
    return LINE_BREAK.join(line for line in lines if line)


def _kept(found: re.Match[str]) -> str:
    """Replacement of a hidden character: itself if it changes how its neighbors are drawn."""
    char, line = found.group(), found.string
    before = line[found.start() - 1 : found.start()]
    after = line[found.end() : found.end() + 1]
    match found.lastgroup:
        case "flag":
            return char
        case "joiner":
            return char if _joins(char, before, after) else ""
        case "selector":
            return char if _takes_selector(before, after) else ""
        case _:
            return " " if char == "\t" else ""


def _joins(joiner: str, before: str, after: str) -> bool:
    """True between two letters of a shaped script, after a virama, or between two emoji."""
    if _is_shaped(before):
        return _is_shaped(after) or unicodedata.combining(before) == _VIRAMA
    return joiner == "\u200d" and _is_emoji(before) and _is_emoji(after)


def _is_shaped(char: str) -> bool:
    return bool(_SHAPED.match(char)) and unicodedata.category(char)[0] in "LM"


def _is_emoji(char: str) -> bool:
    # U+2194 is part of the head-shaking emoji. Circled letters are read as letters: not emoji.
    return char in ("\ufe0f", "\u2194") or (
        char > "\u2000"
        and unicodedata.category(char) in ("So", "Sk")
        and unicodedata.is_normalized("NFKC", char)
    )


def _takes_selector(char: str, after: str) -> bool:
    if not char:
        return False
    if char in "0123456789#*":
        return after == "\u20e3"
    return char in "\u203c\u2049\u2139\u3030" or (
        not char.isascii() and unicodedata.category(char) in ("So", "Sm")
    )


def _defused(line: str) -> str:
    letters = line.lower() if line.isascii() else [plain(char) for char in line]
    weak = {found.start(found.lastindex or 0) for found in _SHOUTED.finditer(line)}
    weak |= _weak_characters(letters)
    if not line.isascii():
        # A letter in a circle or a square is read as a letter, or as a mark before a header.
        drawn = [
            _MARK if _is_sign(char) else folded for char, folded in zip(line, letters, strict=True)
        ]
        weak |= _weak_characters(drawn) if drawn != letters else set()
    return (
        "".join(DOT + char if i in weak else char for i, char in enumerate(line)) if weak else line
    )


def _is_sign(char: str) -> bool:
    return unicodedata.category(char) == "So"


def _weak_characters(letters: Sequence[str]) -> set[int]:
    """The characters before which a dot breaks a marker, by what each of them reads as."""
    points = set(_weak_points("".join(letters)))
    if not points:
        return points
    ends = list(accumulate(map(len, letters)))
    # A character that reads as nothing has no points.
    return {bisect_right(ends, point) for point in points}


def _weak_points(folded: str) -> Iterator[int]:
    """Positions at which a dot breaks a marker."""
    at_line_start, anywhere = _markers()
    found = [at_line_start.match(folded)]
    found += [anywhere.match(folded, sign.start()) for sign in _OPENING.finditer(folded)]
    found += [at_line_start.match(folded, start.end()) for start in _BREAK.finditer(folded)]
    for match in found:
        if match and match.lastindex:
            yield match.start(match.lastindex)


@cache
def _markers() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(_AT_LINE_START), re.compile(_ANYWHERE)
