"""PatternRedactor: what it finds, what it leaves, and that its time is linear."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from octopus_memory.adapters.redactors.patterns import PatternRedactor
from octopus_memory.domain.errors import InvalidSetting
from octopus_memory.domain.text.pii import PiiKind, placeholder, redact

REDACTOR = PatternRedactor()


def redacted(text: str, *names: str, redactor: PatternRedactor = REDACTOR) -> str:
    return redact(text, redactor.find(text, names=names))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Mail ana.b+c@mail.example.com.", "Mail [EMAIL]."),
        ("ana [at] example [dot] com", "[EMAIL]"),
        ("'o'neil@example.com'", "'[EMAIL]'"),
        ("call +1 (415) 555-0134 or 415.555.0135", "call [PHONE_NUMBER] or [PHONE_NUMBER]"),
        ("+44 20 7946 0958 2 people", "[PHONE_NUMBER] 2 people"),
        ("0044 20 7946 0958", "[PHONE_NUMBER]"),
        ("my cell: 4155550134", "my cell: [PHONE_NUMBER]"),
        ("ring me on 020 7946 0958", "ring me on [PHONE_NUMBER]"),
        ("078-05-1120", "[US_SSN]"),
        ("my ssn is 078051120", "my ssn is [US_SSN]"),
        ("4242 4242 4242 4242 04/29 123", "[CREDIT_CARD] 04/29 123"),
        ("amex 3782-822463-10005", "amex [CREDIT_CARD]"),
        ("my 3622 7206 2716 67 works", "my [CREDIT_CARD] works"),
        ("visa card 4222222222222", "visa card [CREDIT_CARD]"),
        ("IBAN gb82 west 1234 5698 7654 32 please", "IBAN [IBAN] please"),
        ("http://192.0.2.7:8080/x", "http://[IP_ADDRESS]:8080/x"),
        ("from 2001:db8::8a2e:370:7334.", "from [IP_ADDRESS]."),
        ("I was born on 3 May 1990.", "I was born on [DATE_OF_BIRTH]."),
        ("DOB: 05/03/1990", "DOB: [DATE_OF_BIRTH]"),
        ("my birthday is July 4", "my birthday is [DATE_OF_BIRTH]"),
        ("12 Oak Ave Apt 3, Reno, NV 89501!", "[ADDRESS]!"),
        ("i live at 12 oak street", "i live at [ADDRESS]"),
        ("Flat 2, 9 Mill Lane, York YO10 5DD", "[ADDRESS]"),
        ("in der Hauptstraße 5, 80331 München", "in der [ADDRESS]"),
        ("12 rue de la Paix, 75002 Paris", "[ADDRESS]"),
        ("Via Garibaldi 18, 20121 Milano", "[ADDRESS]"),
        ("my name is Ana López.", "my name is [PERSON_NAME]."),
        ("my name is ana", "my name is [PERSON_NAME]"),
        ("I'm Ben, Ben's brother", "I'm [PERSON_NAME], [PERSON_NAME]'s brother"),
        ("this is Dr. Kim Lee", "this is [PERSON_NAME]"),
        ("call me Tully", "call me [PERSON_NAME]"),
        ("Best regards,\r\nMaria", "Best regards,\r\n[PERSON_NAME]"),
        ("Full name: Xiomara Quell", "Full name: [PERSON_NAME]"),
        ("Hi Tully, it works", "Hi [PERSON_NAME], it works"),
        ("my sister Tully said", "my sister [PERSON_NAME] said"),
        ("Tully Quell <t@example.com>", "[PERSON_NAME] <[EMAIL]>"),
        ("Tully here, hello", "[PERSON_NAME] here, hello"),
        ("Juan de la Cruz left", "[PERSON_NAME] left"),
    ],
)
def test_personal_data_is_replaced(text: str, left: str):
    assert redacted(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4 and 10.4.2.1 of the firmware",
        "127.0.0.1, 0.0.0.0, ::1 and 255.255.255.0",
        "order 123456789, invoice 4155550134",
        "4111 1111 1111 1112 fails its checksum",
        "EAN 4006381333931",
        "the meeting is on 12/05/2025 at 14:30",
        "part 000-12-3456",
        "550e8400-e29b-41d4-a716-446655440000",
        "std::vector, a::b, 00:1A:2B:3C:4D:5E",
        "Will you come in May? Mark the box.",
        "I'm Italian. I'm Sorry. This is Great. It's FALSE, ich bin Vegetarier.",
        "file name: Final Report",
        "12 angry men and 3 lanes",
        "call me tomorrow",
        "San Diego, Thomas Street and Ben & Jerry's",
        "GB82 WEST 1234 5698 7654 33",
        "npm install left-pad@1.3.0",
    ],
)
def test_values_of_no_person_are_left(text: str):
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "Ask ana about Ana's and ANA",
            "Ask [PERSON_NAME] about [PERSON_NAME]'s and [PERSON_NAME]",
        ),
        ("Anastas, Xana and banana", "Anastas, Xana and banana"),
        ("López and lopez", "[PERSON_NAME] and [PERSON_NAME]"),
        ("Will you ask Will? I will.", "Will you ask [PERSON_NAME]? I will."),
        ("Will said so", "[PERSON_NAME] said so"),
        ("我是李明。", "我是[PERSON_NAME]。"),
        ("the support agent", "the support agent"),
    ],
)
def test_known_names_are_found_wherever_they_are(text: str, left: str):
    known = ("Ana_López", "Will", "李明", "Support Agent")
    assert redacted(text, *known) == left


def test_a_name_given_once_is_known_in_the_whole_text():
    text = "Tully left early.\nMy name is Tully Quell."
    assert redacted(text) == "[PERSON_NAME] left early.\nMy name is [PERSON_NAME]."


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("card ４２４２ ４２４２ ４２４２ ４２４２", "card [CREDIT_CARD]"),
        ("415\u200b-555-\u200b0134", "[PHONE_NUMBER]"),
        ("a\u200bna@example.com", "[EMAIL]"),
        ("٤١٥-٥٥٥-٠١٣٤", "[PHONE_NUMBER]"),
        ("my name is Jose\u0301 Ruiz.", "my name is [PERSON_NAME]."),
        ("I\u2019m Tully.", "I\u2019m [PERSON_NAME]."),
        ("415\u2011555\u20110134", "[PHONE_NUMBER]"),
        ("415\u00a0555\u00a00134", "[PHONE_NUMBER]"),
    ],
)
def test_other_digits_dashes_and_hidden_characters_do_not_hide_it(text: str, left: str):
    assert redacted(text) == left


def test_the_region_says_how_local_numbers_are_written():
    british = PatternRedactor(region="GB")
    assert redacted("020 7946 0958", redactor=british) == "[PHONE_NUMBER]"
    assert redacted("020 7946 0958") == "020 7946 0958"


def test_a_region_that_does_not_exist_is_refused():
    with pytest.raises(InvalidSetting, match="region"):
        PatternRedactor(region="ZZ")


def test_a_separator_parts_joined_texts():
    assert (
        redacted("my name is\x1eTully. dob\x1e1990-01-02")
        == "my name is\x1eTully. dob\x1e1990-01-02"
    )


_PIECES = (
    "Ana |I'm |Will |my name is |415-555-0134|a@example.com|4242424242424242|078-05-1120|ssn |dob |"
    "1990-01-02|192.0.2.1|2001:db8::1|12 Oak St|, |GB82WEST12345698765432|\n|Mr. |regards,\n|<|>|"
    "Tully |\u200b|'s |.| here|call |+1 |5| |-|[EMAIL]|[PERSON_NAME_2]|é|card 4222222222222|"
    "my sister |name: |live at 12 oak street|P.O. Box 12|version |\x1e|９|["
)
_PIECE = st.sampled_from(_PIECES.split("|"))
_SOUP = st.lists(_PIECE | st.text(string.printable, max_size=4), max_size=14).map("".join)


@settings(max_examples=4 * settings.default.max_examples)
@given(text=_SOUP, numbered=st.booleans())
@example(text="x@example.com415-555-0134", numbered=False)
@example(text="415-555-0134a@example.com078-05-1120", numbered=False)
def test_redacting_twice_changes_nothing(text: str, numbered: bool):
    number_of = (lambda kind, value: 1) if numbered else None
    once = redact(text, REDACTOR.find(text, names=["Tully"]), number_of)
    assert REDACTOR.find(once, names=["Tully"]) == []


@settings(max_examples=2 * settings.default.max_examples)
@given(_SOUP | st.text())
def test_spans_are_in_order_apart_and_hold_no_placeholder(text: str):
    spans = REDACTOR.find(text)
    ends = [0, *(span.end for span in spans)]
    assert all(end <= span.start < span.end for end, span in zip(ends, spans, strict=False))
    assert not spans or spans[-1].end <= len(text)
    assert not any("\x1e" in text[span.start : span.end] for span in spans)


@pytest.mark.parametrize("kind", PiiKind)
def test_a_placeholder_is_never_found(kind: PiiKind):
    text = f"my name is {placeholder(kind)}, born {placeholder(kind, 3)} call {placeholder(kind)}"
    assert REDACTOR.find(text) == []


_REPEATED = (
    "a@|a.a@|+1 |1 |1-|12 Main |I'm A|ssn |born in |phone me at |GB82 |:1|1.1.1.1 |Mr. |"
    "regards,\n|1\u200b|live at 1 a a a |name: |12 rue de la |Maria de la |[EMAIL]|"
    "+1 1 1 1 1 1 1 1 1 1 1 |x@y.com415-555-0134"
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", _REPEATED.split("|"))
def test_time_grows_with_the_length_and_not_faster(piece: str):
    """Eight times the text takes about eight times as long; sixty-four would be its square."""
    small, large = (_cost(piece * (size // len(piece))) for size in (4_000, 32_000))
    assert large < 30 * small


def _cost(text: str) -> float:
    def once() -> float:
        start = time.thread_time()
        REDACTOR.find(text)
        return time.thread_time() - start

    return min(once() for _ in range(3))
