"""Agents' stored settings, for one tenant or for every tenant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..domain.message import Json

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft


class AgentSettings(NamedTuple):
    """An agent's stored settings, as one read saw them; None where there are none."""

    for_all: Mapping[str, Json] | None
    """For every tenant."""
    own: Mapping[str, Json] | None
    """For one tenant; overrides `for_all`."""
    version: str
    """Changes whenever either of them changes."""


class AgentConfigs(ABC):
    """Agents' settings."""

    @abstractmethod
    def config(self, tenant: str | None, agent: str) -> AgentSettings:
        """The agent's settings for this tenant (None for no tenant) and for every tenant."""

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
        """Replace an agent's settings for one tenant, or for every tenant; None removes them.

        An `entry` for the audit log is recorded in the same transaction.

        :raises SettingsChanged: when `seen` is given and is not the current version
        """

    @abstractmethod
    def configs(self) -> dict[tuple[str | None, str], Mapping[str, Json]]:
        """Every stored setting, by tenant (None for every tenant) and agent."""
