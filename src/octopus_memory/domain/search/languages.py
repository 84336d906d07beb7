"""Language detection from the most common words of a text.

It takes one dictionary look-up per word, because it runs on every stored turn. A word of only one
language is strong evidence. A word of several languages, or one that is part of names everywhere
("Los Angeles", "Café de Flore"), is weak evidence.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from .stopwords import LISTED
from .terms import fold_case, words_in

CHINESE, OTHER = "chinese", "other"
"""Languages that are detected by their script."""


class Reading(StrEnum):
    """Skill of an embedder in a language."""

    FLUENT = "fluent"
    GLOSSED = "glossed"
    """Word for word in English: cosines are lower, and still tell more than words."""
    NONE = "none"
    """Cosines mean little."""


_STRONG, _WEAK = 3, 1
_ENOUGH = 3
_BITS = 16
"""Width of one language's counter in the sum; no text has enough words to overflow it."""
_MASK = (1 << _BITS) - 1
_LONGEST = 24

_TELLING = {
    "english": """get got getting go going went like love want need know think make made really
        thanks thank please sure good great well i'm it's that's don't let's what's there's he's
        she's can't didn't you're they're we're i've i'd i'll won't isn't doesn't one two new day
        because while before after still only even much many always never every""",
    "german": """heiße heißt jahre jahr tag tage heute gestern morgen woche uhr gut gute guten
        neue neuen neuer neues mag liebe arbeite arbeiten wohne wohnen kaufen gekauft gemacht machen
        mache geht gehe gehen weiß weißt finde brauche hund katze frau mutter vater schwester bruder
        straße haus kaffee arzt nächste nächsten nächster letzte letzten letzter leider bald
        zwei drei vier fünf sechs sieben acht neun zehn""",
    "french": """aime aimes ans année jour jours aujourd'hui hier demain semaine mois heure heures
        habite travaille appelle chien mère père sœur soeur frère femme maison bon bonne
        nouveau nouvelle prochain prochaine dernier dernière quelqu'un c'est j'ai j'aime d'accord
        n'ai n'est s'il qu'il qu'elle deux trois quatre cinq six sept huit neuf dix""",
    "spanish": """gusta gustan años año día días hoy ayer mañana semana mes hora horas vivo trabajo
        trabajas llamo llama perro gato madre padre hermana hermano mujer casa bueno buena nuevo
        nueva próximo próxima pasado pasada último última dos tres cuatro cinco seis siete ocho
        nueve diez necesito compré señor señora""",
}
"""Content words that identify a language, in addition to its stopwords."""

_PARTICLES = """
la le les los las el de del du des da di der die das den dem von van vom zum un una san y e
d l al au aux en
"""
_IN_NAMES = frozenset(_PARTICLES.split())
"""Words of one language that occur in names in every language."""

_SHARED = """
ab acht adios ai also am an ante as bajo bald bien bin bon bonjour but c car casa chose
comment con contra d dan danke dar das den des di dice die dir dire dix dont dos e elle era
es est et eu fait fast favor fit font fui gar ging gracias gran gut ha hallo halt han has
hat he her hi hier hin hola hors hui il im ir j l la lass llama lors luego lui m ma mag main
mais mal malgre man mas me merci mes mi mien mine mis n nada ne neuf ni no non nos o ob on
or os ou par para pas per plus pour pu s sa salut sans se sea selber sent sept sera si sin
six so soit solo son sur t ta tag tal tales tan te ti todo ton tout tres tu u um uns va van
vas ver vers vivo vu war wart weg wen wer will wo ya yo soy
"""
_ALSO_ENGLISH = frozenset(_SHARED.split())
"""Words of the other languages that also occur in English text: weak evidence."""

_LETTERS = {"english": "ai", "german": "", "french": "à", "spanish": ""}
"""One-letter words that count as evidence."""

_ELIDED = ("j'", "c'", "n'", "qu'")
"""Beginnings of French words that no English word with an apostrophe has."""


def evidence(piece: str) -> int:
    """Evidence for each language in a piece of text without spaces, packed in one summable int."""
    if len(piece) > _LONGEST:
        return 0
    total = 0
    for word in words_in(fold_case(piece, _LONGEST).replace("’", "'")):
        total += _known().get(word) or _of_parts(word)
    return total


def guess(total: int, default: str = "english") -> str:
    """The language with the most `evidence`, or `default` if that is not enough."""
    if not total >> _BITS:
        return default
    scores = [(total >> shift & _MASK, language) for language, shift in _SHIFT.items()]
    english = scores[0][0]
    (best, language), (second, _) = sorted(scores[1:], reverse=True)[:2]
    return language if best >= _ENOUGH and best > max(english, second) else default


def is_latin(text: str) -> bool:
    """True if a text is mostly in Latin letters, or has no letters."""
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    # Latin letters and their accents are encoded below Greek, and in one block above it.
    latin = sum(each < "\u0370" or "\u1e00" <= each <= "\u1eff" for each in letters)
    # Scripts without spaces need fewer letters for the same text.
    return latin >= 2 * (len(letters) - latin)


def _of_parts(word: str) -> int:
    """Evidence of a word's part before the apostrophe: of "don" for "don't", of "j'" for French."""
    before, apostrophe, _ = word.partition("'")
    if not apostrophe:
        return 0
    if word.startswith(_ELIDED):
        return _STRONG << _SHIFT["french"]
    return _known().get(before, 0)


_SHIFT = {language: i * _BITS for i, language in enumerate(LISTED)}


@cache
def _known() -> dict[str, int]:
    """Evidence by word, for all words that have any."""
    lists = {
        language: words | frozenset(_TELLING[language].casefold().split())
        for language, words in LISTED.items()
    }
    found: dict[str, int] = {}
    for language, words in lists.items():
        # Single letters also occur in lists, formulas and code.
        for word in (word for word in words if len(word) > 1 or word in _LETTERS[language]):
            shared = sum(word in others for others in lists.values()) > 1
            weak = shared or word in _IN_NAMES or (language != "english" and word in _ALSO_ENGLISH)
            found[word] = found.get(word, 0) + ((_WEAK if weak else _STRONG) << _SHIFT[language])
    return found
