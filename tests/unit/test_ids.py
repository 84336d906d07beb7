"""Ids: uniqueness, order and parsing."""

from __future__ import annotations

from uuid import RFC_4122

from octopus_memory.domain.ids import new_id, new_ids


def test_ids_are_in_the_order_they_were_made():
    made = [new_id(), *new_ids(5_000), new_id(), *new_ids(2), new_id()]
    assert made == sorted(set(made))
    assert {(each.version, each.variant) for each in made} == {(7, RFC_4122)}
