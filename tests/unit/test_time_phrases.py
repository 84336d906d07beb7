from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder
from octopus_memory.domain.search.languages import Reading
from octopus_memory.domain.search.query import QueryPlan, plan_query
from octopus_memory.domain.search.row_format import TermHasher
from octopus_memory.domain.search.temporal import Order, session_cue, told_spans
from octopus_memory.domain.search.terms import Flag, turn_flags
from octopus_memory.domain.search.time_phrases import in_english, times_in_english

ASKED = datetime(2024, 3, 13, 15, 30, tzinfo=UTC)
"""A Wednesday."""
ANALYZER = SnowballAnalyzer()
HASHER = TermHasher(b"salt" * 8)
LANGUAGES = ["german", "french", "spanish", "chinese"]


def plan(question: str) -> QueryPlan:
    return plan_query(
        question,
        asked_at=ASKED,
        analyzer=ANALYZER,
        hasher=HASHER,
        related=ANALYZER.related,
        reads=MiniLMEmbedder().reads,
    )


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("Was habe ich letzte Woche gekauft?", (2024, 3, 4), (2024, 3, 11)),
        ("Was haben wir am 3. Mai 2023 gemacht?", (2023, 5, 3), (2023, 5, 4)),
        ("Was war am 03.05.2023?", (2023, 5, 3), (2023, 5, 4)),
        ("Was habe ich vor zwei Wochen gesagt?", (2024, 2, 25), (2024, 3, 3)),
        ("Was habe ich vorgestern gegessen?", (2024, 3, 11), (2024, 3, 12)),
        ("Wen habe ich letzten Freitag getroffen?", (2024, 3, 8), (2024, 3, 9)),
        ("Was habe ich im Oktober 2023 gemacht?", (2023, 10, 1), (2023, 11, 1)),
        ("Qu'est-ce que j'ai fait le mois dernier ?", (2024, 2, 1), (2024, 3, 1)),
        ("Où étais-je il y a trois jours ?", (2024, 3, 10), (2024, 3, 11)),
        ("Qui ai-je vu le 1er mai 2023 ?", (2023, 5, 1), (2023, 5, 2)),
        ("Qu'ai-je mangé hier soir ?", (2024, 3, 12), (2024, 3, 13)),
        ("Qui ai-je rencontré lundi dernier ?", (2024, 3, 11), (2024, 3, 12)),
        ("¿Qué hice la semana pasada?", (2024, 3, 4), (2024, 3, 11)),
        ("¿Qué compré el 5 de abril de 2023?", (2023, 4, 5), (2023, 4, 6)),
        ("¿Qué dije hace dos semanas?", (2024, 2, 25), (2024, 3, 3)),
        ("¿Dónde estuve el año pasado?", (2023, 1, 1), (2024, 1, 1)),
        ("¿Qué comí anteayer?", (2024, 3, 11), (2024, 3, 12)),
        ("上周我说了什么？", (2024, 3, 4), (2024, 3, 11)),
        ("2023年5月3日我去了哪里？", (2023, 5, 3), (2023, 5, 4)),
        ("三天前我吃了什么？", (2024, 3, 10), (2024, 3, 11)),
        ("上周五我见了谁？", (2024, 3, 8), (2024, 3, 9)),
        ("去年我去了哪里？", (2023, 1, 1), (2024, 1, 1)),
        ("Was mache ich nächstes Wochenende?", (2024, 3, 16), (2024, 3, 18)),
        ("Que vais-je faire le week-end prochain ?", (2024, 3, 16), (2024, 3, 18)),
        ("¿Qué hago la semana que viene?", (2024, 3, 18), (2024, 3, 25)),
        ("明天我有什么安排？", (2024, 3, 14), (2024, 3, 15)),
    ],
)
def test_a_time_is_understood(question: str, start, end) -> None:
    window = plan(question).window
    assert window is not None
    assert window.spans == ((datetime(*start, tzinfo=UTC), datetime(*end, tzinfo=UTC)),)


@pytest.mark.parametrize(
    "question",
    [
        "Wie heißt mein Hund?",
        "Comment s'appelle mon chien ?",
        "¿Cómo se llama mi perro?",
        "我的狗叫什么？",
        "Did I buy a Mars bar with mayo?",
        "Who is Abril?",
    ],
)
def test_no_time_is_made_up(question: str) -> None:
    assert plan(question).window is None
    assert plan(question).order is Order.NONE


