from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.domain.episode import Scope
from octopus_memory.domain.errors import InvalidSetting
from octopus_memory.domain.search.row_format import TermHasher
from octopus_memory.domain.search.terms import (
    LENGTH_SHIFT,
    TEXT_CAP,
    Flag,
    passage,
    turn_flags,
    words,
)
from octopus_memory.engine.core import lexicon

ANALYZER = SnowballAnalyzer()
AT = datetime(2024, 3, 13, tzinfo=UTC)
SCOPE = Scope(tenant="acme", agent="hr", user="ana")
HASHER = TermHasher(b"salt")
TELLING = ["I", "Last", "week,", "3", "don't", "US", "北京", "déjà-vu"]
LEXICON = lexicon.Lexicon(ANALYZER, lambda _: HASHER)


@pytest.mark.parametrize(
    ("said", "terms"),
    [
        ("She was painting the sunrises", ["paint", "sunris"]),
        ("Caroline's dogs don't bark", ["carolin", "dog", "bark"]),
        ("It cost 12,500 or 3.5", ["cost", "12500", "3.5"]),
        ("Is it the?", []),
        ("Café crème", ["cafe", "creme"]),
        ("ＦＵＬＬ ｗｉｄｔｈ", ["full", "width"]),
    ],
)
def test_words_are_cut_to_stems_without_stopwords(said: str, terms: list[str]) -> None:
    assert ANALYZER.terms(said) == terms


def test_chinese_and_japanese_are_cut_in_pairs_and_characters() -> None:
    assert ANALYZER.terms("我喜欢猫") == ["我喜", "喜欢", "欢猫", "喜", "欢", "猫"]
    assert ANALYZER.terms("猫 a iPhone手机") == ["猫", "iphon", "手机", "手", "机"]
    assert set(ANALYZER.terms("東京タワー")) & set(ANALYZER.terms("タワーは東京"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("книги", "книгу"),
        ("كتاب", "الكتاب"),
        ("φίλος", "φίλοι"),
        ("लड़कियों", "लड़कियाँ"),
    ],
)
def test_each_script_has_its_own_stemmer(one: str, other: str) -> None:
    assert ANALYZER.terms(one) == ANALYZER.terms(other)
    assert len(ANALYZER.terms(one)) == 1


def test_emoji_have_no_terms() -> None:
    assert ANALYZER.terms("🎉🎉 👨‍👩‍👧 ❤️") == []


def test_only_the_head_of_a_turn_is_read() -> None:
    long = "x " * TEXT_CAP + "needle"
    assert "needl" not in ANALYZER.terms(long)
    assert "needl" in ANALYZER.terms(long, cap=10 * TEXT_CAP)


def test_another_language_has_its_own_stopwords() -> None:
    german = SnowballAnalyzer("german")
    assert german.terms("die Häuser und das Haus") == ["haus", "haus"]
    with pytest.raises(InvalidSetting, match="language"):
        SnowballAnalyzer("klingon")


@given(st.text())
def test_any_text_has_terms_that_do_not_change(text: str) -> None:
    found = ANALYZER.terms(text)
    assert found == ANALYZER.terms(text)
    assert all(found)
    assert 0 <= turn_flags(text) <= 255


def test_threads_do_not_disturb_each_other() -> None:
    texts = [f"running {word}ings of the kittens{number}" for number in range(200) for word in "ab"]
    alone = [SnowballAnalyzer().terms(text) for text in texts]
    shared = SnowballAnalyzer()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.terms, texts)) == alone


def test_related_words_are_near_and_weighed() -> None:
    related = dict(ANALYZER.related("pet"))
    assert {"dog", "cat"} <= related.keys()
    assert all(0 < weight <= 1 for weight in related.values())
    assert "pet" not in related
    assert ANALYZER.related("zzxyq") == ()
    assert SnowballAnalyzer("german").related("pet") == ()


def test_a_glance_tells_question_number_time_and_length() -> None:
    assert turn_flags("How are you?") & Flag.QUESTION
    assert turn_flags("元気ですか？") & Flag.QUESTION
    assert not turn_flags("How? I see.") & Flag.QUESTION
    assert turn_flags("two days ago") & Flag.TIME
    assert turn_flags("I have 3") & Flag.NUMBER
    sizes = [turn_flags("x" * length) >> LENGTH_SHIFT for length in (0, 15, 16, 64, 256, 10**6)]
    assert sizes == [0, 0, 1, 3, 5, 7]


def test_a_short_turn_is_embedded_with_what_it_answers() -> None:
    assert passage("Two of them.", previous="How many dogs have you?").endswith("dogs have you?")
    assert passage("Two of them.", previous=None) == "Two of them."
    assert passage("x" * 400, previous="How many?") == "x" * 400
    assert passage("Thanks!", previous="y" * 5_000) == "Thanks!"
    assert len(passage("Yes", previous="z" * 500)) <= 255


def test_words_keep_apostrophes_and_drop_underscores() -> None:
    assert words("O'Brien said_so it's") == ["o'brien", "said_so", "it's"]


@given(
    st.text()
    | st.lists(st.sampled_from(["I", "Last", "week,", "3", "don't", "US", "北京", "déjà-vu"])).map(
        " ".join
    )
)
def test_words_looked_up_one_by_one_tell_the_same_as_the_text(text: str) -> None:
    found = LEXICON.turn(SCOPE, text, "Ana Maria", AT)
    assert found.terms == HASHER.pack(Counter(ANALYZER.terms(text.strip())))
    assert found.flags == turn_flags(text)
    assert found.speaker == HASHER.pack_words(["ana", "maria"])


def test_only_so_many_words_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "_MOST", 30)
    kept = lexicon.Lexicon(ANALYZER, lambda _: HASHER)
    for number in range(20):
        text = " ".join(f"word{number}x{place}" for place in range(7)) + " " + "far" * 20
        assert kept.turn(SCOPE, text, None, AT).terms == HASHER.pack(Counter(ANALYZER.terms(text)))
        assert len(kept._known) <= 30
        assert max(map(len, kept._known)) < 12
