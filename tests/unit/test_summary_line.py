"""The first part of a summary that fits into one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.domain.block.passages import one_line, split_sentences


def test_a_short_summary_is_whole():
    assert (
        one_line("User — Likes tea.\nAssistant — Noted.") == "User — Likes tea. Assistant — Noted."
    )


def test_ends_after_a_sentence():
    text = "User — I moved to Lyon. Assistant — Noted, your address is new. " + "More. " * 40
    shown = one_line(text, 66)
    assert shown == "User — I moved to Lyon. Assistant — Noted, your address is new."


def test_a_sentence_that_is_too_long_ends_after_a_clause():
    text = f"User — I moved to Lyon with my two cats, and then {'on ' * 80}."
    assert one_line(text, 60) == "User — I moved to Lyon with my two cats…"


def test_without_clauses_it_ends_after_a_word():
    assert one_line("word " * 50, 22) == "word word word word…"


def test_chinese_has_no_spaces():
    text = "我叫李明，住在上海。" + "我在一家银行工作，每天坐地铁上班。" * 10
    assert one_line(text, 30) == "我叫李明，住在上海。我在一家银行工作，每天坐地铁上班。"


@pytest.mark.parametrize(
    "text",
    ["I see Dr. Weiss on Monday. Then I rest.", "Am 3. Mai ziehe ich um. Danach ist Ruhe."],
)
def test_abbreviations_and_dates_end_no_sentence(text):
    assert len(list(split_sentences(text))) == 2


@given(st.text(max_size=500), st.integers(1, 300))
def test_never_longer_than_the_limit(text, limit):
    shown = one_line(text, limit)
    assert len(shown) <= limit
    assert "\n" not in shown
    assert bool(shown) == bool(text.split())
