"""Conformance suite of key stores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from ..domain.errors import KeyDestroyed
from ..ports.scope_keys import KEY_BYTES, ScopeKeys

Connect = Callable[[], ScopeKeys]


def new_ref() -> str:
    return str(uuid4())


class ScopeKeysSuite:
    """Needs a fixture `connect`: each of its calls returns another client of one key store."""

    @pytest.fixture
    def connect(self) -> Connect:
        raise NotImplementedError("a suite of key stores needs a `connect` fixture")

    @pytest.fixture
    def keys(self, connect: Connect) -> ScopeKeys:
        return connect()

    def test_a_key_is_stable_for_every_client(self, connect: Connect, keys: ScopeKeys) -> None:
        ref = new_ref()
        key = keys.create(ref)
        assert len(key) == KEY_BYTES
        other = connect()
        assert other.create(ref) == other.get([ref])[ref] == keys.get([ref])[ref] == key

    def test_scopes_have_different_keys(self, keys: ScopeKeys) -> None:
        refs = [new_ref() for _ in range(5)]
        made = {ref: keys.create(ref) for ref in refs}
        assert len({*made.values(), keys.name_key()}) == 6
        assert keys.get(refs) == made

    def test_the_name_key_is_the_same_for_every_client(
        self, connect: Connect, keys: ScopeKeys
    ) -> None:
        assert len(keys.name_key()) == KEY_BYTES
        assert connect().name_key() == keys.name_key()

    def test_an_unknown_key_is_missing_from_the_answer(self, keys: ScopeKeys) -> None:
        ref = new_ref()
        keys.create(ref)
        assert set(keys.get([ref, new_ref()])) == {ref}
        assert keys.get([]) == {}

    def test_a_destroyed_key_is_gone_for_every_client(
        self, connect: Connect, keys: ScopeKeys
    ) -> None:
        kept, gone = new_ref(), new_ref()
        key = keys.create(kept)
        keys.create(gone)
        before = datetime.now(UTC)
        found = keys.destroy([gone])
        assert abs(found.at - before) < timedelta(seconds=30)
        for each in (keys, connect()):
            assert each.get([kept, gone]) == {kept: key}
            assert each.destroyed([kept, gone, new_ref()]) == {gone: found.at}

    def test_a_destroyed_key_never_comes_back(self, connect: Connect, keys: ScopeKeys) -> None:
        ref = new_ref()
        keys.create(ref)
        keys.destroy([ref])
        for each in (keys, connect()):
            with pytest.raises(KeyDestroyed):
                each.create(ref)
        assert keys.get([ref]) == {}

    def test_an_unknown_key_can_be_destroyed_and_is_not_created_after(
        self, connect: Connect, keys: ScopeKeys
    ) -> None:
        ref = new_ref()
        keys.destroy([ref])
        assert ref in keys.destroyed([ref])
        with pytest.raises(KeyDestroyed):
            connect().create(ref)

    def test_a_repeated_destruction_returns_the_first_time(
        self, connect: Connect, keys: ScopeKeys
    ) -> None:
        one, two = new_ref(), new_ref()
        keys.create(one)
        first = keys.destroy([one])
        assert keys.destroy([one]) == connect().destroy([one]) == first
        both = keys.destroy([one, two])
        assert both.at == keys.destroyed([two])[two] >= first.at
        assert keys.destroyed([one]) == {one: first.at}

    def test_it_says_how_long_a_copy_of_the_key_store_may_hold_a_key(self, keys: ScopeKeys) -> None:
        found = keys.destroy([new_ref()])
        assert found.copies_until is None or found.copies_until > found.at

    def test_threads_that_create_the_same_key_get_the_same_one(self, connect: Connect) -> None:
        ref = new_ref()
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda each: each.create(ref), [connect() for _ in range(8)]))
        assert len(set(made)) == 1

    def test_a_race_of_creation_and_destruction_ends_destroyed(
        self, connect: Connect, keys: ScopeKeys
    ) -> None:
        refs = [new_ref() for _ in range(4)]

        def create(ref: str) -> None:
            try:
                connect().create(ref)
            except KeyDestroyed:
                return

        with ThreadPoolExecutor(4) as pool:
            for ref in refs:
                made, gone = pool.submit(create, ref), pool.submit(keys.destroy, [ref])
                made.result()
                gone.result()
        assert keys.get(refs) == {}
        assert set(keys.destroyed(refs)) == set(refs)

    def test_a_sound_key_store_has_no_problem_and_says_where_it_is(self, keys: ScopeKeys) -> None:
        keys.create(new_ref())
        state = keys.check()
        assert list(state.problems) == []
        assert state.place
        assert state.master
        assert state.keys is None or state.keys >= 1

    def test_no_key_can_be_printed(self, keys: ScopeKeys) -> None:
        ref = new_ref()
        key = keys.create(ref)
        texts = (repr(key), str(key), repr(keys.get([ref])), repr(keys), repr(vars(keys)))
        for text in (*texts, repr(keys.name_key()), repr(keys.check())):
            assert key.hex() not in text
            assert bytes(key).__repr__()[2:-1] not in text

    def test_closing_twice_is_allowed(self, keys: ScopeKeys) -> None:
        keys.create(new_ref())
        keys.close()
        keys.close()
