from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.embedders import gloss
from octopus_memory.adapters.embedders.gloss import in_english
from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder
from octopus_memory.domain.search.languages import Reading
from octopus_memory.domain.search.terms import fold_case
from octopus_memory.words import FOLDER

LISTS = FOLDER / "glosses"


@pytest.mark.parametrize(
    ("said", "english"),
    [
        ("Wohin schicken Sie das Paket?", "where to send you the package?"),
        ("Ich wohne jetzt in Köln.", "i live now in cologne."),
        ("J’ai mal à la tête.", "i have bad to the head."),
        ("Mi hermana tiene dos perros.", "my sister has two dogs."),
        ("我上个月搬到了上海。", " i last month move arrived shanghai 。"),
    ],
)
def test_words_become_english(said: str, english: str) -> None:
    assert in_english(said) == english


@pytest.mark.parametrize(
    "said",
    [
        "Ich bin morgen früh beim Arzt wegen der Schlafstörungen.",
        "J'ai oublié la clé à l'hôpital.",
        "Mañana compré dos años de café.",
    ],
)
def test_decomposed_accents_are_parts_of_their_words(said: str) -> None:
    assert in_english(unicodedata.normalize("NFD", said)) == in_english(said) != said


@pytest.mark.parametrize(
    "said",
    [
        "",
        "I moved to Berlin last week, and I like it.",
        "We met at the Café de Flore in Paris.",
        "Warfarin.",
        "52",
        "私は犬が好きです。",
        "Я люблю собак.",
        "Mi piace molto il gelato della nonna.",
    ],
)
def test_english_and_unknown_languages_stay(said: str) -> None:
    assert in_english(said) == said


def test_names_and_numbers_stay() -> None:
    said = in_english("Ich habe am 14. März einen Termin bei Frau Wessels, 10:30 Uhr.")
    assert "Wessels" in said
    assert "14." in said
    assert "10:30" in said


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Ich habe heute mit Herrn Müller gesprochen.", "muller"),
        ("Frau Hartmann und ich haben einen Termin.", "hartmann"),
        ("Je ne suis pas allé chez Jean Martin.", "jean martin"),
        ("Hoy no hablé con la señora García.", "garcia"),
    ],
)
def test_a_common_name_is_not_taken_for_a_word_of_its_stem(said: str, name: str) -> None:
    assert name in in_english(said)


@pytest.mark.parametrize(
    ("word", "english"),
    [
        ("Lieferadresse", "delivery address"),
        ("Geburtstagsgeschenk", "birthday gift"),
        ("Wohnungsschlüssel", "apartment key"),
        ("Tomatensuppenrezept", "tomatoes soup recipe"),
        # A part that is not listed leaves the whole word as it is.
        ("Fesenkampstrasse", "Fesenkampstrasse"),
    ],
)
def test_german_compounds_are_split(word: str, english: str) -> None:
    assert in_english(f"Ich suche die {word}").endswith(english)


@pytest.mark.parametrize("said", ["我住在“上海”。", "你好、谢谢。", "《红楼梦》"])
def test_punctuation_does_not_hide_chinese(said: str) -> None:
    assert in_english(said) != said


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["eines", "seinen", "hausmann", "ausstellungs", "er"])
def test_a_word_of_many_parts_takes_no_time(part: str) -> None:
    words = " ".join("xq" + part * times for times in range(200))
    assert in_english(f"Ich habe das nicht {words}").startswith("i have the not")


def test_inflected_words_are_found_by_their_stem() -> None:
    assert "recommend" in in_english("¿Qué me recomendaríais para la cena?")


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    in_english(text)


@given(st.text(alphabet="aeinrstßüäö'’ ", max_size=60))
def test_any_german_word_is_taken(text: str) -> None:
    in_english(f"Ich habe das nicht {text}")


def test_threads_share_the_lists() -> None:
    said = [f"Ich habe {number} Hunde und meine Schwester hat keine." for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(in_english, said)) == list(map(in_english, said))


@pytest.mark.parametrize("language", sorted(gloss.LANGUAGES))
def test_a_list_is_well_formed(language: str) -> None:
    lines = (LISTS / f"{language}.tsv").read_text("utf-8").splitlines()
    words = [line.split("\t")[0] for line in lines]
    glosses = [line.split("\t")[1] for line in lines]
    assert all(line.count("\t") == 1 for line in lines)
    assert len(set(words)) == len(words) > 9_000
    assert [fold_case(word, len(word)) for word in words] == words
    assert all(each.isascii() and each == each.strip().lower() for each in glosses)
    assert all(len(word) <= gloss._LONGEST_HAN or language != "chinese" for word in words)


@pytest.mark.parametrize(
    ("language", "reading"),
    [("english", Reading.FLUENT), ("german", Reading.GLOSSED), ("other", Reading.NONE)],
)
def test_the_embedder_tells_what_it_reads(language: str, reading: Reading) -> None:
    assert MiniLMEmbedder().reads(language) is reading


def test_the_same_meaning_in_another_language_is_near() -> None:
    embedder = MiniLMEmbedder()
    english, german, french, other = embedder.embed(
        [
            "My sister is allergic to peanuts.",
            "Meine Schwester ist gegen Erdnüsse allergisch.",
            "Ma sœur est allergique aux cacahuètes.",
            "Wir haben gestern den neuen Film im Kino gesehen.",
        ]
    )
    assert english @ german > 0.7
    assert german @ french > 0.7
    assert english @ other < 0.3


def test_the_space_is_named_after_the_lists() -> None:
    assert MiniLMEmbedder().model.endswith(f"-gloss{gloss.VERSION}")
