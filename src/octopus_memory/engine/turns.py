"""The calls of a scope about single turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope, Turn
from ..domain.ids import as_id
from .core.runtime import Runtime

if TYPE_CHECKING:
    from .memory import Memory


class TurnCalls(ABC):
    """The calls of `MemoryScope` about single turns."""

    scope: Scope
    _actor: str
    _memory: Memory

    @property
    @abstractmethod
    def _runtime(self) -> Runtime: ...

    @abstractmethod
    def _reading(self, action: str) -> AbstractContextManager[Runtime]: ...

    def turn(self, turn_id: Turn | UUID | str) -> Turn | None:
        """Return one turn by its id; None if this scope has no such turn.

        It reads the ids of all turns of the scope, because turns are stored by their place.
        """
        found = as_id("turn_id", turn_id, Turn)
        with self._reading("turn") as runtime:
            return None if found is None else runtime.store.turn(self.scope, found)

    def remove_turns(
        self,
        session_id: str,
        *,
        ids: Sequence[Turn | UUID | str] | None = None,
        last: int | None = None,
        physical: bool = False,
        actor: str | None = None,
    ) -> list[Turn]:
        """Remove turns of a session permanently, in one transaction, and return them in order.

        Choose them by `ids`, of which unknown ones are ignored, or take the `last` ones of the
        replay. Their vectors, terms and facts are removed, too, and an ended episode is summarized
        again from the remaining turns. With `physical` the files are rewritten now, otherwise by
        the next retention run or `Memory.compact`.

        :raises SessionNotFound: for a session that is not in this scope
        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """
        from .privacy import remove_turns

        removed = remove_turns.remove_turns(
            self._runtime,
            self.scope,
            session_id,
            ids=ids,
            last=last,
            physical=physical,
            actor=actor or self._actor,
        )
        self._memory.wake()
        return removed
