"""Migration of a database to this version's schema.

A new database gets the tables at once. Alembic migrates an older one step by step with
`migrations/versions`. A test checks that both ways end at the same schema.
"""

from __future__ import annotations

from ....domain.errors import SchemaTooNew, StoreUnavailable
from .lazy import sa, schema

HEAD = "0016"
VERSION_TABLE = "octopus_schema"


def ensure_current(engine: sa.Engine, reader: sa.Engine, *, read_only: bool) -> None:
    """:raises SchemaTooNew: when a newer Octopus made the database"""
    with reader.connect() as conn:
        version = _read_version(conn)
    if version == HEAD:
        return
    if version is not None and version > HEAD:
        raise SchemaTooNew(
            f"the database has schema {version}, this Octopus knows up to {HEAD}: "
            "pip install --upgrade octopus-memory"
        )
    if read_only:
        raise StoreUnavailable(
            "the database is read-only and has no current Octopus schema: "
            "open it once with write access"
        )
    if version is None:
        _create(engine)
    else:
        upgrade(engine)


def upgrade(engine: sa.Engine, revision: str = "head") -> None:
    # Import Alembic only for an existing database, because most starts do not need it.
    from importlib import resources

    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("path_separator", "os")
    migrations = resources.files(__package__) / "migrations"
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    with engine.begin() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, revision)


def _create(engine: sa.Engine) -> None:
    with engine.begin() as conn:
        # Check again under the write lock, because another process may have been faster.
        if _read_version(conn) is not None:
            return
        # Refuse a foreign table of that name, rather than mix two programs.
        schema.create(conn)
        version = _version_table()
        version.create(conn)
        conn.execute(sa.insert(version).values(version_num=HEAD))


def _read_version(conn: sa.Connection) -> str | None:
    if not sa.inspect(conn).has_table(VERSION_TABLE):
        return None
    return conn.execute(sa.select(_version_table().c.version_num)).scalar()


def _version_table() -> sa.Table:
    return sa.Table(
        VERSION_TABLE,
        sa.MetaData(),
        sa.Column("version_num", sa.String(32), primary_key=True, nullable=False),
    )
