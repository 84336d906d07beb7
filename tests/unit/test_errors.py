"""Errors survive pickling to another process."""

from __future__ import annotations

import copy
import inspect
import pickle
from uuid import UUID

import pytest

from octopus_memory import OctopusError
from octopus_memory.domain import errors

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, OctopusError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_comes_through_a_pickle_as_it_was(kind: type[OctopusError]):
    init = kind.__init__
    given = inspect.get_annotations(init) if inspect.isfunction(init) else {"message": "str"}
    wanted = {name: each for name, each in given.items() if name != "return"}
    error = kind(*(UUID(int=7) if "UUID" in each else name for name, each in wanted.items()))
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
