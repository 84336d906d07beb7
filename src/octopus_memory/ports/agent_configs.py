"""The settings that are stored for agents, with one tenant or with every tenant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..domain.message import Json

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft


class AgentSettings(NamedTuple):
    """The settings stored for an agent, as one read saw them; None where there are none."""

    for_all: Mapping[str, Json] | None
    """With every tenant."""
    own: Mapping[str, Json] | None
    """With one tenant: what is set here counts before `for_all`."""
    version: str
    """Another text whenever either of them is another."""


class AgentConfigs(ABC):
    """The part of a store that keeps agents' settings."""

    @abstractmethod
    def config(self, tenant: str | None, agent: str) -> AgentSettings:
        """The agent's stored settings, for this tenant and for all; None asks for the latter."""

    @abstractmethod
    def put_config(
        self,
        tenant: str | None,
        agent: str,
        config: Mapping[str, Json] | None,
        *,
        entry: AuditDraft | None = None,
        seen: str | None = None,
    ) -> None:
        """Store an agent's settings for one tenant, or for every tenant; None removes them.

        They take the place of what was stored there. An `entry` for the audit log is recorded in
        the same transaction.

        :raises SettingsChanged: when `seen` is given and is not the agent's version any more
        """

    @abstractmethod
    def configs(self) -> dict[tuple[str | None, str], Mapping[str, Json]]:
        """Every stored setting, by tenant (None: every tenant) and agent."""
