"""Changing and showing an agent's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...domain import config_layers
from ...domain.episode import check_name
from ...domain.errors import InvalidSetting, SettingsChanged
from ...domain.policy import ConfigPart, MemoryConfig
from ...ports.store import AgentSettings
from . import audit
from .runtime import Parts

_ATTEMPTS = 20
"""How often a change is made again because another caller changed the settings meanwhile."""


def configure(
    parts: Parts,
    agent: str,
    config: MemoryConfig | ConfigPart | Mapping[str, Any],
    *,
    tenant: str | None,
    actor: str,
) -> None:
    """Store what `config` sets, beside what is stored already."""
    _check_names(agent, tenant)
    change = config_layers.change_of(config)
    for _ in range(_ATTEMPTS):
        stored = parts.store.config(tenant, agent)
        here = stored.for_all if tenant is None else stored.own
        new = config_layers.changed(here or {}, change)
        after = stored._replace(for_all=new) if tenant is None else stored._replace(own=new)
        config_layers.resolved([*parts.layers(after).values()])
        if tenant is None:
            _check_tenants(parts, agent, after)
        try:
            parts.store.put_config(
                tenant, agent, new, entry=_entry(parts, agent, tenant, actor), seen=stored.version
            )
        except SettingsChanged:
            continue
        finally:
            parts.forget_configs()
        return
    raise SettingsChanged


def _check_tenants(parts: Parts, agent: str, after: AgentSettings) -> None:
    """Settings for every tenant must fit what single tenants have set above them."""
    for (tenant, theirs), own in parts.store.configs().items():
        if tenant is None or theirs != agent:
            continue
        try:
            config_layers.resolved([*parts.layers(after._replace(own=own)).values()])
        except InvalidSetting as error:
            problem = f"{error.problem} (beside the settings of tenant {tenant!r})"
            raise InvalidSetting(error.field, problem) from error


def reset(parts: Parts, agent: str, *, tenant: str | None, actor: str) -> None:
    """Remove what is stored."""
    _check_names(agent, tenant)
    parts.store.put_config(tenant, agent, None, entry=_entry(parts, agent, tenant, actor))
    parts.forget_configs()


def config(parts: Parts, agent: str, *, tenant: str | None) -> MemoryConfig:
    """The settings in force, read now: another process may have changed them."""
    _check_names(agent, tenant)
    return config_layers.resolved([*parts.layers(parts.store.config(tenant, agent)).values()])


def config_sources(parts: Parts, agent: str, *, tenant: str | None) -> dict[str, dict[str, str]]:
    """The layer that each value comes from."""
    _check_names(agent, tenant)
    set_in = parts.layers(parts.store.config(tenant, agent))
    # Stored settings that cannot be used have names that are not known.
    config_layers.resolved([*set_in.values()])
    return config_layers.sources(set_in)


def _check_names(agent: str, tenant: str | None) -> None:
    check_name("agent", agent)
    if tenant is not None:
        check_name("tenant", tenant, longest=100)


def _entry(parts: Parts, agent: str, tenant: str | None, actor: str) -> Any:
    owner = tenant or audit.INSTALLATION
    return audit.draft(parts, "configure", tenant=owner, actor=actor, agent=agent)
