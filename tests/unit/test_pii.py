"""Spans, placeholders and normal forms of personal data."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.domain.text.pii import (
    PiiKind,
    PiiSpan,
    is_placeholder,
    merge_spans,
    normalized,
    placeholder,
    redact,
)

TEXT = "0123456789" * 5
SPANS = st.builds(
    lambda start, size, kind: PiiSpan(start, start + size, kind),
    st.integers(0, 40),
    st.integers(1, 10),
    st.sampled_from(PiiKind),
)


@pytest.mark.parametrize("kind", PiiKind)
def test_a_placeholder_is_the_kinds_word_with_or_without_a_number(kind: PiiKind):
    assert placeholder(kind) == f"[{kind}]"
    assert placeholder(kind, 12) == f"[{kind}_12]"
    assert is_placeholder(placeholder(kind))
    assert is_placeholder(placeholder(kind, 12))


@pytest.mark.parametrize(
    "text", ["[NAME]", "EMAIL", "[EMAIL_0]", "[EMAIL_]", "[EMAIL] ", "[email]"]
)
def test_text_that_resembles_a_placeholder_is_none(text: str):
    assert not is_placeholder(text)


def test_of_spans_that_overlap_the_longest_names_the_kind():
    long, short = PiiSpan(0, 20, PiiKind.ADDRESS), PiiSpan(3, 12, PiiKind.PHONE_NUMBER)
    assert merge_spans([short, long]) == [long]


def test_of_equal_spans_the_most_certain_names_the_kind():
    name, email = PiiSpan(2, 9, PiiKind.PERSON_NAME), PiiSpan(2, 9, PiiKind.EMAIL)
    assert merge_spans([email, name]) == merge_spans([name, email]) == [email]


def test_no_part_of_a_span_is_left_when_another_reaches_into_it():
    spans = [PiiSpan(0, 10, PiiKind.ADDRESS), PiiSpan(8, 13, PiiKind.PERSON_NAME)]
    assert merge_spans(spans) == [PiiSpan(0, 13, PiiKind.ADDRESS)]


@given(st.lists(SPANS))
def test_settled_spans_are_in_order_apart_and_cover_the_same(spans: list[PiiSpan]):
    settled = merge_spans(spans)
    assert all(one.end <= other.start for one, other in pairwise(settled))
    covered = {at for span in spans for at in range(span.start, span.end)}
    assert covered == {at for span in settled for at in range(span.start, span.end)}


@given(st.lists(SPANS))
def test_redacting_keeps_all_that_is_in_no_span(spans: list[PiiSpan]):
    settled = merge_spans(spans)
    rest = "".join(
        char
        for at, char in enumerate(TEXT)
        if not any(span.start <= at < span.end for span in settled)
    )
    text = redact(TEXT, settled)
    for span in settled:
        text = text.replace(placeholder(span.kind), "", 1)
    assert text == rest


def test_the_same_value_gets_the_same_number():
    seen: dict[tuple[PiiKind, str], int] = {}
    text = "ana@X.com, bo@x.com, ANA@x.com"
    spans = [PiiSpan(0, 9, PiiKind.EMAIL), PiiSpan(11, 19, PiiKind.EMAIL)]
    spans.append(PiiSpan(21, 30, PiiKind.EMAIL))
    text = redact(text, spans, lambda kind, value: seen.setdefault((kind, value), len(seen) + 1))
    assert text == "[EMAIL_1], [EMAIL_2], [EMAIL_1]"


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (PiiKind.EMAIL, "ana@X.com", "ANA@x.com"),
        (PiiKind.EMAIL, "ana@x.com", "a\u200bna@x.com"),
        (PiiKind.PHONE_NUMBER, "+1 (415) 555-0134", "415-555-0134"),
        (PiiKind.PHONE_NUMBER, "+44 7700 900123", "07700 900123"),
        (PiiKind.PHONE_NUMBER, "+33 6 39 98 01 23", "06 39 98 01 23"),
        (PiiKind.PHONE_NUMBER, "415-555-0134 ext. 12", "４１５-５５５-０１３４"),
        (PiiKind.US_SSN, "078-05-1120", "078 05 1120"),
        (PiiKind.CREDIT_CARD, "4242-4242-4242-4242", "4242424242424242"),
        (PiiKind.IBAN, "gb82 west 1234 5698 7654 32", "GB82WEST12345698765432"),
        (PiiKind.IP_ADDRESS, "2001:DB8:0:0::1", "2001:db8::1"),
        (PiiKind.PERSON_NAME, "Dr. Ana López", "ana lopez"),
        (PiiKind.PERSON_NAME, "ANA", "Ana's"),
        (PiiKind.ADDRESS, "12 Main St., Reno", "12  main st, reno"),
        (PiiKind.DATE_OF_BIRTH, "3 May 1990", "3  MAY 1990"),
    ],
)
def test_ways_to_write_one_value_have_one_normal_form(kind: PiiKind, one: str, other: str):
    assert normalized(kind, one) == normalized(kind, other)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (PiiKind.PHONE_NUMBER, "415-555-0134", "415-555-0135"),
        (PiiKind.EMAIL, "ana@x.com", "ana@y.com"),
        (PiiKind.PERSON_NAME, "Ana López", "Bo López"),
        (PiiKind.IP_ADDRESS, "192.0.2.1", "192.0.2.11"),
    ],
)
def test_two_values_have_two_normal_forms(kind: PiiKind, one: str, other: str):
    assert normalized(kind, one) != normalized(kind, other)
