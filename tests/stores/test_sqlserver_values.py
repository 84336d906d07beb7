"""Ids, names and times as SQL Server keeps them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopus_memory.adapters.stores.sql import types
from octopus_memory.adapters.stores.sqlserver import binding
from octopus_memory.domain.errors import StoreCorrupt
from octopus_memory.domain.ids import new_id
from octopus_memory.testing.store.isolation import LOOK_ALIKES

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def by_the_server(value: UUID) -> bytes:
    """The bytes in the order that SQL Server compares them in, as `SqlGuid.CompareTo` does.

    The last group first, byte by byte; then the fourth; then the first three, from the third to
    the first, each as it lies in memory.
    """
    kept = value.bytes_le
    return bytes(kept[place] for place in (10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3))


@given(st.lists(st.uuids(), min_size=2))
def test_the_server_orders_ids_as_they_are_ordered_here(ids: list[UUID]) -> None:
    assert sorted(ids, key=lambda id_: by_the_server(types.to_sql_server(id_))) == sorted(ids)


def test_new_ids_go_to_the_end_of_an_index() -> None:
    made = [types.to_sql_server(new_id()) for _ in range(1_000)]
    assert all(by_the_server(a) < by_the_server(b) for a, b in pairwise(made))


def test_a_plain_uuid7_would_not() -> None:
    """What the exchange of bytes is for."""
    made = [new_id() for _ in range(1_000)]
    assert sorted(made, key=by_the_server) != made


@given(st.uuids())
def test_ids_come_back(id_: UUID) -> None:
    assert types.from_sql_server(types.to_sql_server(id_)) == id_


def test_the_id_that_stands_for_nothing_stays_itself() -> None:
    assert types.to_sql_server(UUID(int=0)) == UUID(int=0)


@given(names)
def test_names_come_back(name: str) -> None:
    assert types.unpack_name(types.pack_name(name)) == name


def _taken_as_equal(one: bytes, other: bytes) -> bool:
    """Bytes that differ in zeros at the end only are the same to SQL Server."""
    return one.rstrip(b"\0") == other.rstrip(b"\0")


@given(names, names)
def test_different_names_are_never_taken_as_equal(one: str, other: str) -> None:
    assert _taken_as_equal(types.pack_name(one), types.pack_name(other)) == (one == other)


def test_look_alikes_are_told_apart() -> None:
    kept = {types.pack_name(name).rstrip(b"\0") for name in LOOK_ALIKES}
    assert len(kept) == len(LOOK_ALIKES)


@given(st.lists(names))
def test_names_sort_by_their_characters(some: list[str]) -> None:
    assert sorted(some, key=types.pack_name) == sorted(some)


def test_no_name_sorts_before_every_other() -> None:
    """Settings for every tenant are looked for by it."""
    others = [chr(code) for code in range(0x250)]
    assert all(types.pack_name("") < types.pack_name(name) for name in others)


@pytest.mark.parametrize("name", ["\U0001f419" * 256, "\0" * 256, "\2" * 256, "x" * 256])
def test_every_name_fits_its_column(name: str) -> None:
    assert len(types.pack_name(name)) <= _column(types.Name()).length


def _column(kind: Any) -> Any:
    from sqlalchemy.dialects import mssql

    return kind.load_dialect_impl(mssql.dialect())


def test_a_text_too_long_for_a_page_is_kept_apart() -> None:
    assert _column(types.Name(2_000)).length is None


@pytest.mark.parametrize("kept", [b"", b"ana", b"\xff\1"])
def test_a_damaged_name_is_an_error(kept: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        types.unpack_name(kept)


def test_times_are_kept_in_utc() -> None:
    from sqlalchemy.dialects import mssql

    there = datetime(2025, 7, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    kept = types.UtcTime().process_bind_param(there, mssql.dialect())
    assert (kept, kept.utcoffset()) == (there, timedelta(0))


def test_random_bytes_are_not_what_the_order_rests_on() -> None:
    """Two ids of one millisecond differ in the bits beside it, which stay the more important."""
    first = UUID(int=(1_700_000_000_000 << 80) | (0x7001 << 64) | random.getrandbits(62))
    second = UUID(int=(1_700_000_000_000 << 80) | (0x7002 << 64) | random.getrandbits(62))
    kept = [by_the_server(types.to_sql_server(id_)) for id_ in (first, second)]
    assert kept == sorted(kept)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("VARBINARY(401)", (-3, 401, 0)),
        ("VARBINARY(max)", (-3, 0, 0)),
        ("NVARCHAR(16) COLLATE Latin1_General_BIN2", (-9, 16, 0)),
        ("NVARCHAR(max)", (-9, 0, 0)),
        ("DATETIMEOFFSET(6)", (-155, 33, 6)),
        ("DATETIMEOFFSET", (-155, 34, 7)),
        ("DATETIMEOFFSET(0)", (-155, 26, 0)),
        ("UNIQUEIDENTIFIER", (-11, 16, 0)),
        ("BIT", (-7, 1, 0)),
        ("FLOAT", None),
    ],
)
def test_a_type_is_declared_as_odbc_has_it(words: str, kind: tuple[int, int, int] | None) -> None:
    assert binding.declared(words) == kind


@pytest.mark.parametrize(
    ("words", "value", "kind"),
    [
        ("INTEGER", 2**31 - 1, "INTEGER"),
        ("INTEGER", 2**31, "BIGINT"),
        ("SMALLINT", -(2**15), "SMALLINT"),
        ("SMALLINT", -(2**15) - 1, "BIGINT"),
        ("NVARCHAR(4)", "four", "NVARCHAR(4)"),
        ("NVARCHAR(4)", "\U0001f419" * 2, "NVARCHAR(4)"),
        ("NVARCHAR(4)", "\U0001f419" * 3, "NVARCHAR(max)"),
        ("NVARCHAR(4)", "fives", "NVARCHAR(max)"),
        ("VARBINARY(4)", b"four", "VARBINARY(4)"),
        ("VARBINARY(4)", b"fives", "VARBINARY(max)"),
        ("VARBINARY(4)", None, "VARBINARY(4)"),
    ],
)
def test_a_value_too_large_for_its_column_gets_a_wider_type(
    words: str, value: Any, kind: str
) -> None:
    assert binding.bind(binding.declared(words), value) == (binding.declared(kind), value)


def test_values_without_a_type_are_declared_by_what_they_are() -> None:
    id_, now = new_id(), datetime.now(UTC)
    for value, kind, sent in (
        (True, "BIT", True),
        (1, "BIGINT", 1),
        ("x", "NVARCHAR(max)", "x"),
        (b"x", "VARBINARY(max)", b"x"),
        (id_, "UNIQUEIDENTIFIER", id_.bytes_le),
        (now, "DATETIMEOFFSET(6)", now),
        (None, "NVARCHAR(1)", None),
    ):
        assert binding.bind(None, value) == (binding.declared(kind), sent)
