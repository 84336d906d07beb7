"""Every column of a sealed database: what the reference does not call readable, nobody can read."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")

from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sql.migrate import VERSION_TABLE
from octopus_memory.adapters.stores.sql.scope_seals import SEALED
from tests.support import sealed_memory
from tests.support.paths import DOCS
from tests.support.sealed_memory import OTHER, VICTIM, WORD, open_memory

_EMPTY = (None, b"", "", "{}", 0)
"""Values that tell nothing."""


class Listed(NamedTuple):
    """What the reference says of a table's columns."""

    sealed: set[str]
    readable: set[str]


def listed() -> dict[str, Listed]:
    page = (DOCS / "reference" / "database.md").read_text()
    _, _, section = page.partition("\n## What scope keys seal\n")
    found = {}
    for row in re.findall(r"^\| `(octopus_\w+)` \| (.*?) \| (.*?) \|$", section, re.MULTILINE):
        found[row[0]] = Listed(*(set(re.findall(r"`(\w+)`", part)) for part in row[1:]))
    return found


def test_the_reference_lists_every_column_once():
    tables = {table.name: {column.name for column in table.c} for table in SCHEMA_TABLES}
    for name, (sealed, readable) in listed().items():
        assert not sealed & readable
        assert sealed | readable == tables.pop(name, {"version_num"}), name
    assert tables == {}


SCHEMA_TABLES = schema.metadata.sorted_tables


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The values of each column: of a sealed database, and of the same without keys."""
    folder = tmp_path_factory.mktemp("columns")
    found: dict[str, Any] = {}
    for name in ("plain", "sealed"):
        with pytest.MonkeyPatch.context() as patch:
            if name == "sealed":
                sealed_memory.use_keys(patch, folder / "keys")
            with open_memory(f"sqlite:///{folder}/{name}/memory.db") as memory:
                sealed_memory.fill(memory)
        found[name] = _read(folder / name / "memory.db")
    return found


def _read(path: Path) -> dict[tuple[str, str], set[Any]]:
    values: dict[tuple[str, str], set[Any]] = {}
    with closing(sqlite3.connect(path)) as conn:
        names = [*(table.name for table in SCHEMA_TABLES), VERSION_TABLE]
        for table in names:
            cursor = conn.execute(f"SELECT * FROM {table}")
            heads = [head[0] for head in cursor.description]
            rows = cursor.fetchall()
            assert rows or table in {"octopus_jobs", "octopus_work", "octopus_erasures"}, table
            for i, head in enumerate(heads):
                values[table, head] = {row[i] for row in rows if row[i] not in _EMPTY}
    return values


def test_what_is_not_listed_as_readable_is_sealed(columns: dict[str, Any]):
    readable = {(table, name) for table, each in listed().items() for name in each.readable}
    shared = {
        column
        for column, values in columns["sealed"].items()
        if column not in readable and values & columns["plain"][column]
    }
    assert shared == set()
    looks = {
        column: bad
        for column, values in columns["sealed"].items()
        if column not in readable and (bad := [each for each in values if not _is_sealed(each)])
    }
    assert looks == {}


def _is_sealed(value: Any) -> bool:
    """Whether a value looks like what a key made: a text of base64, or bytes without any text."""
    if isinstance(value, str):
        return re.fullmatch(r"~?[\w=-]{40,}", value) is not None
    if not isinstance(value, bytes):
        return False
    return len(value) >= 16 and not re.search(rb"[ -~]{16}", value)


def test_the_same_values_can_be_read_without_keys(columns: dict[str, Any]):
    """The test above would find what is readable: it does, where nothing is sealed."""
    sealed = {(table, name) for table, each in listed().items() for name in each.sealed}
    random = {"digest", "slot_digest", "fingerprint", "hash", "subject", "terms", "key_salts"}
    seen = {
        column
        for column in sealed
        if column[1] not in random and any(not _is_sealed(v) for v in columns["plain"][column])
    }
    assert {
        ("octopus_scopes", "user"),
        ("octopus_episodes", "session_id"),
        ("octopus_conversations", "metadata"),
        ("octopus_idempotency", "key"),
        ("octopus_holds", "reason"),
        ("octopus_keys", "user"),
        ("octopus_injected", "memories"),
        ("octopus_forget_previews", "chosen"),
    } <= seen


def test_no_column_has_a_word_or_a_name(columns: dict[str, Any]):
    told = [each.encode() for user in (VICTIM, OTHER) for each in (WORD[user], user.split("@")[0])]
    for column, values in columns["sealed"].items():
        for value in values:
            raw = value if isinstance(value, bytes) else str(value).encode()
            assert not any(each in raw for each in told), column
    plain = b"".join(str(each).encode() for values in columns["plain"].values() for each in values)
    assert all(each in plain for each in told)


def test_every_payload_is_marked_as_sealed(columns: dict[str, Any]):
    marks = {
        column: values
        for column, values in columns["sealed"].items()
        if column[1] in {"codec", "tool_codec", "summary_codec"}
    }
    assert len(marks) == 7
    for column, values in marks.items():
        assert values or column == ("octopus_turns_archive", "tool_codec"), column
        assert all(SEALED <= mark < SEALED + 64 for mark in values), column
