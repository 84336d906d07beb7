"""What child processes do to a local key store until they are killed."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

from octopus_memory.adapters.keys.local import LocalKeys
from octopus_memory.adapters.keys.masters import MasterFile


def open_keys(folder: Path) -> LocalKeys:
    masters = MasterFile(folder / "master.key")
    masters.create()
    keys = LocalKeys(folder / "keys.db", masters)
    keys.init()
    return keys


def create_and_destroy(pipe: Connection, folder: Path, name: str) -> None:
    """Report each key after it was made, and each ref after it was destroyed."""
    keys = open_keys(folder)
    for number in range(100_000):
        ref = f"{name}-{number}"
        pipe.send((ref, bytes(keys.create(ref))))
        if number % 2:
            keys.destroy([ref])
            pipe.send((ref, None))


def rotate_for_ever(pipe: Connection, folder: Path) -> None:
    keys = open_keys(folder)
    while True:
        pipe.send(keys.rotate())
