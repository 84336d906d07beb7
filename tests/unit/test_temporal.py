from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.domain.search.row_format import day_number, pack_told, told_overlaps
from octopus_memory.domain.search.temporal import (
    DateWindow,
    Order,
    date_window,
    order_cue,
    session_cue,
    told_spans,
)

ASKED = datetime(2024, 3, 13, 15, 30, tzinfo=UTC)
"""A Wednesday."""


def day(year: int, month: int, of_month: int) -> datetime:
    return datetime(year, month, of_month, tzinfo=UTC)


def only_span(query: str) -> tuple[datetime, datetime]:
    window = date_window(query, ASKED)
    assert window is not None
    assert len(window.spans) == 1
    return window.spans[0]


@pytest.mark.parametrize(
    "query",
    [
        "What did we do on 7 May 2023?",
        "What happened on May 7, 2023?",
        "and on the 7th of May, 2023",
        "on may 7th 2023",
        "the meeting of 2023-05-07",
        "on 7May, 2023",
    ],
)
def test_a_date_is_that_day(query: str) -> None:
    assert only_span(query) == (day(2023, 5, 7), day(2023, 5, 8))


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("in March 2023", day(2023, 3, 1), day(2023, 4, 1)),
        ("What did I buy in Dec. 2022?", day(2022, 12, 1), day(2023, 1, 1)),
        ("the 31st of February 2023", day(2023, 2, 1), day(2023, 3, 1)),
        ("today", day(2024, 3, 13), day(2024, 3, 14)),
        ("what did I say yesterday?", day(2024, 3, 12), day(2024, 3, 13)),
        ("the day before yesterday", day(2024, 3, 11), day(2024, 3, 12)),
        ("last week", day(2024, 3, 4), day(2024, 3, 11)),
        ("this week", day(2024, 3, 11), day(2024, 3, 14)),
        ("last month", day(2024, 2, 1), day(2024, 3, 1)),
        ("last year", day(2023, 1, 1), day(2024, 1, 1)),
        ("three days ago", day(2024, 3, 10), day(2024, 3, 11)),
        ("over the past two weeks", day(2024, 2, 28), day(2024, 3, 14)),
        ("last Monday", day(2024, 3, 11), day(2024, 3, 12)),
        ("on Wednesday", day(2024, 3, 6), day(2024, 3, 7)),
        ("last weekend", day(2024, 3, 9), day(2024, 3, 11)),
        ("on 19.01.2024", day(2024, 1, 19), day(2024, 1, 20)),
        ("the week before August 3, 2023", day(2023, 7, 27), day(2023, 8, 3)),
        ("the Sunday before 25 October 2022", day(2022, 10, 23), day(2022, 10, 24)),
        ("the weekend after 25 October 2022", day(2022, 10, 29), day(2022, 10, 31)),
        ("two days after 25 October 2022", day(2022, 10, 27), day(2022, 10, 28)),
        ("since February", day(2024, 2, 1), ASKED),
        ("last summer", day(2023, 6, 1), day(2023, 9, 1)),
        ("What have I planned for next week?", day(2024, 3, 18), day(2024, 3, 25)),
        ("What is on tomorrow?", day(2024, 3, 14), day(2024, 3, 15)),
    ],
)
def test_times_are_resolved_from_when_it_was_asked(
    query: str, start: datetime, end: datetime
) -> None:
    assert only_span(query) == (start, end)


def test_two_months_ago_is_about_then() -> None:
    start, end = only_span("What did I tell you two months ago?")
    assert start <= day(2024, 1, 13) < end
    assert timedelta(days=20) < end - start < timedelta(days=45)


def test_a_year_said_once_is_meant_for_both() -> None:
    assert only_span("Where was I between August 11 and August 15, 2023?") == (
        day(2023, 8, 11),
        day(2023, 8, 16),
    )
    window = date_window("Did I run on August 11 or on August 15, 2023?", ASKED)
    assert window is not None
    assert [start for start, _ in window.spans] == [day(2023, 8, 11), day(2023, 8, 15)]


def test_a_month_without_a_year_is_that_month_of_any_year() -> None:
    window = date_window("Where did I go in July?", ASKED)
    assert window is not None
    assert (day(2023, 7, 1), day(2023, 8, 1)) in window.spans
    assert (day(2019, 7, 1), day(2019, 8, 1)) in window.spans


@pytest.mark.parametrize(
    "query",
    [
        "What is my dog called?",
        "May I ask what the march was for?",
        "Did we march against it?",
        "I paid 2023 dollars",
        "",
        "今天天气很好",
    ],
)
def test_no_time_is_named(query: str) -> None:
    assert date_window(query, ASKED) is None


def test_a_word_for_today_weighs_less_than_a_date() -> None:
    date, relative = date_window("on 7 May 2023", ASKED), date_window("last week", ASKED)
    assert date is not None
    assert relative is not None
    assert relative.strength < date.strength


