"""Binds statement functions as methods of a store, so that none is forwarded by hand.

A bound method runs its function in a transaction. The function's parameters after the connection
are the method's, and the type checker holds them against the port.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ....domain.episode import Scope
from .lazy import Connection
from .transactions import Every, Person, Reach, Transactions

P = ParamSpec("P")
T = TypeVar("T")
FindReach = Callable[..., Reach]
"""Called with a method's arguments; returns whose rows its transaction may touch."""


class _HasTenant(Protocol):
    @property
    def tenant(self) -> str: ...


class _HasUser(_HasTenant, Protocol):
    @property
    def user(self) -> str | None: ...


def of_scope(scope: Scope, *_: Any, **__: Any) -> Reach:
    return Person(scope.tenant, scope.user)


def of_user(value: _HasUser, *_: Any, **__: Any) -> Reach:
    """The user that the first argument names; its whole tenant if that is None."""
    return value.tenant if value.user is None else Person(value.tenant, value.user)


def of_tenant(tenant: str, *_: Any, **__: Any) -> Reach:
    return tenant


def of_tenant_or_all(tenant: str | None = None, *_: Any, **__: Any) -> Reach:
    """Every tenant for None, and for "", the tenant of the installation's own audit log."""
    return tenant or Every.TENANT


def of_its_tenant(value: _HasTenant, *_: Any, **__: Any) -> Reach:
    """The tenant of the first argument; every tenant if that is ""."""
    return value.tenant or Every.TENANT


def of_all(*_: Any, **__: Any) -> Reach:
    return Every.TENANT


def reads(
    do: Callable[Concatenate[Connection, P], T], reach: FindReach = of_scope
) -> Callable[Concatenate[Any, P], T]:
    """A method that runs `do` in a transaction that only reads."""

    def call(store: Transactions, /, *args: P.args, **named: P.kwargs) -> T:
        return store._read(reach(*args, **named), do, *args, **named)  # noqa: SLF001

    return call


def writes(
    do: Callable[Concatenate[Connection, P], T], reach: FindReach = of_scope
) -> Callable[Concatenate[Any, P], T]:
    """A method that runs `do` in a transaction, again if it loses a race."""

    def call(store: Transactions, /, *args: P.args, **named: P.kwargs) -> T:
        return store._write(reach(*args, **named), do, *args, **named)  # noqa: SLF001

    return call


def writes_now(
    do: Callable[Concatenate[Connection, datetime, P], T], reach: FindReach = of_scope
) -> Callable[Concatenate[Any, P], T]:
    """As `writes`, with the present time as the function's second argument."""

    def call(store: Transactions, /, *args: P.args, **named: P.kwargs) -> T:
        return store._write(reach(*args, **named), do, store._now(), *args, **named)  # noqa: SLF001

    return call
