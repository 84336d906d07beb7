"""Change and show an agent's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...domain import policy
from ...domain.episode import check_name
from ...domain.errors import InvalidSetting, SettingsChanged
from ...domain.policy import ConfigPart, MemoryConfig
from ...ports.admin import AgentSettings
from . import audit
from .runtime import Runtime

_ATTEMPTS = 20
"""Attempts to store a change, because another caller may change the settings meanwhile."""


def configure(
    runtime: Runtime,
    agent: str,
    config: MemoryConfig | ConfigPart | Mapping[str, Any],
    *,
    tenant: str | None,
    actor: str,
) -> None:
    """Store the settings that `config` sets; the others keep their stored values."""
    _check_names(agent, tenant)
    change = policy.change_of(config)
    for _ in range(_ATTEMPTS):
        stored = runtime.store.config(tenant, agent)
        here = stored.for_all if tenant is None else stored.own
        new = policy.changed(here or {}, change)
        after = stored._replace(for_all=new) if tenant is None else stored._replace(own=new)
        policy.resolved([*runtime.layers(after).values()])
        if tenant is None:
            _check_tenants(runtime, agent, after)
        try:
            runtime.store.put_config(
                tenant, agent, new, entry=_entry(runtime, agent, tenant, actor), seen=stored.version
            )
        except SettingsChanged:
            continue
        finally:
            runtime.clear_config_cache()
        return
    raise SettingsChanged


def _check_tenants(runtime: Runtime, agent: str, after: AgentSettings) -> None:
    """Check that settings for every tenant do not conflict with those of single tenants."""
    for (tenant, theirs), own in runtime.store.configs().items():
        if tenant is None or theirs != agent:
            continue
        try:
            policy.resolved([*runtime.layers(after._replace(own=own)).values()])
        except InvalidSetting as error:
            problem = f"{error.problem} (beside the settings of tenant {tenant!r})"
            raise InvalidSetting(error.field, problem) from error


def reset(runtime: Runtime, agent: str, *, tenant: str | None, actor: str) -> None:
    """Remove the stored settings."""
    _check_names(agent, tenant)
    runtime.store.put_config(tenant, agent, None, entry=_entry(runtime, agent, tenant, actor))
    runtime.clear_config_cache()


def config(runtime: Runtime, agent: str, *, tenant: str | None) -> MemoryConfig:
    """Read the effective settings from the store, because another process may have changed them."""
    _check_names(agent, tenant)
    return policy.resolved([*runtime.layers(runtime.store.config(tenant, agent)).values()])


def config_sources(
    runtime: Runtime, agent: str, *, tenant: str | None
) -> dict[str, dict[str, str]]:
    """Return the layer that each setting comes from."""
    _check_names(agent, tenant)
    set_in = runtime.layers(runtime.store.config(tenant, agent))
    # Invalid stored settings may have unknown names, so resolve them first.
    policy.resolved([*set_in.values()])
    return policy.sources(set_in)


def _check_names(agent: str, tenant: str | None) -> None:
    check_name("agent", agent)
    if tenant is not None:
        check_name("tenant", tenant, longest=100)


def _entry(runtime: Runtime, agent: str, tenant: str | None, actor: str) -> Any:
    owner = tenant or audit.INSTALLATION
    return audit.draft(runtime, "configure", tenant=owner, actor=actor, agent=agent)
