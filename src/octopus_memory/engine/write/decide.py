"""Deciding again by an agent's new settings, where they change before a write."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from ...domain.errors import SettingsChanged
from ..core.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")
_ATTEMPTS = 20


def decided_again(
    do: Callable[Concatenate[Runtime, P], T],
) -> Callable[Concatenate[Runtime, P], T]:
    """Run `do` again, by the settings as they are now, when the store refuses the old ones.

    The settings that a process knows may be two seconds old. A write names the version that it was
    decided by, and is refused when that is not the database's: nothing is stored by it.
    """

    @wraps(do)
    def run(runtime: Runtime, /, *args: P.args, **named: P.kwargs) -> T:
        for _ in range(_ATTEMPTS - 1):
            try:
                return do(runtime, *args, **named)
            except SettingsChanged:
                runtime.forget_configs()
        return do(runtime, *args, **named)

    return run
