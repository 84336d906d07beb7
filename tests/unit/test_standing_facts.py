"""Rules for standing facts find plain statements of the user, and nothing else."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.adapters.summarizers.standing import rules
from octopus_memory.domain.episode import Turn
from octopus_memory.domain.facts import FACT_LIMIT, MOST_FACTS_OF_EPISODE, FoundFact
from octopus_memory.domain.message import Message
from octopus_memory.domain.search.stopwords import STOPWORDS


def talk(*said: tuple[str, str], name: str | None = None) -> list[Turn]:
    named = {} if name is None else {"name": name}
    return [
        Turn(
            id=UUID(int=place + 1),
            episode_id=UUID(int=0),
            session_id="s",
            ordinal=place,
            message=Message({"role": role, "content": text, **named}),
            tokens=1,
            at=datetime(2025, 3, 14, 12, tzinfo=UTC),
        )
        for place, (role, text) in enumerate(said)
    ]


def facts_of(*said: tuple[str, str]) -> tuple[FoundFact, ...]:
    return ExtractiveSummarizer().facts(talk(*said))


def told(text: str) -> list[tuple[str, str]]:
    return [(fact.kind.value, fact.text) for fact in facts_of(("user", text))]


STATED = [
    # English.
    ("My dog is called Rex.", "person", "Dog: Rex."),
    ("My name is Petra Vogel.", "name", "Name: Petra Vogel."),
    ("I'm Darryl, and I'm worried about hiring.", "name", "Name: Darryl."),
    ("Please call me Bo.", "name", "Wants to be called Bo."),
    ("Don't call me Mr. Smith.", "name", "Does not want to be called Mr. Smith."),
    ("Please answer in German.", "language", "Wants answers in German."),
    ("Please be formal with me.", "instruction", "Please be formal with me."),
    ("Always answer in bullet points.", "instruction", "Always answer in bullet points."),
    ("From now on, use metric units.", "instruction", "From now on, use metric units."),
    ("No emojis please.", "instruction", "No emojis please."),
    ("I'm allergic to peanuts and shellfish.", "constraint", "Allergic to peanuts and shellfish."),
    ("I have a nut allergy.", "constraint", "Has a nut allergy."),
    ("I'm vegetarian, what should I order?", "constraint", "Diet: vegetarian."),
    ("I don't eat pork.", "constraint", "Does not eat pork."),
    ("I stopped drinking in May.", "constraint", "Stopped drinking alcohol."),
    ("I gave up smoking.", "constraint", "Stopped smoking."),
    ("I take warfarin for my heart.", "constraint", "Takes warfarin."),
    ("I have type 2 diabetes.", "constraint", "Has type 2 diabetes."),
    ("I use a wheelchair.", "constraint", "Uses a wheelchair."),
    ("I'm Muslim, so no pork please.", "constraint", "Religion: Muslim."),
    ("I can't spend more than €150 a night.", "constraint", "Budget: no more than €150 a night."),
    ("I prefer window seats.", "preference", "Prefers window seats."),
    ("I can't stand coriander.", "preference", "Dislikes coriander."),
    ("My wife Anna is pregnant.", "person", "Wife: Anna."),
    ("My wife Anna is pregnant.", "person", "Wife Anna is pregnant."),
    ("My brother is allergic to penicillin.", "person", "Brother is allergic to penicillin."),
    ("We have a cat called Miso.", "person", "Cat: Miso."),
    ("I live in Lyon and work as a nurse.", "home", "Lives in Lyon."),
    ("We moved to Porto last month.", "home", "Lives in Porto."),
    ("My new address is Elm Road 9, Leeds.", "home", "Address: Elm Road 9, Leeds."),
    ("I work at Initech.", "work", "Works at Initech."),
    ("I'm a tax adviser, so May is busy.", "work", "Job: tax adviser."),
    ("We booked a trip to Lisbon in May.", "plan", "We booked a trip to Lisbon in May."),
    ("We're moving to Oslo in June.", "plan", "We're moving to Oslo in June."),
    # German.
    ("Ich bin letzte Woche nach Köln umgezogen.", "home", "Wohnt in Köln."),
    ("Ich vertrage keine Milch.", "constraint", "Verträgt keine Milch."),
    ("Ich esse kein Fleisch.", "constraint", "Isst kein Fleisch."),
    ("Ich heiße Petra Vogel.", "name", "Name: Petra Vogel."),
    ("Bitte nennen Sie mich Bo.", "name", "Möchte Bo genannt werden."),
    ("Antworten Sie bitte immer auf Englisch.", "language", "Möchte Antworten auf Englisch."),
    ("Bitte duzen wir uns!", "instruction", "Bitte duzen wir uns!"),
    ("Ich bin allergisch gegen Penicillin.", "constraint", "Allergisch gegen Penicillin."),
    ("Ich habe eine Nussallergie.", "constraint", "Hat eine Nussallergie."),
    ("Ich bin Vegetarierin.", "constraint", "Ernährung: Vegetarierin."),
    ("Ich trinke keinen Alkohol mehr.", "constraint", "Trinkt keinen Alkohol."),
    ("Ich rauche nicht mehr.", "constraint", "Raucht nicht."),
    ("Ich nehme Ramipril 5 mg und Metformin.", "constraint", "Nimmt Metformin."),
    ("Unser Budget liegt bei 1.200 Euro.", "constraint", "Unser Budget liegt bei 1.200 Euro."),
    ("Ich mag keinen Koriander.", "preference", "Mag kein Koriander."),
    ("Unsere Katze heißt Miso.", "person", "Katze: Miso."),
    ("Mein Bruder ist allergisch gegen Nüsse.", "person", "Bruder ist allergisch gegen Nüsse."),
    ("Wir sind nach Bremen gezogen.", "home", "Wohnt in Bremen."),
    ("Ich arbeite bei Siemens.", "work", "Arbeitet bei Siemens."),
    ("Ich bin Lehrerin in München.", "work", "Beruf: Lehrerin."),
    ("Wir heiraten im Mai in Rom.", "plan", "Wir heiraten im Mai in Rom."),
    # French.
    ("Je m'appelle Claire Fournel.", "name", "Nom : Claire Fournel."),
    ("Appelez-moi Léo.", "name", "Veut être appelé Léo."),
    ("Répondez toujours en anglais.", "language", "Veut des réponses en anglais."),
    ("On peut se tutoyer.", "instruction", "On peut se tutoyer."),
    ("Je suis allergique aux arachides.", "constraint", "Allergique aux arachides."),
    ("Je suis végétarienne.", "constraint", "Régime : végétarienne."),
    ("Je ne bois plus d'alcool.", "constraint", "Ne boit pas d'alcool."),
    ("J'ai arrêté de fumer.", "constraint", "Ne fume pas."),
    ("Je prends du ramipril 5 mg.", "constraint", "Prend : ramipril 5 mg."),
    ("J'adore la randonnée.", "preference", "Aime la randonnée."),
    ("Mon mari s'appelle Étienne.", "person", "Mari : Étienne."),
    ("Ma sœur est allergique au pollen.", "person", "Sœur est allergique au pollen."),
    ("J'habite à Nantes.", "home", "Habite à Nantes."),
    ("On a déménagé à Grenoble.", "home", "Habite à Grenoble."),
    ("Je travaille chez Airbus.", "work", "Travaille chez Airbus."),
    ("Je suis infirmière à Lyon.", "work", "Métier : infirmière."),
    # Spanish.
    ("Me llamo Petra Vogel.", "name", "Nombre: Petra Vogel."),
    ("Llámame Bo.", "name", "Quiere que le llamen Bo."),
    ("Respóndeme siempre en inglés.", "language", "Quiere respuestas en inglés."),
    ("Soy alérgica a los cacahuetes.", "constraint", "Alergia a los cacahuetes."),
    ("Soy vegetariana, ¿qué puedo pedir?", "constraint", "Dieta: vegetariana."),
    ("Ya no bebo alcohol.", "constraint", "No bebe alcohol."),
    ("He dejado de fumar.", "constraint", "No fuma."),
    ("Tomo ramipril y metformina.", "constraint", "Toma metformina."),
    ("Me encanta el senderismo.", "preference", "Le gusta el senderismo."),
    ("Mi mujer se llama Anna.", "person", "Mujer: Anna."),
    ("Mi hermano es alérgico a la penicilina.", "person", "Hermano es alérgico a la penicilina."),
    ("Vivo en Sevilla.", "home", "Vive en Sevilla."),
    ("Nos hemos mudado a Bilbao.", "home", "Vive en Bilbao."),
    ("Trabajo en Telefónica.", "work", "Trabaja en Telefónica."),
    ("Soy enfermera.", "work", "Profesión: enfermera."),
    # Chinese.
    ("我叫李明。", "name", "姓名：李明。"),
    ("请叫我小李。", "name", "希望被称呼为小李。"),
    ("以后请用英文回答。", "language", "希望用英文回答。"),
    ("我对花生过敏。", "constraint", "对花生过敏。"),
    ("我吃素，点什么好？", "constraint", "饮食：吃素。"),
    ("我不吃猪肉。", "constraint", "不吃猪肉。"),
    ("我已经戒酒了。", "constraint", "不喝酒。"),
    ("我在吃华法林。", "constraint", "服用华法林。"),
    ("我讨厌香菜。", "preference", "不喜欢香菜。"),
    ("我家养了一只猫，叫米粒。", "person", "猫：米粒。"),
    ("我弟弟对青霉素过敏。", "person", "弟弟对青霉素过敏。"),
    ("我们搬到了杭州。", "home", "住在杭州。"),
    ("我在腾讯工作。", "work", "在腾讯工作。"),
    ("我是护士。", "work", "职业：护士。"),
]


@pytest.mark.parametrize(("said", "kind", "text"), STATED)
def test_plain_statements_become_facts(said: str, kind: str, text: str):
    assert (kind, text) in told(said)


NOT_STATED = [
    # Questions, conditions, wishes.
    "Am I allergic to nuts?",
    "If I were allergic to nuts, what would happen?",
    "Should I move to Porto?",
    "What if I quit and we moved to Oslo?",
    "Let's say I live in Lyon and I'm vegan.",
    "Maybe I'm allergic to peanuts.",
    "Bin ich allergisch gegen Nüsse?",
    "Wenn ich allergisch gegen Nüsse wäre, was dann?",
    "Falls ich nach Bremen ziehe, wohne ich in Bremen.",
    "Suis-je allergique aux noix ?",
    "Si j'habite à Nantes, que faire ?",
    "¿Soy alérgica a las nueces?",
    "Si vivo en Sevilla, ¿qué hago?",
    "我对花生过敏吗？",
    "如果我对花生过敏怎么办？",
    # Reports, quotations, texts to work on.
    "He said I live in Lyon.",
    "Tom says, I'm allergic to peanuts.",
    'She wrote "I live in Paris with my dog" on a card.',
    "> I live in Paris and I am allergic to nuts.",
    "Translate this: I live in Berlin and I am a nurse.",
    "Write a story in which I live in Berlin.",
    "Mein Mann sagt, ich bin allergisch gegen Nüsse.",
    "Übersetze bitte: Ich wohne in Berlin.",
    "Mon mari dit que je suis allergique aux noix.",
    "Traduis : je suis végétarienne.",
    "Mi marido dice que soy alérgica a las nueces.",
    "他说我对花生过敏。",
    "翻译一下：我住在上海。",
    # What sounds alike.
    "I'm a bit tired today.",
    "I'm on my way and I take the bus.",
    "I love the idea.",
    "I love it!",
    "I left Paris at noon.",
    "I live in constant fear of mistakes.",
    "I'm sure that works.",
    "I'm German.",
    "My wife and I are going out.",
    "Never mind.",
    "Thanks, that's great!",
    "Mozart died in 1791.",
    "Ich bin müde.",
    "Das mag ich nicht.",
    "Je suis fatigué.",
    "Estoy cansada.",
    "我很累。",
    "我爱这个主意。",
    "婆婆血糖高，二甲双胍停了，改成达格列净。",
]


@pytest.mark.parametrize("said", NOT_STATED)
def test_other_sentences_become_no_facts(said: str):
    assert told(said) == []


ENDED = [
    ("I'm no longer vegan.", "constraint", "diet"),
    ("I don't take ramipril any more.", "constraint", "medication ramipril"),
    ("I eat meat again.", "constraint", "diet"),
    ("I stopped being vegetarian.", "constraint", "diet"),
    ("Ich esse wieder Fleisch.", "constraint", "diet"),
    ("Je mange de nouveau de la viande.", "constraint", "diet"),
    ("He vuelto a comer carne.", "constraint", "diet"),
    ("我现在又吃肉了。", "constraint", "diet"),
    ("我不吃素了。", "constraint", "diet"),
    ("My dog Rex died last month.", "person", "rex"),
    ("Unser Kater Mogli ist gestorben.", "person", "mogli"),
    ("Notre chien Filou est mort.", "person", "filou"),
    ("Mi perro Toby murió ayer.", "person", "toby"),
    ("My wife Anna left me.", "person", "partner"),
    ("The cat died on Tuesday.", "person", "cat"),
    ("Miso died last week.", "person", "miso"),
    ("We broke up.", "person", "partner"),
    ("I left Acme for a better job.", "work", "employer"),
    ("I was laid off.", "work", "employer"),
    ("We cancelled the trip to Lisbon.", "plan", "trip lisbon"),
    ("Ich nehme Ramipril nicht mehr.", "constraint", "medication ramipril"),
    ("Die Katze ist gestorben.", "person", "cat"),
    ("Wir haben uns getrennt.", "person", "partner"),
    ("Ich habe gekündigt.", "work", "employer"),
    ("Ich habe die Reise nach Lissabon storniert.", "plan", "reise lissabon"),
    ("Je ne prends plus de ramipril.", "constraint", "medication ramipril"),
    ("Notre chat est mort hier.", "person", "cat"),
    ("Nous nous sommes séparés.", "person", "partner"),
    ("J'ai démissionné.", "work", "employer"),
    ("J'ai annulé le voyage à Lisbonne.", "plan", "voyage lisbonne"),
    ("Ya no tomo ramipril.", "constraint", "medication ramipril"),
    ("El gato murió ayer.", "person", "cat"),
    ("Nos divorciamos el año pasado.", "person", "partner"),
    ("He dejado el trabajo.", "work", "employer"),
    ("He cancelado el viaje a Lisboa.", "plan", "viaje lisboa"),
    ("猫昨天死了。", "person", "cat"),
    ("我们分手了。", "person", "partner"),
    ("我上个月辞职了。", "work", "employer"),
    ("我们取消了去里斯本的旅行。", "plan", "旅行"),
]


@pytest.mark.parametrize(("said", "kind", "slot"), ENDED)
def test_statements_that_something_ended_end_a_fact(said: str, kind: str, slot: str):
    [fact] = facts_of(("user", said))
    assert (fact.kind, fact.slot, fact.ends) == (kind, slot, True)


ANSWERED = [
    ("Do you have any allergies?", "Penicillin.", "constraint", "Allergies: Penicillin."),
    ("Any allergies?", "No.", "constraint", "Allergies: No."),
    ("Do you take any medication?", "Warfarin.", "constraint", "Medication: Warfarin."),
    ("And how old are you?", "52.", "other", "Age: 52."),
    ("Where do you live?", "Glasgow", "home", "Lives in: Glasgow."),
    (
        "Does your son have any allergies?",
        "Peanuts.",
        "person",
        "Does your son have any allergies? — Peanuts.",
    ),
    ("Haben Sie Allergien?", "Penicillin.", "constraint", "Allergien: Penicillin."),
    ("Rauchen Sie?", "Nicht mehr.", "constraint", "Rauchen: Nicht mehr."),
    ("Avez-vous des allergies ?", "Pénicilline.", "constraint", "Allergies: Pénicilline."),
    ("Quel âge avez-vous ?", "52.", "other", "Âge: 52."),
    ("¿Tiene alguna alergia?", "Penicilina.", "constraint", "Alergias: Penicilina."),
    ("¿Fuma usted?", "Ya no.", "constraint", "Tabaco: Ya no."),
    ("您对什么过敏吗？", "青霉素。", "constraint", "过敏: 青霉素。"),
    ("您抽烟吗？", "戒了。", "constraint", "吸烟: 戒了。"),
]


@pytest.mark.parametrize(("asks", "says", "kind", "text"), ANSWERED)
def test_a_short_answer_with_its_question(asks: str, says: str, kind: str, text: str):
    [fact] = facts_of(("assistant", asks), ("user", says))
    assert (fact.kind, fact.text, fact.ordinal) == (kind, text, 1)


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ("Do you have any allergies?", "No idea."),
        ("Do you have any allergies?", "Why do you ask?"),
        ("How are you?", "Fine."),
        ("Shall I book a table?", "Yes please."),
        ("Does he have any allergies?", "Peanuts."),
        ("Haben Sie Allergien?", "Weiß ich nicht."),
        ("您对什么过敏吗？", "不知道。"),
    ],
)
def test_an_answer_that_tells_nothing_of_the_user(asks: str, says: str):
    assert facts_of(("assistant", asks), ("user", says)) == ()


def test_two_questions_and_two_answers():
    found = facts_of(
        ("assistant", "What shall I call you, and how old are you?"), ("user", "Bea. 47.")
    )
    assert [fact.text for fact in found] == ["Wants to be called: Bea.", "Age: 47."]


def test_the_last_fact_of_a_slot_counts():
    found = facts_of(
        ("user", "I live in Lyon."),
        ("assistant", "A fine place."),
        ("user", "Sorry, I should say: we moved to Porto."),
    )
    assert [(fact.text, fact.slot, fact.ordinal) for fact in found] == [("Lives in Porto.", "", 2)]


def test_the_slot_of_one_thing_is_the_same_in_every_language():
    said = ("My wife Anna is here.", "Meine Frau Anna ist da.", "Ma femme Anna est là.")
    slots = {fact.slot for text in said for fact in facts_of(("user", text))}
    assert slots == {"partner"}


def test_assistants_and_the_other_of_two_people_have_no_facts():
    said = [("user", "I'm vegetarian."), ("assistant", "I live in Porto and I'm vegan.")]
    assert [fact.text for fact in facts_of(*said)] == ["Diet: vegetarian."]
    chat = [*talk(said[0], name="Ana"), *talk(said[0], said[1], name="Rui")[1:]]
    assert [fact.text for fact in ExtractiveSummarizer().facts(chat)] == ["Diet: vegetarian."]


def test_the_summary_carries_the_facts():
    made = ExtractiveSummarizer().summarize(talk(("user", "I'm allergic to nuts.")), timeout=5)
    assert [fact.text for fact in made.facts] == ["Allergic to nuts."]


def test_the_rules_name_only_groups_that_their_patterns_have():
    made = {"said", "Relation", "person", "drug", "counted", "trip"}
    for name in rules.LANGUAGES:
        for rule in rules.language(name).rules:
            known = {group.rstrip("0123456789") for group in rule.pattern.groupindex} | made
            assert set(re.findall(r"\{(\w+)\}", rule.text + rule.slot)) <= known


def test_every_language_with_stopwords_has_rules():
    assert set(STOPWORDS) <= set(rules.LANGUAGES)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "assistant"]),
            st.one_of(
                st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
                st.lists(
                    st.sampled_from([said for said, *_ in STATED] + NOT_STATED), max_size=5
                ).map(" ".join),
            ),
        ),
        max_size=8,
    )
)
def test_any_talk_gives_facts_inside_the_limits(said: list[tuple[str, str]]):
    turns = talk(*said)
    found = ExtractiveSummarizer().facts(turns)
    assert len(found) <= MOST_FACTS_OF_EPISODE
    assert len({(fact.kind, fact.slot) for fact in found}) == len(found)
    for fact in found:
        assert 1 <= len(fact.text) <= FACT_LIMIT
        assert "\n" not in fact.text
        assert turns[fact.ordinal].role == "user"
