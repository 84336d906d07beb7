"""The memory that the calls of a client use, and the session for calls that name none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.ids import new_id

if TYPE_CHECKING:
    from ...domain.identity import AccessRole
    from ...engine.scope import MemoryScope
    from ...remote import RemoteScope


class State:
    """The state of a process on standard input and output, or of one HTTP request."""

    def __init__(
        self,
        scope: MemoryScope | RemoteScope,
        *,
        role: AccessRole | None = None,
        session_id: str | None = None,
        is_lasting: bool = True,
    ) -> None:
        """`role` is the role of the credential; None may do everything.

        `session_id` is the session for calls that name none; None starts a new one. `is_lasting`
        says whether later calls have the same session by themselves.
        """
        self.scope = scope
        self.role = role
        self.session_id = session_id or str(new_id())
        self.is_lasting = is_lasting

    def start_after(self, closed: str) -> None:
        """Start another session if the current one was closed."""
        if closed == self.session_id:
            self.session_id = str(new_id())
