"""Layers of an agent's settings: a value in a higher layer overrides the lower ones.

From the lowest: the built-in defaults; the settings of the installation (environment,
`octopus.toml`, `EpisodicMemory.open(config=…)`); the settings stored for the agent; the settings
stored for the agent in one tenant. A layer is a table of tables that holds only the values set,
such as `{"recall": {"semantic_top_k": 5}}`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from .errors import InvalidSetting
from .message import Json
from .policy import ConfigPart, MemoryConfig

Layer = Mapping[str, Any]


class ConfigSource(StrEnum):
    """The layer that a setting's value comes from."""

    DEFAULT = "default"
    """Built-in default."""
    SETTINGS = "settings"
    """The environment, `octopus.toml`, or `EpisodicMemory.open(config=…)`."""
    AGENT = "agent"
    """Stored for the agent in every tenant."""
    TENANT = "tenant"
    """Stored for the agent in this tenant."""


def resolved(layers: Sequence[Layer]) -> MemoryConfig:
    """Effective settings; layers are given lowest first.

    :raises InvalidSetting: for an unknown name, or values that contradict each other
    """
    whole: dict[str, Any] = MemoryConfig().to_dict()
    for layer in layers:
        whole = _over(whole, layer)
    return MemoryConfig.from_dict(whole)


def sources(layers: Mapping[ConfigSource, Layer]) -> dict[str, dict[str, str]]:
    """Name of the layer that each value comes from; layers are given lowest first."""
    found: dict[str, dict[str, str]] = {
        part: dict.fromkeys(values, ConfigSource.DEFAULT.value)
        for part, values in _tables(MemoryConfig().to_dict()).items()
    }
    for source, layer in layers.items():
        for part, values in layer.items():
            found[part] |= dict.fromkeys(values, source.value)
    return found


def change_of(given: MemoryConfig | ConfigPart | Mapping[str, Any]) -> dict[str, Any]:
    """A caller's change as a layer; None instead of a value or a part unsets it.

    :raises InvalidSetting: for anything but settings, and for an unknown name
    """
    if isinstance(given, MemoryConfig):
        return dict(given.overrides())
    if isinstance(given, ConfigPart):
        return {_name_of(given): given.overrides()}
    if not isinstance(given, Mapping):
        raise InvalidSetting(
            "config",
            "must be a MemoryConfig, one of its parts, or tables of settings, not "
            f"{type(given).__name__}",
        )
    change = {}
    for part, values in given.items():
        if isinstance(values, ConfigPart):
            if part != _name_of(values):
                raise InvalidSetting(str(part), f"must not be {type(values).__name__}(...)")
            change[part] = values.overrides()
        else:
            change[part] = dict(values) if isinstance(values, Mapping) else values
    _check_names(change)
    return change


def _check_names(change: Mapping[str, Any]) -> None:
    """Check names only: values are checked later, together with those of the other layers."""
    known = _tables(MemoryConfig().to_dict())
    for part, values in change.items():
        given = {} if values is None else values
        if isinstance(given, dict):
            given = {name: known.get(part, {}).get(name) for name in given}
        MemoryConfig.from_dict({part: given})


def changed(stored: Layer, change: Mapping[str, Any]) -> dict[str, Json]:
    """A stored layer after a change; values that the change does not name stay."""
    result: dict[str, Any] = {part: dict(values) for part, values in stored.items()}
    for part, values in change.items():
        if values is None:
            result.pop(part, None)
            continue
        table = {**result.get(part, {}), **values}
        result[part] = {name: value for name, value in table.items() if value is not None}
    return {part: values for part, values in result.items() if values}


def _over(below: Layer, above: Layer) -> dict[str, Any]:
    both = dict(below)
    for part, values in above.items():
        known = both.get(part)
        tables = isinstance(known, Mapping) and isinstance(values, Mapping)
        both[part] = {**known, **values} if tables else values  # type: ignore[dict-item]
    return both


def _tables(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {part: dict(values) for part, values in config.items()}


def _name_of(part: ConfigPart) -> str:
    for each in dataclasses.fields(MemoryConfig):
        if each.default_factory is type(part):
            return each.name
    raise InvalidSetting("config", f"{type(part).__name__} is not a part of MemoryConfig")
