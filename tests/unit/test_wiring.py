"""What opening a memory refuses, by the name that whoever set it knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from octopus_memory import InvalidSetting
from octopus_memory.settings import load
from octopus_memory.wiring import make_counter, make_embedder, make_redactor, make_summarizer


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (make_counter, {"tokenizer": "/nope.json"}, "tokenizer: is no file"),
        (make_redactor, {"phone_region": "Mars"}, "phone_region: 'Mars' is unknown"),
        (
            make_embedder,
            {"embedder": "openai", "openai_base_url": "nowhere"},
            "openai_base_url: must be an address",
        ),
        (make_summarizer, {"summarizer": "openai", "summary_model": ""}, "summary_model: is empty"),
    ],
)
def test_a_value_that_an_adapter_refuses_is_named_as_it_was_set(
    make: Callable[..., Any], settings: dict[str, str], said: str
):
    with pytest.raises(InvalidSetting, match=f"^{said}"):
        make(load(**settings))
