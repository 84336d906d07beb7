"""The store's side of a mirror: rows to send to it, and rows to delete from it."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Mirror(ABC):
    """Work items that keep a mirror (`ports.index.IndexMirror`) up to date."""

    @abstractmethod
    def use_mirror(self, name: str | None) -> None:
        """Feed the mirror of this name from now on, or none.

        With a mirror, every stored vector queues its row as INDEX work, and every removal of rows
        queues a `Removal`, in the same transaction. A new name queues every row with a vector of
        the model in use. None drops what was queued for the old mirror.
        """

    @abstractmethod
    def queue_for_mirror(self, scope_id: int | None = None) -> int:
        """Queue every row with a vector of the model in use, of one scope or of all.

        Skips rows that wait already. Returns how many were queued.
        """