@pytest.mark.parametrize(
    ("question", "order"),
    [
        ("Wann war ich zuletzt beim Arzt?", Order.LATEST),
        ("Wo war ich zum ersten Mal am Meer?", Order.EARLIEST),
        ("La dernière fois, qu'avons-nous mangé ?", Order.LATEST),
        ("Quelle était ma première fois au ski ?", Order.EARLIEST),
        ("¿Cuándo fue la última vez que nadé?", Order.LATEST),
        ("¿Dónde esquié por primera vez?", Order.EARLIEST),
        ("上次我们吃了什么？", Order.LATEST),
        ("我第一次滑雪是在哪里？", Order.EARLIEST),
    ],
)
def test_first_and_last_are_understood(question: str, order: Order) -> None:
    assert plan(question).order is order


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Seit wann wohne ich hier?", True),
        ("Um wie viel Uhr ist mein Termin?", True),
        ("Wie heißt meine Chefin?", False),
        ("À quelle heure part mon train ?", True),
        ("Qui est ma cheffe ?", False),
        ("¿Cuándo es mi vuelo?", True),
        ("¿Qué regalo compré para mi hermana?", False),
        ("我的航班是什么时候？", True),
        ("我的狗叫什么？", False),
    ],
)
def test_a_question_for_a_time(question: str, *, asks: bool) -> None:
    assert plan(question).asks_time is asks


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Welches Restaurant hast du mir empfohlen?", True),
        ("Was haben Sie mir zum Blutdruck geraten?", True),
        ("Wohin schicken Sie meine nächste Lieferung?", False),
        ("Was hat meine Ärztin gesagt?", False),
        ("Quel hôtel m'as-tu recommandé ?", True),
        ("Où allez-vous livrer ma commande ?", False),
        ("¿Qué libro me recomendaste?", True),
        ("¿A dónde enviarán mi pedido?", False),
        ("你之前给我推荐了哪家餐厅？", True),
        ("我姐姐会收到什么礼物？", False),
    ],
)
def test_a_question_for_what_the_assistant_said(question: str, *, asks: bool) -> None:
    assert plan(question).asks_assistant is asks


@pytest.mark.parametrize(
    ("said", "timed"),
    [
        ("Gestern war ich im Kino", True),
        ("Ich war im Kino", False),
        ("On se voit lundi", True),
        ("On se voit au cinéma", False),
        ("Nos vemos el sábado", True),
        ("Nos vemos en casa", False),
        ("我明天去北京", True),
        ("我去北京", False),
    ],
)
def test_a_turn_tells_that_it_names_a_time(said: str, *, timed: bool) -> None:
    assert bool(turn_flags(said) & Flag.TIME) is timed


def test_a_chinese_question_needs_no_mark() -> None:
    assert turn_flags("你喜欢猫吗") & Flag.QUESTION
    assert not turn_flags("我喜欢猫") & Flag.QUESTION


@pytest.mark.parametrize(
    ("question", "reading"),
    [
        ("My dog?", Reading.FLUENT),
        ("Wo ist mein Hund?", Reading.GLOSSED),
        ("我的狗呢？", Reading.GLOSSED),
        ("Где собака?", Reading.NONE),
        ("犬はどこですか", Reading.NONE),
    ],
)
def test_how_well_the_embedder_reads_a_question(question: str, reading: Reading) -> None:
    assert plan(question).reading is reading
    of_any = plan_query(question, asked_at=ASKED, analyzer=ANALYZER, hasher=HASHER)
    assert of_any.reading is Reading.FLUENT


@given(st.text(), st.sampled_from(LANGUAGES))
def test_any_text_is_taken(text: str, language: str) -> None:
    assert "\0" not in in_english(text, language)
    plan(text)


@pytest.mark.parametrize(
    ("question", "language", "which"),
    [
        ("Worüber haben wir letztes Mal gesprochen?", "german", Order.LATEST),
        ("Wann war ich das letzte Mal wandern?", "german", Order.NONE),
        ("Fass unser erstes Gespräch zusammen", "german", Order.EARLIEST),
        ("De quoi avons-nous parlé la dernière fois ?", "french", Order.LATEST),
        ("Résume notre première conversation", "french", Order.EARLIEST),
        ("¿De qué hablamos la última vez?", "spanish", Order.LATEST),
        ("¿Cuándo fue la última vez que corrí?", "spanish", Order.NONE),
        ("我们上次聊了什么？", "chinese", Order.LATEST),
        ("上次我去爬山是什么时候？", "chinese", Order.NONE),
    ],
)
def test_a_conversation_is_named(question: str, language: str, which: Order) -> None:
    assert session_cue(times_in_english(question, language)) is which


@pytest.mark.parametrize(
    ("said", "language", "day"),
    [
        ("Gestern war ich beim Arzt.", "german", 12),
        ("Übermorgen ziehe ich um.", "german", 15),
        ("Hier j'ai vu Paul.", "french", 12),
        ("Demain je pars.", "french", 14),
        ("Ayer fui al cine.", "spanish", 12),
        ("Pasado mañana vuelo a Lima.", "spanish", 15),
        ("我昨天去了医院。", "chinese", 12),
        ("后天我要搬家。", "chinese", 15),
    ],
)
def test_a_turn_tells_of_a_day(said: str, language: str, day: int) -> None:
    [(start, _)] = told_spans(times_in_english(said, language), ASKED)
    assert start == datetime(2024, 3, day, tzinfo=UTC)
