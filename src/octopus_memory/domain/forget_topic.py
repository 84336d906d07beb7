"""Decides which sentences a wish to forget is about.

A clear match has the words of the topic itself: "my mum's diabetes" matches "Mom was diagnosed with
diabetes", and "her diabetes" where she is spoken of. A related word ("insulin") makes a weak match
only, which is shown and not removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from .search.languages import STOPWORDS
from .search.terms import bare, fold, fold_case, has_unspaced, words_in

_FILLER_LIST = """
forget forgot delete remove erase wipe said say saying told tell telling mention mentioned talk
talked wrote written shared conversation conversations message messages chat thing things stuff
everything anything something know about please memory remember fact facts regarding concerning
vergiss vergessen lösche löschen entferne gesagt sagte erzählt erzählte erwähnt geschrieben gespräch
nachricht sache sachen alles etwas über bitte weißt gedächtnis
oublie oubliez oublier efface supprime dit dis raconté mentionné parlé écrit chose choses tout sur
propos plaît mémoire sais
olvida olvide olvidar borra elimina dije dicho conté contado mencioné hablé escrito conversación
mensaje cosa cosas todo sobre acerca favor memoria sabes
忘记 忘掉 删除 说过 说的 告诉 提到 关于 所有 事情
"""
_FILLERS = frozenset(_FILLER_LIST.split())
"""Words of the wish itself."""
_PEOPLE_LIST = """
mother mum mom mama momma mommy mummy mothers mutter mutti mère maman madre mamá 妈妈 母亲
father dad daddy papa vater vati père padre papá 爸爸 父亲
sister schwester sœur soeur hermana 姐姐 妹妹
brother bruder frère hermano 哥哥 弟弟
husband hubby ehemann mann mari époux marido esposo 丈夫 老公
wife ehefrau frau femme épouse esposa mujer 妻子 老婆
girlfriend freundin copine novia 女朋友
boyfriend freund copain novio 男朋友
partner partnerin partenaire pareja 伴侣
son sohn fils hijo 儿子
daughter tochter fille hija 女儿
kid kids child children kind kinder enfant enfants hijos niños 孩子
parents eltern padres 父母
grandmother grandma granny nana oma großmutter grand-mère mamie abuela 奶奶 外婆
grandfather grandpa opa großvater grand-père papi abuelo 爷爷 外公
aunt auntie tante tía 阿姨 姑姑
uncle onkel oncle tío 叔叔 舅舅
cousin cousine prima primo
boss manager chef chefin patron jefe jefa 老板
friend freund freundin ami amie amigo amiga 朋友
ex
"""
_PEOPLE = tuple(
    frozenset(map(fold, line.casefold().split())) for line in _PEOPLE_LIST.strip().splitlines()
)
"""Words for the same person, a line each: whose the topic is, rather than the topic."""
_FIRST_LIST = """
i i'm i've i'd i'll me my mine myself we our us ich mir mich mein meine meinen meiner meinem wir
unser uns je j'ai moi mon ma mes nous notre yo mi mis mí nosotros nuestro 我
"""
_FIRST = frozenset(_FIRST_LIST.split())
_THIRD_LIST = """
she he they her his him their them hers theirs it its she's he's they're er sie ihr ihre ihren ihrem
ihrer sein seine seinen seiner seinem ihm ihn il elle ils elles lui leur sa son ses él ella ellos su
sus 她 他
"""
_THIRD = frozenset(_THIRD_LIST.split())
_OWNER = re.compile(
    r"([\w-]+)['’]s\b"
    r"|\b(?:of|von|de|du|di|del)\s+(?:my|the|our|ma|mon|mi|meiner|meinem)?\s*([\w-]+)"
)
_AND = re.compile(
    r"(?:\s+(?:and|und|et|y|e)|[,;])\s+(?=(?:my|our|the|about|what|that|mein\w*|de[rnms]|die|das|über"
    r"|mon|ma|mes|le|la|les|sur|mi|mis|el|los|las|sobre)\s)|[和、](?=我|关于)",
    re.IGNORECASE,
)
"""Between two things: "my divorce and my job", but not "black and white"."""
_LEAST = 0.6
"""Least share of the topic's words in a sentence that matches clearly."""
_RELATED = 0.5
"""Least similarity of a related word."""
_LONG = 6
"""Length of a stem that is recognized inside of longer words, such as compounds."""


class Analyzer(Protocol):
    def language_of(self, text: str) -> str: ...

    def terms(
        self, text: str, cap: int | None = None, language: str | None = None
    ) -> Sequence[str]: ...

    def forms(self, text: str, cap: int | None = None) -> Sequence[tuple[str, ...]]: ...

    @property
    def related(self) -> Callable[[str], Sequence[tuple[str, float]]]: ...


