"""Values of clients and frameworks as JSON."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from ..domain.message import Json


def plain(value: Any) -> Any:
    """A client's object as JSON, whether it is a model of pydantic's or a dict already."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_none=True, warnings=False)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def digest(value: Json) -> str:
    """Return a short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def loaded(text: str | bytes) -> Json:
    """Return the value of a JSON text; None for anything else."""
    try:
        return json.loads(text)
    except ValueError:
        return None
