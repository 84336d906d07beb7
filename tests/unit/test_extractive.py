"""The extractive summarizer: which sentences it keeps and which it leaves out."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.domain.episode import SUMMARY_LIMIT, Summary, Turn
from octopus_memory.domain.errors import InvalidSetting
from octopus_memory.domain.message import parse_message

NOON = datetime(2025, 3, 14, 12, tzinfo=UTC)


def turns_of(*messages) -> list[Turn]:
    return [
        Turn(
            id=UUID(int=place + 1),
            episode_id=UUID(int=0),
            session_id="s",
            ordinal=place,
            message=parse_message(message, max_bytes=10**7),
            tokens=1,
            at=NOON,
        )
        for place, message in enumerate(messages)
    ]


def summary_of(*messages, **options) -> Summary:
    return ExtractiveSummarizer(**options).summarize(turns_of(*messages), timeout=5)


def facts_of(*messages) -> tuple[str, ...]:
    """All key facts, as beside a summary by somebody else."""
    return ExtractiveSummarizer().key_facts(turns_of(*messages))


def lines_of(summary: Summary) -> list[str]:
    """The summary and the key facts, in that order."""
    return [summary.text, *summary.key_facts]


def user(text, name=None):
    return {"role": "user", "content": text} | ({"name": name} if name else {})


def assistant(text, name=None):
    return {"role": "assistant", "content": text} | ({"name": name} if name else {})


def test_leave_days_example():
    made = summary_of(
        user("How many leave days do I have left? Please be formal with me."),
        assistant("You have 12 days remaining."),
    )
    assert made.text == "User — How many leave days do I have left?"
    assert made.key_facts == (
        "User — Please be formal with me.",
        "Assistant — You have 12 days remaining.",
    )


def test_the_extractive_summarizer_names_itself():
    assert ExtractiveSummarizer().name == "extractive-v3"


SUPPORT = (
    user("hello"),
    assistant("Hello! How can I help you today?"),
    user("My order #48213 hasn't arrived. It was supposed to be here on March 3rd."),
    assistant(
        "I'm sorry to hear that! Your order #48213 was shipped on February 27 via DHL and is "
        "held at the Leipzig depot because the address was incomplete."
    ),
    user("The address is Lindenstraße 14b, 10969 Berlin. My name is Petra Vogel."),
    assistant(
        "Thank you, Ms. Vogel. The parcel will be delivered on Thursday, March 7, between 9 and "
        "12. Is there anything else I can help you with?"
    ),
    user("No, that's all. Thanks!"),
    assistant("You're welcome! Have a great day!"),
)


def test_keeps_statements_in_order_and_leaves_politeness_out():
    made = summary_of(*SUPPORT)
    text = made.text
    kept = ["hasn't arrived", "Leipzig depot", "Lindenstraße 14b", "Petra Vogel", "March 7"]
    assert all(words in " ".join(lines_of(made)) for words in kept)
    places = [text.index(words) for words in kept if words in text]
    assert len(places) > 2
    assert places == sorted(places)
    for politeness in ("Hello", "sorry", "Thank", "welcome", "great day", "anything else"):
        assert politeness not in text


def test_what_was_said_is_not_changed():
    made = summary_of(
        user("const List does not compile here. so eBay's iPad app runs on Dart 3.4"),
        assistant("use const <int>[] instead"),
    )
    told = "\n".join(lines_of(made))
    assert "Const" not in told
    assert "Use const" not in told
    assert "const List does not compile here." in told
    assert "eBay's iPad app runs on Dart 3.4" in told


def test_a_summary_is_shorter_than_its_conversation():
    said = sum(len(message["content"]) for message in SUPPORT)
    assert len(summary_of(*SUPPORT).text) <= 0.6 * said


def test_a_short_conversation_is_summed_up_in_a_line():
    made = summary_of(
        user("My dog Rex is sick."),
        assistant("What are his symptoms?"),
        user("He vomits."),
        assistant("Call your vet."),
    )
    assert lines_of(made) == [
        "User — My dog Rex is sick. Assistant — Call your vet.",
        "What are his symptoms? User — He vomits.",
    ]


def test_who_answers_their_own_question_is_named_before_it():
    made = summary_of(
        user("Ich bin gegen Nüsse allergisch und suche ein Rezept."),
        assistant("Wie wäre es mit Kürbissuppe? Ganz ohne Nüsse."),
        user("Super, danke!"),
    )
    assert made.key_facts == ("Assistant — Wie wäre es mit Kürbissuppe? Ganz ohne Nüsse.",)


def test_key_facts_do_not_repeat_the_summary():
    for conversation in (SUPPORT, *map(messages_of, INTAKE.values())):
        made = summary_of(*conversation)
        told = " ".join(lines_of(made))
        assert made.key_facts
        for fact in made.key_facts:
            assert told.count(fact.split(" — ")[-1]) == 1 or fact.endswith("No.")


def test_a_reaction_is_not_part_of_a_summary():
    made = summary_of(user("I play the cello in an orchestra."), assistant("Lovely!"))
    assert lines_of(made) == ["User — I play the cello in an orchestra."]


def test_key_facts_of_both_sides():
    facts = facts_of(*SUPPORT)
    assert "User — My name is Petra Vogel." in facts
    assert "User — The address is Lindenstraße 14b, 10969 Berlin." in facts
    assert (
        "Assistant — The parcel will be delivered on Thursday, March 7, between 9 and 12." in facts
    )


@pytest.mark.parametrize(
    "said",
    [
        "I prefer window seats.",
        "My son is allergic to peanuts.",
        "I live in Lyon and work as a nurse.",
        "I'm planning to move to Oslo in June.",
        "Let's go with the blue logo.",
        "pls always give me type-annotated code in future",
        "Call me Bo.",
        "Ich bin Lehrerin in München.",
        "Bitte duzen wir uns!",
        "Prefiero vivir en Sevilla.",
        "我对花生过敏。",
    ],
)
def test_a_users_statement_is_a_key_fact(said):
    messages = user(said), assistant("Noted.")
    assert any(said.rstrip(".。") in fact for fact in facts_of(*messages))
    assert said.rstrip(".。") in " ".join(lines_of(summary_of(*messages)))


@pytest.mark.parametrize(
    "said",
    [
        "Write a poem about Berlin in 1990.",
        "What is the capital of France?",
        "Thanks, that sounds great!",
        "I hope you have a good day.",
        "I'm glad to hear that.",
        "Explain quantum entanglement to me.",
    ],
)
def test_tasks_questions_and_small_talk_are_no_key_facts(said):
    assert facts_of(user(said), assistant("Of course!")) == ()


def test_general_advice_is_no_key_fact():
    advice = "You can try a cool bedroom. Consider keeping a diary. It often helps to walk. Relax."
    assert facts_of(user("How do I sleep better?"), assistant(advice)) == ()


def messages_of(exchanges) -> list[dict[str, str]]:
    """A dialogue in which the assistant asks and the user answers."""
    return [m for asks, says in exchanges for m in (assistant(asks), user(says))]


INTAKE = {
    "english": (
        ("Welcome! Do you have any allergies?", "No."),
        ("Do you take any medication?", "Warfarin."),
        ("Thanks. Do you smoke?", "Not any more."),
        ("And how old are you?", "52."),
    ),
    "german": (
        ("Guten Tag! Haben Sie Allergien?", "Nein."),
        ("Nehmen Sie Medikamente?", "Marcumar."),
        ("Danke. Rauchen Sie?", "Nicht mehr."),
        ("Wie alt sind Sie?", "52."),
    ),
    "french": (
        ("Bonjour ! Avez-vous des allergies ?", "Non."),
        ("Prenez-vous des médicaments ?", "Warfarine."),
        ("Vous fumez ?", "Plus maintenant."),
        ("Quel âge avez-vous ?", "52."),
    ),
    "spanish": (
        ("¡Hola! ¿Tiene alguna alergia?", "No."),
        ("¿Toma algún medicamento?", "Warfarina."),
        ("¿Fuma?", "Ya no."),
        ("¿Cuántos años tiene?", "52."),
    ),
    "chinese": (
        ("您好！您对什么过敏吗？", "没有。"),
        ("您在吃什么药？", "华法林。"),
        ("您抽烟吗？", "已经戒了。"),
        ("您今年多大？", "52。"),
    ),
}


@pytest.mark.parametrize("language", INTAKE)
def test_short_answers_stand_after_their_questions(language):
    messages = messages_of(INTAKE[language])
    facts, told = facts_of(*messages), " ".join(lines_of(summary_of(*messages)))
    for asks, says in INTAKE[language]:
        question = asks.split("!", 1)[-1].split("！", 1)[-1].split(". ", 1)[-1].strip()
        question = question.removeprefix("And ")
        assert f"{question} User — {says}" in facts
        assert told.count(f"{question} User — {says}") == 1


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        (
            "Should I take ibuprofen with ramipril?",
            "No, please don't. Ask your pharmacist first.",
        ),
        ("Darf ich Ibuprofen mit Ramipril nehmen?", "Nein, lieber nicht. Fragen Sie nach."),
        ("Puis-je prendre de l'ibuprofène ?", "Non, surtout pas. Demandez au pharmacien."),
        ("¿Puedo tomar ibuprofeno con ramipril?", "No, mejor no. Pregunte en la farmacia."),
        ("我可以吃布洛芬吗？", "不可以。请先问药剂师。"),
    ],
)
def test_a_warning_keeps_its_negation_and_its_question(asks, says):
    messages = user(asks), assistant(says)
    said = says.replace("。请", "。 请")
    assert lines_of(summary_of(*messages)) == [f"User — {asks} Assistant — {said}"]
    assert facts_of(*messages) == (f"{asks} Assistant — {said}",)


def test_a_bare_reply_stands_after_what_it_follows():
    exchanges = (
        ("Please send me your customer number.", "4711-22"),
        ("I can offer Tuesday at 10 or Thursday at 14.", "the second one"),
    )
    assert lines_of(summary_of(*messages_of(exchanges))) == [
        "Assistant — Please send me your customer number. User — 4711-22.",
        "I can offer Tuesday at 10 or Thursday at 14. User — the second one.",
    ]


def test_a_question_without_its_mark_is_one():
    facts = facts_of(user("what's the code of the key safe"), assistant("4092"))
    assert facts == ("what's the code of the key safe. Assistant — 4092.",)


def test_an_answer_that_stands_by_itself_needs_no_question():
    messages = messages_of([("Where do you live?", "I live in Lyon with my two sons.")])
    assert facts_of(*messages) == ("User — I live in Lyon with my two sons.",)


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ("Is there anything else I can help you with?", "No."),
        ("Kann ich sonst noch etwas für Sie tun?", "Nein."),
        ("Autre chose ?", "Non."),
        ("¿Algo más?", "No."),
        ("还有什么可以帮您的吗？", "没有。"),
    ],
)
def test_the_answer_to_a_courtesy_is_no_key_fact(asks, says):
    assert facts_of(*messages_of([(asks, says)])) == ()


def test_two_questions_of_one_turn_stay_together():
    made = summary_of(*messages_of([("How old are you? And do you smoke?", "52. No.")]))
    assert "Assistant — How old are you? do you smoke? User — 52. No." in made.text


def test_reads_the_middle_of_a_long_answer():
    filler = "It is a pleasant place in every season and many people say so. " * 40
    text = summary_of(
        user("Tell me about the hut."),
        assistant(f"{filler}The door code is 7731 and the warden is Frau Aumüller. {filler}"),
    ).text
    assert "7731" in text
    assert "Aumüller" in text


def test_a_tool_result_that_is_not_repeated_is_a_key_fact():
    made = summary_of(
        user("How much overtime was I paid in July?"),
        {
            "role": "tool",
            "tool_call_id": "c1",
            "function_name": "get_payslip",
            "result": '{"month": "2025-07", "overtime": {"hours": 9.5, "pay": 261.20}, "ok": true}',
        },
        assistant("Here is your payslip of July."),
    )
    assert "Tool get_payslip — month 2025-07, hours 9.5, pay 261.20, ok yes." in made.key_facts
    assert "261" not in made.text


def test_speakers_keep_their_names():
    made = summary_of(
        user("I adopted a greyhound called Pixel yesterday.", name="Ana"),
        assistant("I once had two greyhounds in Porto.", name="Rui"),
        user("We should walk along the Douro on Sunday.", name="Ana"),
    )
    assert lines_of(made) == [
        "Ana — I adopted a greyhound called Pixel yesterday.",
        "Rui — I once had two greyhounds in Porto.",
        "Ana — We should walk along the Douro on Sunday.",
    ]


def test_says_the_same_thing_once():
    made = summary_of(
        user("I play the cello in an orchestra."),
        assistant("Lovely!"),
        user("As I said: I play the cello in an orchestra."),
        user("I play the cello in an orchestra."),
    )
    assert " ".join(lines_of(made)).count("cello") == 1


def test_long_answers_do_not_squeeze_the_user_out():
    answer = " ".join(
        f"Monument number {n} in district {n * 7} was restored by architect Name{n} in {1800 + n}."
        for n in range(200)
    )
    messages = (
        user("Which monuments should I see in Prague?"),
        assistant(answer),
        user("My knee is bad, so I need places without stairs."),
        assistant(answer),
    )
    made = summary_of(*messages)
    assert "Which monuments should I see in Prague?" in made.text
    assert "My knee is bad, so I need places without stairs." in made.text
    assert "User — My knee is bad, so I need places without stairs." in facts_of(*messages)


def test_reads_the_beginning_and_the_end_of_a_very_long_turn():
    middle = "Nothing in particular happens in this stretch. " * 5_000
    text = summary_of(user(f"My flight leaves from Gdansk. {middle}My seat is 14C.")).text
    assert "Gdansk" in text
    assert "14C" in text


def test_markup_and_code_blocks_are_left_out():
    text = summary_of(
        user("How do I close the pool?"),
        assistant(
            "## Answer\n- Call **`engine.dispose()`** in the "
            "[shutdown hook](https://example.org/a/b?c=d).\n```python\nsecret_name = 1\n```\n"
        ),
    ).text
    assert text == (
        "User — How do I close the pool? Assistant — Answer. "
        "Call engine.dispose() in the shutdown hook."
    )


def test_code_is_kept_where_there_is_nothing_else():
    assert "parse_invoice" in summary_of(user("```python\ndef parse_invoice(): ...\n```")).text


def test_abbreviations_and_german_dates_do_not_end_a_sentence():
    facts = facts_of(user("I see Dr. Weiss on 14 June. Mein Mann wird am 3. Mai 40 Jahre alt."))
    assert "User — I see Dr. Weiss on 14 June." in facts
    assert "User — Mein Mann wird am 3. Mai 40 Jahre alt." in facts


def test_chinese():
    made = summary_of(
        user("你好！我叫李明，住在上海。"),
        assistant("您好，李明！已为您预订周六晚上七点四人的座位，订单号为8842。"),
    )
    assert lines_of(made) == [
        "User — 我叫李明，住在上海。",
        "Assistant — 已为您预订周六晚上七点四人的座位，订单号为8842。",
    ]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (user("hi"), "User — hi"),
        (user("🎉🎉"), "User — 🎉🎉"),
        (user("Gdansk"), "User — Gdansk."),
        (user("???"), "User — ???"),
        ({"role": "system", "content": "You are terse."}, "System — You are terse."),
    ],
)
def test_the_shortest_episodes(message, text):
    assert summary_of(message) == Summary(text=text)


def test_an_episode_of_tool_calls_alone_has_a_summary():
    tool = {
        "role": "tool",
        "tool_call_id": "c1",
        "function_name": "get_weather",
        "arguments": {"city": "Oslo"},
        "result": {"celsius": 4},
    }
    assert summary_of(tool) == Summary(text='Tool get_weather — {"celsius": 4}')


def test_tool_results_and_system_prompts_stay_out_of_a_conversation():
    made = summary_of(
        {"role": "system", "content": "You are HRBot. Never reveal salaries."},
        user("How many leave days do I have?"),
        {
            "role": "tool",
            "tool_call_id": "c1",
            "function_name": "leave",
            "result": {"days": 12},
        },
        assistant("You have 12 days."),
    )
    assert lines_of(made) == [
        "User — How many leave days do I have?",
        "Assistant — You have 12 days.",
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [user("")],
        [user([{"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}])],
    ],
)
def test_no_text_at_all(messages):
    assert summary_of(*messages) == Summary(text="No text was exchanged.")


def test_text_parts_of_multi_part_content():
    parts = [
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "text", "text": "This is my cat Nero."},
    ]
    assert "Nero" in summary_of(user(parts)).text


@pytest.mark.parametrize("options", [{"max_chars": 79}, {"max_chars": 2001}, {"max_facts": -1}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(InvalidSetting, match=next(iter(options))):
        ExtractiveSummarizer(**options)


@pytest.mark.slow
def test_ten_thousand_turns():
    places = ("Oslo", "Lyon", "Porto", "Gdansk", "Kyoto")
    said = [
        user(f"In week {n} I travelled to {places[n % 5]} for {n} euros.") for n in range(10_000)
    ]
    made = summary_of(*said)
    assert all(place in made.text for place in places)
    assert len(made.text) <= 1_200
    assert made.key_facts == ()
    assert 2 <= len(facts_of(*said)) <= 8


ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=400),
    st.lists(
        st.sampled_from(
            [
                "I prefer",
                "tea",
                ".",
                "!",
                "?",
                "。",
                "\n",
                "my",
                "12",
                "Dr.",
                "```",
                "|",
                "# ",
                "你好",
                "🎉",
            ]
        ),
        max_size=80,
    ).map(" ".join),
)
MESSAGES = st.lists(
    st.builds(
        lambda role, text, name: {"role": role, "content": text} | ({"name": name} if name else {}),
        st.sampled_from(["user", "assistant", "system"]),
        ANY_TEXT,
        st.one_of(st.none(), st.text(st.characters(exclude_categories=()), max_size=60)),
    ),
    max_size=12,
)


@settings(max_examples=2 * settings.default.max_examples)
@given(MESSAGES, st.integers(80, SUMMARY_LIMIT), st.integers(0, 10))
def test_any_episode_has_a_summary_inside_the_limits(messages, max_chars, max_facts):
    turns = turns_of(*messages)
    summarizer = ExtractiveSummarizer(max_chars=max_chars, max_facts=max_facts)
    made = summarizer.summarize(turns, timeout=5)
    assert 1 <= len(made.text) <= max_chars
    assert len(made.key_facts) <= max_facts
    assert all(0 < len(fact) <= 330 for fact in made.key_facts)
    assert len(set(made.key_facts)) == len(made.key_facts)
    assert "\n" not in made.text + "".join(made.key_facts)
    made.text.encode()
    "".join(made.key_facts).encode()
    assert summarizer.summarize(turns, timeout=5) == made


@pytest.mark.process
def test_every_process_makes_the_same_summary():
    script = (
        "import test_extractive as t\n"
        "made = t.summary_of(*t.SUPPORT, max_chars=300, max_facts=3)\n"
        "print(ascii(made))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1
