"""Messages that need no memory: greetings, thanks, consent."""

from __future__ import annotations

import re

_LONGEST = 120
_TEXT = """
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
_WORDS = frozenset(_TEXT.split())
_CUE = re.compile(
    r"\b(?:thanks?|thx|cheers|bye|goodbye|night|haha\w*|lol|cya|see you|how are you"
    r"|danke|tschüss?|gute nacht|schönes wochenende|mach['’]s gut|wie geht|merci|bisous|bonne nuit"
    r"|à plus|au revoir|ça va|gracias|adiós|buenas noches|hasta|abrazo|jaja\w*|qué tal)\b"
    r"|谢|晚安|再见|拜拜|辛苦|哈哈|你好"
)
_RUN = re.compile(r"\w+")
# Phrases whose words alone may ask for something, and those of scripts without spaces.
_PHRASES = re.compile(
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
    if len(text) > _LONGEST:
        return False
    asks = "?" in text or "\uff1f" in text
    has_cue = _CUE.search(text.casefold()) is not None
    return _rest(text) <= (has_cue and not asks) and (has_cue or not asks)


def _rest(text: str) -> int:
    """Count the words that are not small talk."""
    rest = _PHRASES.sub(" ", text.casefold())
    return sum(word not in _WORDS for word in _RUN.findall(rest))
