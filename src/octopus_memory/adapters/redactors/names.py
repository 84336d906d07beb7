"""Detector of people's names: after words that announce one, common given names, known names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from ...domain.text.pii import is_placeholder
from ...words import listed, pattern
from .folding import Span, lowered

PARTICLES = frozenset(
    {"de", "del", "della", "da", "das", "do", "dos", "di", "du", "la", "le", "van", "von", "der"}
    | {"den", "zu", "bin", "ibn", "al", "el", "ter", "af", "av"}
)
_RARE = "?"
TITLES = frozenset(
    {"mr", "mrs", "ms", "miss", "mx", "dr", "prof", "professor", "doctor", "sir", "madam", "jr"}
    | {"herr", "frau", "señor", "señora", "sr", "sra", "mme", "monsieur", "madame"}
)


@cache
def given_names() -> frozenset[str]:
    """Given names of many countries, without most that are also common words, places or brands."""
    return frozenset(name for name in listed("given_names") if not name.endswith(_RARE))


@cache
def rare_names() -> frozenset[str]:
    """Given names of one country or language, which may be words in another."""
    names = listed("given_names")
    return frozenset(name.removesuffix(_RARE) for name in names if name.endswith(_RARE))


def never_names() -> frozenset[str]:
    """Words that may follow "I'm", "Hi" or "my friend" capitalized without being names."""
    return listed("never_names")


def also_words() -> frozenset[str]:
    """Names that are also words: a capital alone does not make them names."""
    return listed("also_words")


_PART = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
# Scripts without capital letters and without spaces.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n\x1e\"(][ \t]{0,3})$")
_AS_A_NAME = re.compile(
    r"'s\b|,|[ ](?:and|said|says|told|asked|wants|wanted|needs|needed|called|wrote|has|had)\b"
)
_SHORTEST = 2
_SHORTEST_SMALL = 3


class KnownNames:
    """Finds the words of given names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._words: set[str] = set()
        self._unspaced: set[str] = set()
        self._told: set[str] = set()
        for name in names:
            self.learn(name)

    def learn(self, name: str) -> None:
        if name in self._told or is_placeholder(name):
            return
        self._told.add(name)
        self._unspaced.update(_UNSPACED.findall(name))
        for word in _PART.findall(name.replace("_", " ").replace("\u2019", "'")):
            key = plain(word.removesuffix("'s"))
            if _is_telling(key) and not _UNSPACED.search(word):
                self._words.add(key)

    def find(self, text: str) -> Iterator[Span]:
        """Spans of all whole-word occurrences: `Ana López`, `Ana`, `ana`, the `Ana` of `Ana's`."""
        yield from self._find_unspaced(text)
        if self._words:
            yield from _joined(text, self._find_words(text))

    def _find_words(self, text: str) -> Iterator[Span]:
        for token in TOKEN.finditer(text):
            word = token.group().removesuffix("'s")
            end = token.start() + len(word)
            if plain(word) in self._words and self._is_meant(text, token.start(), end):
                yield token.start(), end

    def _is_meant(self, text: str, start: int, end: int) -> bool:
        if text[start - 1 : start].isalnum() or text[end : end + 1].isdigit():
            return False
        word = text[start:end]
        if plain(word) not in also_words():
            return word[0].isupper() or len(word) >= _SHORTEST_SMALL
        if not word[0].isupper() or word.isupper():
            return False
        # At the start of a sentence a capital tells nothing: "Will you?".
        starts = _SENTENCE_START.search(text[max(0, start - 4) : start])
        return not starts or bool(_AS_A_NAME.match(text, end))

    def _find_unspaced(self, text: str) -> Iterator[Span]:
        for name in self._unspaced:
            yield from (found.span() for found in re.finditer(re.escape(name), text))


def _is_telling(key: str) -> bool:
    ordinary = key in never_names() or key in TITLES or key in PARTICLES
    return len(key) >= _SHORTEST and not ordinary


