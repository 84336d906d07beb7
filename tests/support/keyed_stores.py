"""Key stores for tests of sealed databases."""

from __future__ import annotations

import base64
from pathlib import Path

from octopus_memory.adapters.keys.local import LocalKeys
from octopus_memory.adapters.keys.masters import MasterText, new_master
from octopus_memory.adapters.stores.sql.key_ring import KeyRing

MASTER = base64.b64encode(new_master()).decode()
"""One for all key stores of a process, so that each can be opened again."""


def make_keys(folder: Path, *, name: str = "keys.db") -> LocalKeys:
    """Open the local key store in a folder, which is made at the first call."""
    keys = LocalKeys(folder / name, MasterText(MASTER))
    keys.init()
    return keys


def make_ring(folder: Path, **options: float) -> KeyRing:
    """Open the key store in a folder, with no key in memory yet."""
    return KeyRing(make_keys(folder), **options)
