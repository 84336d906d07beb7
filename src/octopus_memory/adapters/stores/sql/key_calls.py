"""Calls of a store that ask the key store: erasure, sealing an older database, and comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ....domain.errors import InvalidSetting, KeyUnavailable, StoreError
from . import statements
from .binding import of_user
from .transactions import Every, KeptPerson, Transactions

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft
    from ....domain.erasure import ErasedCopies, Erasure, Subject
    from ....ports.admin import KeyGaps
    from ....ports.scope_keys import ScopeKeys

_COMPARED = 1_000
"""Scopes whose keys are compared with the key store; a restored one lacks the newest."""


class KeyCalls(Transactions):
    """The part of a store that creates and destroys keys. Without them, `erase` removes rows."""

    def erase(self, subject: Subject, erasure: Erasure, entry: AuditDraft) -> Erasure:
        do, reach = statements.erasure, of_user(subject)
        is_whole = subject.episode_id is None and subject.session_id is None
        if self._ring is not None and is_whole:
            begun = self._write(reach, do.begin, subject, erasure)
            if begun is not None:
                with suppress(KeyUnavailable):
                    # The rows go all the same; `shred` destroys the keys later.
                    self._ring.destroy(begun.key_refs)
                try:
                    return self._write(reach, do.remove_rows, begun)
                except StoreError:
                    # The keys are gone: it is pending now, and the worker finishes it.
                    return begun
        return self._write(reach, do.erase, subject, erasure, entry)

    def shred(self, erasure: Erasure) -> tuple[Erasure, ErasedCopies | None]:
        if self._ring is None:
            return erasure, None
        from ....domain.erasure import ErasedCopies

        copies = ErasedCopies()
        if erasure.key_refs:
            at, until = self._ring.destroy(erasure.key_refs)
            if erasure.was_sealed:
                copies = ErasedCopies(unreadable_since=at, keys_kept_until=until)
        if erasure.keeps_rows:
            do = statements.erasure.remove_rows
            tenant = erasure.tenant
            # The subject is not known any more, and its rows are those of one user.
            user = self._read(tenant, statements.scopes.kept_user, erasure.scope_ids)
            reach = tenant if user is None else KeptPerson(tenant, user)
            erasure = self._write(reach, do, erasure)
        return erasure, copies

    @property
    def has_keys(self) -> bool:
        return self._ring is not None

    def unsealed(self) -> int:
        return self._read(Every.TENANT, statements.encrypt.left) if self.has_keys else 0

    def ask_keys(self) -> bool:
        if self._ring is None:
            return False
        # The ring may still hold keys of a key store that is down.
        self._ring.keys.name_key()
        return True

    def key_gaps(self) -> KeyGaps:
        from ....ports.admin import KeyGaps

        if self._ring is None:
            return KeyGaps()
        keys, do = self._ring.keys, statements.scopes
        used = self._read(Every.TENANT, do.newest_keys, _COMPARED)
        there = keys.get(used)
        lost = [ref for ref in used if ref not in there]
        # An erasure that is not finished has destroyed the keys of rows that are still there.
        missing = len(lost) - len(keys.destroyed(lost))
        return KeyGaps(self.unsealed(), missing, tuple(self._returned(keys, _COMPARED)))

    def _returned(self, keys: ScopeKeys, most: int | None = None) -> list[str]:
        erased = self._read(Every.TENANT, statements.erasure.erasures, limit=most)
        return list(keys.get([ref for each in erased for ref in each.key_refs]))

    def destroy_returned(self) -> int:
        refs = [] if self._ring is None else self._returned(self._ring.keys)
        if self._ring is not None and refs:
            self._ring.destroy(refs)
        return len(refs)

    def encrypt(self) -> Iterator[int]:
        do = statements.encrypt
        if self._ring is None:
            raise InvalidSetting("keys", "must be local or vault, to seal a database")
        # Read anew, because a process without keys may have written since.
        self._ring.is_all_sealed = False
        while True:
            while (number := self._read(Every.TENANT, do.next_scope)) is not None:
                position: Any = do.Position()
                while position is not None:
                    position, count = self._write(Every.TENANT, do.seal_some, number, position)
                    if count:
                        yield count
            person = self._read(Every.TENANT, do.next_person)
            if person is not None:
                self._write(Every.TENANT, do.begin, person)
            elif self._write(Every.TENANT, do.end):
                self._ring.is_all_sealed = True
                return

    def destroy_doomed(self) -> int:
        if self._ring is None:
            return 0
        refs = self._read(Every.TENANT, statements.scopes.doomed)
        if refs:
            self._ring.destroy(refs)
            self._write(Every.TENANT, statements.scopes.forget_doomed, refs)
        return len(refs)
