"""The keys of scopes that a process holds in memory, and the seals of a connection that use them.

A transaction never asks the key store, because it would hold locks and a connection meanwhile. It
raises `KeysNeeded`, is rolled back, and runs again when the keys were fetched.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hmac import digest as hmac
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from ....domain.episode import Scope
from ....domain.errors import KeyDestroyed, KeyMissing, StoreCorrupt
from ....domain.ids import length_prefixed
from ....ports.scope_keys import Destroyed, ScopeKeys
from .lazy import Connection
from .scope_seals import SEALED, ScopeSeal, damaged, sealer, subkey
from .seals import PLAIN, USER, Seal, Seals

T = TypeVar("T")
_MOST = 10_000
_SALT_SIZE = 32
_NONCE = 12
_ALIKE_SECONDS = 2.0
"""Seconds that the number of a scope is taken for known by its names."""
_LOST_SECONDS = 5.0
"""Seconds until a key that was missing is asked for again."""


class KeysNeeded(Exception):
    """Keys that a transaction needs are not in memory."""

    def __init__(self, refs: Collection[str] = (), *, new: int = 0) -> None:
        super().__init__()
        self.refs = list(refs)
        self.new = new


class Place(NamedTuple):
    """What a scope's row says of its key."""

    id: int
    scope: Scope
    """Its user as the row has it."""
    ref: str | None
    sealed_user: bytes | None


@dataclass(slots=True)
class Held:
    """What one call holds until it ends, however often its transaction runs."""

    seals: dict[str, ScopeSeal | KeyMissing] = field(default_factory=dict)
    spares: list[ScopeSeal] = field(default_factory=list)
    """Seals of new keys, for the scopes that the call creates."""
    places: dict[int, Place] = field(default_factory=dict)
    """Found by the transaction; other calls may use them when it has ended well."""
    used: int = 0
    """Spares that the transaction has used."""


