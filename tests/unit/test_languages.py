"""Language detection, and the terms of words in each language."""

from __future__ import annotations

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.analyzers import concepts
from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.domain.search.languages import is_latin, stopwords
from octopus_memory.domain.search.terms import bare, fold, words
from octopus_memory.words import sections
from tests.support.paths import ROOT

ANALYZER = SnowballAnalyzer()
TEXTS = ROOT / "scripts" / "dictionary_text"
FOREIGN = {"german", "french", "spanish", "italian", "portuguese"}


def lines(*names: str) -> list[str]:
    return [
        line for name in names for line in (TEXTS / f"{name}.txt").read_text("utf-8").splitlines()
    ]


@pytest.mark.parametrize("name", sorted({path.stem for path in TEXTS.glob("*.txt")} - FOREIGN))
def test_english_is_indexed_as_it_always_was(name: str) -> None:
    stem = Stemmer.Stemmer("english", 0).stemWord
    for line in lines(name):
        if not line.isascii():
            continue
        plain = [bare(word)[:40] for word in words(line)]
        kept = [word for word in plain if word and word not in stopwords()["english"]]
        before = [fold(stem(word)) if word[0].isalpha() else fold(word) for word in kept]
        assert ANALYZER.terms(line) == before


@pytest.mark.parametrize("language", ["german", "french", "spanish"])
def test_the_language_of_each_line_is_detected(language: str) -> None:
    assert {ANALYZER.language_of(line) for line in lines(language) if line} == {language}


@pytest.mark.parametrize(
    "said",
    [
        "Los Angeles, Las Vegas",
        "Die Hard is a man in a red hat",
        "Lunch at the Café de Flore, then the Rue du Bac",
        "See ya!",
        "I had soy milk and a fur coat in the Uber",
        "has a dog named Elle",
        "Paracetamol 500mg",
        "x = a + b; y = c * d",
        "Gracias!",
        "",
    ],
)
def test_foreign_names_in_english_are_no_foreign_language(said: str) -> None:
    assert ANALYZER.language_of(said) == "english"


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ("Mein Hund bellt", "german"),
        ("Die Katze heißt Luna", "german"),
        ("J'adore Lyon", "french"),
        ("No me gusta el café", "spanish"),
        ("¿Cuándo es la cita?", "spanish"),
    ],
)
def test_a_short_sentence_is_enough(said: str, language: str) -> None:
    assert ANALYZER.language_of(said) == language


def test_a_language_that_is_set_is_not_guessed() -> None:
    german = SnowballAnalyzer("german")
    assert german.language_of("The dog is in the house") == "german"
    assert german.forms("die Häuser und das Haus") == [("haus",)]
    assert german.terms("die Lieferadresse") == ["lieferadress"]


@pytest.mark.parametrize(
    ("question", "said", "older"),
    [
        ("Wo sind die Häuser?", "Das Haus ist verkauft", "Häuser"),
        ("Où est l'adresse ?", "Nos adresses sont là", "adresse"),
        ("¿Qué envíos hay?", "Me lo quieren enviar hoy", "envíos"),
        ("Wo ist Bruno?", "Bruno was there", "Bruno"),
        ("Where is Bruno?", "Mein Hund heißt Bruno", "Bruno"),
        ("Quelle soeur ?", "Ma sœur est là", "soeur"),
    ],
)
def test_a_word_is_found_in_whatever_language_it_was_indexed(
    question: str, said: str, older: str
) -> None:
    wanted = {form for forms in ANALYZER.forms(question) for form in forms}
    assert wanted & set(ANALYZER.terms(said))
    # Older versions indexed all as English.
    assert set(ANALYZER.terms(older, language="english")) <= wanted


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        ("Wohin schicken Sie meine nächste Lieferung?", 3),
        ("Où est-ce que vous livrez ma commande ?", 2),
        ("¿A dónde me envían el próximo pedido?", 3),
        ("我的猫叫什么名字？", 2),
        ("Qui est-ce ?", 0),
        ("你是谁？", 0),
    ],
)
def test_a_questions_stopwords_are_those_of_its_language(question: str, kept: int) -> None:
    assert len(ANALYZER.forms(question)) == kept


