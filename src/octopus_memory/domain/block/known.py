"""Choice of the standing facts that a question needs.

Name, address, language, instructions and constraints are needed for every answer. Any other fact is
shown where the question is about it: by the subject that the question names ("Where do I live?"),
or by a word that both share ("Is Miso allowed on the train?").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ..facts import Fact, FactKind

_ALWAYS = frozenset((FactKind.NAME, FactKind.LANGUAGE, FactKind.INSTRUCTION, FactKind.CONSTRAINT))
_LONGEST = 2_000
"""Characters of the question that are read."""
_LEAST_WORD = 3
"""Letters of the shortest word by which a question names a fact."""
_STEM = 5
"""Letters by which two forms of a word are compared."""

_ALL = re.compile(
    r"\b(?:know|remember|recall|learned|learnt|stored?|saved?) (?:\w+ ){0,2}about me\b|\b(?:tell"
    r"|remind) me (?:\w+ ){0,2}about (?:me|myself)\b|\bwho am i\b|\bnew (?:with|in|about) (?:me"
    r"|my life)\b|\bwhat have i told you\b|\bmy (?:profile|whole life)\b|\b(?:summari[sz]e"
    r"|describe) me\b|\b(?:weißt|weisst|wissen|merkst|gemerkt|erinnerst"
    r"|kennst) \w* ?(?:\w+ )?(?:über|von) mi(?:ch|r)\b|\bwer bin ich\b|\bneues? bei mir\b"
    r"|\büber mich (?:weißt|wissen|gespeichert|gemerkt)\b|\b(?:sais|savez|connais|retenu"
    r"|souviens)(?:[ -]\w+)? (?:de|sur|à propos de) moi\b|\bqui suis-je\b|\b(?:nouveau"
    r"|neuf) (?:chez|pour) moi\b|\bma vie\b|\b(?:sabes|sabe|recuerdas|recuerda|conoces) (?:de"
    r"|sobre|acerca de) mí\b|\bquién soy\b|\bnuevo (?:en|de) mi vida\b|(?:知道|了解|记得"
    r"|记住)(?:关于)?我(?:的)?(?:什么|哪些|多少|情况|信息)|关于我|我是谁|我最近怎么样",
    re.IGNORECASE,
)

_SUBJECTS = {
    FactKind.HOME: (
        r"where (?:do|did|am|are) (?:i|we) (?:\w+ )?(?:live|living|based|staying)|i live\b"
        r"|my (?:\w+ )?(?:home|house|flat|apartment|address|city|town|village|neighbou?rhood"
        r"|street|place|area|country)\b|near (?:me|my|here)\b|nearby|around (?:me|here)\b"
        r"|close to (?:me|home)|in my (?:area|city|town)|local\b|weather|deliver|wo (?:wohne"
        r"|leb\w*|wohnen)|mein\w* (?:wohnung|adresse|haus|stadt|zuhause|wohnort|nähe|gegend)"
        r"|in der nähe|bei mir in|wetter|hier in der|où (?:est-ce que )?(?:j['’]habite|je vis"
        r"|habit\w+|vis-je)|(?:ma|mon) (?:maison|adresse|ville|appartement|quartier|logement)"
        r"|près de (?:chez moi|moi)|dans le coin|météo|dónde vivo|dónde vivimos|mi (?:casa"
        r"|dirección|ciudad|piso|barrio|departamento|apartamento)|cerca de (?:mí|mi casa|aquí)"
        r"|el tiempo hoy|我(?:家)?(?:住|家)在?哪|我(?:的)?(?:地址|住址|城市|家在)|附近|天气"
    ),
    FactKind.WORK: (
        r"where (?:do|did) i work|who (?:do|did) i work for|what do i do(?: for (?:a living"
        r"|work))?\s*\??$|my (?:\w+ )?(?:job|work|employer|company|profession|occupation|career"
        r"|office|position|workplace|salary|boss|manager|colleagues?|coworkers?|team|school"
        r"|university|studies|cv|resume|résumé)\b|linkedin|wo arbeite|was arbeite"
        r"|mein\w* (?:arbeit\w*|job|beruf|firma|chef\w*|kolleg\w+|stelle|büro|studium|uni"
        r"|lebenslauf|schule)|où (?:est-ce que )?je travaille|(?:mon|ma|mes) (?:travail|boulot"
        r"|métier|emploi|employeur|entreprise|boîte|patronn?e?|chef\w*|collègues?|bureau|cv|études"
        r"|école)|dónde trabajo|para quién trabajo|mi (?:trabajo|empleo|empresa|jefe|jefa"
        r"|profesión|oficina|carrera|currículum|universidad|escuela)|mis (?:colegas|compañeros"
        r"|estudios)|我(?:在哪(?:里|儿)?(?:工作|上班|上学)|的(?:工作|公司|职业|老板|同事|单位|简历"
        r"|学校)|是做什么|做什么工作)"
    ),
    FactKind.PLAN: (
        r"my (?:\w+ )?(?:plans?|trip|travels?|holidays?|vacation|honeymoon|move|schedule|calendar"
        r"|agenda|appointments?|deadlines?|wedding|exams?|surgery|flight)\b|coming up|upcoming"
        r"|what (?:am i|are we) (?:doing|planning)|what do i have (?:planned|next|this|on)"
        r"|have i planned|(?:this|next) (?:week|weekend|month|summer|year)\b|mein\w* (?:pläne?"
        r"|reise\w*|urlaub|umzug|termine?|hochzeit|prüfung|flug)|was steht an"
        r"|was habe ich (?:\w+ )?vor\b|nächste\w* (?:woche|monat|jahr)|diese\w* wochenende|(?:mon"
        r"|ma|mes) (?:projets?|plans?|voyages?|vacances|déménagement|agenda|rendez-vous|mariage"
        r"|examens?)|prévu|(?:semaine|mois|année) prochaine?|mis? (?:planes|viajes?|vacaciones"
        r"|mudanza|agenda|citas?|boda|examen\w*)|tengo (?:planeado|previsto)|(?:semana|mes"
        r"|año) que viene|próxim[oa] (?:semana|mes|año)|我(?:的)?(?:计划|打算|行程|安排|旅行|婚礼"
        r"|考试|手术)|有什么安排|下(?:周|个月)|明年"
    ),
    FactKind.PERSON: (
        r"my (?:\w+ )?(?:family|relatives|people|loved ones|relationships?|friends)\b"
        r"|people in my life|mein\w* (?:familie|leute|angehörigen|verwandten|freunde)|ma famille"
        r"|mes (?:proches|amis)|mi familia|mis (?:familiares|parientes|amigos)|我(?:的)?(?:家人"
        r"|家庭|亲人|亲戚|朋友们?)|我家(?:里)?(?:有|人|情况)"
    ),
    FactKind.PREFERENCE: (
        r"(?:what|which|things?)\b[^?]{0,40}\b(?:do|did) i (?:\w+ )?(?:like|love|prefer|enjoy|hate"
        r"|dislike)|my (?:\w+ )?(?:tastes?|preferences?|hobb(?:y|ies)|interests?|likes|favou?rites"
        r"|favou?rite things)\b|was mag ich|was esse ich gern|mein\w* (?:hobbys?|vorlieben"
        r"|interessen|geschmack)|qu['’]est-ce que j['’]aime|mes (?:goûts|préférences|loisirs"
        r"|passions)|qué me gusta|mis (?:gustos|preferencias|aficiones|pasatiempos)|我(?:喜欢|讨厌"
        r"|爱)(?:吃|喝|看|听|做)?什么|我的(?:爱好|喜好|兴趣)"
    ),
    FactKind.OTHER: (
        r"how old (?:am i|will i)|my (?:age|birth ?day|date of birth|birth ?date|zodiac|star sign"
        r"|horoscope)\b|when was i born|year was i born|wie alt (?:bin|werde) ich|mein\w* (?:alter"
        r"|geburtstag|geburtsdatum|sternzeichen)|wann (?:bin ich geboren|habe ich geburtstag)"
        r"|quel âge (?:ai-je|j['’]ai)|mon (?:âge|anniversaire)|date de naissance"
        r"|cuántos años tengo|mi (?:edad|cumpleaños|fecha de nacimiento)|cuándo nací|我(?:几岁"
        r"|多大|的?生日|的?年龄|哪年出生)"
    ),
}

# Words of a question, and the slots of the people and pets that they stand for.
_PEOPLE = {
    "partner": (
        "wife husband partner girlfriend boyfriend spouse fiancé fiancée fiance fiancee married"
        " frau mann ehefrau ehemann freundin partnerin verheiratet femme mari épouse époux copain"
        " copine compagne compagnon mujer esposa esposo marido novia novio pareja 老婆 老公 妻子"
        " 丈夫 女朋友 男朋友 太太 先生 爱人 对象"
    ),
    "mother": (
        "mother mum mom mama mutter parents eltern mère maman madre mamá padres 妈妈 母亲 父母 爸妈"
    ),
    "father": "father dad papa vater parents eltern père padre papá padres 爸爸 父亲 父母 爸妈",
    "daughter": (
        "daughter kid kids child children tochter kind kinder fille filles enfants enfant hija"
        " hijas hijos 女儿 孩子"
    ),
    "son": (
        "son sons kid kids child children sohn kind kinder fils enfants enfant hijo hijos 儿子 孩子"
    ),
    "baby": "baby kid kids child children kinder kind enfants bébé bebé hijos 宝宝 孩子",
    "brother": (
        "brother brothers sibling siblings bruder geschwister frère frères hermano hermanos 哥哥"
        " 弟弟 兄弟"
    ),
    "sister": (
        "sister sisters sibling siblings schwester geschwister sœur sœurs soeur hermana hermanas"
        " 姐姐 妹妹 姐妹"
    ),
    "grandmother": (
        "grandmother grandma gran granny oma grandparents großeltern mamie abuela abuelos 奶奶"
        " 外婆 姥姥"
    ),
    "grandfather": (
        "grandfather grandpa opa grandparents großeltern papi abuelo abuelos 爷爷 外公 姥爷"
    ),
    "boss": "boss manager chef chefin vorgesetzter patron patronne jefe jefa 老板 上司 领导 经理",
    "colleague": (
        "colleague colleagues coworker coworkers kollege kollegin kollegen collègue collègues"
        " colega colegas compañera 同事"
    ),
    "friend": "friend freund ami amie amigo amiga 朋友",
    "flatmate": "flatmate roommate mitbewohner mitbewohnerin coloc colocataire 室友",
    "dog": (
        "dog puppy pet pets hund haustier haustiere chien chienne animal animaux perro perra"
        " mascota mascotas 狗 宠物"
    ),
    "cat": (
        "cat kitten pet pets katze kater haustier haustiere chat chatte animal animaux gato gata"
        " mascota mascotas 猫 宠物"
    ),
    "horse": "horse pet pets pferd cheval caballo 马",
    "rabbit": "rabbit pet pets kaninchen haustier lapin conejo mascota 兔子 宠物",
    "hamster": "hamster pet pets haustier mascota 仓鼠 宠物",
    "parrot": "parrot bird pet pets papagei haustier perroquet oiseau loro mascota 鹦鹉 宠物",
}
# Words of fact texts that do not tell what a fact is about.
_EMPTY_TEXT = """
a about and are at be been being called can did does for from had has have her his in is it its
live lives living my name not of on one or our plan plans planned since some that the their them
they this to use user uses want wants was were what when where which who will with work works write
working you your job takes moving moves trip born year likes loves dislikes prefers favourite
favorite aber auch auf aus bei das dem den der des die ein eine einen einer hat ich ist lebt mag
mit nach nicht sich sind und vom von war wie wird wohnt zum zur arbeitet beruf nimmt plant reise
jahr geboren liebt lieblings aux avec ces cette dans des est les leur mais par pas pour que qui sur
une vit habite travaille métier prend voyage aime née como con del ella era esta las los más muy
para pero por sin son sus una vive trabaja profesión toma viaje gusta nació
"""
_EMPTY = frozenset(_EMPTY_TEXT.split())
_EMPTY_HAN = frozenset(("住在", "工作", "喜欢", "计划", "职业", "出生", "旅行", "不吃", "在吃"))
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_HAN = re.compile(r"[\u3400-\u9fff]+")


def choose_facts(facts: Sequence[Fact], question: str) -> list[Fact]:
    """Return the current facts that the answer to `question` needs, most important first.

    Pinned facts come first, then those that every answer needs, then those that the question is
    about, each group in the order given.
    """
    asked = question[:_LONGEST]
    wanted = set(FactKind) if _ALL.search(asked) else _subjects(asked)
    said = frozenset(_terms(asked))
    always = [fact for fact in facts if fact.is_pinned or fact.kind in _ALWAYS]
    about = [
        fact
        for fact in facts
        if not (fact.is_pinned or fact.kind in _ALWAYS)
        and (fact.kind in wanted or _is_named(fact, said, wanted))
    ]
    return sorted(always, key=lambda fact: not fact.is_pinned) + about


def _subjects(question: str) -> set[FactKind]:
    return {kind for kind, pattern in _patterns().items() if pattern.search(question)}


@cache
def _patterns() -> dict[FactKind, re.Pattern[str]]:
    return {
        kind: re.compile(rf"(?:(?<![^\W\u3400-\u9fff])(?:{words}))", re.IGNORECASE)
        for kind, words in _SUBJECTS.items()
    }


@cache
def _words_for(slot: str) -> frozenset[str]:
    return frozenset(_terms(_PEOPLE.get(slot, "")))


def _is_named(fact: Fact, said: frozenset[str], wanted: set[FactKind]) -> bool:
    """True if the question has a word of the fact, or one for the person whom it is about."""
    if fact.kind is FactKind.PERSON:
        who = fact.slot.partition(" ")[0]
        if who in ("boss", "colleague") and FactKind.WORK in wanted:
            return True
        if not said.isdisjoint(_words_for(who)):
            return True
    return not said.isdisjoint(_terms(fact.text))


def _terms(text: str) -> Iterator[str]:
    """Words of a text that tell what it is about, each cut to its stem; pairs of Han characters."""
    for found in _HAN.finditer(text):
        run = found[0]
        pairs = [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
        yield from (pair for pair in pairs if pair not in _EMPTY_HAN)
    for found in _WORD.finditer(_HAN.sub(" ", text.casefold())):
        for part in re.split(r"['’-]", found[0]):
            if len(part) >= _LEAST_WORD and part not in _EMPTY:
                yield part[:_STEM]
