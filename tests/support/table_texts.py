"""The CREATE statements of SQLite's tables, which all new databases of a test run share.

SQLAlchemy compiles them for each new database, which takes most of the time of making one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from octopus_memory.adapters.stores.sql import schema


@contextmanager
def share_table_texts() -> Iterator[None]:
    """Compile the statements at the first creation, and run the same texts at each later one."""
    compile_and_run = schema.create
    texts: list[str] = []

    def create(conn: sa.Connection) -> None:
        if conn.dialect.name != "sqlite":
            compile_and_run(conn)
        elif texts:
            for text in texts:
                conn.exec_driver_sql(text)
        else:
            texts.extend(_run_and_note(conn))

    def _run_and_note(conn: sa.Connection) -> list[str]:
        ran: list[str] = []

        def note(_conn: Any, _cursor: Any, text: str, *_: Any) -> None:
            ran.append(text)

        sa.event.listen(conn, "before_cursor_execute", note)
        try:
            compile_and_run(conn)
        finally:
            sa.event.remove(conn, "before_cursor_execute", note)
        return ran

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schema, "create", create)
        yield
