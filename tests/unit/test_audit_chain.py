"""The audit log's hash chain detects every kind of tampering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from octopus_memory.domain.audit import (
    GENESIS,
    AuditDraft,
    AuditEntry,
    AuditHead,
    chained,
    check,
    check_end,
    subject_hash,
)

AT = datetime(2025, 3, 14, 9, 0, tzinfo=UTC)


def log(length: int = 6) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    for number in range(length):
        draft = AuditDraft(
            tenant="acme",
            at=AT,
            actor="tester",
            action="erase",
            subject="5e",
            detail={"n": number, "deep": {"b": 1, "a": [2]}},
        )
        previous = entries[-1].hash if entries else GENESIS
        entries.append(chained(draft, seq=number + 1, previous=previous))
    return entries


def ends(entries: list[AuditEntry]) -> AuditHead:
    return AuditHead(seq=entries[-1].seq, hash=entries[-1].hash)


def test_an_untouched_log_is_whole():
    entries = log()
    found = check_end(check(entries), ends(entries))
    assert found.is_whole
    assert (found.entries, found.head, found.broken_at) == (6, entries[-1].hash.hex(), None)
    assert check_end(check([]), AuditHead()).is_whole


CHANGES = {
    "at": AT.replace(year=2026),
    "actor": "another",
    "action": "export",
    "subject": None,
    "outcome": "failed",
    "detail": {"n": 3, "deep": {"b": 1, "a": [3]}},
    "tenant": "other",
    "seq": 9,
    "previous": bytes(32),
    "hash": bytes(32),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_any_field_is_seen(field: str):
    entries = log()
    entries[3] = replace(entries[3], **{field: CHANGES[field]})
    found = check(entries)
    assert (found.broken_at, found.entries, found.is_whole) == (4, 3, False)
    assert found.head == log()[2].hash.hex()


def hidden(entries: list[AuditEntry]) -> list[AuditEntry]:
    """Change an entry and recompute its hash; the next entry still reveals it."""
    changed = replace(entries[3], actor="another")
    entries[3] = chained(changed, seq=4, previous=entries[2].hash)
    return entries


TAMPERS: dict[str, tuple[Callable[[list[AuditEntry]], list[AuditEntry]], int]] = {
    "changed with its hash": (hidden, 5),
    "the first removed": (lambda e: e[1:], 1),
    "one removed": (lambda e: e[:2] + e[3:], 3),
    "one removed and renumbered": (
        lambda e: e[:2] + [replace(each, seq=each.seq - 1) for each in e[3:]],
        3,
    ),
    "two swapped": (lambda e: [e[0], e[2], e[1], *e[3:]], 2),
    "one put in twice": (lambda e: [*e[:3], e[2], *e[3:]], 4),
    "one forged in between": (
        lambda e: [*e[:3], chained(e[0], seq=4, previous=e[2].hash), *e[3:]],
        5,
    ),
}


@pytest.mark.parametrize("how", TAMPERS)
def test_tampering_is_seen(how: str):
    tamper, where = TAMPERS[how]
    assert check(tamper(log())).broken_at == where


def test_a_cut_at_the_end_is_seen_by_where_it_must_end():
    entries = log()
    assert check(entries[:4]).is_whole
    found = check_end(check(entries[:4]), ends(entries))
    assert (found.broken_at, found.entries) == (5, 4)
    assert check_end(check([]), ends(entries)).broken_at == 1


def test_surplus_entries_are_detected():
    entries = log()
    assert check_end(check(entries), ends(entries[:4])).broken_at == 5


def test_the_last_one_replaced_is_seen_by_where_it_must_end():
    entries = log()
    forged = [
        *entries[:5],
        chained(replace(entries[5], actor="x"), seq=6, previous=entries[4].hash),
    ]
    assert check(forged).is_whole
    assert check_end(check(forged), ends(entries)).broken_at == 6


def test_a_head_that_was_noted_proves_what_was_before_it():
    entries = log()
    noted = entries[3].hash.hex()
    assert check(entries, known=noted).knows_head is True
    # The whole chain made anew without the third: it is in order, and not what was noted.
    anew: list[AuditEntry] = []
    for entry in entries[:2] + entries[3:]:
        previous = anew[-1].hash if anew else GENESIS
        anew.append(chained(entry, seq=len(anew) + 1, previous=previous))
    found = check_end(check(anew, known=noted), ends(anew))
    assert (found.broken_at, found.knows_head, found.is_whole) == (None, False, False)
    assert check(entries).knows_head is None
    assert check(entries[:3], known=noted).is_whole is False
    assert check([], known=GENESIS.hex()).is_whole


def test_a_subject_is_told_from_any_other():
    salt = b"s" * 32
    made = {
        subject_hash(salt, "user", "acme", "ana"),
        subject_hash(salt, "user", "acm", "eana"),
        subject_hash(salt, "user", "acmeana", ""),
        subject_hash(salt, "user", "acme", "Ana"),
        subject_hash(b"t" * 32, "user", "acme", "ana"),
        subject_hash(salt, "user", "acme"),
    }
    assert len(made) == 6
    assert all(len(each) == 64 for each in made)
    assert subject_hash(salt, "user", "acme", "ana") in made
