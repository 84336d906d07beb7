"""Seals values with the key of one scope.

| what                     | how                                                                   |
|--------------------------|-----------------------------------------------------------------------|
| values                   | AES-256-GCM, random nonce, bound to the column, the codec and the row |
| names that are looked up | AES-SIV: equal names are stored alike, and only the key compares them |
| digests of message keys  | one block of AES-256: the size stays, and an export can have them     |
| hashes to compare        | HMAC-SHA-256                                                          |

Each has a subkey of its own. Scopes have different keys, so a value opens in no other scope. A
codec's number plus `SEALED` marks a sealed payload: rows that were written without keys still open.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from functools import cached_property
from hmac import digest as hmac
from struct import Struct
from typing import Any
from uuid import UUID

from ....domain.errors import InvalidInput, StoreCorrupt
from . import codec
from .seals import RECALL, RowId, Seal

SEALED = 64
"""Added to the number of a codec whose payload is sealed."""
_NONCE = 12
_TAG = 16
_TEXT = "~"
"""Begins a sealed text; JSON never begins with it."""
_ROW = b"\1"
"""Begins the sealed terms of a recall row; plain ones begin with 0 or with a count above 1."""
_HEAD = Struct("<BHI")
"""Of an opened recall row: flags, and the sizes of the speaker and the terms.

`told` follows if the speaker's size says so, because most turns tell of no time; then the speaker,
the terms and the vector.
"""
_TOLD = Struct("<q")
_HAS_TOLD = 0x8000
_MOST_NAMES = 10_000
LONGEST_NAME = 1_024
"""Bytes of the longest sealed name that SQL Server can store in its column."""
_TELLING = ("flags", "told", "speaker", "terms", "vector")


def subkey(key: bytes, purpose: str) -> bytes:
    """HKDF-Expand (RFC 5869) to 32 bytes; a key is random, so it needs no extraction."""
    return hmac(key, b"octopus-memory " + purpose.encode() + b"\1", "sha256")


def sealer(key: bytes) -> Any:
    """AES-256-GCM of `cryptography`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def damaged(column: bytes) -> StoreCorrupt:
    return StoreCorrupt(
        f"a sealed value of {column.decode()} is damaged, or another row's: restore the row from "
        "a backup, or erase its episode"
    )


