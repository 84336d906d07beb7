"""The codec of stored turns: exact round trips, and damage that is seen."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import string
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from octopus_memory.adapters.stores.sql import codec
from octopus_memory.domain.errors import InvalidInput, MessageTooLarge, StoreCorrupt

# An empty set of excluded categories lets lone surrogates in, which are left out by default.
TEXT = st.text(st.characters(exclude_categories=()))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)
TURN = {
    "role": "assistant",
    "content": "The ferry to Naxos leaves at 07:15; I reserved two deck seats and told Ioanna.",
}
TURN_BACKWARDS = dict(reversed(TURN.items()))
NAMED = {**TURN, "name": "Ioanna"}
"""With more than a role and a text it is kept as JSON."""
ASSISTANT = next(number for number, role in codec.SAID.items() if role == "assistant")
# Made once, when they were first written: rows like these are in databases.
DICTIONARY_SHA256 = "7085a11a33b2cd3ae8a41da6eeeb0547265ccbe8550dc6cebee6d4d8ce7501c6"
STORED_BY_V1 = (
    "28b52ffd246fe50100938207d9ad4869aca5d6268e7f3b95bdf62a5b6a13843a1f1d57df6a1355ec6f0108fc"
    "2555a6d571cbb901a4d9ef4d69da18d7cd5e736b4694a49902d4a67a0c"
)
STORED_AS_TEXT = (
    "28b52ffd244ebd010063020756a434d6526b13c7bf9dca5e7b952db509429d8f8eab6fb5892af60307fc0655"
    "b6d3710bb201c4d5ef6d65da10ebb62b473b8fa7ad21144a"
)
LETTERS = string.ascii_letters + string.digits
MULTI_BYTE = [chr(number) for number in range(0x20, 0x2FFF)]
READABLE = (codec.PLAIN, codec.GZIP, codec.ZSTD_TURNS_V1, *codec.SAID)
CHECKED = {
    codec.GZIP: (NAMED, gzip.compress(json.dumps(NAMED).encode())),
    codec.ZSTD_TURNS_V1: (NAMED, codec.encode(NAMED)[1]),
    ASSISTANT: (TURN, codec.encode(TURN)[1]),
}
"""One payload of each codec that has a checksum, with what it holds."""


def dictionary() -> bytes:
    folder = resources.files("octopus_memory.adapters.stores.sql")
    return folder.joinpath("data", "turns-v1.zdict").read_bytes()


@given(JSON)
@example("\ud83d")
@example("\ude00\ud83d and \ud83d\ude00 in two halves, and whole: 😀")
@example({"\udfff": ["\x00", " ", "\ufeff", "é", "e\u0301"]})
@example({"role": "user", "content": "in half: \ud83d"})
@example({"role": "system", "content": ""})
@example({"role": "tool", "content": "x"})
@example({"role": [], "content": "x"})
@example({"role": "user", "content": None})
@example([-0.0, 1e-320, 1.7976931348623157e308, 2**200, -1, True, 1, 1.0])
def test_reads_back_what_was_written(value: object) -> None:
    read = codec.decode(*codec.encode(value))
    assert read == value
    # `==` does not tell 1 from True or 1.0, nor 0.0 from -0.0.
    assert repr(read) == repr(value)


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["\ud83d", "\ude00"],
        [[], {}, None, 1, 1.0, True, -0.0, "", 2**200],
        [{**TURN, "number": number, "cut": "in half: \ud83d"} for number in range(200)],
        [{**TURN, "name": "x" * 200_000}, TURN],
        [{"role": role, "content": f"{role} \ud83d"} for role in codec.SAID.values()] * 50,
    ],
    ids=["none", "short", "of every kind", "two hundred", "large", "texts"],
)
def test_reading_many_equals_reading_each(values: list[object]) -> None:
    stored = [codec.encode(value) for value in values]
    read = codec.decode_many([number for number, _ in stored], [payload for _, payload in stored])
    assert repr(read) == repr(values)


@pytest.mark.parametrize("number", [codec.ZSTD_TURNS_V1, ASSISTANT])
def test_one_damaged_payload_of_many_is_detected(number: int) -> None:
    whole = CHECKED[number][1]
    two = zstandard.ZstdCompressor().compress(b'{"role":"user"},{"role":"tool"}\xff')
    for damaged in (whole[:-3], whole + b"\0", two):
        payloads = [whole, whole, damaged]
        with pytest.raises(StoreCorrupt, match=f"a stored payload of {len(damaged)} bytes"):
            codec.decode_many([number] * len(payloads), payloads)


def test_two_values_in_one_payload_of_many_are_detected() -> None:
    two = zstandard.ZstdCompressor().compress(b'{"role":"user"},{"role":"tool"}')
    with pytest.raises(StoreCorrupt, match=f"a stored payload of {len(two)} bytes"):
        codec.decode_many([codec.ZSTD_TURNS_V1] * 2, [CHECKED[codec.ZSTD_TURNS_V1][1], two])


def test_keeps_the_order_of_keys() -> None:
    for value in ({"content": "b before a", "role": "user", "b": 1, "a": 2}, TURN, TURN_BACKWARDS):
        assert list(codec.decode(*codec.encode(value))) == list(value)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("characters", "count"),
    [(["ok "], 350_000), (LETTERS, 1_000_000), (MULTI_BYTE, 350_000)],
    ids=["repetitive", "like base64", "multi-byte"],
)
def test_a_megabyte(characters: Sequence[str], count: int) -> None:
    content = "".join(random.Random(1).choices(characters, k=count))
    value = {"role": "tool", "tool_call_id": "call_1", "content": content}
    number, payload = codec.encode(value)
    assert number == codec.ZSTD_TURNS_V1
    assert len(payload) < len(content.encode())
    assert codec.decode(number, payload) == value


def test_a_turn_takes_less_than_two_thirds_of_its_json() -> None:
    for turn, number in ((TURN, ASSISTANT), (NAMED, codec.ZSTD_TURNS_V1)):
        assert codec.encode(turn) == (number, CHECKED[number][1])
        assert len(CHECKED[number][1]) < len(json.dumps(turn)) * 2 / 3


def test_a_text_is_kept_as_text() -> None:
    for role in codec.SAID.values():
        said = {"role": role, "content": 'Two lines,\nand "one" of them is quoted.'}
        number, payload = codec.encode(said)
        assert codec.SAID[number] == role
        assert b'\nand "one" of' in codec._unpack_zstd([payload])[0]


@pytest.mark.parametrize("value", [None, True, 7, "", [], {}, "zq"])
def test_a_payload_that_compression_would_enlarge_stays_json(value: object) -> None:
    number, payload = codec.encode(value)
    assert number == codec.PLAIN
    assert json.loads(payload) == value


@given(JSON | TEXT.map(lambda text: {"role": "user", "content": text}))
@example({"role": "user", "content": random.Random(3).randbytes(300).decode("latin-1")})
def test_a_payload_is_never_longer_than_the_json(value: object) -> None:
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert len(codec.encode(value)[1]) <= len(plain.encode("utf-8", "surrogatepass"))


def test_reads_gzip_of_other_writers() -> None:
    value, payload = CHECKED[codec.GZIP]
    assert codec.decode(codec.GZIP, payload) == value


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {"a": b"bytes"}, {1, 2}, object(), {(1, 2): "key"}]
)
def test_refuses_what_is_not_json(value: object) -> None:
    with pytest.raises(InvalidInput, match="plain JSON"):
        codec.encode(value)


def test_refuses_endless_nesting() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InvalidInput):
        codec.encode(loop)


@pytest.mark.parametrize("number", CHECKED)
def test_a_payload_cut_short_or_with_a_tail_is_corrupt(number: int) -> None:
    _, payload = CHECKED[number]
    for damaged in [*(payload[:length] for length in range(len(payload))), payload + b"\0"]:
        with pytest.raises(StoreCorrupt, match="backup"):
            codec.decode(number, damaged)


@pytest.mark.parametrize("number", CHECKED)
def test_no_flipped_bit_gives_another_value(number: int) -> None:
    value, payload = CHECKED[number]
    seen = 0
    for bit in range(len(payload) * 8):
        damaged = bytearray(payload)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            # A few bits of both headers say nothing about the content.
            assert codec.decode(number, bytes(damaged)) == value
        except StoreCorrupt:
            seen += 1
    assert seen > len(payload) * 8 * 0.5


@pytest.mark.parametrize("number", [codec.ZSTD_TURNS_V1, *codec.SAID])
def test_a_frame_that_says_it_is_empty_is_corrupt(number: int) -> None:
    """Of such a one zstd does not look at the checksum."""
    _, payload = codec.encode({"role": "user", "content": "My allergy is penicillin."})
    for spoilt in (payload[:5] + b"\0" + payload[6:], zstandard.ZstdCompressor().compress(b"")):
        for read in (codec.decode, lambda *given: codec.decode_many(*([one] * 2 for one in given))):
            with pytest.raises(StoreCorrupt, match="cannot be read"):
                read(number, spoilt)


@given(st.sampled_from(READABLE), st.binary())
@example(codec.PLAIN, b'"\xed\xa0"')
@example(codec.PLAIN, b"[" * 200_000)
@example(codec.GZIP, gzip.compress(b"\xff"))
@example(ASSISTANT, zstandard.ZstdCompressor().compress(b"ok"))
@example(ASSISTANT, zstandard.ZstdCompressor().compress(b"\xff"))
@example(codec.ZSTD_TURNS_V1, zstandard.MAGIC_NUMBER.to_bytes(4, "little"))
def test_any_bytes_give_a_value_or_are_corrupt(number: int, payload: bytes) -> None:
    try:
        value = codec.decode(number, payload)
    except StoreCorrupt:
        return
    if number in codec.SAID:
        # A few bytes can be the frame of a short text.
        assert value == {"role": codec.SAID[number], "content": payload[9:].decode()}
    else:
        assert value == json.loads(payload)


@pytest.mark.parametrize("number", READABLE)
def test_a_payload_that_is_text_in_the_database_is_corrupt(number: int) -> None:
    """SQLite keeps whatever another program puts into a column."""
    for read in (codec.decode, lambda *given: codec.decode_many(*([one] for one in given))):
        with pytest.raises(StoreCorrupt, match="cannot be read"):
            read(number, "My allergy is penicillin.")  # type: ignore[arg-type]


def test_an_error_holds_no_text_of_the_message() -> None:
    with pytest.raises(StoreCorrupt) as caught:
        codec.decode(codec.PLAIN, b'{"content": "my secret", "role": user}')
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("number", [-1, 6, 99])
def test_an_unknown_codec_says_what_to_do(number: int) -> None:
    with pytest.raises(StoreCorrupt, match=f"codec {number} is unknown.*upgrade"):
        codec.decode(number, codec.encode(TURN)[1])


def test_a_frame_of_another_dictionary_is_corrupt() -> None:
    frame = zstandard.ZstdCompressor(
        dict_data=zstandard.ZstdCompressionDict(b"Naxos Ioanna ferry deck seats" * 20),
        write_dict_id=False,
        write_checksum=True,
    ).compress(json.dumps(TURN).encode())
    for number in (codec.ZSTD_TURNS_V1, ASSISTANT):
        with pytest.raises(StoreCorrupt):
            codec.decode(number, frame)


def test_bombs_are_refused_before_they_unpack() -> None:
    blank = b" " * (codec.MAX_DECODED_BYTES + 1)
    for number, bomb in (
        (codec.ZSTD_TURNS_V1, zstandard.ZstdCompressor().compress(blank)),
        (ASSISTANT, zstandard.ZstdCompressor().compress(blank)),
        (codec.GZIP, gzip.compress(blank, 1)),
    ):
        with pytest.raises(StoreCorrupt, match="would decompress to more than 67,108,864"):
            codec.decode(number, bomb)


def test_a_frame_that_hides_its_size_is_refused() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"{}")
    with pytest.raises(StoreCorrupt):
        codec.decode(codec.ZSTD_TURNS_V1, frame)


def test_a_value_that_could_not_be_read_back_is_refused() -> None:
    with pytest.raises(MessageTooLarge, match="67,108,864"):
        codec.encode("x" * codec.MAX_DECODED_BYTES)
    with pytest.raises(MessageTooLarge, match="67,108,864"):
        codec.encode({"role": "user", "content": "x" * (codec.MAX_DECODED_BYTES + 1)})


def test_threads_share_nothing_that_breaks() -> None:
    words = [f"turn {n}: " + "gate " * (n % 50) + "\ud800" for n in range(400)]

    def round_trips(seed: int) -> bool:
        mine = random.Random(seed).sample(words, len(words))
        stored = [codec.encode({"role": "user", "content": word}) for word in mine]
        read = [codec.decode(*pair) for pair in stored]
        return read == [{"role": "user", "content": word} for word in mine]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(round_trips, range(16)))


def test_the_dictionary_of_stored_rows_never_changes() -> None:
    assert len(dictionary()) <= 64 * 1024
    assert hashlib.sha256(dictionary()).hexdigest() == DICTIONARY_SHA256
    assert codec.decode(codec.ZSTD_TURNS_V1, bytes.fromhex(STORED_BY_V1)) == TURN
    assert codec.decode(ASSISTANT, bytes.fromhex(STORED_AS_TEXT)) == TURN
