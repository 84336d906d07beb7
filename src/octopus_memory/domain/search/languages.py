"""Stopwords, language detection, and the terms of Chinese text, which has no spaces.

Detection takes one dictionary look-up per word, because it runs on every stored turn. A word of
only one language is strong evidence. A word of several languages, or one that is part of names
everywhere ("Los Angeles", "Café de Flore"), is weak evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache

from .terms import fold, fold_case, has_unspaced, pieces, runs, words_in

_ENGLISH = """
a about again all also am an and any are as at be been being both but by can could d did do does
doing don down each few for from had has have having he her here him his how i if in into is it its
just ll m may me might more most must my no nor not now o of off on or other our out over own re s
same shall she should so some such t than that the their them then there these they this those to
too under up ve very was we were what when where which who whom whose why will with would y you your
yours mine ours hers theirs isn aren wasn weren hasn haven hadn doesn didn won wouldn couldn
shouldn gonna wanna hey hi hello yeah yes oh wow ok okay
"""

_GERMAN = """
ab aber alle allem allen aller alles als also am an andere anderem anderen anderer anderes ans auch
auf aus außerdem bei beide beiden beim bereits bevor bin bis bist bitte da dabei dadurch dafür
dagegen daher damit danach danke dann daran darauf daraus darf darfst darin darüber darum das dass
daß davon dazu dein deine deinem deinen deiner deines dem demnach den denen denn dennoch der deren
derer des deshalb dessen dich die dies diese dieselbe diesem diesen dieser dieses dir doch dort du
durch dürfen dürft dürfte eben ebenso eigentlich ein eine einem einen einer eines einige einigen
einiger einiges einmal entweder er es etwa etwas euch euer eure eurem euren eurer falls für gab
ganz gar gegen gehabt genau gerade gern gerne gewesen geworden gibt ging hab habe haben habt halt
hallo hast hat hatte hatten hattest hattet hätte hätten hättest her hi hier hin hinter ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins irgend irgendwas irgendwie irgendwo
irgendwann ist ja je jede jedem jeden jeder jedes jedoch jemand jemanden jene jenem jenen jener
jenes jetzt kann kannst kein keine keinem keinen keiner keines könnt könnte könnten könntest können
konnte konnten lassen lass mal man manche manchem manchen mancher manches mehr mein meine meinem
meinen meiner meines mich mir mit möchte möchten möchtest mögen mag magst muss musst müssen müsste
müsst musste mussten nach nachdem nein neben nicht nichts nie noch nochmal nun nur ob obwohl oder
oft ohne per schon sehr sein seine seinem seinen seiner seines seit seid selber selbst sich
sie sind so sogar solch solche solchem solchen solcher soll sollen sollst sollt sollte sollten
solltest somit sondern sonst sowie soviel trotzdem über überhaupt um und uns unser unsere unserem
unseren unserer unseres unter vielleicht vom von vor wann war waren warst wart wäre wären wärst
warum was weder wegen weil welche welchem welchen welcher welches wem wen wenig wenn wer werde
werden werdet weshalb wessen wie wieder wieso wieviel viel viele vielen will willst wir wird wirst
wo wobei wodurch wofür woher wohin wohl wollen wollt wollte wollten womit woran worauf woraus worin
worüber worum wovon wozu würde würden würdest wurde wurden während zu zum zur zwar zwischen
"""

_FRENCH = """
a afin ai aie aient ainsi ais ait alors apres après as au aucun aucune aujourd auquel aura aurai
auraient aurais aurait auras aurez aurons auront aussi autre autres aux auxquels avaient avais avait
avant avec avez aviez avions avoir avons ayant beaucoup bien bonjour bonsoir c ça car ce ceci cela
celle celles celui ces cet cette ceux chaque chez ci combien comme comment d dans de déjà depuis
des desquelles desquels dès dit doit dois doivent donc dont du duquel durant elle elles en encore
entre envers es est et étaient étais était étant étante été êtes être étions eu eue eues eurent eus
eut eux eût fait faire fais faites font fallait faudra faut furent fus fut fût hein hélas hors hui
il ils j je jusqu jusque l la là laquelle le lequel les lesquelles lesquels leur leurs lors lorsque
lorsqu lui m ma mais malgré me même mêmes merci mes mien mienne miens miennes mieux moi moins mon n
ne ni non nos notre nôtre nous on ont or ou où oui outre par parce parfois parmi pas pendant peu
peut peuvent peux plus plusieurs plutôt pour pourquoi pourra pourrait pourrais pouvait pouvez
pouvoir pouvons presque pu puis puisque puisqu qu quand quant que quel quelle quelles quelqu quelque
quelques quels qui quoi rien s sa salut sans sauf se sera serai seraient serais serait seras serez
serons seront ses seulement si sien sienne siens siennes sinon soi soient sois soit sommes son sont
sous soyez soyons suis sur surtout svp ta tant te tel telle telles tels tes tien tienne toi ton
toujours tous tout toute toutefois toutes très trop tu t un une unes uns va vais vas vers veut
veux veulent veuillez voici voilà voir vois vont vos votre vôtre voudrais voudrait voulait voulez
vouloir voulons vous vu y à ô
"""

_SPANISH = """
a acá además adónde ahí ahora al algo alguien algún alguna algunas alguno algunos allá allí ambos
ante antes aquel aquella aquellas aquello aquellos aquí así aún aunque bajo bastante bien buenas
buenos cada casi como cómo con conmigo contigo contra cosa cosas cual cuál cuáles cuales cualquier
cuando cuándo cuanta cuánta cuantas cuántas cuanto cuánto cuantos cuántos cuya cuyas cuyo cuyos da
dan dar de debe deben debería debo del demás dentro desde después di dice dio donde dónde dijo
durante e el él ella ellas ello ellos embargo en encima entonces entre era erais éramos eran eras
eres es esa ésa esas ese ése eso esos esta está ésta estaba estabais estábamos estaban estabas
estado estáis estamos están estar estará estaría estas estás éstas este esté éste esto estos éstos
estoy estuve estuvieron estuvo favor fue fuera fueron fuese fui fuimos fuiste gracias gran ha había
habían habías haber habéis habrá habría hace hacen hacer hacia haciendo hago han has hasta hay haya
hayan he hecho hemos hice hizo hola igual incluso ir jamás la las le les lo los luego más mas me
menos mi mí mía mías mientras mío míos mis misma mismas mismo mismos mucha muchas mucho muchos muy
nada nadie ni ningún ninguna ninguno no nos nosotras nosotros nuestra nuestras nuestro nuestros
nunca o os otra otras otro otros para pero poca pocas poco pocos podemos poder podía podría podrías
por porque pude puede pueden puedes puedo pues que qué quien quién quienes quiénes quiere quieres
quiero quisiera sé se sea sean según ser será serán sería si sí sido siempre siendo sin sino sobre
sois solamente solo sólo somos son soy su sus suya suyas suyo suyos tal tales también tampoco
tan tanta tanto tantos te tendrá tendría tenemos tenéis tener tenga tengas tengo tenía tenían ti
tiene tienen tienes toda todas todavía todo todos tu tú tus tuve tuvo tuya tuyo u un una unas uno
unos usted ustedes va vais vamos van varias varios vas vaya veces ver vez vosotras vosotros voy
vuestra vuestras vuestro vuestros y ya yo
"""


LISTED: dict[str, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "german": frozenset(_GERMAN.casefold().split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
}
"""Stopwords as spelled, case-folded."""

STOPWORDS: dict[str, frozenset[str]] = {
    language: frozenset((*listed, *map(fold, listed))) for language, listed in LISTED.items()
}
"""Stopwords as spelled and without accents."""


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


_HAN = "[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"
_NOT_CHINESE = "[\u0e00-\u1fff\u3040-\u30ff\uac00-\ud7af]"
"""Other scripts without spaces, from Thai to kana, and Hangul: a word with these is not Chinese.

