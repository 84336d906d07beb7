"""Sharing of facts: kinds of facts about a user that several agents of a tenant know together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from .episode import check_name
from .errors import InvalidSetting
from .facts import FactKind, check_kind
from .message import Json

TENANT_SETTINGS = ""
"""The agent under which a tenant's own settings are stored; no real agent is empty."""
SHARE_FACTS = "share_facts"
MOST_SHARING = 50
"""Maximum number of agents that share, because each context reads the facts of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSharing:
    """Facts of these kinds that one of these agents knows of a user are known to all of them."""

    kinds: tuple[FactKind, ...]
    agents: tuple[str, ...]

    @classmethod
    def of(cls, kinds: Collection[FactKind | str], agents: Collection[str]) -> Self:
        """Check what a caller gave.

        :raises InvalidSetting: for no kind, fewer than two agents or too many
        """
        for field, value in (("kinds", kinds), ("agents", agents)):
            if isinstance(value, str) or not isinstance(value, Collection):
                raise InvalidSetting(f"{SHARE_FACTS}.{field}", "must be a list")
        named = tuple(dict.fromkeys(check_name("agent", each) for each in agents))
        if not 2 <= len(named) <= MOST_SHARING:
            raise InvalidSetting(
                f"{SHARE_FACTS}.agents", f"must name 2 to {MOST_SHARING} agents, not {len(named)}"
            )
        if not kinds:
            raise InvalidSetting(f"{SHARE_FACTS}.kinds", "must name at least one kind of facts")
        known = {check_kind(each, f"{SHARE_FACTS}.kinds") for each in kinds}
        return cls(kinds=tuple(kind for kind in FactKind if kind in known), agents=named)

    def others(self, agent: str) -> tuple[str, ...]:
        """The agents that share with this one; none if it is not one of them."""
        return tuple(each for each in self.agents if each != agent) if agent in self.agents else ()

    def to_dict(self) -> dict[str, Json]:
        return {"kinds": [kind.value for kind in self.kinds], "agents": list(self.agents)}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Reverse of `to_dict`; kinds that this version does not know are left out."""
        known = {kind.value: kind for kind in FactKind}
        kinds = tuple(known[each] for each in kept["kinds"] if each in known)
        return cls(kinds=kinds, agents=tuple(kept["agents"]))
