"""Word lists and patterns that classify sentences as facts, wishes, filler or markup."""

from __future__ import annotations

import re

# Words besides the stopwords that tell little about a conversation's subject.
FREQUENT = """
absolutely agree always amazing anything appreciate awesome back bad beautiful best better big bit
come cool day definitely different enjoy ever every everyone everything exactly excited experience
feel felt find fun get give glad go good got great guess happen happy hard hear help hope idea keep
important inspiring interesting kind know last let life like little long look lot love made make
maybe mean moment much need never new next nice one only part people person place please pretty
really remember right said say see seem share show something soon sorry sound special start stay
still stuff super sure take talk tell thank thing think time totally try use want way well wish work
"""

FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
LINK = re.compile(r"!?\[([^][\n]{0,200})\]\([^()\s]{0,500}\)")
URL = re.compile(r"https?://([^\s/]+)\S*")
MARKUP = re.compile(r"(?m)^[\s>#*+\-–•|]*|\*\*|__|`+|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff|]")
NUMBERING = re.compile(r"(?m)^[ \t]*\d{1,2}[.)]\s+(?=\S)")
_GREETING = (
    r"hey|hi|hello|bye|wow|oh|ah|aw+|okay|ok|thanks|thank you|well|haha|lol|cool|great|nice"
    r"|by the way|btw|anyway|also|actually|honestly|plus"
)
_YES = r"yeah|y[eu]p|yes|definitely|absolutely|totally"
_ASSENT = r"sure|right|of course|certainly"
_FOREIGN = (
    r"^(?:你好|您好|谢谢|謝謝|hallo|guten tag|danke|hola|gracias|merci|bonjour)[!！.。,，]\s*"
)


def _opener(words: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?i)^(?:(?:{words})(?:,? (?-i:[A-ZÀ-Þ])\w+\.?){{0,2}}(?:[,!.…:]+| [-–])(?:\s+|$)"
        rf"|(?:and|but|so|ok|okay|yeah|also),?\s+)+|{_FOREIGN}"
    )


OPENER = _opener(f"{_GREETING}|{_YES}|{_ASSENT}")
# Openings of answers: "yes" from anyone, and "sure" from a person. An assistant says "sure" before
# anything.
PERSON_OPENER = _opener(_GREETING)
ASSISTANT_OPENER = _opener(f"{_GREETING}|{_ASSENT}")

