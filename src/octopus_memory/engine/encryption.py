"""Sealing of a database that was written before keys were on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .core import audit
from .core.runtime import Runtime
from .privacy import erasure


class EncryptProgress(NamedTuple):
    """How far the sealing of a database is."""

    rows: int
    """Rows that this call has sealed."""
    users_left: int
    """Users of agents that are not wholly sealed."""
    is_done: bool = False
    """True if everything is sealed, and the files were rewritten."""


def encrypt(
    runtime: Runtime, progress: Callable[[EncryptProgress], object] | None, *, actor: str
) -> EncryptProgress:
    """Seal what was stored without keys; the files may stay as they are if a reader needs them."""
    store = runtime.store
    before, rows = store.unsealed(), 0
    for count in store.encrypt():
        rows += count
        if progress is not None:
            progress(EncryptProgress(rows, store.unsealed()))
    if before:
        audit.record(
            runtime,
            "encrypt",
            tenant=audit.INSTALLATION,
            actor=actor,
            users=before,
            rows=rows,
        )
    runtime.clear_caches()
    # Also after a call that was interrupted when all was sealed.
    rewritten = erasure.compact(runtime, actor=actor)
    return EncryptProgress(rows, store.unsealed(), is_done=rewritten)


def destroy_returned(runtime: Runtime, *, actor: str) -> int:
    """Destroy keys of erased users again, and record it."""
    count = runtime.store.destroy_returned()
    if count:
        audit.record(
            runtime, "destroy_keys_again", tenant=audit.INSTALLATION, actor=actor, keys=count
        )
    return count