Punctuation, which lies between them, belongs to every script.
"""

_CHINESE_PARTICLES = frozenset("的了是我你您他她它们吗呢吧啊呀么什哪谁怎这那也又很把被些个嘛啦在")
"""Grammatical characters, which hardly ever begin or end a content word."""

_CHINESE_WORDS = """
什么 怎么 怎样 哪里 哪个 哪些 哪位 多少 为什 时候 一下 请问 告诉 知道 可以 应该 因为 所以 但是 如果
没有 不是 还是 或者 以及 已经 现在 之前 之后 我们 你们 他们 她们 自己 这个 那个 这些 那些 这样 那样
这里 那里 有没 是不 是否 一个 一些 谢谢 你好 您好 还有 关于
"""
_CHINESE_GRAMMAR = frozenset(_CHINESE_WORDS.split())
"""Function words of two characters: question words, pronouns and the like."""


def is_chinese(text: str) -> bool:
    """True if a text has Han characters and no other script without spaces, as Japanese has."""
    return re.search(_HAN, text) is not None and re.search(_NOT_CHINESE, text) is None


def language_of(text: str, of_latin: Callable[[str], str]) -> str:
    """Language of a text, by its script; `of_latin` tells the languages of Latin script apart."""
    if is_latin(text):
        return of_latin(text)
    return CHINESE if is_chinese(text) else OTHER


def characters(word: str) -> list[str]:
    """Han characters of a word that are not grammatical, if `pieces` yields them only in pairs.

    Many Chinese words have one character, and a question rarely has it in the same pair as a turn.
    """
    return [
        each
        for run in re.findall(_HAN, word)
        if len(run) > 1 or len(word) > 1
        for each in run
        if each not in _CHINESE_PARTICLES
    ]


def pieces_sought(word: str) -> list[tuple[str, ...]]:
    """Terms of a question's word, each with its alternatives.

    Of Chinese, only content between grammatical words is used. A lone character matches as itself
    and, because turns indexed earlier have only pairs, as the pairs around it.
    """
    if re.search(_NOT_CHINESE, word):
        return [(piece,) for piece in pieces(word)]
    found: list[tuple[str, ...]] = []
    for run in runs(word):
        if len(run) == 1 or not has_unspaced(run):
            found.append((run,))
            continue
        for start, end in _content_stretches(run):
            if end - start > 1:
                found += [(run[i : i + 2],) for i in range(start, end - 1)]
            else:
                around = (run[start - 1 : end] if start else "", run[start : end + 1])
                found.append((run[start], *(pair for pair in around if len(pair) == 2)))
    return found


def _content_stretches(run: str) -> list[tuple[int, int]]:
    """Start and end of each stretch of content characters in a run of Han characters."""
    grammar = [character in _CHINESE_PARTICLES for character in run]
    for i in range(len(run) - 1):
        if run[i : i + 2] in _CHINESE_GRAMMAR:
            grammar[i] = grammar[i + 1] = True
    found, start = [], 0
    for i, is_grammar in enumerate([*grammar, True]):
        if is_grammar:
            if i > start:
                found.append((start, i))
            start = i + 1
    return found
