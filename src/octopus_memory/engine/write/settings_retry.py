"""Retrying a write whose agent's settings changed before it was stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from ...domain.errors import SettingsChanged
from ..core.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")
_ATTEMPTS = 20


def retry_on_settings_change(
    write: Callable[Concatenate[Runtime, P], T],
) -> Callable[Concatenate[Runtime, P], T]:
    """Run `write` again with the current settings when the store refuses stale ones.

    A process caches settings for two seconds. A write names the version of the settings that it was
    decided by, and the store refuses it, without storing anything, if that version is stale.
    """

    @wraps(write)
    def run(runtime: Runtime, /, *args: P.args, **named: P.kwargs) -> T:
        for _ in range(_ATTEMPTS - 1):
            try:
                return write(runtime, *args, **named)
            except SettingsChanged:
                runtime.clear_config_cache()
        return write(runtime, *args, **named)

    return run
