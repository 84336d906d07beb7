"""Question patterns by language: does a question ask for a time, or for the assistant's words?

The patterns are strings, so that `re` compiles each on the first question in its language.
"""

from __future__ import annotations

import re

_ASKS_TIME = {
    "english": r"\s*(?:(?:since |until |by )?when|how long|(?:in |on )?(?:what|which) "
    r"(?:year|month|week|date|day|time))\b",
    "german": r"\W*(?:(?:seit |bis |ab |von )?wann|wie lange|wie sp[äa]t|um wie ?viel uhr"
    r"|(?:am |an |in |im |zu |um |bis zu )?welche[mnrs]? (?:uhrzeit|zeit|tag|datum|woche|monat|jahr"
    r"|wochentag))\b",
    "french": r"\W*(?:(?:depuis |jusqu'[àa] |[àa] partir de |pour )?quand|combien de temps"
    r"|(?:[àa] |en |de |depuis |vers )?quel(?:le)? (?:heure|jour|date|mois|ann[ée]e|semaine))\b",
    "spanish": r"\W*(?:(?:desde |hasta |para )?cu[áa]ndo|cu[áa]nto tiempo"
    r"|(?:a |en |de |desde )?qu[ée] (?:hora|d[íi]a|fecha|mes|a[ñn]o|semana))\b",
    "chinese": r".*?(?:什么时候|什么时间|何时|哪天|哪一天|几点|几号|几月|哪年|哪一年|多久"
    r"|多长时间|星期几|周几)",
}

_ASKS_ASSISTANT = {
    "english": r"\byour?\s+(?:just\s+|previously\s+|had\s+|have\s+|last\s+)?"
    r"(?:said|told|mention\w*|recommend\w*|suggest\w*|gave|given|provid\w*|list\w*|wrote|written"
    r"|explain\w*|advis\w*|advice|answer\w*|propos\w*|describ\w*|shared?|created?|made)\b"
    r"|\bdid you\b|\byou(?:'ve| have) (?:said|told|given)\b",
    "german": r"\b(?:hast|hattest) du\b"
    r"|\bdu (?:mir |uns )?(?:\w+ ){0,3}?(?:gesagt|empfohlen|geraten"
    r"|vorgeschlagen|erkl[äa]rt|genannt|erw[äa]hnt|geschrieben|gegeben|beschrieben)\b"
    r"|\b(?:haben|hatten) sie (?:mir |uns )?(?:\w+ ){0,6}?(?:gesagt|empfohlen|geraten|vorgeschlagen"
    r"|erkl[äa]rt|genannt|erw[äa]hnt|geschrieben|gegeben|beschrieben)\b"
    r"|\b(?:du|sie) (?:sagte|meinte|empfahl|schrieb)\w*\b"
    r"|\b(?:deine[nrsm]?|dein|ihre[nrsm]?|ihr) (?:letzte\w* )?(?:antwort|empfehlung|vorschlag|tipp"
    r"|ratschlag|erkl[äa]rung|liste)\w*\b",
    "french": r"\b(?:m')?(?:as-tu|avez-vous|avais-tu|aviez-vous)\b"
    r"|\b(?:tu |vous )(?:m'|nous |l'|me l')?(?:as|avais|avez|aviez) (?:\w+ ){0,2}?(?:dit"
    r"|recommand\w+|conseill\w+|sugg[ée]r\w+|propos\w+|donn\w+|expliqu\w+|mentionn\w+|[ée]crit"
    r"|r[ée]pondu|list\w+|d[ée]crit)\b"
    r"|\b(?:ta|ton|tes|votre|vos) (?:derni[èe]re? )?(?:r[ée]ponse|recommandation|conseil|suggestion"
    r"|explication|proposition|liste)s?\b",
    "spanish": r"\b(?:dijiste|recomendaste|sugeriste|aconsejaste|mencionaste|explicaste|diste"
    r"|propusiste|escribiste|respondiste|contaste|hiciste)\b"
    r"|\bhas (?:dicho|recomendado|sugerido|aconsejado|mencionado|explicado|dado|propuesto|escrito"
    r"|respondido)\b|\b(?:dijo|recomend[óo]|sugiri[óo]|aconsej[óo]|explic[óo]) usted\b"
    r"|\busted (?:me )?(?:dijo|recomend[óo]|sugiri[óo]|aconsej[óo]|explic[óo])\b"
    r"|\b(?:tu|tus|su|sus) (?:[úu]ltim[oa]s? )?(?:respuesta|recomendaci[óo]n|consejo|sugerencia"
    r"|explicaci[óo]n|propuesta|lista)(?:s|es)?\b",
    "chinese": r"[你您](?:之前|上次|刚才|以前|当时|那时|曾经|昨天|上周)*"
    r"(?:给我|跟我|对我|向我|帮我|为我|和我)?"
    r"(?:说|推荐|建议|告诉|提到|提过|提的|列|写|解释|回答|介绍|给我)|[你您]的(?:建议|推荐|回答|答案|清单)",
}


def asks_time(text: str, language: str) -> bool:
    """True if the answer is a time: "since when", "um wie viel Uhr"."""
    pattern = _ASKS_TIME.get(language)
    return pattern is not None and re.match(pattern, text, re.IGNORECASE) is not None


def asks_assistant(text: str, language: str) -> bool:
    """True if it asks for something the assistant said: "what did you recommend"."""
    pattern = _ASKS_ASSISTANT.get(language)
    return pattern is not None and re.search(pattern, text, re.IGNORECASE) is not None
