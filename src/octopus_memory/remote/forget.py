"""Forgetting, over HTTP."""

from __future__ import annotations

from collections.abc import Collection
from typing import overload
from uuid import UUID

from ..domain.checks import fact_id_of, turn_id_of
from ..domain.episode import Scope, Turn
from ..domain.facts import Fact
from ..domain.forget import ForgetPreview, ForgetReceipt, check_forget
from . import decode
from .transport import Transport, segment


class RemoteForget:
    """The call of `RemoteScope` that forgets."""

    scope: Scope
    _transport: Transport

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
        check_forget(about, turns, facts, confirm)
        path = f"/users/{segment(self.scope.user)}/forget"
        transport, whose = self._transport.acting(actor), {"agentId": self.scope.agent}
        if confirm is not None:
            # Not retried, because the token is gone after the first attempt.
            sent = transport.send(
                "POST", f"{path}/confirm", query=whose, body={"token": confirm}, safe=False
            )
            return decode.receipt(sent)
        body = {
            "about": about,
            "turnIds": [str(turn_id_of(each)) for each in turns],
            "factIds": [str(fact_id_of(each)) for each in facts],
        }
        found = transport.send("POST", path, query=whose, body=body, safe=True)
        return decode.forget_preview(found)
