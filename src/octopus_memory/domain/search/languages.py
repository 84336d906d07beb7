"""Guesses the language of a text from its commonest words.

It costs one look-up for each word, because it runs on every turn that is stored. A word that only
one language has is strong evidence. One that several have, or that is part of names all over the
world ("Los Angeles", "Café de Flore"), is weak evidence.
"""

from __future__ import annotations

from functools import cache

from .stopwords import LISTED
from .terms import fold_case, words_in

CHINESE, OTHER = "chinese", "other"
"""Languages that are told by their script."""

_STRONG, _WEAK = 3, 1
_ENOUGH = 3
_BITS = 16
"""The width of one language's counter; a text has far fewer words than would fill it."""
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
"""Words that tell a language and may well be what a text is about."""

_PARTICLES = """
la le les los las el de del du des da di der die das den dem von van vom zum un una san y e
d l al au aux en
"""
_IN_NAMES = frozenset(_PARTICLES.split())
"""Words of one language that stand in names in every language."""

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
"""Words of the others that English has too, as a word, a name or a greeting: no evidence alone."""

_LETTERS = {"english": "ai", "german": "", "french": "à", "spanish": ""}
"""Words of one letter that are evidence."""

_ELIDED = ("j'", "c'", "n'", "qu'")
"""How a French word begins whose first letter cannot begin an English one with an apostrophe."""


def evidence(piece: str) -> int:
    """What stands between two spaces tells of each language, as one number that can be added up."""
    if len(piece) > _LONGEST:
        return 0
    told = 0
    for word in words_in(fold_case(piece, _LONGEST).replace("’", "'")):
        told += _known().get(word) or _of_parts(word)
    return told


def guess(told: int, default: str = "english") -> str:
    """The language that the sum of a text's `evidence` tells, else `default`."""
    if not told >> _BITS:
        return default
    scores = [(told >> shift & _MASK, language) for language, shift in _SHIFT.items()]
    english = scores[0][0]
    (best, language), (second, _) = sorted(scores[1:], reverse=True)[:2]
    return language if best >= _ENOUGH and best > max(english, second) else default


def is_latin(text: str) -> bool:
    """Whether a text is mostly in Latin letters; one without letters is."""
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    # Latin letters with all their accents stand below the Greek ones, and in one block above.
    latin = sum(each < "\u0370" or "\u1e00" <= each <= "\u1eff" for each in letters)
    # Scripts without spaces say as much with fewer letters.
    return latin >= 2 * (len(letters) - latin)


def _of_parts(word: str) -> int:
    """A word with an apostrophe by what stands before it: "don't" by "don", "j'adore" by "j'"."""
    before, apostrophe, _ = word.partition("'")
    if not apostrophe:
        return 0
    if word.startswith(_ELIDED):
        return _STRONG << _SHIFT["french"]
    return _known().get(before, 0)


_SHIFT = {language: place * _BITS for place, language in enumerate(LISTED)}


@cache
def _known() -> dict[str, int]:
    """The evidence of each word that is any."""
    lists = {
        language: words | frozenset(_TELLING[language].casefold().split())
        for language, words in LISTED.items()
    }
    found: dict[str, int] = {}
    for language, words in lists.items():
        # Single letters stand in lists, formulas and code.
        for word in (word for word in words if len(word) > 1 or word in _LETTERS[language]):
            shared = sum(word in others for others in lists.values()) > 1
            weak = shared or word in _IN_NAMES or (language != "english" and word in _ALSO_ENGLISH)
            found[word] = found.get(word, 0) + ((_WEAK if weak else _STRONG) << _SHIFT[language])
    return found
