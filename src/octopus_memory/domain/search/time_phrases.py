"""Time expressions in German, French, Spanish and Chinese, translated to English for `temporal`.

"letzte Woche", "il y a trois jours", "el 5 de abril", "上周": each is replaced by an English
phrase, so that one set of rules resolves all languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache

from .temporal import MONTHS, WEEKDAYS, may_name_time, strip_times
from .terms import Flag, word_flags

_MARK = "\0"
_RUN = re.compile(r"\w+")
_UNITS = ("day", "week", "month", "year")

_NUMBERS = {
    "german": "ein:1 eine:1 einem:1 einer:1 zwei:2 drei:3 vier:4 fünf:5 sechs:6 sieben:7 acht:8 "
    "neun:9 zehn:10 paar:2 einigen:3 mehreren:3",
    "french": "un:1 une:1 deux:2 trois:3 quatre:4 cinq:5 six:6 sept:7 huit:8 neuf:9 dix:10 "
    "quelques:3 plusieurs:3",
    "spanish": "un:1 una:1 dos:2 tres:3 cuatro:4 cinco:5 seis:6 siete:7 ocho:8 nueve:9 diez:10 "
    "unos:3 unas:3 algunos:3 varios:3 varias:3",
    "chinese": "一:1 两:2 二:2 三:3 四:4 五:5 六:6 七:7 八:8 九:9 十:10 十一:11 十二:12 几:3",
}
_MONTH_NAMES = {
    "german": "januar|jänner februar märz|maerz april mai juni juli august september oktober "
    "november dezember",
    "french": "janvier février mars avril mai juin juillet août septembre octobre novembre "
    "décembre",
    "spanish": "enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre "
    "noviembre diciembre",
}
_WEEKDAY_NAMES = {
    "german": "montag dienstag mittwoch donnerstag freitag samstag|sonnabend sonntag",
    "french": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "spanish": "lunes martes miércoles jueves viernes sábado domingo",
    "chinese": "一 二 三 四 五 六 日|天",
}
_UNIT_NAMES = {
    "german": "tag|tage|tagen|tages woche|wochen monat|monate|monaten|monats "
    "jahr|jahre|jahren|jahres",
    "french": "jour|jours semaine|semaines mois an|ans|année|années",
    "spanish": "día|días semana|semanas mes|meses año|años",
    "chinese": "天|日 周|星期|礼拜 月 年",
}

_ISO = r"\g<year>-\g<m>-\g<d>"
_DOTTED = r"\b(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<year>(?:19|20)\d\d)\b"
_SLASHED = r"\b(?P<d>\d{1,2})[/.](?P<m>\d{1,2})[/.](?P<year>(?:19|20)\d\d)\b"

# Applied in order; text that one pattern replaced is not matched again. N, U, M and W in braces
# stand for the language's numbers, units, months and weekdays.
_PHRASES: dict[str, tuple[tuple[str, str], ...]] = {
    "german": (
        (_DOTTED, _ISO),
        (
            (
                r"\bletzte[nrsm]?\s+(?:gesprach|unterhaltung|sitzung|chat)\w*|\bletzte[sn]?\s+mal\b"
                r"(?=.*\b(?:gesprochen|geredet|besprochen|unterhalten|gesagt|erzahlt))"
            ),
            "last conversation",
        ),
        (
            r"\b(?:aller)?erste[nrsm]?\s+(?:gesprach|unterhaltung|sitzung|chat)\w*",
            "first conversation",
        ),
        (r"\bseit\s+{M}\b", "since {month}"),
        (r"\b(?:nachste|kommende)[nrsm]?\s+{W}\b", "next {weekday}"),
        (r"\b(?:nachste|kommende)[nrsm]?\s+wochenende\b", "next weekend"),
        (r"\b(?:nachste|kommende)[nrsm]?\s+{U}\b", "next {unit}"),
        (r"\bubermorgen\b", "day after tomorrow"),
        (r"(?<!heute )(?<!gestern )(?<!am )(?<!guten )(?<!jeden )\bmorgen\b", "tomorrow"),
        (r"\bin\s+{N}\s+{U}\b", "in {n} {unit}s"),
        (r"\b(?P<d>\d{1,2})\.?\s*{M}(?:\s+(?P<year>(?:19|20)\d\d))?\b", "{d} {month} {year}"),
        (r"\b{M}\s+(?P<year>(?:19|20)\d\d)\b", "in {month} {year}"),
        (
            r"\b(?:im|ab|bis|anfang|ende|mitte|letzten|vergangenen|diesen|vom)\s+{M}\b",
            "in {month}",
        ),
        (r"\b(?:vor\s+(?:ein\s+)?|vor\s+den\s+){N}\s+{U}\b", "{n} {unit}s ago"),
        (r"\b(?:letzten|vergangenen)\s+{N}\s+{U}\b", "last {n} {unit}s"),
        (r"\b(?:letzt|vergangen|vorig)(?:e[nrsm]?)\s+{W}\b", "last {weekday}"),
        (r"\b(?:am|diesen)\s+{W}\b", "on {weekday}"),
        (r"(?<!nachstes )(?<!nachsten )\bwochenende\b", "last weekend"),
        (r"\b(?:letzt|vergangen|vorig)(?:e[nrsm]?)\s+{U}\b", "last {unit}"),
        (r"\bdiese[nrsm]?\s+{U}\b", "this {unit}"),
        (r"\bvorgestern\b", "day before yesterday"),
        (r"\bgestern\b", "yesterday"),
        (r"\bheute\b", "today"),
        (r"\b(?:zuletzt|letzte[sn]?\s+mal|neueste[nrs]?|jungste[nrs]?)\b", "last time"),
        (r"\b(?:zuerst|erste[sn]?\s+mal|ursprunglich|anfangs|fruheste[nrs]?)\b", "first time"),
    ),
    "french": (
        (_SLASHED, _ISO),
        (
            (
                r"\bdernier(?:e)?\s+(?:conversation|discussion|session|echange|chat)"
                r"|\bderniere\s+fois\b(?=.*\b(?:parle|discute|dit|vu))"
                r"|(?<=parle )(?:de quoi )?la derniere fois|(?<=dit )la derniere fois"
            ),
            "last conversation",
        ),
        (
            r"\bpremier(?:e)?\s+(?:conversation|discussion|session|echange|chat)",
            "first conversation",
        ),
        (r"\bdepuis\s+{M}\b", "since {month}"),
        (r"\b{W}\s+prochain\b", "next {weekday}"),
        (r"\bweek-?end\s+prochain\b|\bprochain\s+week-?end\b", "next weekend"),
        (r"\b{U}\s+prochaine?\b|\bprochaine?\s+{U2}\b", "next {unit}"),
        (r"\bapres-demain\b", "day after tomorrow"),
        (r"\bdemain\b", "tomorrow"),
        (r"\bdans\s+{N}\s+{U}\b", "in {n} {unit}s"),
        (r"\b(?P<d>\d{1,2})(?:er)?\s+{M}(?:\s+(?P<year>(?:19|20)\d\d))?\b", "{d} {month} {year}"),
        (r"\b{M}\s+(?P<year>(?:19|20)\d\d)\b", "in {month} {year}"),
        (r"(?:\b(?:en|de|fin|debut|mi|ce|jusqu'en)[\s-]+|\bd'){M}\b", "in {month}"),
        (r"\bil y a\s+{N}\s+{U}\b", "{n} {unit}s ago"),
        (r"\b{N}\s+dernier(?:e)?s\s+{U}\b", "last {n} {unit}s"),
        (r"\b{W}\s+(?:dernier|passe)\b", "last {weekday}"),
        (r"\b(?:le|ce)\s+{W}\b", "on {weekday}"),
        (r"(?<!prochain )(?<!next )\bweek-?end\b(?! prochain)", "last weekend"),
        (r"\b{U}\s+(?:derniere?|passee?|precedente?)\b", "last {unit}"),
        (r"\b(?:ce|cet|cette)\s+{U}\b", "this {unit}"),
        (r"\bavant-hier\b", "day before yesterday"),
        (r"\bhier\b", "yesterday"),
        (r"\baujourd'hui\b|\bce (?:matin|soir)\b|\bcet apres-midi\b", "today"),
        (r"\b(?:derniere\s+fois|plus\s+recente?s?|en\s+dernier)\b", "last time"),
        (r"\b(?:premiere\s+fois|d'abord|en\s+premier|a\s+l'origine|initialement)\b", "first time"),
    ),
    "spanish": (
        (_SLASHED, _ISO),
        (
            (
                r"\bultima\s+(?:conversacion|charla|sesion|platica)"
                r"|\bultima\s+vez\b(?=.*\b(?:habla|charla|comenta|discuti|dij))"
                r"|(?<=hablamos )(?:de )?la ultima vez|(?<=hablado )la ultima vez"
            ),
            "last conversation",
        ),
        (r"\bprimera\s+(?:conversacion|charla|sesion|platica)", "first conversation"),
        (r"\bdesde\s+{M}\b", "since {month}"),
        (r"\b{W}\s+(?:que\s+viene|proximo)\b|\bproximo\s+{W2}\b", "next {weekday}"),
        (r"\bproximo\s+fin\s+de\s+semana\b", "next weekend"),
        (r"\b{U}\s+(?:que\s+viene|proxim[oa])\b|\bproxim[oa]\s+{U2}\b", "next {unit}"),
        (r"\bpasado\s+manana\b", "day after tomorrow"),
        (r"(?<!la )(?<!esta )(?<!cada )(?<!buena )\bmanana\b", "tomorrow"),
        (r"\b(?:dentro\s+de|en)\s+{N}\s+{U}\b", "in {n} {unit}s"),
        (
            r"\b(?P<d>\d{1,2})\s+de\s+{M}(?:\s+del?\s+(?P<year>(?:19|20)\d\d))?\b",
            "{d} {month} {year}",
        ),
        (r"\b{M}\s+(?:del?\s+)?(?P<year>(?:19|20)\d\d)\b", "in {month} {year}"),
        (r"\b(?:en|de|hasta|durante|este|pasado)\s+{M}\b", "in {month}"),
        (r"\bhace\s+(?:un\s+par\s+de\s+)?{N}\s+{U}\b", "{n} {unit}s ago"),
        (r"\bultim[oa]s\s+{N}\s+{U}\b", "last {n} {unit}s"),
        (r"\b{W}\s+pasado\b|\bpasado\s+{W2}\b", "last {weekday}"),
        (r"\b(?:el|este)\s+{W}\b", "on {weekday}"),
        (r"(?<!proximo )\bfin\s+de\s+semana\b(?! que viene)", "last weekend"),
        (r"\b{U}\s+(?:pasad[oa]|anterior)\b", "last {unit}"),
        (r"\best[ea]\s+{U}\b", "this {unit}"),
        (r"\banteayer\b|\bantes\s+de\s+ayer\b", "day before yesterday"),
        (r"\b(?:ayer|anoche)\b", "yesterday"),
        (r"\bhoy\b|\besta\s+(?:manana|tarde|noche)\b", "today"),
        (r"\b(?:ultima\s+vez|mas\s+recientes?|por\s+ultimo)\b", "last time"),
        (r"\b(?:primera\s+vez|al\s+principio|originalmente|inicialmente)\b", "first time"),
    ),
    "chinese": (
        (
            r"(?:上次|上一次|上回)(?=.*(?:聊|谈|说|讨论|对话))|(?<=聊)(?:上次|上一次)",
            "last conversation",
        ),
        (r"(?:第一次|首次)(?:的)?(?=.*(?:聊|谈|对话|说话))", "first conversation"),
        (r"下个?(?:周|星期|礼拜){W}", "next {weekday}"),
        (r"下个?周末", "next weekend"),
        (r"下个?(?:周|星期|礼拜)", "next week"),
        (r"下个?月", "next month"),
        (r"明年", "next year"),
        (r"后天", "day after tomorrow"),
        (r"明天|明晚|明早|明日", "tomorrow"),
        (r"{N}个?{U}(?:以后|之后|后)", "in {n} {unit}s"),
        (r"(?P<year>(?:19|20)\d\d)年(?P<m>\d{1,2})月(?P<d>\d{1,2})[日号]", _ISO),
        (r"(?P<year>(?:19|20)\d\d)年{C}月", "in {month} {year}"),
        (r"{C}月(?P<d>\d{1,2})[日号]", "{d} {month} "),
        (r"(?<!个){C}月(?:份|的时候|里|初|底)?(?!前|以前|之前)", "in {month}"),
        (r"{N}个?{U}(?:以前|之前|前)", "{n} {unit}s ago"),
        (r"(?:过去|最近|前){N}个?{U}", "last {n} {unit}s"),
        (r"上个?(?:周|星期|礼拜){W}|(?:周|星期|礼拜){W2}", "last {weekday}"),
        (r"(?<!下)(?<!下个)周末", "last weekend"),
        (r"上个?(?:周|星期|礼拜)", "last week"),
        (r"上个?月", "last month"),
        (r"去年", "last year"),
        (r"前年", "2 years ago"),
        (r"(?:这|本)个?(?:周|星期|礼拜)", "this week"),
        (r"(?:这个|本|这)月", "this month"),
        (r"今年", "this year"),
        (r"前天", "day before yesterday"),
        (r"昨天|昨晚|昨日", "yesterday"),
        (r"今天|今晚|今早|今日", "today"),
        (r"上次|上一次|最近一次|最后一次|最新", "last time"),
        (r"第一次|首次|最早|最初", "first time"),
    ),
}


def times_in_english(text: str, language: str) -> str:
    """The text in English, as far as it names times or an order; empty if it names none.

    The language of a short text is a guess, so a text with a word of time is read in the others.
    """
    words = set(_RUN.findall(text.casefold()))
    if language == "english" and may_name_time(words, text):
        return text
    if found := in_english(text, language):
        return found
    if may_name_time(words, text):
        return text
    if not word_flags(text) & Flag.TIME:
        return ""
    others = (in_english(text, other) for other in _PHRASES if other != language)
    return next(filter(None, others), "")


def without_times(text: str, language: str) -> str:
    """The text without the times, dates and conversations that it names."""
    for pattern, _ in _patterns(language) if language in _PHRASES else ():
        text = re.sub(pattern, " ", _plain(text))
    return strip_times(text)


def in_english(text: str, language: str) -> str:
    """Times and words for first and last in a question, as English phrases.

    Empty if there are none, or if `language` is not supported.
    """
    if language not in _PHRASES:
        return ""
    text = _plain(text)
    for pattern, english in _patterns(language):
        text = re.sub(pattern, english, text)
    # Every second part is between two marks, hence a translation.
    return "; ".join(text.split(_MARK)[1::2])


@cache
def _patterns(language: str) -> list[tuple[str, Callable[[re.Match[str]], str]]]:
    numbers = dict(pair.split(":") for pair in _plain(_NUMBERS[language]).split())
    units = _named(_UNIT_NAMES[language], _UNITS)
    weekdays = _named(_WEEKDAY_NAMES[language], WEEKDAYS)
    months = _named(_MONTH_NAMES.get(language, ""), MONTHS)
    words = {
        "{N}": rf"(?P<n>\d{{1,3}}|{_any(numbers)})",
        "{U}": rf"(?P<unit>{_any(units)})",
        "{U2}": rf"(?P<unit2>{_any(units)})",
        "{M}": rf"(?P<month>{_any(months)})",
        "{W}": rf"(?P<weekday>{_any(weekdays)})",
        "{W2}": rf"(?P<weekday2>{_any(weekdays)})",
        "{C}": rf"(?P<count>1[0-2]|[1-9]|{_any(numbers)})",
    }
    found = []
    for phrase, english in _PHRASES[language]:
        pattern = phrase
        for name, listed in words.items():
            pattern = pattern.replace(name, listed)
        found.append((pattern, _replacing(english, numbers, units, weekdays | months)))
    return found


def _replacing(
    english: str, numbers: Mapping[str, str], units: Mapping[str, str], names: Mapping[str, str]
) -> Callable[[re.Match[str]], str]:
    def replace(found: re.Match[str]) -> str:
        if english == _ISO:
            return _MARK + found.expand(_ISO) + _MARK
        said = {name: value or "" for name, value in found.groupdict().items()}
        weekday = said.get("weekday") or said.get("weekday2", "")
        month = names.get(said.get("month", ""), "")
        if count := said.get("count"):
            month = _month(numbers.get(count, count))
        phrase = english.format(
            d=said.get("d", ""),
            month=month,
            year=said.get("year", ""),
            n=numbers.get(said.get("n", ""), said.get("n", "")),
            unit=units.get(said.get("unit") or said.get("unit2", ""), ""),
            weekday=names.get(weekday, ""),
        )
        return _MARK + phrase.strip() + _MARK

    return replace


def _month(number: str) -> str:
    return MONTHS[int(number) - 1] if 1 <= int(number) <= len(MONTHS) else ""


def _named(listed: str, english: tuple[str, ...]) -> dict[str, str]:
    """Map names in the language to English ones; forms of one name are separated by bars."""
    forms = _plain(listed).split()
    return {
        form: name for each, name in zip(forms, english, strict=False) for form in each.split("|")
    }


def _any(words: Mapping[str, str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True)) or r"(?!)"


def _plain(text: str) -> str:
    """Text case-folded and without accents, which many people do not type."""
    decomposed = unicodedata.normalize("NFD", text.casefold().replace("’", "'"))
    return "".join(each for each in decomposed if not unicodedata.combining(each))