def test_stems_of_two_languages_are_kept_apart() -> None:
    (cares,) = ANALYZER.forms("cares")
    assert cares[0] == "care"
    assert "car" not in cares
    assert "fr:car" in cares or "es:car" in cares


@given(st.text())
def test_any_question_has_forms(text: str) -> None:
    found = ANALYZER.forms(text)
    assert all(forms and all(forms) and len(set(forms)) == len(forms) for forms in found)
    assert len({forms[0] for forms in found}) == len(found)
    is_latin(text)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("Lieferadresse", ["adress", "liefer"]),
        ("Geburtstagsgeschenk", ["geschenk", "geburtstag"]),
        ("Versicherungsnummer", ["numm", "versicher"]),
        ("Krankenhaus", []),
        ("Geschwindigkeit", []),
        ("Bewerbung", []),
        ("Unterschied", []),
    ],
)
def test_german_compounds_are_found_by_their_parts(word: str, parts: list[str]) -> None:
    whole, *found = ANALYZER.terms(word, language="german")
    assert whole.startswith("de:")
    assert found == [f"de:{part}" for part in parts]


def test_a_lone_chinese_character_is_sought_by_itself() -> None:
    assert ("药", "么药") in ANALYZER.forms("我吃什么药")
    assert "药" in ANALYZER.terms("医生给我开了药")
    assert "的" not in ANALYZER.terms("我的药")
    # Japanese is left as it was.
    assert ANALYZER.forms("猫のなまえ") == [("猫の",), ("のな",), ("なま",), ("まえ",)]


@pytest.mark.parametrize(
    ("term", "near", "far"),
    [
        ("de:liefer", {"de:schick", "fr:livraison", "es:envi", "deliveri", "寄到"}, {"de:hund"}),
        ("fr:chien", {"de:hund", "es:perr", "dog", "小狗"}, {"fr:chat", "de:katz"}),
        ("es:alergi", {"allergi", "de:allergi", "fr:allerg", "过敏"}, {"es:jef"}),
        ("房租", {"租金", "rent", "de:miet", "fr:loi"}, {"医生"}),
        ("dog", {"de:hund", "fr:chien", "es:perr", "狗"}, {"de:katz"}),
    ],
)
def test_words_are_related_across_languages(term: str, near: set[str], far: set[str]) -> None:
    found = dict(ANALYZER.related(term))
    assert near <= found.keys()
    assert not far & found.keys()
    assert term not in found
    assert all(0 < weight < 1 for weight in found.values())


def test_other_languages_add_no_english_words_to_an_english_one() -> None:
    for word in ("boss", "deliv", "rent", "dog"):
        added = ANALYZER.related(word)[len(concepts.english().of(word)) :]
        assert added
        assert all(not term.isascii() or ":" in term for term, _ in added)


def test_a_short_note_that_was_taken_for_english_is_found_by_a_related_word() -> None:
    assert ANALYZER.language_of("Adresse: Lindenweg 5") == "english"
    (forms,) = ANALYZER.forms("Anschrift")
    found = {term for form in forms for term, _ in ANALYZER.related(form)}
    assert found & set(ANALYZER.terms("Adresse: Lindenweg 5"))


def test_every_concept_is_listed_in_five_languages() -> None:
    rows = sections("concepts")[""]
    assert len(rows) > 350
    for line in rows:
        parts = [part.partition(":") for part in line.split("|")]
        assert [name.strip() for name, _, _ in parts] == ["en", "de", "fr", "es", "zh"]
        for _, _, listed in parts:
            assert all(word.strip() for word in listed.split(",")), line
            assert " " not in listed.strip().replace(", ", ","), line


@pytest.mark.parametrize(
    ("said", "latin"),
    [("Où ?", True), ("", True), ("123", True), ("我的 iPhone 在哪里", False), ("Где", False)],
)
def test_the_script_of_a_text_is_detected(said: str, *, latin: bool) -> None:
    assert is_latin(said) is latin
