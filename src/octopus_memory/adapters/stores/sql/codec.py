"""JSON values as bytes, each with the number of the codec that reads them back.

| codec | payload                                         | written                              |
|-------|-------------------------------------------------|--------------------------------------|
| 0     | the JSON itself, UTF-8                          | where compression gains nothing      |
| 1     | gzip                                            | never: read for other writers        |
| 2     | one zstd frame, checksum, dictionary `turns-v1` | otherwise                            |
| 3     | such a frame of a text, UTF-8                   | for `{"role": "user", "content": …}` |
| 4     | the same                                        | for an assistant's, likewise         |
| 5     | the same                                        | for a system's                       |

Most messages are a role and a text: these need no JSON around them. A codec's number never changes
its meaning: another dictionary or format takes the next number, and every number that was ever
written stays readable.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

from ....domain.errors import InvalidInput, MessageTooLarge, StoreCorrupt

PLAIN = 0
GZIP = 1
ZSTD_TURNS_V1 = 2
SAID = {3: "user", 4: "assistant", 5: "system"}
"""Codecs of a text, each with the role of its speaker."""

MAX_DECODED_BYTES = 64 * 1024 * 1024
"""No payload is decompressed beyond this, so that a forged one cannot exhaust the memory."""

_LEVEL = 2
_DICTIONARY = Path(__file__).parent / "data" / "turns-v1.zdict"
_SHORTEST = b"(\xb5/\xfd \x00\x01\x00\x00"
"""An empty frame."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS

_SAID_BY = {role: number for number, role in SAID.items()}
_SAID_KEYS = ("role", "content")
_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_load = json.JSONDecoder().raw_decode
_BLANK = " \t\n\r"
_DAMAGE = (zstandard.ZstdError, zlib.error, ValueError, TypeError, RecursionError)
_BATCH = 64
"""Payloads parsed in one call, during which no other thread can run."""
_BATCH_BYTES = 1024 * 1024
_KEEPS_BYTES = 64 * 1024


def encode(value: Any) -> tuple[int, bytes]:
    """The codec number and payload of a plain JSON value. Thread-safe.

    :raises InvalidInput: when the value is not plain JSON
    :raises MessageTooLarge: when it is over `MAX_DECODED_BYTES` and could not be decoded
    """
    number = _said_by(value)
    try:
        # Keep lone surrogates: clients send text that was cut in the middle of an emoji.
        text = value["content"] if number else _dump(value)
        plain = text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("value", "must be plain JSON (no NaN, bytes or objects)") from error
    if len(plain) > MAX_DECODED_BYTES:
        raise MessageTooLarge(
            "value",
            f"is {len(plain):,} bytes, over the {MAX_DECODED_BYTES:,} that are read back: "
            "store large attachments elsewhere and keep their address",
        )
    # Drop a context after a large message, because it keeps buffers of that size.
    keeps = len(plain) <= _KEEPS_BYTES
    packed = (_writing().compress if keeps else _compressor().compress)(plain)
    if number:
        # An incompressible frame is hardly longer than its text, and has a checksum.
        return number, packed
    return (ZSTD_TURNS_V1, packed) if len(packed) < len(plain) else (PLAIN, plain)


def _said_by(value: Any) -> int | None:
    """The codec of a message that is only a role and a text, in this key order.

    None for an empty text, because zstd does not verify the checksum of an empty frame.
    """
    if type(value) is not dict or tuple(value) != _SAID_KEYS:
        return None
    role, content = value.values()
    return _SAID_BY.get(role) if type(role) is type(content) is str and content else None


def decode(codec: int | None, payload: bytes) -> object:
    """The value that `encode` was given. Thread-safe.

    Every codec but 0 carries a checksum. With codec 0 only damage that breaks the JSON is noticed.

    :raises StoreCorrupt: when the payload is damaged or too large, or the codec unknown
    """
    try:
        plain = _plain(codec, payload)
        return _said(codec, plain) if codec in SAID else _parse(plain)
    except _DAMAGE as error:
        raise StoreCorrupt(
            f"a stored payload of {len(payload):,} bytes (codec {codec}) cannot be read: "
            "restore the row from a backup, or erase its episode"
        ) from error


def decode_many(codecs: Sequence[int | None], payloads: Sequence[bytes]) -> list[Any]:
    """As `decode` of each, in two thirds of the time."""
    values: list[Any] = []
    for start in range(0, len(payloads), _BATCH):
        some = slice(start, start + _BATCH)
        try:
            values += _decode_some(codecs[some], payloads[some])
        except _DAMAGE:
            # Decode one by one, to name the damaged one.
            values += map(decode, codecs[some], payloads[some])
    return values


