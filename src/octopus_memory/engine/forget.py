"""The call of a scope that forgets what a user said about something."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, overload
from uuid import UUID

from ..domain.episode import Scope, Turn
from ..domain.facts import Fact
from ..domain.forget import check_forget
from .core.runtime import Runtime

if TYPE_CHECKING:
    from ..domain.forget import ForgetPreview, ForgetReceipt
    from .memory import Memory


class ForgetCalls(ABC):
    """The call of `MemoryScope` that forgets."""

    scope: Scope
    _actor: str
    _memory: Memory

    @property
    @abstractmethod
    def _runtime(self) -> Runtime: ...

    @abstractmethod
    def _reading(self, action: str) -> AbstractContextManager[Runtime]: ...

    @overload
    def forget(
        self,
        about: str | None = None,
        *,
        turns: Collection[Turn | UUID | str] = (),
        facts: Collection[Fact | UUID | str] = (),
        actor: str | None = None,
    ) -> ForgetPreview: ...

    @overload
    def forget(self, *, confirm: str, actor: str | None = None) -> ForgetReceipt: ...

    def forget(
        self,
        about: str | None = None,
        *,
        turns: Collection[Turn | UUID | str] = (),
        facts: Collection[Fact | UUID | str] = (),
        confirm: str | None = None,
        actor: str | None = None,
    ) -> ForgetPreview | ForgetReceipt:
        """Preview what the user said about something, or with `confirm` remove what was previewed.

        A preview finds the turns, sentences, facts and lines of summaries that are clearly about
        `about`, and adds the `turns` and `facts` that are named. It removes nothing. Its `token`
        can be confirmed once, within an hour, and removes exactly its items, from rows, caches and
        files. Without a clear match there is no token: `items` are then what may be meant.

        :raises NotFound: for a token, a turn or a fact that this scope does not have
        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """
        from .privacy import forget

        check_forget(about, turns, facts, confirm)
        if confirm is not None:
            receipt = forget.confirm(self._runtime, self.scope, confirm, actor=actor or self._actor)
            self._memory.wake()
            return receipt
        with self._reading("forget") as runtime:
            return forget.preview(runtime, self.scope, about, turns=turns, facts=facts)
