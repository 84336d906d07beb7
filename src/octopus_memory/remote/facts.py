"""The calls about standing facts, over HTTP."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from ..domain.checks import check_flag, fact_id_of, kinds_of
from ..domain.episode import Scope
from ..domain.errors import FactNotFound
from ..domain.facts import Fact, FactKind, check_fact_text, check_given_slot, check_kind
from ..domain.message import Json
from . import decode, encode
from .transport import Transport, segment


class RemoteFacts:
    """The calls of `RemoteScope` about facts."""

    scope: Scope
    _transport: Transport

    def facts(
        self,
        *,
        as_of: datetime | None = None,
        kinds: Collection[FactKind | str] | None = None,
        history: bool = False,
    ) -> list[Fact]:
        check_flag("history", history)
        wanted = kinds_of(kinds)
        if wanted is not None and not wanted:
            return []
        query = self._whose | {
            "asOf": encode.time("as_of", as_of),
            "kind": None if wanted is None else sorted(kind.value for kind in wanted),
            "history": history,
        }
        return decode.facts(self._transport.get(self._path, query))

    def add_fact(
        self,
        text: str,
        kind: FactKind | str = "other",
        slot: str | None = None,
        *,
        pinned: bool = False,
        actor: str | None = None,
    ) -> Fact:
        check_flag("pinned", pinned)
        body: dict[str, Json] = {
            "text": check_fact_text("text", text),
            "kind": check_kind(kind).value,
            "slot": check_given_slot(slot),
            "pinned": pinned,
        }
        # Not retried, because a retry could store it twice.
        made = self._transport.acting(actor).send(
            "POST", self._path, query=self._whose, body=body, safe=False
        )
        return decode.fact(made)

    def correct_fact(
        self,
        fact_id: Fact | UUID | str,
        text: str,
        *,
        actor: str | None = None,
    ) -> Fact:
        # Not retried, because the corrected fact is history after the first attempt.
        return self._change(
            fact_id, {"text": check_fact_text("text", text)}, safe=False, actor=actor
        )

    def pin_fact(
        self,
        fact_id: Fact | UUID | str,
        *,
        pinned: bool = True,
        actor: str | None = None,
    ) -> Fact:
        check_flag("pinned", pinned)
        return self._change(fact_id, {"pinned": pinned}, safe=True, actor=actor)

    def delete_fact(
        self,
        fact_id: Fact | UUID | str,
        *,
        actor: str | None = None,
    ) -> None:
        path = f"{self._path}/{fact_id_of(fact_id)}"
        self._transport.acting(actor).send(
            "DELETE", path, query=self._whose, safe=True, done=FactNotFound
        )

    def _change(
        self,
        fact_id: Fact | UUID | str,
        body: dict[str, Json],
        *,
        safe: bool,
        actor: str | None,
    ) -> Fact:
        path, transport = f"{self._path}/{fact_id_of(fact_id)}", self._transport.acting(actor)
        return decode.fact(transport.send("PATCH", path, query=self._whose, body=body, safe=safe))

    @property
    def _path(self) -> str:
        return f"/users/{segment(self.scope.user)}/facts"

    @property
    def _whose(self) -> dict[str, Json]:
        return {"agentId": self.scope.agent}