def test_closeness_is_full_inside_and_some_for_ten_days_after() -> None:
    window = DateWindow(
        spans=((day(2020, 5, 1), day(2020, 6, 1)), (day(2023, 5, 7), day(2023, 5, 8)))
    )
    moments = [
        day(2019, 1, 1),
        day(2020, 5, 31),
        day(2020, 6, 5),
        day(2023, 5, 6),
        day(2023, 5, 7),
        day(2023, 5, 17),
        day(2023, 5, 19),
    ]
    times = np.array([int(moment.timestamp()) * 1_000_000 for moment in moments])
    none = np.zeros(len(moments), np.int64)
    assert window.closeness(times, none).tolist() == pytest.approx([0, 1, 0.6, 0, 1, 0.6, 0])
    # "Yesterday" on 8 May tells of 7 May, "next week" of another time.
    on_the_8th = np.array([int(day(2023, 5, 8).timestamp()) * 1_000_000] * 2)
    packed = [
        pack_told(told_spans(said, day(2023, 5, 8)))
        for said in ("We went yesterday.", "We go next week.")
    ]
    assert window.closeness(on_the_8th, np.array(packed)).tolist() == [1, 0]
    assert window.covers(on_the_8th, np.array(packed)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("When was the last time I ran?", Order.LATEST),
        ("my most recent address", Order.LATEST),
        ("When did I see her for the first time?", Order.EARLIEST),
        ("Who won first prize?", Order.NONE),
        ("What did I say last week?", Order.NONE),
    ],
)
def test_order(query: str, order: Order) -> None:
    assert order_cue(query) is order


@given(
    st.text() | st.from_regex(r"(\d{1,4} (day|week|year)s ago|in (may|march) \d{0,4}|\d\d? may)"),
    st.datetimes(timezones=st.just(UTC), min_value=datetime(1900, 1, 1)),
)
def test_any_question_at_any_time_has_windows_in_order(query: str, asked_at: datetime) -> None:
    window = date_window(query, asked_at)
    if window is not None:
        assert list(window.spans) == sorted(window.spans)
        assert all(start < end for start, end in window.spans)
        assert np.isfinite(window.closeness(np.array([0, 10**15]), np.zeros(2, np.int64))).all()


@pytest.mark.parametrize(
    ("said", "days"),
    [
        ("Yesterday we baked bread.", [(day(2024, 3, 12), day(2024, 3, 13))]),
        ("My exam is on 12 April", [(day(2024, 4, 12), day(2024, 4, 13))]),
        ("we married in December", [(day(2023, 12, 1), day(2024, 1, 1))]),
        (
            "I fly next Friday and come back in two weeks",
            [(day(2024, 3, 15), day(2024, 3, 16)), (day(2024, 3, 24), day(2024, 3, 31))],
        ),
        ("tomorrow, I hope", [(day(2024, 3, 14), day(2024, 3, 15))]),
        ("moving next month", [(day(2024, 4, 1), day(2024, 5, 1))]),
        ("the other day at the gym", [(day(2024, 3, 6), day(2024, 3, 13))]),
        # The day on which it is said is the turn's own time.
        ("Today I slept in.", []),
        ("I have two dogs.", []),
    ],
)
def test_a_turn_tells_of_a_time(said: str, days: list[tuple[datetime, datetime]]) -> None:
    assert told_spans(said, ASKED) == days


def test_told_times_are_packed_and_found_again() -> None:
    spans = [(day(2024, 3, 4), day(2024, 3, 11)), (day(2025, 1, 1), day(2026, 1, 1))]
    packed = np.array([0, pack_told(spans), pack_told(spans[:1])])

    def found(first: datetime, last: datetime) -> list[bool]:
        return told_overlaps(packed, [(day_number(first), day_number(last))]).tolist()

    assert found(day(2024, 3, 10), day(2024, 3, 20)) == [False, True, True]
    assert found(day(2024, 3, 11), day(2024, 3, 20)) == [False, False, False]
    assert found(day(2025, 6, 1), day(2025, 6, 1)) == [False, True, False]


def test_times_that_do_not_fit_are_left_out() -> None:
    years = [(day(1962, 1, 1), day(1963, 1, 1)), (day(2000, 1, 1), day(2020, 1, 1))]
    assert pack_told(years) == 0
    assert pack_told([(day(2020, 1, i), day(2020, 1, i + 1)) for i in range(1, 9)]) < 2**63


@pytest.mark.parametrize(
    ("question", "which"),
    [
        ("What did we talk about last time?", Order.LATEST),
        ("Summarise our last conversation", Order.LATEST),
        ("What did I tell you in our very first chat?", Order.EARLIEST),
        ("What did we discuss the first time?", Order.EARLIEST),
        ("When was the last time I went hiking?", Order.NONE),
        ("What was my first job?", Order.NONE),
    ],
)
def test_a_conversation_is_named(question: str, which: Order) -> None:
    assert session_cue(question) is which
