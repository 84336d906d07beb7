"""The kind of a question, which decides how the context block is filled.

| kind | example | what the block shows |
|---|---|---|
| point | "Which train do I take?" | the passages that match best |
| list | "Which books have I read?" | as many matching passages as the budget holds |
| time | "What did I do last week?" | what was said at that time, or tells of it |
| overview | "Summarise how my plans developed" | the whole, in the order of time |
| small talk | "Thanks!" | the facts that every answer needs |

The patterns are strings, so that `re` compiles each on the first question in its language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from ..context import QuestionKind
from .temporal import DateWindow, Order, date_window, session_cue
from .time_phrases import times_in_english, without_times


class Question(NamedTuple):
    """A question, and what it asks for."""

    kind: QuestionKind
    about: str
    """The question without words that only say how to answer, such as "summarise" or "in order"."""
    has_subject: bool = True
    """False if it names nothing but a time or the memory itself: "What did we discuss?"."""
    times: str = ""
    """The question in English, as far as it names times or an order; empty if it names none."""
    window: DateWindow | None = None
    conversation: Order = Order.NONE
    """The conversation it names: the last before this one, or the first."""
    of_user: bool = False
    """True if it asks for what the user said, as in "the order in which I brought up …"."""


def read_question(
    text: str, language: str, asked_at: datetime, terms: Callable[[str], Sequence[object]]
) -> Question:
    """Decide the kind of a question, for recall, the block and its explanation.

    :param terms: gives the words of a text in that language that are no stopwords
    """
    times = times_in_english(text, language)
    window = date_window(times, asked_at) if times else None
    conversation = session_cue(times) if times else Order.NONE
    if window is not None or conversation is not Order.NONE:
        kind = QuestionKind.TIME
    elif _matches(_OVERVIEW, text, language):
        kind = QuestionKind.OVERVIEW
    elif _matches(_LIST, text, language):
        kind = QuestionKind.LIST
    else:
        kind = QuestionKind.POINT
    about, has_subject = text, True
    if kind in (QuestionKind.TIME, QuestionKind.OVERVIEW):
        framed = _without_frame(text, language)
        rest = re.sub(_VAGUE, " ", without_times(framed, language), flags=re.IGNORECASE)
        has_subject = bool(terms(rest))
        about = framed if has_subject else text
    return Question(
        kind=kind,
        about=about,
        has_subject=has_subject,
        times=times,
        window=window,
        conversation=conversation,
        of_user=kind is QuestionKind.OVERVIEW and _matches(_OF_USER, text, language),
    )


_OVERVIEW = {
    "english": r"\bsumm(?:ary|ari[sz]e)\b|\b(?:recap|overview|rundown|sum up|walk me through"
    r"|catch me up|over time|up to (?:date|speed))\b|\border (?:in which|that) (?:i|we)\b"
    r"|\bin (?:what|which) order\b|\b(?:history|timeline) of\b"
    r"|\bwhat (?:have|did|do|had) (?:we|you and i) (?:\w+ ){0,2}?(?:talk|discuss|chat|speak|cover)"
    r"|\bwhat (?:else |all )?(?:do|did|have) you (?:know|remember|recall|learn)"
    r"|\b(?:everything|all) (?:that )?you (?:know|remember)"
    r"|\bwhat(?:['’]?s| is| has been)? (?:new|going on|happening) (?:with|in) (?:me|my)\b"
    r"|\bhow (?:has|have|did) (?:my|our|i|we)\b.{0,80}\b(?:evolv|develop|chang|progress|shift)"
    r"|\btell me about (?:me|myself|my life)\b",
    "german": r"\b(?:fass\w*\b.{0,120}\bzusammen|zusammenfass\w*|[üu]berblick|r[üu]ckblick)\b"
    r"|\bin welcher reihenfolge\b|\bwas gibt(?:['’]?s| es) neues\b|\bwas ist neu bei\b"
    r"|\b(?:wor[üu]ber|[üu]ber was|was) (?:haben|hatten) wir\b.{0,60}\b(?:gesprochen|geredet"
    r"|besprochen|unterhalten|diskutiert)|\bwas (?:wei(?:ß|ss)t|wissen|erinner\w+) (?:du|sie)\b"
    r"|\balles,? was (?:du|sie)\b|\bim laufe der zeit\b"
    r"|\bwie (?:hat|haben) sich\b.{0,80}\b(?:entwickelt|ver[äa]ndert)",
    "french": r"\br[ée]sum\w+\b|\b(?:r[ée]capitul\w+|r[ée]cap|vue d['’]ensemble|aper[çc]u|bilan)\b"
    r"|\bdans quel ordre\b|\bquoi de neuf\b|\bqu['’]y a-t-il de nouveau\b|\bau fil du temps\b"
    r"|\bde quoi (?:avons-nous|on a|a-t-on|avions-nous)\b.{0,40}\b(?:parl|discut)"
    r"|\bqu['’]?(?:avons-nous|est-ce qu['’]on a|a-t-on)\b.{0,30}\b(?:dit|abord|discut)"
    r"|\b(?:que|qu['’]est-ce que) (?:sais-tu|savez-vous|tu sais|vous savez|tu te rappelles)\b"
    r"|\btout ce que (?:tu|vous) sa\w+|\bcomment\b.{0,60}\b(?:[ée]volu|chang)[ée]",
    "spanish": r"\b(?:resum\w+|recapitul\w+|panorama|repaso)\b|\ben qu[ée] orden\b"
    r"|\bqu[ée] hay de nuevo\b|\bqu[ée] novedades\b|\ba lo largo del tiempo\b"
    r"|\b(?:de )?qu[ée] (?:hemos|hab[íi]amos)?\s*(?:hablado|hablamos|comentado|comentamos"
    r"|discutido|discutimos|charlado|charlamos)|\bqu[ée] (?:sabes|recuerdas|sabe|recuerda)\b"
    r"|\btodo lo que (?:sabes|sabe|recuerdas)|\bc[óo]mo (?:ha|han)\b.{0,60}\b(?:cambiado"
    r"|evolucionado)",
    "chinese": r"总结|概括|回顾|梳理|概述|按(?:什么|时间)?顺序|什么顺序|有什么"
    r"(?:新鲜事|新情况|新消息|变化)|(?:聊|谈|讨论|说)(?:过|了)?(?:些)?(?:什么|哪些)|[你您](?:都)?(?:知道|了解|记得|记住)"
    r"|随着时间|一路走来",
}

_LIST = {
    "english": r"^\W*(?:which|what)(?: (?:kinds?|types?|sorts?) of)? (?!(?:is|was|does|has|its"
    r"|this)\b)(?:[\w-]+ ){0,2}?(?!(?:is|was|does|has|his|us|this)\b)\w{2,}s\b"
    r"|^\W*(?:what|who) (?:are|were|all)\b|\bhow (?:many|often)\b"
    r"|\b(?:all|every|each) (?:the|of|my)\b|\b(?:list|name) (?:all|the|my)\b"
    r"|\b(?:kinds?|types?|sorts?) of\b|\bin common\b|\bboth\b",
    "german": r"^\W*(?:welche|wer alles|was alles)\b|\bwie (?:viele|oft)\b|\balle (?:meine|die)\b"
    r"|\bwas f[üu]r\b|\bgemeinsam\b|\bbeide\b",
    "french": r"^\W*(?:quels|quelles)\b|\bcombien (?:de|d['’])|\btou(?:te)?s (?:les|mes)\b"
    r"|\bqui sont\b|\bquels? (?:types?|genres?|sortes?)\b|\ben commun\b",
    "spanish": r"^\W*(?:cu[áa]les|qu[ée] \w+s)\b|\bcu[áa]nt[oa]s\b|\btod[oa]s (?:los|las|mis)\b"
    r"|\bqui[ée]nes\b|\bqu[ée] (?:tipos?|clases?) de\b|\ben com[úu]n\b",
    "chinese": r"哪些|哪几|几个|几次|多少(?:个|次|种|本|部)|所有|都有(?:什么|谁|哪)|什么样的",
}

_OF_USER = {
    "english": r"\bi(?:['’]ve| have| had)? (?:brought up|mentioned|raised|told you|said)\b",
    "german": r"\bich\b.{0,80}\b(?:angesprochen|erw[äa]hnt|erz[äa]hlt|gesagt|genannt)\b",
    "french": r"\bj['’](?:ai|avais) (?:mentionn|[ée]voqu|abord|parl|dit|racont)",
    "spanish": r"\b(?:mencion[ée]|coment[ée]|cont[ée]|dije"
    r"|he (?:mencionado|comentado|contado|dicho))\b",
    "chinese": r"我(?:先后|依次|都|曾)?(?:提到|提过|说过|讲过|提起)",
}

_CONVERSATIONS = r"(?:conversations?|chats?|sessions?|discussions?|talks?)"
_FRAME = {
    "english": r"\b(?:can|could|would) you (?:please )?(?=summar|recap|walk|list|give|tell|remind"
    r"|describe|outline)|\b(?:give|tell|show)(?: me)? (?=an? |the |everything|all|what)"
    r"|\ban? (?:\w+ ){0,2}(?:summary|overview|recap|rundown|timeline|history)(?: of)?\b"
    r"|\b(?:summari[sz]e|recap|outline|sum up|walk me through|catch me up on|list)\b"
    r"|\b(?:the|in (?:what|which)) (?:\w+ )?order (?:in which|that|of|did)\b"
    r"|\b(?:i|we)(?:['’]ve| have)? (?:brought up|mentioned|discussed|talked about|raised|covered"
    r"|gone over|went over)\b"
    r"|\bwhat (?:have|did|do|had) (?:we|you and i) (?:\w+ ){0,2}?(?:talk\w*|discuss\w*|chat\w*"
    r"|speak|cover\w*)(?: about)?\b"
    r"|\bwhat (?:else |all )?(?:do|did|have) you (?:know|remember|recall|learn\w*)(?: about)?\b"
    r"|\b(?:everything|all) (?:that )?you (?:know|remember)(?: about)?\b"
    r"|\bwhat(?:['’]?s| is| has been)? (?:new|going on|happening) (?:with|in)\b"
    rf"|\b(?:throughout|across|over|during|from|in|based on) (?:all )?(?:of )?(?:our|my) (?:\w+ )?"
    rf"{_CONVERSATIONS}\b|\b(?:over time|so far|in order|until now|to date|step by step)\b"
    r"|\bmention only (?:and only )?\w+ items?\b|\bhow (?:i|we)(?:['’]ve| have)?\b"
    r"|\b(?:have |has )?(?:developed|evolved|changed)\b"
    r"|\b(?:different|various) (?:aspects|ideas|topics|details|ways|things|stages)?(?: and \w+)?"
    r"(?: of| related to| about)?\b|\bour (?=\s|$)",
    "german": r"\b(?:kannst|k[öo]nntest|k[öo]nnen) (?:du|sie)(?: mir)?(?: bitte)?\b|\bbitte\b"
    r"|\b(?:fass\w*|zusammen|zusammenfassung|zusammenfassen|[üu]berblick|r[üu]ckblick)\b"
    r"|\bgib mir eine?n?\b|\bin welcher reihenfolge\b|\bwas (?:wei(?:ß|ss)t|wissen) (?:du|sie)\b"
    r"|\bwas gibt(?:['’]?s| es) neues(?: bei| von)?\b|\bwas ist neu bei\b"
    r"|\b(?:wor[üu]ber|[üu]ber was|was) (?:haben|hatten) wir\b|\b(?:gesprochen|geredet|besprochen"
    r"|unterhalten|diskutiert|angesprochen|erw[äa]hnt)\b|\bim laufe der zeit\b|\bbisher\b"
    r"|\bwie (?:hat|haben) sich\b|\b(?:entwickelt|ver[äa]ndert)\b|\balles,? was du\b"
    r"|\b(?:in )?unsere[nmrs]? (?:gespr[äa]ch\w*|unterhaltung\w*|chats?)\b",
    "french": r"\b(?:peux-tu|pouvez-vous|pourrais-tu|tu peux)(?: me)?\b|\bs['’]il (?:te|vous)"
    r" pla[iî]t\b|\b(?:fais|faites|donne|donnez)-moi\b|\b(?:un |le )?r[ée]sum\w+(?: de)?\b"
    r"|\br[ée]capitul\w+\b|\bdans quel ordre\b|\bquoi de neuf(?: avec| chez)?\b|\bau fil du temps\b"
    r"|\bde quoi (?:avons-nous|on a|a-t-on)\b|\b(?:parl[ée]|discut[ée]|abord[ée])s?\b"
    r"|\b(?:que|qu['’]est-ce que) (?:sais-tu|savez-vous|tu sais|vous savez)(?: de| sur)?\b"
    r"|\b(?:dans |au cours de )?(?:nos|notre) (?:conversations?|discussions?|[ée]changes?)\b",
    "spanish": r"\b(?:puedes|podr[íi]as|puede)\b|\bpor favor\b|\b(?:un )?resum\w+(?: de)?\b"
    r"|\bdame\b|\bhazme\b|\ben qu[ée] orden\b|\bqu[ée] hay de nuevo(?: con| en)?\b"
    r"|\bqu[ée] (?:sabes|recuerdas|sabe)(?: de| sobre)?\b|\b(?:de )?qu[ée] (?:hemos )?(?:hablado"
    r"|hablamos|comentado|comentamos|discutido|discutimos|charlamos)(?: de| sobre)?\b"
    r"|\ba lo largo del tiempo\b|\bhasta ahora\b|\b(?:en )?nuestras? (?:conversaci[óo]n\w*"
    r"|charlas?)\b",
    "chinese": r"请|帮我|能不能|可以|总结(?:一下)?|概括(?:一下)?|回顾(?:一下)?|梳理(?:一下)?"
    r"|按(?:什么|时间)?顺序|我们(?:都)?|(?:聊|谈|讨论|说)(?:过|了)?(?:些)?(?:什么|哪些)"
    r"|[你您](?:都)?(?:知道|了解|记得|记住)(?:关于)?|有什么(?:新鲜事|新情况|新消息|变化)"
    r"|(?:的)?(?:对话|聊天|谈话)|到目前为止",
}

_VAGUE = (
    r"\b(?:please|happen\w*|do|did|done|doing|say|said|tell|told|went|going|gemacht|passiert|los|erz[äa]hlt"
    r"|gesagt|getan|fait|pass[ée]|dit|racont[ée]|arriv[ée]|hice|hicimos|pas[óo]|dije|cont[ée]"
    r"|hecho|dicho|so|now|lately|recently|nowadays|these days|right now|at the moment|my life"
    r"|gerade|zurzeit|zur zeit|momentan|in letzter zeit|mein(?:em)? leben|en ce moment|chez moi"
    r"|ma vie|derni[èe]rement|r[ée]cemment|[úu]ltimamente|ahora|mi vida)\b"
    r"|最近|现在|我们|我|[你您]|做|发生|说|什么|怎么|事情?|情况|了|过|吗|的"
)
"""Words that ask for anything at all."""


def _without_frame(text: str, language: str) -> str:
    frame = _FRAME.get(language)
    if frame is None:
        return text
    rest = re.sub(frame, " ", text, flags=re.IGNORECASE)
    return " ".join(rest.split()).strip(" ?.,!¿¡？。，")


def _matches(patterns: dict[str, str], text: str, language: str) -> bool:
    pattern = patterns.get(language)
    return pattern is not None and re.search(pattern, text, re.IGNORECASE) is not None


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


_LONGEST_TALK = 120
_TALK = """
thanks thank thx ty you u so much very a lot many again really for the your help that this it and
hi hello hey hiya yo morning good afternoon evening night bye goodbye cheers later ok okay k oh ah
cool nice great awesome perfect wonderful amazing lovely fantastic brilliant excellent super sweet
fine sure yes yeah yep yup no nope alright right haha hahaha hehe lol wow well done all best
welcome appreciate appreciated please sounds got gotcha noted understood makes sense sleep day one
is was i m ve been then now enjoy weekend week next kindly pleasant cya tomorrow everything today
too my friend mate coach danke dankeschön vielen dank schön bitte gern gerne hallo guten tag
morgen abend gute nacht tschüss tschüs ciao servus moin grüße gruß alles klar schönes wochenende
dann na mal bis tage mach s gut du bist ein schatz toll prima perfekt klasse ja nein sehr lieb
hilfe für die deine ihre ihnen dir mir hilft das merci beaucoup bien mille bonjour salut bonsoir
coucou revoir au d accord oui non parfait génial très gentil bisous allez bonnes fêtes nuit trop
fort je vous laisse pour votre ton aide de rien c est noté gracias muchas mil muchísimas hola
adiós chao chau buenos buenas días tardes noches vale genial perfecto estupendo pues todo tarde
buena descansa bueno que tengas grande sí nada por tu su ayuda muy amable jaja jajaja gran abrazo
un saludo saludos
"""
_TALK_WORDS = frozenset(_TALK.split())
_TALK_CUE = re.compile(
    r"\b(?:thanks?|thx|cheers|bye|goodbye|night|haha\w*|lol|cya|see you|how are you"
    r"|danke|tschüss?|gute nacht|schönes wochenende|mach['’]s gut|wie geht|merci|bisous|bonne nuit"
    r"|à plus|au revoir|ça va|gracias|adiós|buenas noches|hasta|abrazo|jaja\w*|qué tal)\b"
    r"|谢|晚安|再见|拜拜|辛苦|哈哈|你好"
)
_WORD = re.compile(r"\w+")
# Phrases whose words alone may ask for something, and those of scripts without spaces.
_TALK_PHRASES = re.compile(
    r"how are you(?: doing)?(?: today)?|what['’]s up|see you(?: (?:soon|later|tomorrow))?"
    r"|talk (?:to you )?(?:soon|later)|take care|you too|same to you"
    r"|have a (?:\w+ )?(?:day|evening|night|weekend|one|time)"
    r"|that(?:['’]s| is) (?:all|it|great|perfect|good|fine|awesome|helpful)"
    r"|wie geht(?:['’]s|s| es)(?: (?:dir|ihnen))?|bis (?:dann|bald|später|morgen|nächstes mal)"
    r"|(?:einen )?schönen (?:tag|abend|feierabend)(?: noch)?|das (?:ist|wär|wäre)(?:['’]s| alles)"
    r"|comment (?:ça va|vas-tu|allez-vous)|ça va|[àa] (?:bientôt|demain|plus(?: tard)?)"
    r"|bonne (?:journée|soirée|nuit)|c['’]est (?:tout|parfait|super|bon|gentil)"
    r"|qué tal|cómo estás?|hasta (?:luego|pronto|mañana|la próxima)|nos vemos"
    r"|que (?:tengas|tenga|pases) (?:un )?(?:buen|lindo|bonito) día"
    r"|(?:非常|太|十分)?(?:感谢|谢谢|多谢|謝謝)(?:你|您|啦|了|哦|你的帮助)?|你好|您好|早上好|早安"
    r"|晚上好|晚安|下午好|中午好|再见|拜拜|回头见|明天见|下次见|好的|好滴|好吧|好呀|好嘞|行|嗯+"
    r"|哦+|噢|哈+|呵+|嘿+|没问题|不客气|辛苦(?:你|您)?(?:啦|了)?|知道了|明白了|收到|就这样|先这样"
    r"|祝(?:你|您)|(?:今天|周末)?愉快|太好了|真棒|可以|啦|呀|回见|加油"
)


def is_small_talk(text: str) -> bool:
    """Return True for a message that only greets, thanks or agrees, so that it needs no memory.

    A thank-you or a farewell may name somebody or have one word more of its own.
    """
    if len(text) > _LONGEST_TALK:
        return False
    asks = "?" in text or "\uff1f" in text
    has_cue = _TALK_CUE.search(text.casefold()) is not None
    return _words_beside_talk(text) <= (has_cue and not asks) and (has_cue or not asks)


def _words_beside_talk(text: str) -> int:
    """Count the words that are not small talk."""
    rest = _TALK_PHRASES.sub(" ", text.casefold())
    return sum(word not in _TALK_WORDS for word in _WORD.findall(rest))