def _decode_some(codecs: Sequence[int | None], payloads: Sequence[bytes]) -> list[Any]:
    found = set(codecs)
    if found <= SAID.keys():
        _sizes(payloads)
        return list(map(_said, codecs, _unpack_zstd(payloads)))
    # Parse all payloads that have a checksum as one list.
    if found == {ZSTD_TURNS_V1} and sum(_sizes(payloads)) <= _BATCH_BYTES:
        values: Any = _parse(b"[%b]" % b",".join(_unpack_zstd(payloads)))
        if isinstance(values, list) and len(values) == len(payloads):
            return values
    return list(map(decode, codecs, payloads))


def _said(codec: Any, text: bytes) -> dict[str, str]:
    return {"role": SAID[codec], "content": text.decode("utf-8", "surrogatepass")}


def _parse(plain: bytes) -> object:
    # Other writers may leave whitespace around it.
    text = plain.decode("utf-8", "surrogatepass").strip(_BLANK)
    value, end = _load(text)
    if end != len(text):
        raise ValueError("data follows the value")
    return value


def _plain(codec: int | None, payload: bytes) -> bytes:
    if codec == ZSTD_TURNS_V1 or codec in SAID:
        _sizes([payload])
        return _unpack_zstd([payload])[0]
    if codec == PLAIN:
        return bytes(payload)
    if codec == GZIP:
        return _unpack_gzip(payload)
    raise StoreCorrupt(
        f"codec {codec} is unknown to this version: upgrade octopus-memory if a newer one wrote "
        "the database, else restore the row from a backup"
    )


def _sizes(payloads: Sequence[bytes]) -> list[int]:
    """The decompressed sizes, checked before anything is decompressed."""
    sizes = list(map(zstandard.frame_content_size, payloads))
    if 0 in sizes:
        raise zstandard.ZstdError("an empty frame, which is never written")
    # A negative size means that the frame does not say; `encode` always writes it.
    if min(sizes) < 0 or max(sizes) > MAX_DECODED_BYTES:
        raise StoreCorrupt(_too_large(max(payloads, key=len)))
    return sizes


def _unpack_zstd(payloads: Sequence[bytes]) -> list[bytes]:
    unpack = _reading().decompress
    # No limit, one frame, nothing after it. Positional, because keywords double the call time.
    return [unpack(payload, 0, False, False) for payload in payloads]  # noqa: FBT003


def _unpack_gzip(payload: bytes) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    plain = stream.decompress(payload, MAX_DECODED_BYTES + 1)
    if len(plain) > MAX_DECODED_BYTES:
        raise StoreCorrupt(_too_large(payload))
    if not stream.eof or stream.unused_data:
        raise zlib.error("the stream is truncated, or data follows it")
    return plain


def _too_large(payload: bytes) -> str:
    return (
        f"a stored payload of {len(payload):,} bytes has no size or would decompress to more than "
        f"{MAX_DECODED_BYTES:,}: Octopus did not write it so; restore the row from a backup"
    )


class _Reading(threading.local):
    """A context for each thread, because contexts must not be shared."""

    def __init__(self) -> None:
        self.decompress = zstandard.ZstdDecompressor(dict_data=_to_read()).decompress


class _Writing(threading.local):
    def __init__(self) -> None:
        self.compress = _compressor().compress


_reading = cache(_Reading)
_writing = cache(_Writing)


def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(
        level=_LEVEL, dict_data=_to_write(), write_checksum=True, write_dict_id=False
    )


# A second dictionary: a reader need not load or hold the tables for writing.


@cache
def _to_read() -> zstandard.ZstdCompressionDict:
    dictionary = _dictionary()
    # Initialize it before threads share it, because its first use is not locked.
    zstandard.ZstdDecompressor(dict_data=dictionary).decompress(_SHORTEST)
    return dictionary


@cache
def _to_write() -> zstandard.ZstdCompressionDict:
    dictionary = _dictionary()
    dictionary.precompute_compress(level=_LEVEL)
    return dictionary


def _dictionary() -> zstandard.ZstdCompressionDict:
    data = _DICTIONARY.read_bytes()
    return zstandard.ZstdCompressionDict(data, dict_type=zstandard.DICT_TYPE_FULLDICT)