# First word of an answer that needs its question: yes, no and the like.
YES_NO = re.compile(
    r"(?i)^[¡\s]*(?:(?:yes|yeah|yep|yup|sure|correct|exactly|no|nope|nah|not|never|none|neither"
    r"|both|ja|nein|doch|nicht|nie|kein\w*|genau|richtig|beide\w*|oui|non|si|jamais|aucun\w*|pas"
    r"|exact\w*|sí|nunca|ningun\w*|ningún|tampoco|correcto|claro)(?![\w'’])|不|没|沒|无|無|是的?(?!不)"
    r"|对|對|有|否|嗯|都)"
)
NEGATION = re.compile(
    r"(?i)\b(?:no|not|never|none|nothing|without|cannot|\w+n['’]t|nicht|nichts|kein\w*|nie|niemals"
    r"|ohne|pas|jamais|aucun\w*|rien|sans|nunca|sin|jamás|nada|ningun\w*|ningún|tampoco)\b"
    r"|[不没沒无無别別]"
)
# An assistant's question whose answer is not worth remembering.
IDLE_QUESTION = re.compile(
    r"(?i)\b(?:(?:any|some)thing (?:else|more)|how (?:can|may|could) i|can i (?:help|assist)"
    r"|how are you|how['’]s it going|what['’]s up|help you|does (?:that|this) (?:help|make sense)"
    r"|sounds? (?:good|great|okay)|sonst noch|noch etwas|(?:kann|darf) ich .*helfen|wie geht"
    r"|hilft (?:ihnen|dir) das|autre chose|puis-je (?:vous|t['’])\s?aider|comment (?:ça )?va"
    r"|comment allez|algo más|(?:puedo|en qué) ayud\w+|cómo est[áa]s?|qué tal)\b"
    r"|还有(?:什么|其他|别的)|有什么可以|需要帮|怎么样[？?]?$"
)
# An offer: the answer to it is at most a decision.
OFFER = re.compile(
    r"(?i)\b(?:(?:would you like|do you want|want) me to|(?:shall|should|may) i|can i"
    r"|(?:möchten sie|möchtest du|willst du|wollen sie),? dass ich|soll ich"
    r"|(?:voulez-vous|souhaitez-vous|veux-tu) que je"
    r"|(?:quieres?|desea|te gustaría) que)\b"
    r"|需要我|要我|要不要我"
)
# A question without a question mark.
ASKING = re.compile(
    r"(?i)^(?:(?:what|who|whose|when|where|which|why|how)(?:['’]?s|['’]re)?|do you|did you|are you"
    r"|have you|is (?:it|that|there)|was|wer|wen|wem|wann|wo|woher|wohin|welche\w*|warum|wie"
    r"|(?:hast|bist|kannst|willst) du|(?:haben|sind|können|möchten) sie|qui|quand|où|combien"
    r"|comment|pourquoi|quel(?:le)?s?|est-ce|(?:as|es|veux)-tu|(?:avez|êtes|voulez)-vous|quién"
    r"|cuándo|dónde|cuánt[oa]s?|cómo|por qué|cuál(?:es)?|qué)\b|[吗呢]$|什么|多少|几|哪|谁"
)
# Patterns without a flag are for text in lower case, which is searched twice as fast.
# Dates, times and amounts without digits.
WHEN = re.compile(
    r"\b(?:(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|januar|februar|märz|mai|juni"
    r"|juli|oktober|dezember|morgen|gestern|heute|lundi|mardi|mercredi|jeudi|vendredi|samedi"
    r"|dimanche|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre"
    r"|demain|hier|lunes|martes|miércoles|jueves|viernes|sábado|domingo|enero|febrero|marzo|abril"
    r"|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|mañana|ayer)\b"
    r"|(?:周|星期|礼拜)[一二三四五六日天]|[一二三四五六七八九十两百千]+(?:[个個点點号月年岁歲天次元块]|公斤)"
    r"|明天|昨天|后天|下周|上周"
)
NAME = re.compile(r"(?<=[\w,;:] )(?!I\b)[A-ZÀ-Þ][\w'’]+")
FIRST_PERSON = re.compile(
    r"\b(?:i|i['’]?(?:m|ve)|i['’](?:d|ll)|my|we|we['’](?:re|ve|ll)|our|let['’]s|ich|mein\w*|mir"
    r"|wir|unser\w*|je|j['’]|mon|ma|mes|nous|yo|mi|mis|me gusta|soy|tengo|vivo|prefiero|eu|meu"
    r"|minha)\b|[我私僕俺]|^(?:had|went|got|bought|been|took|made|gonna|just \w+ed|trying)\b"
)
SECOND_PERSON = re.compile(r"(?i)\b(?:you|your)\b")
# Lasting facts (likes, traits, work, home), events, plans and decisions.
STATED = re.compile(
    r"\b(?:prefer\w*|favou?rite|allergic|vegetarian|vegan|can['’]t stand|hates?|dislikes?"
    r"|call me|my name|i['’]d rather|i (?:always|never|usually|only)|(?:i|we)(?:['’]ve| have)"
    r"|(?:i['’]?m|i am|we['’]re|we are) (?:\w+ )?(?:an?|the|from|in|based|married|keen|into|\w+ing"
    r"|\d+)|i (?:really |also |still )?(?:like|love|enjoy|live|work|study|own|run|teach|play|use"
    r"|speak)|(?:my|our|ma|mon|mes|meine?|mi|mis) (?:\w+ ){1,3}(?:is|are|was|were|ha[sd]|have"
    r"|lives?|works?|starts?|est|sont|ist|sind|hat|wird|es|tiene)|ich (?:bin|habe|wohne|arbeite|mag"
    r"|heiße|bevorzuge|esse|lebe|nehme)|j['’](?:ai|habite|aime)|je (?:suis|préfère|travaille"
    r"|m['’]appelle)|me llamo|prefiero|vivo|trabajo|me gusta|soy|tengo|decid\w+|agreed|let['’]s"
    r"|plan(?:s|ning|ned)? (?:to|on)|going to|gonna|i(?:['’]ll| will)|i (?:want|need)|booked"
    r"|signed up|deadline|möchte|werde|quiero|voy a)\b|(?:\b(?:i|we)(?: (?:just|also|recently"
    r"|finally|even|actually|once|first|had|\w+ly))* |^(?:just |recently |finally )?)(?:(?!need"
    r"|feed|speed|excited|indeed)\w{2,}ed|went|got|bought|made|took|won|lost|had|met|saw|found"
    r"|began|gave|wrote|built|taught|ran|left|became|broke|came|drove|flew|spent|sold|read|grew"
    r"|chose|quit)\b|我(?:是|有|住|喜欢|喜歡|在|叫|的|对|想|要|决定|打算)|私は|好き|过敏|[了過]"
)
REQUEST = re.compile(
    r"\b(?:please|pls|plz|bitte|s['’]il (?:vous|te) plaît|por favor)\b.*\b(?:be|keep|call|speak"
    r"|answer|reply|don['’]t|do not|always|never|avoid|remember|address|duzen|siezen|formal\w*)\b"
    r"|\b(?:call me|from now on|remember that|keep in mind)\b|请(?:用|叫|不要|记住)|ください"
)
TASK = re.compile(
    r"(?i)^(?:please |pls |can |could )?(?:you )?(?:write|give|make|create|explain|translate|list"
    r"|find|show|tell|help|suggest|recommend|summari[sz]e|generate|fix|add|rewrite|compare|describe"
    r"|draft|calculate|check|what|how|schreib\w*|erklär\w*|übersetz\w*)\b"
)
RESULT = re.compile(
    r"\b(?:you(?: have|['’]ve| are|['’]re| need| owe)|your|confirm\w*|booked|scheduled|total"
    r"|due|remaining|result|costs?|sent|created|updated|fixed|cause|deadline|delivered|sie haben"
    r"|ihr\w*|vous avez|votre|tienes?)\b|[您你]"
)
ADVICE = re.compile(r"(?i)\b(?:you (?:can|could|should|may|might)|if you|consider|try|often)\b")
FILLER = re.compile(
    r"\b(?:(?:i['’]m|i am|i was) (?:so |really |very |always |just |also )*(?:glad|happy|sorry"
    r"|sure|here (?:to|for)|excited|proud|grateful|thankful|off to)|i (?:think|hope|guess|believe"
    r"|know (?:how|what|you)|understand|bet|wish|wonder|have faith)|i can(?:['’]t)? (?:help|imagine"
    r"|see|wait)|can['’]t wait|(?:happy|glad) to|let me|feel free|keep (?:you|me) (?:updated"
    r"|posted)|you['’]re welcome|sounds? (?:good|great|like)|good luck|i(?:['’]ll| will) (?:keep"
    r"|make sure|let you|try|do that)|best of luck|congrat\w*|as an ai|i (?:really )?love (?:that"
    r"|it|this|your)|thx|thank(?:s| you)|take care|have a (?:great|good|nice)|see you|talk (?:soon"
    r"|later)|how can i|catch (?:up|you)|keep (?:up|going|it up|those)|good to (?:see|hear)"
    r"|no (?:problem|worries)|means? a lot|you got this|agree|appreciate)\b|\b(?:to"
    r"|gonna) keep \w+ing|^that['’]s (?:so |really |very )?\w+[.!]"
)
DANGLING = re.compile(r"(?i)^(?:it|that|this|they|he|she|those|these|there|here)\b")