class Match(IntEnum):
    """How surely a sentence is about a topic."""

    NONE = 0
    WEAK = 1
    CLEAR = 2


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the topic."""

    stems: frozenset[str]
    synonyms: frozenset[str]
    """Other words for the same person; empty for things."""
    related: frozenset[str]


class Seen(NamedTuple):
    """The words of a topic, by number, that a text has."""

    exact: frozenset[int] = frozenset()
    related: frozenset[int] = frozenset()

    def __or__(self, other: Seen) -> Seen:
        return Seen(self.exact | other.exact, self.related | other.related)


class _Part(NamedTuple):
    """The words, by number, of one of the things that a wish is about, and of whose it is."""

    things: frozenset[int]
    owners: frozenset[int]


class Topic:
    """What a wish to forget is about: one thing, or several ("my divorce and my new job")."""

    def __init__(self, about: str, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._words: list[_Word] = []
        self._parts = [self._read(part) for part in _AND.split(about)]

    def _read(self, about: str) -> _Part:
        first, owned, analyzer = len(self._words), set(), self._analyzer
        owners = {fold(word) for pair in _OWNER.findall(about.casefold()) for word in pair if word}
        named = _named(about)
        spelled = {
            fold(bare(word)): {form for forms in analyzer.forms(word) for form in forms}
            for word in words_in(fold_case(about, len(about)))
        }
        for forms in analyzer.forms(_unfilled(about), len(about)):
            words = {word for word, known in spelled.items() if not known.isdisjoint(forms)}
            plain = words | {_plain(form) for form in forms}
            people = _people(plain)
            if (people & named) or (not people and words and words <= _IGNORED):
                continue
            near = frozenset(
                term
                for form in forms
                for term, similarity in analyzer.related(form)
                if similarity >= _RELATED
            )
            if named:
                near |= named
            if people or plain & owners:
                owned.add(len(self._words))
            self._words.append(_Word(frozenset(forms), people, frozenset() if people else near))
        every = frozenset(range(first, len(self._words)))
        # "Forget my ex": the person is the topic.
        return _Part(every - owned or every, frozenset(owned if every - owned else ()))

    def __bool__(self) -> bool:
        return bool(self._words)

    def seen(self, text: str, language: str | None = None) -> Seen:
        """Return which of the topic's words a text has."""
        folded = fold_case(text, len(text))
        said = {fold(bare(word)) for word in words_in(folded)}
        terms = set(self._analyzer.terms(text, len(text), language)) | said
        flat = fold(folded) if folded.isascii() else "".join(map(fold, folded))
        exact, near = set(), set()
        for number, word in enumerate(self._words):
            if self._has(word, terms, said, flat):
                exact.add(number)
            elif word.related & terms:
                near.add(number)
        return Seen(frozenset(exact), frozenset(near))

    def _has(self, word: _Word, terms: Collection[str], said: Collection[str], flat: str) -> bool:
        if not word.stems.isdisjoint(terms):
            return True
        if word.synonyms:
            return not word.synonyms.isdisjoint(said) or _has_unspaced(word.synonyms, flat)
        return any(len(stem) >= _LONG and stem in flat for stem in map(_plain, word.stems))

    def match(self, sentence: str, own: Seen, around: Seen) -> Match:
        """Return how surely a sentence is about the topic.

        `own` are the words in the sentence, `around` those near it: in its message, and in the
        messages before and after.
        """
        return max(_match(part, sentence, own, around) for part in self._parts)


def _match(part: _Part, sentence: str, own: Seen, around: Seen) -> Match:
    known = own.exact | around.exact
    here = own.exact & part.things
    if not here:
        is_near = own.related & part.things and part.owners <= known
        return Match.WEAK if is_near else Match.NONE
    if len(here) >= _LEAST * len(part.things) and part.owners <= own.exact:
        return Match.CLEAR
    is_whole = part.owners <= known and part.things <= known
    return Match.CLEAR if is_whole and _refers_back(sentence) else Match.WEAK


def _refers_back(sentence: str) -> bool:
    """True if a sentence can be about what was just spoken of, and is not about the speaker."""
    words = set(words_in(fold_case(sentence, len(sentence))))
    if has_unspaced(sentence):
        words |= set(sentence)
    return bool(words & _THIRD) or not words & _FIRST


def _unfilled(about: str) -> str:
    """The topic without "forget what I said about"."""
    return " ".join(word for word in about.split() if word.casefold().strip(".,!?") not in _FILLERS)


def _people(words: Collection[str]) -> frozenset[str]:
    """All words for the persons that these words name."""
    own = {fold(each) for each in words}
    found = (each for each in _PEOPLE if not each.isdisjoint(own))
    return frozenset(word for each in found for word in each)


def _named(about: str) -> frozenset[str]:
    """Words for persons that a name follows: "my ex-wife Anna" is about Anna alone."""
    pairs = re.findall(r"\b([\w-]+)\s+(?=[A-ZÀ-ÖØ-Þ][\w-]+(?:$|['’]|\s+(?!['’])))", about)
    return _people({part for word in pairs for part in fold_case(word, len(word)).split("-")})


def _plain(term: str) -> str:
    """A term without the mark of its language."""
    return term.partition(":")[2] or term


def _has_unspaced(words: Collection[str], text: str) -> bool:
    return any(not word.isascii() and has_unspaced(word) and word in text for word in words)


_IGNORED = _FILLERS | frozenset(word for words in STOPWORDS.values() for word in words)