class ScopeSeal(Seal):
    """Seals with one key. Thread-safe."""

    def __init__(self, ref: str, key: bytes, *, longest_name: int | None = None) -> None:
        """`longest_name` limits sealed names, where a column of the product does."""
        from cryptography.exceptions import InvalidTag

        self.ref = ref
        self._key = key
        self._wrong: type[Exception] = InvalidTag
        self._content = sealer(self._subkey("content"))
        self._longest_name = longest_name
        self._sealed_names: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def _subkey(self, purpose: str) -> bytes:
        return subkey(self._key, f"{purpose} {self.ref}")

    # Names

    @cached_property
    def _siv(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        return AESSIV(self._subkey("names 1") + self._subkey("names 2"))

    def name(self, given: str) -> str:
        known = self._sealed_names.get(given)
        if known is None:
            # A byte before it, because an empty name cannot be sealed.
            raw = self._siv.encrypt(b"n" + given.encode("utf-8", "surrogatepass"), None)
            known = urlsafe_b64encode(raw).rstrip(b"=").decode()
            if self._longest_name is not None and len(known) > self._longest_name:
                raise InvalidInput(
                    "name", "must be shorter: at most 750 bytes of UTF-8 while keys are on"
                )
            self._remember(given, known)
        return known

    def open_name(self, kept: str) -> str:
        known = self._names.get(kept)
        if known is None:
            try:
                raw = urlsafe_b64decode(kept + "=" * (-len(kept) % 4))
                known = self._siv.decrypt(raw, None)[1:].decode("utf-8", "surrogatepass")
            except (ValueError, self._wrong) as error:
                raise damaged(b"a name") from error
            self._remember(known, kept)
        return known

    def _remember(self, given: str, kept: str) -> None:
        if len(self._names) >= _MOST_NAMES:
            self._names, self._sealed_names = {}, {}
        self._sealed_names[given] = kept
        self._names[kept] = given

    @cached_property
    def _block(self) -> Any:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        # Each digest is one block, and random: a mode of operation would add nothing.
        return Cipher(algorithms.AES(self._subkey("digests")), modes.ECB())  # noqa: S305

    def digest(self, given: bytes) -> bytes:
        return bytes(self._block.encryptor().update(given))

    def open_digest(self, kept: bytes) -> bytes:
        return bytes(self._block.decryptor().update(kept))

    @cached_property
    def _fingerprints(self) -> bytes:
        return self._subkey("fingerprints")

    def fingerprint(self, given: bytes) -> bytes:
        return hmac(self._fingerprints, given, "sha256")[: len(given)]

    # Values

    def data(self, column: bytes, row: RowId, given: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        sealed: bytes = self._content.encrypt(nonce, given, _place(column, row))
        return nonce + sealed

    def open_data(self, column: bytes, row: RowId, kept: bytes) -> bytes:
        try:
            opened: bytes = self._content.decrypt(kept[:_NONCE], kept[_NONCE:], _place(column, row))
        except (ValueError, self._wrong) as error:
            raise damaged(column) from error
        return opened

    def text(self, column: bytes, row: RowId, given: str) -> str:
        sealed = self.data(column, row, given.encode("utf-8", "surrogatepass"))
        return _TEXT + urlsafe_b64encode(sealed).decode()

    def open_text(self, column: bytes, row: RowId, kept: str) -> str:
        if not kept.startswith(_TEXT):
            return kept
        try:
            sealed = urlsafe_b64decode(kept[1:])
        except ValueError as error:
            raise damaged(column) from error
        return self.open_data(column, row, sealed).decode("utf-8", "surrogatepass")

    def encode(self, column: bytes, row: RowId, value: Any) -> tuple[int, bytes]:
        return self.seal(column, row, *codec.encode(value))

    def seal(self, column: bytes, row: RowId, mark: int, payload: bytes) -> tuple[int, bytes]:
        """The codec number and payload of one that is not sealed."""
        return mark + SEALED, self.data(_with_codec(column, mark), row, payload)

    def open(
        self, column: bytes, row: RowId, mark: int | None, payload: bytes
    ) -> tuple[int | None, bytes]:
        if mark is None or mark < SEALED:
            return mark, payload
        mark -= SEALED
        return mark, self.open_data(_with_codec(column, mark), row, payload)

    # Recall rows

    def recall_row(self, row: dict[str, Any]) -> dict[str, Any]:
        speaker, terms, vector = row["speaker"], row["terms"], row.get("vector") or b""
        told, size = b"", len(speaker)
        if row["told"]:
            told, size = _TOLD.pack(row["told"]), size | _HAS_TOLD
        head = _HEAD.pack(row["flags"], size, len(terms))
        plain = b"".join((head, told, speaker, terms, vector))
        blob = _ROW + self.data(RECALL, row["seq"], plain)
        # No vector, if the row has none yet: `put_vectors` must then find the column.
        hidden: dict[str, Any] = {"flags": 0, "told": 0, "speaker": b"", "terms": blob}
        return row | hidden | ({"vector": None} if "vector" in row else {})

    def open_recall_row(self, row: dict[str, Any]) -> dict[str, Any]:
        if not is_sealed_row(row["terms"]):
            return row
        opened = self.open_telling(row["seq"], row["terms"])
        return row | dict(zip(_TELLING, opened, strict=True))

    def open_telling(self, seq: int, blob: bytes) -> tuple[int, int, bytes, bytes, bytes | None]:
        """Flags, told, speaker, terms and vector from the sealed terms of a recall row."""
        return _told_apart(self.open_data(RECALL, seq, bytes(blob[1:])))

    def open_recall_rows(self, rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        decrypt, place = self._content.decrypt, RECALL + b"\0"
        opened = []
        try:
            for row in rows:
                seq, blob = row[0], bytes(row[8])
                if blob[:1] != _ROW:
                    opened.append(row)
                    continue
                plain = decrypt(blob[1:13], blob[13:], place + b"%d" % seq)
                *telling, vector = _told_apart(plain)
                opened.append((*row[:5], *telling, row[9], vector))
        except (ValueError, self._wrong) as error:
            raise damaged(RECALL) from error
        return opened


def _told_apart(plain: bytes) -> tuple[int, int, bytes, bytes, bytes | None]:
    """Flags, told, speaker, terms and vector of an opened recall row."""
    flags, size, terms_size = _HEAD.unpack_from(plain)
    told, start = 0, _HEAD.size
    if size & _HAS_TOLD:
        [told] = _TOLD.unpack_from(plain, start)
        start, size = start + _TOLD.size, size ^ _HAS_TOLD
    middle = start + size
    end = middle + terms_size
    return flags, told, plain[start:middle], plain[middle:end], plain[end:] or None


def is_sealed_row(terms: bytes) -> bool:
    return bytes(terms[:1]) == _ROW


def _with_codec(column: bytes, mark: int) -> bytes:
    return column + b" %d" % mark


def _place(column: bytes, row: RowId) -> bytes:
    if isinstance(row, UUID):
        return column + b"\0" + row.bytes
    if isinstance(row, bytes):
        return column + b"\0" + row
    return column + b"\0" + (b"%d" % row if isinstance(row, int) else row.encode())
