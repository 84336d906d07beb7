"""Compiled statements of one product.

Named statements are found by their names. Others are built anew by each call, and are found by
SQLAlchemy's cache key, which two statements share if they differ only in their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from .lazy import Statement


class Prepared(Protocol):
    """A compiled statement."""

    @property
    def fixed(self) -> dict[str, Any]:
        """The values that the statement itself contains, by parameter."""
        ...


Made = TypeVar("Made", bound=Prepared)
Keys: TypeAlias = tuple[str, ...]
"""The names of the parameters that a call gives."""
_MOST_UNNAMED = 1_000
_NO_VALUES: Mapping[str, Any] = {}


class _Unnamed(NamedTuple, Generic[Made]):
    made: Made
    values: Sequence[tuple[int, str]]
    """The values that a statement of this shape contains: position in the key, and parameter."""


class StatementCache(Generic[Made]):
    """Finds a statement's compiled form, or makes it. Thread-safe."""

    def __init__(
        self,
        make_named: Callable[[Statement[Any], Keys], Made],
        make: Callable[[Any, Keys], tuple[Made, Any]],
    ) -> None:
        """`make` returns SQLAlchemy's compiled object as well."""
        self._make_named = make_named
        self._make = make
        self.named: dict[tuple[Statement[Any], Keys], Made] = {}
        self._unnamed: dict[Any, _Unnamed[Made]] = {}

    def find(self, statement: Any, keys: Keys) -> tuple[Made, Mapping[str, Any]]:
        """The compiled form, and the values that the statement itself contains."""
        if isinstance(statement, Statement):
            made = self.named.get((statement, keys))
            if made is None:
                made = self.named[statement, keys] = self._make_named(statement, keys)
            return made, _NO_VALUES
        return self._find_unnamed(statement, keys)

    def _find_unnamed(self, statement: Any, keys: Keys) -> tuple[Made, Mapping[str, Any]]:
        cache_key = statement._generate_cache_key()  # noqa: SLF001 - no public name for it
        if cache_key is None:
            return self._make(statement, keys)[0], _NO_VALUES
        binds = cache_key.bindparams
        known = self._unnamed.get((cache_key.key, keys))
        if known is None:
            made, compiled = self._make(statement, keys)
            names = {bind.key: name for bind, name in compiled.bind_names.items()}
            used = [(i, names[bind.key]) for i, bind in enumerate(binds) if bind.key in names]
            known = _Unnamed(made, [(i, name) for i, name in used if name not in keys])
            for _, name in known.values:
                # Keep no stored value in the cache. Each statement brings its own.
                made.fixed.pop(name, None)
            if len(self._unnamed) >= _MOST_UNNAMED:
                self._unnamed.clear()
            self._unnamed[cache_key.key, keys] = known
        return known.made, {name: binds[i].effective_value for i, name in known.values}


def check_given(compiled: Any, keys: Keys) -> None:
    """:raises ValueError: when a parameter without a value of its own is missing"""
    for bind, name in compiled.bind_names.items():
        if bind.required and name not in keys:
            raise ValueError(f"the parameter {name} of a statement has no value")