class KeyRing:
    """Keys in memory, for `seconds` at the longest. Thread-safe."""

    def __init__(
        self,
        keys: ScopeKeys,
        *,
        seconds: float = 60,
        clock: Callable[[], float] = time.monotonic,
        begin: Callable[[], object] = lambda: None,
    ) -> None:
        """`begin` is called before a database is sealed with these keys for the first time."""
        self.keys = keys
        self.begin = begin
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._seals: dict[str, tuple[float, ScopeSeal | KeyMissing]] = {}
        self._spares: list[ScopeSeal] = []
        self._places: dict[int, Place] = {}
        self._numbers: dict[Scope, tuple[float, int]] = {}
        self._drops = 0
        self._local = threading.local()
        self._names: bytes | None = None
        self.user_hash = lru_cache(maxsize=_MOST)(self._user_hash)
        self.is_all_sealed = False
        """True if every scope of the database has a key."""
        self.longest_name: int | None = None

    # The installation's key

    @property
    def name_key(self) -> bytes:
        if self._names is None:
            self._names = self.keys.name_key()
        return self._names

    def fingerprint(self) -> bytes:
        """Tells this key store from another, and nothing else."""
        return hmac(subkey(self.name_key, "check"), b"octopus", "sha256")

    def _user_hash(self, tenant: str, user: str) -> str:
        names = length_prefixed(tenant, user)
        return hmac(subkey(self.name_key, "users"), names, "sha256").hex()[:43]

    def seal_salt(self, salt: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + bytes(sealer(subkey(self.name_key, "salt")).encrypt(nonce, salt, None))

    def open_salt(self, kept: bytes) -> bytes:
        if len(kept) <= _SALT_SIZE:
            return kept
        from cryptography.exceptions import InvalidTag

        try:
            opened = sealer(subkey(self.name_key, "salt")).decrypt(
                kept[:_NONCE], kept[_NONCE:], None
            )
        except InvalidTag:
            raise damaged(b"meta.value") from None
        return bytes(opened)

    # Calls

    def run(self, attempt: Callable[[], T]) -> T:
        """Run a transaction, again with the keys that it lacked."""
        outer = getattr(self._local, "held", None)
        held = self._local.held = Held()
        try:
            while True:
                try:
                    done = attempt()
                except KeysNeeded as needed:
                    self._fetch(needed, held)
                else:
                    self._keep(held)
                    return done
        finally:
            self._local.held = outer
            self._correct(held)

    @property
    def held(self) -> Held:
        """What the present call of this thread holds."""
        held: Held = self._local.held
        return held

    def _correct(self, held: Held) -> None:
        """Forget numbers that turned out to be others now, and keys whose time is over."""
        now = self._clock()
        with self._lock:
            for place in held.places.values():
                known = self._numbers.get(place.scope)
                if known is not None and known[1] != place.id:
                    del self._numbers[place.scope]
            # The first is the oldest.
            while self._seals and next(iter(self._seals.values()))[0] < now:
                del self._seals[next(iter(self._seals))]

    def _fetch(self, needed: KeysNeeded, held: Held) -> None:
        while len(held.spares) < needed.new:
            held.spares.append(self._new_seal())
        refs = [ref for ref in needed.refs if ref not in held.seals]
        if not refs:
            return
        drops = self._drops
        found = self.keys.get(refs)
        gone = self.keys.destroyed([ref for ref in refs if ref not in found])
        now = self._clock()
        for ref in refs:
            seal: ScopeSeal | KeyMissing
            seconds = self._seconds
            if ref in found:
                seal = ScopeSeal(ref, found[ref], longest_name=self.longest_name)
            else:
                seal = _missing(ref, destroyed=ref in gone)
                seconds = min(seconds, _LOST_SECONDS)
            held.seals[ref] = seal
            with self._lock:
                if drops == self._drops:
                    _put(self._seals, ref, (now + seconds, seal))

    def _new_seal(self) -> ScopeSeal:
        with self._lock:
            if self._spares:
                return self._spares.pop()
        ref = str(uuid4())
        return ScopeSeal(ref, self.keys.create(ref), longest_name=self.longest_name)

    def _keep(self, held: Held) -> None:
        """Keep what a call found, now that its transaction has ended well."""
        now = self._clock()
        with self._lock:
            for place in held.places.values():
                # Without a key it may get one any time, by `encrypt`.
                if place.ref is not None:
                    _put(self._places, place.id, place)
                    _put(self._numbers, place.scope, (now + _ALIKE_SECONDS, place.id))
            for seal in held.spares[: held.used]:
                _put(self._seals, seal.ref, (now + self._seconds, seal))
            # Only here: a call that failed may still be committed by another thread. And not those
            # that an earlier attempt has bound to a user.
            self._spares += [each for each in held.spares[held.used :] if each.user is None]

    def destroy(self, refs: Sequence[str]) -> Destroyed:
        self._drop(refs)
        try:
            return self.keys.destroy(refs)
        finally:
            self._drop(refs)

    def _drop(self, refs: Sequence[str]) -> None:
        with self._lock:
            # What is being fetched meanwhile may be one of them.
            self._drops += 1
            self._numbers.clear()
            for ref in refs:
                self._seals.pop(ref, None)

    # What a transaction asks

    def seal(self, ref: str, held: Held) -> ScopeSeal | KeyMissing | None:
        """The seal of a key, or why there is none; None if it must be fetched."""
        if ref in held.seals:
            return held.seals[ref]
        known = self._seals.get(ref)
        if known is None or known[0] < self._clock():
            return None
        held.seals[ref] = known[1]
        return known[1]

    def place(self, scope_id: int, held: Held) -> Place | None:
        return held.places.get(scope_id) or self._places.get(scope_id)

    def forget_place(self, scope_id: int) -> bool:
        """Read a scope's row again the next time; False if it was not known."""
        with self._lock:
            return self._places.pop(scope_id, None) is not None

    def number(self, scope: Scope, held: Held) -> int | None:
        """A scope's number, by the names of its row."""
        mine = [place.id for place in held.places.values() if place.scope == scope]
        if mine:
            return max(mine)
        until, number = self._numbers.get(scope, (0.0, None))
        return number if number is not None and self._clock() < until else None


def _put(kept: dict[Any, Any], name: Any, value: Any) -> None:
    # Moved to the end, so that the first is the oldest.
    kept.pop(name, None)
    kept[name] = value
    if len(kept) > _MOST:
        del kept[next(iter(kept))]


def _missing(ref: str, *, destroyed: bool) -> KeyMissing:
    if destroyed:
        return KeyDestroyed(
            f"the key {ref} of this user's memory was destroyed by an erasure: what is stored "
            "here cannot be read any more. Erase the user to remove it"
        )
    return KeyMissing(
        f"the key {ref} of this user's memory is missing: restore the key store from its backup, "
        "or erase the user"
    )


class ScopeSeals(Seals):
    """The seals of one transaction."""

    are_on = True

    def __init__(self, conn: Connection, ring: KeyRing, held: Held) -> None:
        self._conn = conn
        self._ring = ring
        self._held = held
        # An earlier attempt was rolled back.
        held.places, held.used = {}, 0

    def of(self, scope_id: int) -> Seal:
        place = self._place(scope_id)
        try:
            return PLAIN if place is None else self._seal_of(place)
        except KeyMissing:
            # Its row may be gone since it was read: then nothing of it is sealed or opened.
            if self._ring.forget_place(scope_id) and self._place(scope_id) is None:
                return PLAIN
            raise

    def find(self, scope: Scope) -> Seal:
        kept = Scope(
            tenant=scope.tenant, agent=scope.agent, user=self.user(scope.tenant, scope.user)
        )
        number = self._ring.number(kept, self._held)
        if number is not None:
            return self.of(number)
        from .statements import scopes

        found = [self._note(row) for row in scopes.rows_of_names(self._conn, kept)]
        return self._seal_of(found[0]) if found else PLAIN

    def readable(self, scope_ids: Collection[int]) -> Collection[int]:
        places = self._places(scope_ids)
        self._fetch({place.ref for place in places})
        lost = {place.id for place in places if self._is_lost(place)}
        return [each for each in scope_ids if each not in lost]

    def fetch(self, scope_ids: Collection[int], refs: Collection[str | None] = ()) -> None:
        self._fetch({*refs, *(place.ref for place in self._places(scope_ids))})

    def _fetch(self, refs: Collection[str | None]) -> None:
        known = [ref for ref in refs if ref is not None]
        missing = [ref for ref in known if self._ring.seal(ref, self._held) is None]
        if missing:
            raise KeysNeeded(missing)

    def _is_lost(self, place: Place) -> bool:
        try:
            self._seal_of(place)
        except KeyMissing:
            return True
        return False

    def user(self, tenant: str, user: str) -> str:
        hashed = self._ring.user_hash(tenant, user)
        if self._ring.is_all_sealed:
            return hashed
        from .statements import scopes

        known = scopes.user_forms(self._conn, tenant, hashed, user)
        return user if known == {user} else hashed

    def new_user(self, tenant: str, user: str) -> str:
        if not self._ring.is_all_sealed:
            # `encrypt` must not seal the user, or find that all are sealed, before this commits.
            from .statements import meta

            meta.get(self._conn, meta.KEYS, keep=True)
        return self.user(tenant, user)

    def hashed_user(self, tenant: str, user: str) -> str:
        return self._ring.user_hash(tenant, user)

    def user_of(self, scope_id: int, kept: str) -> str:
        return self.of(scope_id).user or kept

    def new_scope(self, scope: Scope) -> dict[str, Any]:
        names = super().new_scope(scope)
        user = self.new_user(scope.tenant, scope.user)
        if user == scope.user:
            # All scopes of a user are sealed at once, by `encrypt`.
            return names
        ref, seal = self.new_key()
        sealed = seal.data(USER, ref, scope.user.encode("utf-8", "surrogatepass"))
        return names | {"user": user, "key_ref": ref, "sealed_user": sealed}

    def new_key(self) -> tuple[str, ScopeSeal]:
        held = self._held
        if held.used >= len(held.spares):
            raise KeysNeeded(new=held.used + 1)
        seal = held.spares[held.used]
        held.used += 1
        held.seals[seal.ref] = seal
        return seal.ref, seal

    def by_ref(self, ref: str | None) -> Seal:
        return PLAIN if ref is None else self._seal(ref)

    def key_of(self, scope_id: int) -> str | None:
        place = self._place(scope_id)
        return None if place is None else place.ref

    def salt(self, kept: bytes) -> bytes:
        return self._ring.open_salt(kept)

    def sealed_salt(self, salt: bytes) -> bytes:
        return self._ring.seal_salt(salt)

    def open_many(
        self,
        column: bytes,
        scope_ids: Sequence[int],
        rows: Sequence[Any],
        marks: Sequence[Any],
        payloads: Sequence[bytes],
    ) -> tuple[Sequence[Any], Sequence[bytes]]:
        if all(mark is None or mark < SEALED for mark in marks):
            return marks, payloads
        self.fetch(set(scope_ids))
        seals = {each: self.of(each) for each in set(scope_ids)}
        opened = [
            seals[scope_id].open(column, row, mark, payload)
            for scope_id, row, mark, payload in zip(scope_ids, rows, marks, payloads, strict=True)
        ]
        return [mark for mark, _ in opened], [payload for _, payload in opened]

    def _seal_of(self, place: Place) -> Seal:
        if place.ref is None:
            return PLAIN
        seal = self._seal(place.ref)
        if seal.user is None and place.sealed_user is not None:
            try:
                user = seal.open_data(USER, place.ref, place.sealed_user)
            except StoreCorrupt:
                raise KeyMissing(
                    f"the key {place.ref} is not the one that sealed this user's memory: restore "
                    "the key store from its backup"
                ) from None
            seal.user = user.decode("utf-8", "surrogatepass")
        return seal

    def _seal(self, ref: str) -> ScopeSeal:
        seal = self._ring.seal(ref, self._held)
        if seal is None:
            raise KeysNeeded([ref])
        if isinstance(seal, KeyMissing):
            raise type(seal)(str(seal))
        return seal

    def _place(self, scope_id: int) -> Place | None:
        known = self._ring.place(scope_id, self._held)
        if known is not None and known.ref is not None:
            return known
        found = self._places([scope_id])
        return found[0] if found else None

    def _places(self, scope_ids: Collection[int]) -> list[Place]:
        from .statements import scopes

        known = [self._ring.place(each, self._held) for each in scope_ids]
        places = [place for place in known if place is not None and place.ref is not None]
        missing = sorted(set(scope_ids) - {place.id for place in places})
        if missing:
            places += map(self._note, scopes.rows_of_ids(self._conn, missing))
        return places

    def _note(self, row: Any) -> Place:
        scope = Scope(tenant=row.tenant, agent=row.agent, user=row.user)
        sealed = None if row.sealed_user is None else bytes(row.sealed_user)
        place = Place(row.id, scope, row.key_ref, sealed)
        self._held.places[row.id] = place
        return place