def _joined(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Adjacent first and last names merged into one span."""
    start = end = -1
    for span in spans:
        gap = text[end : span[0]]
        if end >= 0 and len(gap) <= 9 and _is_gap(gap):
            end = span[1]
            continue
        if end >= 0:
            yield start, end
        start, end = span
    if end >= 0:
        yield start, end


def _is_gap(gap: str) -> bool:
    words = gap.split()
    return gap[:1] == gap[-1:] == " " and all(word in PARTICLES for word in words)


TOKEN = re.compile(r"[^\W\d_]{1,30}(?:['-][^\W\d_]{1,30}){0,3}")
_MOST_WORDS = 4


def _cue(kind: str) -> str:
    return pattern("personal", f"name {kind}")


_RELATION = (
    rf"(?:my|our|his|her|your|their|the)[ ](?:\w{{1,12}}[ ])?(?:{_cue('kin')})"
    r"(?:[ ](?:is|was|named|called))?(?:,|:|[ ]\()?"
)
_CUE = re.compile(
    rf"(?<![\w'-])(?:(?P<strong>{_cue('strong')})|(?P<self>{_cue('self')})|(?P<this>{_cue('this')})|"
    rf"(?P<title>{_cue('title')})|(?P<greeting>{_cue('greeting')}),?|(?P<relation>{_RELATION})|"
    rf"(?P<label>{_cue('label')})|"
    rf"(?P<towards>{_cue('people label')}|{_cue('role')}|{_cue('towards')}))"
    r"(?:(?<=\()|[ \t]{1,2}|(?<=[:=]))(?=[^\W\d_])",
)
_STOPS = re.compile(
    r"[,.!;:?)\n\r]|$|[ ]-|[ ](?:and|from|here|again|calling|speaking|with|y|und|et)\b"
)
_AFTER_THIS = re.compile(r",|[ ](?:from|here|again|calling|speaking|with|and[ ]I)\b")
_AFTER_GREETING = re.compile(r"[ ]?[,!.:;)?\n\r-]|[ ]?$")
_BEFORE_LABEL = re.compile(r"(?:^|[\n\r;,|({\x1e\"'.:])[ \t]{0,4}$")

_HERE = re.compile(r"[ ]here(?=[ ,.!;:\n]|$)")
_HERE_BEFORE = re.compile(
    r"(?:^|[\n.!?,;:][ ]?)(?:(?:hi|hey|hello)[ ,!]{1,2})?(?P<name>[^\W\d_][\w' -]{0,60})$",
    re.IGNORECASE,
)
_SIGN_OFF = re.compile(
    r"(?:^|[\n.!?,][ ]?)[ ]{0,4}(?:(?:best|kind|warm|warmest|many|with[ ]kind)[ ])?(?:regards|"
    r"wishes|cheers|sincerely|yours(?:[ ](?:truly|sincerely|faithfully))?|thanks|"
    r"thank[ ]you|best|love|"
    r"take[ ]care|saludos|cordialement|grüße|mit[ ]freundlichen[ ]grüßen|viele[ ]grüße|saluti|"
    r"abraços?)(?:[ ](?:again|in[ ]advance|truly|sincerely|so[ ]much))?[,.!]{0,2}[ ]{0,2}\r?\n"
    r"(?:[ ]{0,4}\r?\n)?[ ]{0,4}[-–]?[ ]?(?=[^\W\d_])",
    re.IGNORECASE,
)
_LINE_END = re.compile(r"[.,!]?[ ]{0,4}(?=[\r\n]|$)")
_DISPLAY = re.compile(r"\"?[ ][<(]\x1e")
_SAID = re.compile(
    r"[ ](?:said|says|told|tells|asked|asks|thinks|promised|forgot|mentioned|texted|emailed|"
    r"replied|"
    r"apologi[sz]ed|complained|insisted)\b"
)
_WORDS_BEFORE = re.compile(r"(?<![\w'@/\\.#-])[^\W\d_a-z][\w'.-]*(?:[ ][\w'.-]+){0,4}$")
_IN_SENTENCE = re.compile(
    r"(?:[^\W\d_A-Z]|,)[ ]$(?<!\bthe[ ])(?<!\ba[ ])(?<!\ban[ ])(?<!\bin[ ])(?<!\bat[ ])(?<!\bof[ ])"
)
_CAPITAL = re.compile(r"(?<![\w'@/\\.#-])[^\W\d_a-z][^\W\d_]{1,29}")

_BEFORE_PLACE = re.compile(
    r"\b(?:San|Santa|Santo|São|Saint|St\.?|Ste\.?|Port|Fort|Mount|Mt\.?|Lake|Los|"
    r"Las|El|Hotel|Café|Trader|Uncle)[ ]$"
)
_AFTER_PLACE = re.compile(
    r"[ ](?:Street|St|Avenue|Ave|Road|Rd|Lane|Square|Park|Station|Airport|Hotel|Hospital|"
    r"University|School|College|Court|Span|Drive|Island|Inc|Ltd|LLC|GmbH|Bank|County|City|Corp|Award|Prize)\b|"
    r"[ ]?&|'s[ ][A-Z]"
)


def announced_names(text: str) -> Iterator[Span]:
    """Names announced by the words around them: introductions, titles, greetings, forms."""
    for cue in _CUE.finditer(lowered(text)):
        end = _ACCEPT[cue.lastgroup or ""](text, cue)
        if end:
            yield (cue.start() if cue.lastgroup == "title" else cue.end()), end
    yield from _named_here(text)
    for cue in _SIGN_OFF.finditer(text):
        end, _ = _read(text, cue.end())
        if end and _LINE_END.match(text, end):
            yield cue.end(), end
    yield from spoken_names(text)


def common_names(text: str) -> Iterator[Span]:
    """Capitalized given names, with the surnames after them."""
    for found in _CAPITAL.finditer(text):
        word = plain(found.group())
        rare = word in rare_names()
        if found.group().isupper() or not (rare or word in given_names()):
            continue
        end, words = _read(text, found.start())
        if not end or _is_place(text, found.start(), end):
            continue
        if len(words) > 1 or (word not in also_words() and not (rare and _may_be_word(found))):
            yield found.start(), end


def spoken_names(text: str) -> Iterator[Span]:
    """Names before a verb such as "said" or "asked", and names before an address."""
    for said in _SAID.finditer(text):
        yield from _name_before(text, said.start(), 1)
    if "<\x1e" in text or "(\x1e" in text:
        for mark in _DISPLAY.finditer(text):
            yield from _name_before(text, mark.start(), 1 if "<" in mark.group() else 2)


def plain(word: str) -> str:
    """Lower case, without accents."""
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.lower())
    return "".join(char for char in parts if not unicodedata.combining(char))


def _read(text: str, at: int) -> tuple[int, list[str]]:
    """End and words of the name that begins at `at`; 0 and no words if there is none."""
    end, words = 0, list[str]()
    while len(words) < _MOST_WORDS and (token := TOKEN.match(text, at)):
        word = token.group()
        owned = word.endswith("'s")
        word = word.removesuffix("'s")
        last = token.start() + len(word)
        if word in PARTICLES or (words and word.lower() in PARTICLES):
            at = token.end()
        elif word[0].isupper() and not _is_ordinary(word):
            words.append(word)
            end = last
            at = last + 1 if len(word) == 1 and text.startswith(".", last) else token.end()
        else:
            break
        if owned or not text.startswith(" ", at):
            break
        at += 1
    return end, words


def _is_ordinary(word: str) -> bool:
    """True for an ordinary word, or a contraction of one such as "I'm"."""
    return not never_names().isdisjoint((plain(word), plain(word.partition("'")[0])))


def _after_strong(text: str, cue: re.Match[str]) -> int:
    end, _ = _read(text, cue.end())
    return end or _small_given(text, cue.end())


def _after_self(text: str, cue: re.Match[str]) -> int:
    end, words = _read(text, cue.end())
    alone = not _shouted(words) and _STOPS.match(text, end)
    return (end if _is_person(words) or alone else 0) or _small_given(text, cue.end())


def _after_this(text: str, cue: re.Match[str]) -> int:
    end, words = _read(text, cue.end())
    alone = not _shouted(words) and _AFTER_THIS.match(text, end)
    return end if _is_person(words) or alone else 0


def _after_title(text: str, cue: re.Match[str]) -> int:
    end, _ = _read(text, cue.end())
    return end if text[cue.start()].isupper() else 0


def _after_greeting(text: str, cue: re.Match[str]) -> int:
    end = _read(text, cue.end())[0] or _small_given(text, cue.end())
    return end if end and _AFTER_GREETING.match(text, end) else 0


def _after_relation(text: str, cue: re.Match[str]) -> int:
    end, words = _read(text, cue.end())
    return end if _is_person(words) or not cue.group().startswith("the ") else 0


def _after_towards(text: str, cue: re.Match[str]) -> int:
    end, words = _read(text, cue.end())
    return end if _is_person(words) else 0


def _after_label(text: str, cue: re.Match[str]) -> int:
    """End of the name after a label that begins a line, such as "Name:"; 0 for "File name:"."""
    if not _BEFORE_LABEL.search(text[max(0, cue.start() - 6) : cue.start()]):
        return 0
    end, words = _read(text, cue.end())
    bare = re.match(r"name[ ]?[:=]", cue.group())
    return end if _is_person(words) or not bare else 0


_ACCEPT = {
    "strong": _after_strong,
    "self": _after_self,
    "this": _after_this,
    "title": _after_title,
    "greeting": _after_greeting,
    "relation": _after_relation,
    "towards": _after_towards,
    "label": _after_label,
}


def _small_given(text: str, at: int) -> int:
    """End of a given name in lower case, as in chats; 0 if there is none."""
    token = TOKEN.match(text, at)
    word = plain(token.group()) if token else ""
    return token.end() if token and word in given_names() and word not in also_words() else 0


def _is_person(words: list[str]) -> bool:
    if len(words) == 1:
        return plain(words[0]) in given_names() or plain(words[0]) in rare_names()
    return len(words) > 1


def _shouted(words: list[str]) -> bool:
    """True for a single word in capitals: TRUE, OK, USA."""
    return len(words) == 1 and len(words[0]) > 1 and words[0].isupper()


def _named_here(text: str) -> Iterator[Span]:
    for here in _HERE.finditer(text):
        start = max(0, here.start() - 80)
        before = _HERE_BEFORE.search(text[start : here.start()])
        if before:
            end, words = _read(text, start + before.start("name"))
            if words and end == here.start():
                yield start + before.start("name"), end


def _name_before(text: str, end: int, fewest: int) -> Iterator[Span]:
    """The name that ends at `end`, if it has enough capitalized words."""
    start = max(0, end - 80)
    before = _WORDS_BEFORE.search(text, start, end)
    while before:
        last, words = _read(text, before.start())
        if last == end and len(words) >= fewest and not _shouted(words):
            yield before.start(), end
            return
        before = _WORDS_BEFORE.search(text, before.start() + 1, end)


def _may_be_word(found: re.Match[str]) -> bool:
    """True at the start of a sentence and after an article, where a capital tells little."""
    return not _IN_SENTENCE.search(found.string, max(0, found.start() - 12), found.start())


def _is_place(text: str, start: int, end: int) -> bool:
    before = _BEFORE_PLACE.search(text[max(0, start - 10) : start])
    return bool(before or _AFTER_PLACE.match(text, end))
